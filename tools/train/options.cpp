#include "tools/train/options.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "tools/cli.hpp"

namespace tutti::trainer {
namespace {

using training::AfterForward;
using training::PlanOptions;
using training::Strategy;

constexpr std::uint64_t kMostSteps = 1'000'000'000;
constexpr std::size_t kMostBatch = 1 << 24;
constexpr std::size_t kDefaultBatch = 32;
constexpr std::uint64_t kDefaultSteps = 1000;
constexpr double kMostMegabytes = 1 << 20;
constexpr double kMebibyte = 1 << 20;

template <class... Args>
Error refused(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(Code::kInvalidArgument, format, std::forward<Args>(args)...);
}

void add_model_options(CLI::App& app, Options& options) {
  const auto positive = tools::in_range(1, 1 << 20);
  app.add_option("--size", options.size, "a model of about so many parameters")
      ->capture_default_str()
      ->check(tools::one_of(size_names()));
  app.add_option("--layers", options.layers, "instead of the size's: blocks")->check(positive);
  app.add_option("--heads", options.heads, "attention heads")->check(positive);
  app.add_option("--width", options.width, "of the residual stream, a multiple of the heads")
      ->check(positive);
  app.add_option("--context", options.context, "bytes that the model sees at once")
      ->check(positive);
}

void add_sharding_options(CLI::App& app, Options& options) {
  const auto megabytes = tools::in_range(0.001, kMostMegabytes);
  app.add_option("--strategy", options.strategy,
                 "who keeps what: fsdp is zero3, hsdp is zero3 with --shard-size")
      ->capture_default_str()
      ->check(tools::one_of({"ddp", "zero1", "zero2", "zero3", "fsdp", "hsdp"}));
  app.add_option("--shard-size", options.shard_size,
                 "ranks that share one set of shards; groups of them are replicas (all ranks)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--hpz", options.hpz,
                 "zero3: between the passes, keep parameters in shards of so many neighbours")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--reshard-after-forward", options.reshard_after_forward,
                 "zero3: give parameters up between the passes (true)")
      ->check(tools::one_of({"true", "false"}));
  app.add_option("--bucket-mb", options.bucket_mb, "MiB of gradients that travel together")
      ->capture_default_str()
      ->check(megabytes);
  app.add_option("--first-bucket-mb", options.first_bucket_mb, "of the first, which is sent early")
      ->capture_default_str()
      ->check(megabytes);
  app.add_option("--prefetch-mb", options.prefetch_mb,
                 "zero3: MiB of parameters gathered ahead of their use; 0: none (the next unit)")
      ->check(tools::in_range(0, kMostMegabytes));
  app.add_option("--accumulate", options.accumulate, "passes (micro-batches) of a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16));
  auto* sharded = app.add_flag("--sharded-accumulation", options.sharded_accumulation,
                               "zero2, zero3: send gradients of each pass, keep shards (default)");
  app.add_flag("--whole-gradients", options.whole_gradients,
               "zero2, zero3: keep whole gradients, send once a step")
      ->excludes(sharded);
  app.add_flag("--deterministic", options.deterministic,
               "the same bits with 1, 2, 4 ... ranks, whatever the strategy");
  app.add_option("--virtual-shards", options.virtual_shards,
                 "parts of a batch with --deterministic, a power of two")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 12));
}

void add_precision_options(CLI::App& app, Options& options) {
  const auto types = tools::one_of({"fp32", "bf16", "fp16"});
  app.add_option("--precision", options.precision, "of parameters and gradients in the model")
      ->capture_default_str()
      ->check(types);
  app.add_option("--reduce-precision", options.reduce_precision,
                 "in which gradients are added up (fp32)")
      ->check(types);
  app.add_option("--loss-scale", options.loss_scale,
                 "fp16: 'dynamic', or a number that stays (dynamic)");
  app.add_option("--checkpoint-activations", options.checkpoint_activations,
                 "'block': keep the inputs of blocks alone, compute the rest again")
      ->capture_default_str()
      ->check(tools::one_of({"none", "block"}));
}

