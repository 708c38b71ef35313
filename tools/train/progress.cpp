#include "tools/train/progress.hpp"

#include <bit>
#include <cmath>
#include <string_view>

#include "src/base/result.hpp"

namespace tutti::trainer {
namespace {

using Counters = std::map<std::string, std::uint64_t>;

Result<std::uint64_t> whole(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  if (found != counters.end()) return found->second;
  return make_error(Code::kWrongData,
                    "the checkpoint has no counter '{}': it is not by 'tutti train', or by another "
                    "version of it",
                    name);
}

/// A number of 0 or more.
Result<double> real(const Counters& counters, const std::string& name) {
  TUTTI_ASSIGN(const std::uint64_t bits, whole(counters, name));
  const auto value = std::bit_cast<double>(bits);
  if (std::isfinite(value) && value >= 0) return value;
  return make_error(Code::kWrongData, "counter '{}' of the checkpoint, {}, is no number from 0 on",
                    name, value);
}

/// 0: there was none that grows.
Result<double> scale_in(const Counters& counters) {
  using training::LossScaler;
  TUTTI_ASSIGN(const double scale, real(counters, "loss_scale_bits"));
  if (scale == 0 || (scale >= LossScaler::kLeast && scale <= LossScaler::kMost)) return scale;
  return make_error(Code::kWrongData, "the checkpoint's loss scale {} is not one of {} to {}",
                    scale, LossScaler::kLeast, LossScaler::kMost);
}

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

}  // namespace

Counters counters_of(const Progress& progress) {
  const bool has_scale = progress.scaler.growth_interval > 0;
  Counters counters = {
      {"taken", progress.taken},
      {"samples", progress.samples},
      {"tokens", progress.samples * static_cast<std::uint64_t>(progress.shape.context)},
      {"seed", progress.seed},
      {"data", progress.data},
      {"seconds_bits", bits_of(progress.seconds)},
      {"warmup_progress_bits", bits_of(progress.warmup_progress)},
      {"loss_scale_bits", bits_of(has_scale ? progress.scaler.scale : 0)},
      {"loss_scale_good_steps", progress.scaler.good_steps},
      {"average_sum_bits", bits_of(progress.average.sum)},
      {"average_weight_bits", bits_of(progress.average.weight)}};
  add_counters(progress.shape, counters);
  return counters;
}

Result<Progress> progress_in(std::uint64_t step, const Counters& counters) {
  Progress progress;
  progress.step = step;
  TUTTI_ASSIGN(progress.taken, whole(counters, "taken"));
  TUTTI_ASSIGN(progress.samples, whole(counters, "samples"));
  TUTTI_ASSIGN(progress.seed, whole(counters, "seed"));
  TUTTI_ASSIGN(progress.data, whole(counters, "data"));
  TUTTI_ASSIGN(progress.seconds, real(counters, "seconds_bits"));
  TUTTI_ASSIGN(progress.warmup_progress, real(counters, "warmup_progress_bits"));
  TUTTI_ASSIGN(progress.scaler.scale, scale_in(counters));
  TUTTI_ASSIGN(progress.scaler.good_steps, whole(counters, "loss_scale_good_steps"));
  TUTTI_ASSIGN(progress.average.sum, real(counters, "average_sum_bits"));
  TUTTI_ASSIGN(progress.average.weight, real(counters, "average_weight_bits"));
  const auto shape = shape_in(counters);
  if (!shape)
    return make_error(Code::kWrongData, "the checkpoint does not say of which shape its model is");
  progress.shape = *shape;
  return progress;
}

}  // namespace tutti::trainer
