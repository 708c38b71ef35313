#include "tools/train/settings.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "src/base/result.hpp"

namespace tutti::trainer {
namespace {

using training::AfterForward;
using training::PlanOptions;
using training::Strategy;

constexpr std::size_t kDefaultBatch = 32;
constexpr std::uint64_t kDefaultSteps = 1000;
constexpr double kMebibyte = 1 << 20;
constexpr double kBucketMegabytes = 2, kFirstBucketMegabytes = 0.5;
constexpr int kVirtualShards = 8;

template <class... Args>
Error refused(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(Code::kInvalidArgument, format, std::forward<Args>(args)...);
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
Status check_use(const Options& options) {
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
  if (options.whole_gradients && options.deterministic)
    return refused("--whole-gradients: with --deterministic the gradients of each pass are sent");
  if (strategy != Strategy::kZero3 && options.prefetch_mb)
    return refused("--prefetch-mb is of zero3, and not of {}", options.strategy);
  if (strategy == Strategy::kZero3 && (options.bucket_mb || options.first_bucket_mb))
    return refused("--bucket-mb and --first-bucket-mb: {} sends its units as they are",
                   options.strategy);
  if (options.virtual_shards && !options.deterministic)
    return refused("--virtual-shards {} is of --deterministic", *options.virtual_shards);
  if (options.deterministic && options.reduce_precision != "" && options.reduce_precision != "fp32")
    return refused("--reduce-precision {}: with --deterministic sums are of fp32",
                   options.reduce_precision);
  return ok_status();
}

/// 'none' is nothing.
std::string format_in(const std::string& option) { return option == "none" ? "" : option; }

/// Options of compression that a strategy has no use for.
Status check_compression(Options options) {
  for (std::string* const option :
       {&options.quantize_weights, &options.quantize_gradients, &options.compress})
    *option = format_in(*option);
  const bool is_ddp = strategy_of(options.strategy) == Strategy::kDdp;
  if (is_ddp && !options.quantize_weights.empty())
    return refused("--quantize-weights {}: ddp gathers no parameters; take zero3, or --compress",
                   options.quantize_weights);
  if (is_ddp && !options.quantize_gradients.empty())
    return refused(
        "--quantize-gradients {} is of zero1, zero2 and zero3; with ddp it is --compress",
        options.quantize_gradients);
  if (!is_ddp && !options.compress.empty())
    return refused("--compress {} is of ddp; with {} it is --quantize-gradients", options.compress,
                   options.strategy);
  const bool small = !options.quantize_weights.empty() || !options.quantize_gradients.empty() ||
                     !options.compress.empty();
  if (options.deterministic && small)
    return refused(
        "--deterministic gives the same bits with any number of ranks, and what compression rounds "
        "off depends on how ranks cut the numbers: leave one of them out");
  const std::string& gradients = is_ddp ? options.compress : options.quantize_gradients;
  if (gradients.empty() && !options.error_feedback.empty())
    return refused("--error-feedback {}: gradients are not compressed", options.error_feedback);
  if (gradients.empty() && options.compress_warmup)
    return refused("--compress-warmup {}: gradients are not compressed", *options.compress_warmup);
  if (options.compress_momentum && !options.compress.starts_with("topk"))
    return refused("--compress-momentum {:g} is of --compress topk", *options.compress_momentum);
  return ok_status();
}

/// How ranks are grouped.
Status check_groups(const Options& options, int ranks) {
  const int shards = options.shard_size > 0 ? options.shard_size : ranks;
  if (ranks % shards != 0)
    return refused("--shard-size {}: {} ranks are no multiple of it", shards, ranks);
  if (options.hpz > 0 && (options.hpz == 1 || options.hpz >= shards || shards % options.hpz != 0))
    return refused(
        "--hpz {}: it has to divide the {} ranks that share shards, and be more than 1 and less "
        "than they are",
        options.hpz, shards);
  return ok_status();
}

/// Passes of a step, by which the batch is cut.
Result<int> passes_of(const Options& options, int ranks) {
  if (!options.deterministic) return options.accumulate;
  const int shards = options.virtual_shards.value_or(kVirtualShards);
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

Result<training::GradientCompression> gradients_of(const Options& options, std::uint64_t steps) {
  constexpr double kOfAllSteps = 0.15;
  using Method = training::GradientCompression::Method;
  const std::string& text =
      options.compress.empty() ? options.quantize_gradients : options.compress;
  const char* const option = options.compress.empty() ? "--quantize-gradients" : "--compress";
  auto parsed = training::parse_gradient_compression(text);
  if (!parsed) return refused("{}: {}", option, parsed.error().what);
  if (options.error_feedback == "on") parsed->feedback = true;
  if (options.error_feedback == "off") {
    if (parsed->method == Method::kPowerSgd)
      return refused("--error-feedback off: {} does not work without it", text);
    parsed->feedback = false;
  }
  if (parsed->has_own_momentum()) {
    parsed->momentum = static_cast<float>(options.compress_momentum.value_or(options.beta1));
    if (parsed->momentum == 0) parsed->method = Method::kFormat;
  }
  if (options.compress_warmup) {
    parsed->warmup_steps = static_cast<std::int64_t>(*options.compress_warmup);
  } else if (parsed->method == Method::kMomentum) {
    if (steps == 0)
      return refused(
          "--compress {}: say with --compress-warmup after how many steps the variance is "
          "frozen; of a run of some --minutes nobody knows the length",
          text);
    parsed->warmup_steps =
        std::max<std::int64_t>(1, std::llround(kOfAllSteps * static_cast<double>(steps)));
  }
  if (parsed->owes() && parsed->method != Method::kMomentum && options.precision == "fp16" &&
      (options.loss_scale.empty() || options.loss_scale == "dynamic"))
    return refused(
        "{} {} keeps what it rounds off for later steps, in which a dynamic loss scale may be "
        "another one: give --loss-scale a number, or take --precision bf16",
        option, text);
  return *parsed;
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
  plan.buckets = {
      .first_elements =
          elements_of(options.first_bucket_mb.value_or(kFirstBucketMegabytes), plan.reduce),
      .elements = elements_of(options.bucket_mb.value_or(kBucketMegabytes), plan.reduce)};
  plan.passes = passes;
  plan.whole_gradients = options.whole_gradients;
  plan.weights = format_in(options.quantize_weights);
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

Result<Settings> settings_of(const Options& options, int ranks) {
  Settings settings;
  settings.shape = shape_of(options);
  TUTTI_TRY(check(settings.shape));
  TUTTI_TRY(check_use(options));
  TUTTI_TRY(check_compression(options));
  TUTTI_TRY(check_groups(options, ranks));
  TUTTI_ASSIGN(const int passes, passes_of(options, ranks));
  settings.plan = plan_of(options, passes);
  TUTTI_ASSIGN(settings.batch, batch_of(options, settings.shape, ranks, passes));
  TUTTI_ASSIGN(settings.scaler, scaler_of(options));
  settings.minutes = options.minutes;
  settings.steps = options.steps == 0 && options.minutes == 0 ? kDefaultSteps : options.steps;
  TUTTI_ASSIGN(settings.plan.gradients, gradients_of(options, settings.steps));
  TUTTI_ASSIGN(settings.rate, rate_of(options, settings.steps));
  settings.optimizer = {.learning_rate = options.lr,
                        .beta1 = options.beta1,
                        .beta2 = options.beta2,
                        .weight_decay = options.weight_decay};
  if (options.clip > 0) settings.clip = options.clip;
  settings.recomputes = options.checkpoint_activations == "block";
  return settings;
}

Result<training::Plan> plan_of(const Settings& settings, int ranks) {
  TUTTI_ASSIGN(const training::ParameterTable table, parameters_of(settings.shape));
  return training::Plan::create(table, units_of(table, settings.shape), ranks, settings.plan);
}

Status choose_secondary(Options& options, int ranks, int hosts) {
  if (!options.secondary) return ok_status();
  if (options.hpz > 0)
    return refused("--secondary and --hpz {} say the same: leave one out", options.hpz);
  if (hosts < 2 || ranks % hosts != 0 || ranks == hosts)
    return refused(
        "--secondary keeps shards on each of several hosts with equally many ranks, at least 2: {} "
        "ranks are on {}; leave it out, or give --hpz",
        ranks,
        hosts < 1    ? "unequal hosts"
        : hosts == 1 ? "one host"
                     : fmt::format("{} hosts", hosts));
  options.hpz = ranks / hosts;
  return ok_status();
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
  for (; left > 0; --left) {
    const auto settings = settings_of(options, left);
    if (settings && plan_of(*settings, left)) return left;
  }
  return 0;
}

}  // namespace tutti::trainer