void add_schedule_options(CLI::App& app, Options& options) {
  const auto rate = tools::in_range(0, 1e3);
  const auto share = tools::in_range(0, 0.999999);
  auto* batch =
      app.add_option("--batch", options.batch, "samples of a step, of all ranks together (32)")
          ->check(CLI::Range(std::size_t{1}, kMostBatch));
  app.add_option("--tokens-per-batch", options.tokens_per_batch,
                 "instead: bytes of a step, a multiple of --context")
      ->check(CLI::Range(std::size_t{1}, kMostBatch << 20U))
      ->excludes(batch);
  auto* steps = app.add_option("--steps", options.steps, "steps of the whole run (1000)")
                    ->check(CLI::Range(std::uint64_t{1}, kMostSteps));
  app.add_option("--minutes", options.minutes, "instead: as many steps as so long allows")
      ->check(tools::in_range(0.001, 1e7))
      ->excludes(steps);
  app.add_option("--lr", options.lr, "learning rate at its peak")
      ->capture_default_str()
      ->check(rate);
  app.add_option("--min-lr", options.min_lr, "at the end (a tenth)")->check(rate);
  app.add_option("--warmup", options.warmup, "steps to the peak (a twentieth, at most 100)")
      ->check(CLI::Range(std::uint64_t{0}, kMostSteps));
  app.add_option("--weight-decay", options.weight_decay, "of matrices")
      ->capture_default_str()
      ->check(rate);
  app.add_option("--beta1", options.beta1, "of AdamW")->capture_default_str()->check(share);
  app.add_option("--beta2", options.beta2, "of AdamW")->capture_default_str()->check(share);
  app.add_option("--clip", options.clip, "largest norm of the gradients; 0: any")
      ->capture_default_str()
      ->check(tools::in_range(0, 1e9));
  app.add_option("--seed", options.seed, "of first values, batches and samples")
      ->capture_default_str();
}

void add_report_options(CLI::App& app, Options& options) {
  app.add_option("--save-every", options.save_every, "steps between checkpoints (only the last)");
  app.add_option("--keep", options.keep, "checkpoints that are kept; 0: all")
      ->capture_default_str();
  app.add_option("--resume", options.resume,
                 "'auto': go on from the last checkpoint, where there is one; 'never'; or a step")
      ->capture_default_str();
  app.add_option("--eval-every", options.eval_every, "steps between validations; 0: only the last")
      ->capture_default_str();
  app.add_option("--eval-batches", options.eval_batches, "batches that a validation reads; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, kMostSteps));
  app.add_option("--sample-every", options.sample_every, "steps between samples; 0: only the last");
  app.add_option("--sample-bytes", options.sample_bytes, "of each; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 20U));
  app.add_option("--prompt", options.prompt, "with which samples begin")->capture_default_str();
  app.add_option("--log-every", options.log_every, "steps between lines; the log has all")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, kMostSteps));
  app.add_option("--max-bad-steps", options.max_bad_steps,
                 "steps without a finite gradient, one after the other, that end the run")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
}

void add_process_options(CLI::App& app, Options& options) {
  app.add_option("--threads", options.threads, "that compute in each rank (as many as fit)")
      ->check(CLI::Range(1, 1 << 12));
  app.add_option("--ranks", options.ranks, "start so many on this machine, without a launcher")
      ->check(CLI::Range(1, 4096));
  app.add_option("--restarts", options.restarts,
                 "with --ranks: how often to go on without a rank that died")
      ->check(CLI::Range(0, 1 << 20));
  auto* dry = app.add_flag("--dry-run", options.dry_run,
                           "say what memory and bytes a step takes, for --ranks, and end");
  app.add_option("--json", options.json_path, "with --dry-run: FILE for it; '-': standard output")
      ->needs(dry);
}

ModelShape shape_of(const Options& options) {
  ModelShape shape = shape_of_size(options.size);
  if (options.layers > 0) shape.layers = options.layers;
  if (options.heads > 0) shape.heads = options.heads;
  if (options.width > 0) shape.width = options.width;
  if (options.context > 0) shape.context = options.context;
  return shape;
}

DataType type_of(const std::string& name) {
  if (name == "bf16") return DataType::kBfloat16;
  return name == "fp16" ? DataType::kFloat16 : DataType::kFloat32;
}

std::size_t elements_of(double megabytes, DataType type) {
  const auto bytes = static_cast<std::size_t>(std::llround(megabytes * kMebibyte));
  return std::max<std::size_t>(1, bytes / size_of(type));
}

