#include "src/comm/compressor.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/hash.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/cost/asked.hpp"
#include "src/exec/converter.hpp"

namespace tutti {

Result<exec::Coding> Compressor::begin(const Series& series, std::size_t elements) {
  const std::scoped_lock lock(mutex_);
  exec::Coding use;
  use.busy = &busy_;
  use.rounding.random = compression_.random;
  std::uint64_t key = fnv_step(fnv_step(kFnvStart, compression_.seed), calls_++);
  use.rounding.key = fnv_step(key, static_cast<std::uint64_t>(series.rank));
  if (!compression_.feedback) return use;
  TUTTI_TRY(check_locked(series));
  if (!series_ && !errors_.empty() && errors_.size() != elements)
    return make_error(Code::kInvalidArgument,
                      "{} errors were set, and {} as rank {} of {} encodes {} values",
                      errors_.size(), describe(series.call), series.rank, series.size, elements);
  series_ = series;
  errors_.resize(elements);
  use.errors = errors_;
  return use;
}

Status Compressor::check(const Series& series) const {
  const std::scoped_lock lock(mutex_);
  return check_locked(series);
}

Status Compressor::check_locked(const Series& series) const {
  if (!compression_.feedback) return ok_status();
  if (!owed_.empty() &&
      (series.call.collective != Collective::kAllReduce || series.call.count != owed_.size()))
    return make_error(
        Code::kInvalidArgument,
        "{} values are owed, which an all_reduce of as many elements can add, and not "
        "{}",
        owed_.size(), describe(series.call));
  if (!series_ && !errors_.empty() && series.call.count != 0 &&
      errors_.size() % series.call.count != 0)
    return make_error(Code::kInvalidArgument, "{} errors were set, which are not those of {}",
                      errors_.size(), describe(series.call));
  if (!series_ || *series_ == series) return ok_status();
  return make_error(
      Code::kInvalidUsage,
      "this compression keeps the errors of {} as rank {} of {}; {} as rank {} of {}{} needs one "
      "of its own, or a reset",
      describe(series_->call), series_->rank, series_->size, describe(series.call), series.rank,
      series.size, series.communicator != series_->communicator ? " of another communicator" : "");
}

Status Compressor::check_feedback() const {
  if (compression_.feedback) return ok_status();
  return make_error(Code::kInvalidUsage, "{} feeds no errors back: it needs errors=feedback",
                    compression_.text());
}

void Compressor::set_call_number(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  calls_ = number;
}

std::vector<float> Compressor::errors() const {
  const std::scoped_lock lock(mutex_);
  return errors_;
}

std::size_t Compressor::error_count() const {
  const std::scoped_lock lock(mutex_);
  return errors_.size();
}

Status Compressor::copy_errors(std::span<float> into) const {
  const std::scoped_lock lock(mutex_);
  if (into.size() != errors_.size())
    return make_error(Code::kInvalidArgument, "count is {}, and there are {} errors", into.size(),
                      errors_.size());
  std::ranges::copy(errors_, into.begin());
  return ok_status();
}

Status Compressor::set_errors(std::span<const float> errors) {
  const std::scoped_lock lock(mutex_);
  TUTTI_TRY(check_feedback());
  if (series_ && errors.size() != errors_.size())
    return make_error(Code::kInvalidArgument, "{} errors, where {} encodes {} values",
                      errors.size(), describe(series_->call), errors_.size());
  errors_.assign(errors.begin(), errors.end());
  return ok_status();
}

Status Compressor::owe(std::span<const float> values) {
  const std::scoped_lock lock(mutex_);
  TUTTI_TRY(check_feedback());
  owed_.assign(values.begin(), values.end());
  return ok_status();
}

std::vector<float> Compressor::take_owed() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(owed_, {});
}

void Compressor::reset() {
  const std::scoped_lock lock(mutex_);
  series_.reset();
  errors_.clear();
  owed_.clear();
}

std::shared_ptr<const codec::Format> wire_of(const Call& call) {
  if (call.compressor == nullptr) return nullptr;
  const auto& format = call.compressor->compression().format;
  return format->traits().bits < 8.0 * static_cast<double>(size_of(call.type)) ? format : nullptr;
}

Status move_errors(std::span<const std::span<const float>> errors, Rank rank,
                   std::int32_t new_ranks, std::span<float> moved) {
  std::ranges::fill(moved, 0.0F);
  const auto bound = [&](std::int64_t part) {
    return moved.size() / static_cast<std::size_t>(new_ranks) * static_cast<std::size_t>(part) +
           std::min(moved.size() % static_cast<std::size_t>(new_ranks),
                    static_cast<std::size_t>(part));
  };
  const std::size_t begin = bound(rank), end = bound(std::int64_t{rank} + 1);
  for (std::size_t old = 0; old < errors.size(); ++old) {
    if (moved.empty() ? !errors[old].empty() : errors[old].size() % moved.size() != 0)
      return make_error(Code::kInvalidArgument,
                        "old rank {} owes {} values, which are no whole vectors of {}", old,
                        errors[old].size(), moved.size());
    for (std::size_t vector = 0; vector < errors[old].size(); vector += moved.size())
      for (std::size_t i = begin; i < end; ++i) moved[i] += errors[old][vector + i];
  }
  return ok_status();
}

Result<std::vector<AskedCompression>> parse_compress_setting(std::string_view text) {
  std::vector<AskedCompression> all;
  for (const std::string_view part : parts_between(text, ',')) {
    const std::size_t colon = part.find(':');
    const auto collective = collective_meant(part.substr(0, colon));
    if (!collective || *collective == Collective::kSend || *collective == Collective::kRecv ||
        colon == std::string_view::npos)
      return make_error(Code::kInvalidArgument,
                        "TUTTI_COMPRESS: '{}': a collective and a format were expected, as in "
                        "all_reduce:int8",
                        without_controls(part));
    auto compression = codec::parse_compression(part.substr(colon + 1));
    if (!compression)
      return make_error(Code::kInvalidArgument, "TUTTI_COMPRESS: {}: {}", name_of(*collective),
                        compression.error().what);
    if (compression->feedback)
      return make_error(Code::kInvalidArgument,
                        "TUTTI_COMPRESS: {}: errors=feedback needs a program that keeps the "
                        "errors: use tuttiAllReduceCompressed and its like",
                        name_of(*collective));
    if (std::ranges::find(all, *collective, &AskedCompression::collective) != all.end())
      return make_error(Code::kInvalidArgument, "TUTTI_COMPRESS names {} twice",
                        name_of(*collective));
    all.push_back({*collective, *std::move(compression)});
  }
  return all;
}

bool is_compressible(const Call& call) {
  const bool is_sum = call.op == ReduceOp::kSum || call.op == ReduceOp::kAvg;
  return exec::is_convertible(call.type) && !is_point_to_point(call) &&
         (is_sum || !reduces(call.collective));
}

AskedCompressors::AskedCompressors(std::vector<AskedCompression> asked) {
  for (AskedCompression& one : asked)
    compressors_.try_emplace(one.collective, std::move(one.compression),
                             Compressor::Origin::kSetting);
}

Compressor* AskedCompressors::find_among(const Call& call) {
  if (!is_compressible(call)) return nullptr;
  const auto found = compressors_.find(call.collective);
  return found != compressors_.end() ? &found->second : nullptr;
}

}  // namespace tutti
