#include "tools/bench/lossy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/float_formats.hpp"

namespace tutti::bench {
namespace {

/// Of magnitudes below kLargest: 4, or 1/4 in every other stretch of 1,000 elements.
constexpr double kLargest = 4;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// In the type that the buffers have.
float as_stored(DataType type, float value) {
  if (type == DataType::kFloat16) return widen<Float16>(narrow<Float16>(value));
  return type == DataType::kBfloat16 ? widen<Bfloat16>(narrow<Bfloat16>(value)) : value;
}
void store(DataType type, float value, std::byte* at) {
  if (type == DataType::kFloat32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t half =
      type == DataType::kFloat16 ? narrow<Float16>(value) : narrow<Bfloat16>(value);
  std::memcpy(at, &half, sizeof half);
}
float load(DataType type, const std::byte* at) {
  float value = 0;
  std::uint16_t half = 0;
  std::memcpy(type == DataType::kFloat32 ? static_cast<void*>(&value) : &half, at, size_of(type));
  if (type == DataType::kFloat16) return widen<Float16>(half);
  return type == DataType::kBfloat16 ? widen<Bfloat16>(half) : value;
}
/// What the type itself loses.
double own_error(DataType type) {
  if (type == DataType::kFloat32) return 0x1p-20;
  return type == DataType::kFloat16 ? 0x1p-9 : 0x1p-6;
}

}  // namespace

bool is_lossy(const Shape& shape) {
  const bool is_float = shape.type == DataType::kFloat32 || shape.type == DataType::kFloat16 ||
                        shape.type == DataType::kBfloat16;
  const bool is_sum = shape.op == ReduceOp::kSum || shape.op == ReduceOp::kAvg;
  return is_float && shape.test != kSendRecv && (is_sum || !reduces(shape.test));
}

/// The sum of four even distributions: bell-shaped.
float LossyData::value(Rank rank, std::uint64_t iteration, std::size_t element) const {
  const std::uint64_t bits = mixed(element * 0x9e3779b97f4a7c15 + iteration * 0xd1342543de82ef95 +
                                   static_cast<std::uint64_t>(rank) + 1);
  float sum = 0;
  for (int part = 0; part < 4; ++part)
    sum += static_cast<float>(bits >> (16 * part) & 0xffff) / 32768.0F - 1;
  return as_stored(shape_.type, element / 1000 % 2 == 0 ? sum : sum / 16);
}

void LossyData::fill(Rank rank, std::uint64_t iteration, std::byte* send) const {
  const std::size_t elements = blocks_of(shape_, rank).send * shape_.count;
  for (std::size_t i = 0; i < elements; ++i)
    store(shape_.type, value(rank, iteration, i), send + i * size_of(shape_.type));
}

double LossyData::wanted(Rank rank, std::uint64_t iteration, std::size_t element) const {
  if (!reduces(shape_.test)) {
    const Origin origin = origin_of(shape_, rank, element / shape_.count);
    return value(origin.rank, iteration, origin.block * shape_.count + element % shape_.count);
  }
  const bool scatters = shape_.test == Collective::kReduceScatter;
  const std::size_t at = element + (scatters ? static_cast<std::size_t>(rank) * shape_.count : 0);
  double sum = 0;
  for (Rank from = 0; from < shape_.ranks; ++from) sum += value(from, iteration, at);
  return shape_.op == ReduceOp::kAvg ? sum / shape_.ranks : sum;
}

double LossyData::bound() const {
  const bool adds = reduces(shape_.test) && shape_.op != ReduceOp::kAvg;
  const double contributions = reduces(shape_.test) ? shape_.ranks : 1;
  return kLargest * (adds ? contributions : 1) *
             (std::pow(1 + error_, kMostRoundings) - 1 + own_error(shape_.type)) +
         least_ * contributions * kMostRoundings;
}

Findings LossyData::check(Rank rank, std::uint64_t iteration, const std::byte* recv,
                          Losses& losses) const {
  Findings findings;
  const std::size_t elements = blocks_of(shape_, rank).recv * shape_.count;
  const double most = bound();
  for (std::size_t i = 0; i < elements; ++i) {
    const float got = load(shape_.type, recv + i * size_of(shape_.type));
    const double expected = wanted(rank, iteration, i), off = std::abs(got - expected);
    losses.largest_off = std::max(losses.largest_off, off);
    losses.largest_wanted = std::max(losses.largest_wanted, std::abs(expected));
    losses.sum_off += off;
    losses.sum_wanted += std::abs(expected);
    if (off <= most) continue;  // a NaN is not
    if (findings.wrong++ == 0) {
      Bits expected_bits{}, got_bits{};
      std::memcpy(&got_bits, recv + i * size_of(shape_.type), size_of(shape_.type));
      std::byte stored[4] = {};
      store(shape_.type, static_cast<float>(expected), stored);
      std::memcpy(&expected_bits, stored, size_of(shape_.type));
      findings.first = Findings::First{i, expected_bits, got_bits};
    }
  }
  return findings;
}

}  // namespace tutti::bench