Strategy strategy_of(const std::string& name) {
  if (name == "ddp") return Strategy::kDdp;
  if (name == "zero1") return Strategy::kZero1;
  return name == "zero2" ? Strategy::kZero2 : Strategy::kZero3;
}

/// Options that a strategy has no use for.
Status check_strategy(const Options& options) {
  const Strategy strategy = strategy_of(options.strategy);
  if (options.strategy == "hsdp" && options.shard_size == 0)
    return refused("--strategy hsdp: say with --shard-size how many ranks share a set of shards");
  if (strategy == Strategy::kDdp && options.shard_size > 1)
    return refused("--shard-size {}: ddp has no shards; take zero1, zero2 or zero3",
                   options.shard_size);
  if (strategy != Strategy::kZero3 && options.hpz > 0)
    return refused("--hpz is of zero3, and not of {}", options.strategy);
  if (strategy != Strategy::kZero3 && !options.reshard_after_forward.empty())
    return refused("--reshard-after-forward is of zero3, and not of {}", options.strategy);
  if (options.hpz > 0 && !options.reshard_after_forward.empty())
    return refused(
        "--hpz {} says what is kept between the passes: leave out "
        "--reshard-after-forward",
        options.hpz);
  const bool has_shards = strategy == Strategy::kZero2 || strategy == Strategy::kZero3;
  if (!has_shards && options.whole_gradients)
    return refused("--whole-gradients: {} keeps them whole anyway", options.strategy);
  if (!has_shards && options.sharded_accumulation)
    return refused("--sharded-accumulation is of zero2 and zero3, and not of {}", options.strategy);
  return ok_status();
}

/// Passes of a step, by which the batch is cut.
Result<int> passes_of(const Options& options, int ranks) {
  if (!options.deterministic) return options.accumulate;
  const int shards = options.virtual_shards;
  if (!std::has_single_bit(static_cast<unsigned>(shards)))
    return refused("--virtual-shards {}: it must be a power of two", shards);
  if (shards % ranks != 0)
    return refused(
        "--deterministic: {} virtual shards do not divide among {} ranks; take 1, 2, 4 "
        "... ranks, at most {}, or more --virtual-shards",
        shards, ranks, shards);
  if (options.accumulate != 1)
    return refused(
        "--accumulate {}: with --deterministic the virtual shards say how many passes "
        "there are; leave it out",
        options.accumulate);
  return shards / ranks;
}

PlanOptions plan_of(const Options& options, int passes) {
  PlanOptions plan;
  plan.strategy = strategy_of(options.strategy);
  plan.shard_ranks = options.shard_size;
  if (options.hpz > 0) {
    plan.after_forward = AfterForward::kSecondary;
    plan.secondary_ranks = options.hpz;
  } else if (options.reshard_after_forward == "false") {
    plan.after_forward = AfterForward::kKeep;
  }
  if (options.prefetch_mb)
    plan.prefetch_bytes = static_cast<std::size_t>(std::llround(*options.prefetch_mb * kMebibyte));
  plan.compute = type_of(options.precision);
  plan.reduce = type_of(options.reduce_precision);
  plan.buckets = {.first_elements = elements_of(options.first_bucket_mb, plan.reduce),
                  .elements = elements_of(options.bucket_mb, plan.reduce)};
  plan.passes = passes;
  plan.whole_gradients = options.whole_gradients;
  plan.deterministic = options.deterministic;
  return plan;
}

Result<std::size_t> batch_of(const Options& options, const ModelShape& shape, int ranks,
                             int passes) {
  std::size_t batch = options.batch;
  if (options.tokens_per_batch > 0) {
    const auto context = static_cast<std::size_t>(shape.context);
    if (options.tokens_per_batch % context != 0)
      return refused("--tokens-per-batch {} is no multiple of --context {}; {} is",
                     options.tokens_per_batch, context,
                     (options.tokens_per_batch / context + 1) * context);
    batch = options.tokens_per_batch / context;
  }
  const auto parts = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(passes);
  if (batch == 0) batch = std::max(kDefaultBatch, parts);
  if (batch >= parts) return batch;
  return refused(
      "a batch of {} samples is less than one for each of {} passes of {} ranks: raise "
      "--batch, or lower {}",
      batch, passes, ranks, options.deterministic ? "--virtual-shards" : "--accumulate");
}

