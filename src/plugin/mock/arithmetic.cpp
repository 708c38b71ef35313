#include "src/plugin/mock/arithmetic.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "src/base/float_formats.hpp"
#include "tutti/types.hpp"

namespace tutti::plugin::mock {
namespace {

template <class T>
T combined(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMax) return std::max(a, b);
  if (op == ReduceOp::kMin) return std::min(a, b);
  return static_cast<T>(a + b);
}

template <class T>
struct Plain {
  using Bits = T;
  static T read(T bits) { return bits; }
  static T write(T value) { return value; }
};
template <class Format>
struct Narrow {
  using Bits = typename Format::Bits;
  static float read(Bits bits) { return widen<Format>(bits); }
  static Bits write(float value) { return narrow<Format>(value); }
};

template <class Kind>
void reduce_as(ReduceOp op, std::byte* acc, const std::byte* other, std::size_t bytes) {
  using Bits = typename Kind::Bits;
  for (std::size_t at = 0; at < bytes; at += sizeof(Bits)) {
    Bits a, b;
    std::memcpy(&a, acc + at, sizeof a);
    std::memcpy(&b, other + at, sizeof b);
    a = Kind::write(combined(op, Kind::read(a), Kind::read(b)));
    std::memcpy(acc + at, &a, sizeof a);
  }
}

}  // namespace

bool can_reduce(int type, int op) {
  const bool known_op = op == static_cast<int>(ReduceOp::kSum) ||
                        op == static_cast<int>(ReduceOp::kMax) ||
                        op == static_cast<int>(ReduceOp::kMin);
  return known_op && type >= 0 && type <= static_cast<int>(DataType::kBfloat16);
}

void reduce(int type, int op, std::byte* acc, const std::byte* other, std::size_t bytes) {
  const auto how = static_cast<ReduceOp>(op);
  switch (static_cast<DataType>(type)) {
    case DataType::kInt8:
      return reduce_as<Plain<std::int8_t>>(how, acc, other, bytes);
    case DataType::kUint8:
      return reduce_as<Plain<std::uint8_t>>(how, acc, other, bytes);
    case DataType::kInt32:
      return reduce_as<Plain<std::int32_t>>(how, acc, other, bytes);
    case DataType::kUint32:
      return reduce_as<Plain<std::uint32_t>>(how, acc, other, bytes);
    case DataType::kInt64:
      return reduce_as<Plain<std::int64_t>>(how, acc, other, bytes);
    case DataType::kUint64:
      return reduce_as<Plain<std::uint64_t>>(how, acc, other, bytes);
    case DataType::kFloat16:
      return reduce_as<Narrow<Float16>>(how, acc, other, bytes);
    case DataType::kFloat32:
      return reduce_as<Plain<float>>(how, acc, other, bytes);
    case DataType::kFloat64:
      return reduce_as<Plain<double>>(how, acc, other, bytes);
    case DataType::kBfloat16:
      return reduce_as<Narrow<Bfloat16>>(how, acc, other, bytes);
    default:
      return;
  }
}

}  // namespace tutti::plugin::mock
