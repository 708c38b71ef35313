#include "tools/train/options.hpp"

#include <cstddef>
#include <cstdint>

#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/train/model_shape.hpp"

namespace tutti::trainer {
namespace {

constexpr double kMostSteps = 1e9;
constexpr double kMostBatch = 1 << 24, kMostBatchBytes = kMostBatch * (1 << 20);
constexpr double kMostMegabytes = 1 << 20;
constexpr double kMostRate = 1e3;

void add_model_options(tools::CommandLine& app, Options& options) {
  app.add_option("--size", options.size, "a model of about so many parameters")
      .shows_default()
      .one_of(size_names());
  app.add_option("--layers", options.layers, "instead of the size's: blocks").in_range(1, 1 << 20);
  app.add_option("--heads", options.heads, "attention heads").in_range(1, 1 << 20);
  app.add_option("--width", options.width, "of the residual stream, a multiple of the heads")
      .in_range(1, 1 << 20);
  app.add_option("--context", options.context, "bytes that the model sees at once")
      .in_range(1, 1 << 20);
}

void add_sharding_options(tools::CommandLine& app, Options& options) {
  app.add_option("--strategy", options.strategy,
                 "who keeps what: fsdp is zero3, hsdp is zero3 with --shard-size")
      .shows_default()
      .one_of({"ddp", "zero1", "zero2", "zero3", "fsdp", "hsdp"});
  app.add_option("--shard-size", options.shard_size,
                 "ranks that share one set of shards; groups of them are replicas (all ranks)")
      .in_range(1, 1 << 20);
  app.add_option("--hpz", options.hpz,
                 "zero3: between the passes, keep parameters in shards of so many neighbours")
      .in_range(1, 1 << 20);
  app.add_option("--reshard-after-forward", options.reshard_after_forward,
                 "zero3: give parameters up between the passes (true)")
      .one_of({"true", "false"});
  app.add_option("--bucket-mb", options.bucket_mb,
                 "but zero3: MiB of gradients that travel together (2)")
      .in_range(0.001, kMostMegabytes);
  app.add_option("--first-bucket-mb", options.first_bucket_mb,
                 "of the first, which is sent early (0.5)")
      .in_range(0.001, kMostMegabytes);
  app.add_option("--prefetch-mb", options.prefetch_mb,
                 "zero3: MiB of parameters gathered ahead of their use; 0: none (the next unit)")
      .in_range(0, kMostMegabytes);
  app.add_option("--accumulate", options.accumulate, "passes (micro-batches) of a step")
      .shows_default()
      .in_range(1, 1 << 16);
  const auto sharded =
      app.add_flag("--sharded-accumulation", options.sharded_accumulation,
                   "zero2, zero3: send gradients of each pass, keep shards (default)");
  app.add_flag("--whole-gradients", options.whole_gradients,
               "zero2, zero3: keep whole gradients, send once a step")
      .excludes(sharded);
  app.add_flag("--deterministic", options.deterministic,
               "the same bits with 1, 2, 4 ... ranks, whatever the strategy");
  app.add_option("--virtual-shards", options.virtual_shards,
                 "parts of a batch with --deterministic, a power of two (8)")
      .in_range(1, 1 << 12);
}

void add_compression_options(tools::CommandLine& app, Options& options) {
  app.add_option("--quantize-weights", options.quantize_weights,
                 "zero: gather parameters in a format, such as int8 (as they are)");
  app.add_option("--quantize-gradients", options.quantize_gradients,
                 "zero: send gradients in a format, such as int4 (as they are)");
  app.add_flag("--secondary", options.secondary,
               "zero3: between the passes, keep parameters in shards on each host: --hpz with its "
               "ranks");
  app.add_option("--compress", options.compress,
                 "ddp: int8, fp8, topk:0.01, onebit, powersgd:2 or another format (none)");
  app.add_option("--error-feedback", options.error_feedback,
                 "add what gradients lost in the next step (on for topk, onebit and powersgd)")
      .one_of({"on", "off"});
  app.add_option("--compress-warmup", options.compress_warmup,
                 "steps without compression of gradients (onebit, topk: 15 % of all; else 0)")
      .in_range(0, kMostSteps);
  app.add_option("--compress-momentum", options.compress_momentum,
                 "topk: the factor of each rank's momentum, of which the largest is sent; 0: of "
                 "gradients (--beta1)")
      .in_range(0, 0.999999);
}

void add_precision_options(tools::CommandLine& app, Options& options) {
  const std::vector<std::string> types = {"fp32", "bf16", "fp16"};
  app.add_option("--precision", options.precision, "of parameters and gradients in the model")
      .shows_default()
      .one_of(types);
  app.add_option("--reduce-precision", options.reduce_precision,
                 "in which gradients are added up (fp32)")
      .one_of(types);
  app.add_option("--loss-scale", options.loss_scale,
                 "fp16: 'dynamic', or a number that stays (dynamic)");
  app.add_option("--checkpoint-activations", options.checkpoint_activations,
                 "'block': keep the inputs of blocks alone, compute the rest again")
      .shows_default()
      .one_of({"none", "block"});
}

void add_schedule_options(tools::CommandLine& app, Options& options) {
  const auto batch =
      app.add_option("--batch", options.batch, "samples of a step, of all ranks together (32)")
          .in_range(1, kMostBatch);
  app.add_option("--tokens-per-batch", options.tokens_per_batch,
                 "instead: bytes of a step, a multiple of --context")
      .in_range(1, kMostBatchBytes)
      .excludes(batch);
  const auto steps = app.add_option("--steps", options.steps, "steps of the whole run (1000)")
                         .in_range(1, kMostSteps);
  app.add_option("--minutes", options.minutes, "instead: as many steps as so long allows")
      .in_range(0.001, 1e7)
      .excludes(steps);
  app.add_option("--lr", options.lr, "learning rate at its peak")
      .shows_default()
      .in_range(0, kMostRate);
  app.add_option("--min-lr", options.min_lr, "at the end (a tenth)").in_range(0, kMostRate);
  app.add_option("--warmup", options.warmup, "steps to the peak (a twentieth, at most 100)")
      .in_range(0, kMostSteps);
  app.add_option("--weight-decay", options.weight_decay, "of matrices")
      .shows_default()
      .in_range(0, kMostRate);
  app.add_option("--beta1", options.beta1, "of AdamW").shows_default().in_range(0, 0.999999);
  app.add_option("--beta2", options.beta2, "of AdamW").shows_default().in_range(0, 0.999999);
  app.add_option("--clip", options.clip, "largest norm of the gradients; 0: any")
      .shows_default()
      .in_range(0, 1e9);
  app.add_option("--seed", options.seed, "of first values, batches and samples").shows_default();
}

void add_report_options(tools::CommandLine& app, Options& options) {
  app.add_option("--save-every", options.save_every, "steps between checkpoints (only the last)");
  app.add_option("--keep", options.keep, "checkpoints that are kept; 0: all").shows_default();
  app.add_option("--resume", options.resume,
                 "'auto': go on from the last checkpoint, where there is one; 'never'; or a step")
      .shows_default();
  app.add_option("--eval-every", options.eval_every, "steps between validations; 0: only the last")
      .shows_default();
  app.add_option("--eval-batches", options.eval_batches, "batches that a validation reads; 0: none")
      .shows_default()
      .in_range(0, kMostSteps);
  app.add_option("--sample-every", options.sample_every, "steps between samples; 0: only the last");
  app.add_option("--sample-bytes", options.sample_bytes, "of each; 0: none")
      .shows_default()
      .in_range(0, 1 << 20);
  app.add_option("--prompt", options.prompt, "with which samples begin").shows_default();
  app.add_option("--log-every", options.log_every, "steps between lines; the log has all")
      .shows_default()
      .in_range(1, kMostSteps);
  app.add_option("--max-bad-steps", options.max_bad_steps,
                 "steps without a finite gradient, one after the other, that end the run")
      .shows_default()
      .in_range(1, 1 << 20);
}

void add_process_options(tools::CommandLine& app, Options& options) {
  app.add_option("--device", options.device,
                 "that computes: cpu, or cuda, a GPU for each rank of a machine in turn")
      .shows_default()
      .one_of({"cpu", "cuda"});
  app.add_option("--threads", options.threads, "that compute in each rank (as many as fit)")
      .in_range(1, 1 << 12);
  app.add_option("--ranks", options.ranks, "start so many on this machine, without a launcher")
      .in_range(1, 4096);
  app.add_option("--restarts", options.restarts,
                 "with --ranks: how often to go on without a rank that died")
      .in_range(0, 1 << 20);
  const auto dry = app.add_flag("--dry-run", options.dry_run,
                                "say what memory and bytes a step takes, for --ranks, and end");
  app.add_option("--hosts", options.hosts, "with --dry-run: the ranks are on so many (1)")
      .in_range(1, 1 << 20)
      .needs(dry);
  const auto link =
      app.add_option("--link", options.link,
                     "with --dry-run: predict the step over links like 100mbit between --hosts")
          .needs(dry);
  app.add_option("--compute-ms", options.compute_ms,
                 "with --link: what a step computes, as the log of a run has it (0)")
      .in_range(0, 1e9)
      .needs(link);
  app.add_option("--json", options.json_path, "with --dry-run: FILE for it; '-': standard output")
      .needs(dry);
}

}  // namespace

void add_options(tools::CommandLine& app, Options& options) {
  app.let_last_value_count();
  app.add_option("--data", options.data, "text to train on: plain, or by 'tutti train prepare'");
  app.add_option("--out", options.out, "folder for checkpoints and log.jsonl").shows_default();
  add_model_options(app, options);
  add_sharding_options(app, options);
  add_compression_options(app, options);
  add_precision_options(app, options);
  add_schedule_options(app, options);
  add_report_options(app, options);
  add_process_options(app, options);
}

}  // namespace tutti::trainer