Result<training::LossScaler> scaler_of(const Options& options) {
  training::LossScaler scaler;
  if (options.precision != "fp16") {
    if (!options.loss_scale.empty())
      return refused("--loss-scale is of --precision fp16: {} needs none", options.precision);
    return training::LossScaler{.scale = 1, .growth_interval = 0};
  }
  if (options.loss_scale.empty() || options.loss_scale == "dynamic") return scaler;
  scaler.growth_interval = 0;
  const char* const end = options.loss_scale.data() + options.loss_scale.size();
  const auto [rest, wrong] = std::from_chars(options.loss_scale.data(), end, scaler.scale);
  if (wrong == std::errc{} && rest == end && scaler.scale >= training::LossScaler::kLeast &&
      scaler.scale <= training::LossScaler::kMost)
    return scaler;
  return refused("--loss-scale '{}': write 'dynamic', or a number from {} to {}",
                 options.loss_scale, training::LossScaler::kLeast, training::LossScaler::kMost);
}

Result<training::LearningRate> rate_of(const Options& options, std::uint64_t steps) {
  constexpr double kLeastShare = 0.1;
  constexpr std::uint64_t kWarmupShare = 20, kMostWarmup = 100;
  const double least = options.min_lr.value_or(options.lr * kLeastShare);
  if (least > options.lr) return refused("--min-lr {:g} is above --lr {:g}", least, options.lr);
  const std::uint64_t warmup = options.warmup.value_or(
      steps == 0 ? kMostWarmup : std::min(steps / kWarmupShare, kMostWarmup));
  if (steps > 0 && warmup > steps)
    return refused("--warmup {} is longer than the run of {} steps", warmup, steps);
  return training::LearningRate{.peak = options.lr, .least = least, .warmup = warmup};
}

}  // namespace

void add_options(CLI::App& app, Options& options) {
  app.option_defaults()->take_last();  // so that scripts can add to what they were given
  app.add_option("--data", options.data, "text to train on: plain, or by 'tutti train prepare'");
  app.add_option("--out", options.out, "folder for checkpoints and log.jsonl")
      ->capture_default_str();
  add_model_options(app, options);
  add_sharding_options(app, options);
  add_precision_options(app, options);
  add_schedule_options(app, options);
  add_report_options(app, options);
  add_process_options(app, options);
}

Result<Settings> settings_of(const Options& options, int ranks) {
  Settings settings;
  settings.shape = shape_of(options);
  TUTTI_TRY(check(settings.shape));
  TUTTI_TRY(check_strategy(options));
  TUTTI_ASSIGN(const int passes, passes_of(options, ranks));
  settings.plan = plan_of(options, passes);
  TUTTI_ASSIGN(settings.batch, batch_of(options, settings.shape, ranks, passes));
  TUTTI_ASSIGN(settings.scaler, scaler_of(options));
  settings.minutes = options.minutes;
  settings.steps = options.steps == 0 && options.minutes == 0 ? kDefaultSteps : options.steps;
  TUTTI_ASSIGN(settings.rate, rate_of(options, settings.steps));
  settings.optimizer = {.learning_rate = options.lr,
                        .beta1 = options.beta1,
                        .beta2 = options.beta2,
                        .weight_decay = options.weight_decay};
  if (options.clip > 0) settings.clip = options.clip;
  settings.recomputes = options.checkpoint_activations == "block";
  return settings;
}

Result<Resume> resume_of(const Options& options) {
  if (options.resume == "auto") return Resume{};
  if (options.resume == "never") return Resume{.wanted = false, .step = {}};
  std::uint64_t step = 0;
  const char* const end = options.resume.data() + options.resume.size();
  const auto [rest, wrong] = std::from_chars(options.resume.data(), end, step);
  if (wrong == std::errc{} && rest == end) return Resume{.wanted = true, .step = step};
  return refused("--resume '{}': write 'auto', 'never' or the number of a step", options.resume);
}

int ranks_that_fit(const Options& options, int left) {
  if (!options.deterministic || left < 1) return left;
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
}

}  // namespace tutti::trainer
