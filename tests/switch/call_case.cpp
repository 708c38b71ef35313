#include "tests/switch/call_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "src/base/float_formats.hpp"
#include "src/switch/exponents.hpp"

namespace tutti::in_network {
namespace {

bool has_blocks(const Operation& operation) {
  return operation.collective == Collective::kReduceScatter ||
         operation.collective == Collective::kAllGather;
}

bool is_scaled_sum(const Operation& operation) {
  return reduces(operation.collective) && is_scaled(operation.type);
}

/// What OperationChunks cuts operations of a type into, in elements.
std::size_t chunk_values(const Operation& operation) {
  if (is_scaled_sum(operation)) return kChunkBytes * 8 / operation.bits;
  return kChunkBytes / size_of(operation.type);
}

std::size_t block_bytes(const Operation& operation) {
  return operation.count * size_of(operation.type);
}

std::size_t input_bytes(const Operation& operation, unsigned members, unsigned member) {
  const std::size_t block = block_bytes(operation);
  if (operation.collective == Collective::kReduceScatter) return members * block;
  const bool is_root = operation.root == static_cast<Rank>(member);
  return operation.collective == Collective::kBroadcast && !is_root ? 0 : block;
}

/// Finite floats. Of each chunk, all of about one size, or of any, or all zero, or denormal.
void fill_with_floats(const Operation& operation, Bytes& values, std::mt19937_64& random) {
  const DataType type = operation.type;
  const std::size_t size = size_of(type);
  const int mantissa = type == DataType::kFloat32 ? 23 : type == DataType::kFloat16 ? 10 : 7;
  const std::uint32_t exponents =
      type == DataType::kFloat16 ? Float16::kSpecial >> 10 : std::uint32_t{255};
  std::uint64_t kind = 0;
  std::uint32_t most = 1;
  for (std::size_t i = 0; i * size < values.size(); ++i) {
    if (i % chunk_values(operation) == 0) {
      kind = random() % 8;
      most = static_cast<std::uint32_t>(random() % exponents);
    }
    const auto draw = static_cast<std::uint32_t>(random());
    std::uint32_t exponent = most > draw % 20 ? most - draw % 20 : 0;
    if (kind == 1) exponent = draw % exponents;
    if (kind == 2) exponent = 0;
    std::uint32_t bits = exponent << mantissa | (draw >> 8 & ((1U << mantissa) - 1));
    if (draw % 2 == 0) bits |= 1U << (size * 8 - 1);
    if (kind == 0) bits = 0;
    std::memcpy(values.data() + i * size, &bits, size);
  }
}

void fill_input(const Operation& operation, Bytes& values, std::mt19937_64& random) {
  if (is_scaled_sum(operation)) return fill_with_floats(operation, values, random);
  for (std::byte& value : values) value = static_cast<std::byte>(random());
}

double value_at(DataType type, const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, size_of(type));
  if (type == DataType::kFloat16) return widen<Float16>(static_cast<std::uint16_t>(bits));
  if (type == DataType::kBfloat16) return widen<Bfloat16>(static_cast<std::uint16_t>(bits));
  return std::bit_cast<float>(bits);
}

/// Of all members' chunk at `offset`.
Exponent greatest_exponent(const CallCase& call, std::size_t offset, std::size_t count) {
  const Fixed fixed{static_cast<unsigned>(call.inputs.size()), call.operation.bits};
  Exponent greatest = kAllZero;
  for (const Bytes& input : call.inputs)
    greatest =
        std::max(greatest, exponent_of(call.operation.type, input.data() + offset, count, fixed));
  return greatest;
}
Scale scale_for(const CallCase& call, Exponent greatest) {
  return scale_of(greatest, {static_cast<unsigned>(call.inputs.size()), call.operation.bits});
}

/// Adds `from`, as integers of so many bits, without wrapping.
void add_integers(Bytes& sums, const Bytes& from, unsigned bits) {
  const std::size_t width = bits / 8;
  for (std::size_t at = 0; at < sums.size(); at += width) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, sums.data() + at, width);
    std::memcpy(&b, from.data() + at, width);
    a += b;
    std::memcpy(sums.data() + at, &a, width);
  }
}

/// Chunk by chunk, as exponents.hpp has it.
Bytes scaled_sum(const CallCase& call, std::size_t at, bool& is_finite) {
  const Operation& operation = call.operation;
  const std::size_t size = size_of(operation.type);
  Bytes sum(block_bytes(operation));
  for (std::size_t first = 0; first < operation.count; first += chunk_values(operation)) {
    const std::size_t count = std::min(chunk_values(operation), operation.count - first);
    const std::size_t offset = at + first * size;
    const Exponent greatest = greatest_exponent(call, offset, count);
    if (greatest == kNotFinite) is_finite = false;
    if (!has_steps(greatest)) continue;
    const Scale scale = scale_for(call, greatest);
    Bytes integers(count * operation.bits / 8), sums(integers.size());
    for (const Bytes& input : call.inputs) {
      quantise(operation.type, input.data() + offset, count, scale, integers.data());
      add_integers(sums, integers, operation.bits);
    }
    dequantise(operation.type, sums, scale, sum.data() + first * size);
  }
  return sum;
}

template <class T>
Bytes combined(const CallCase& call, std::size_t at) {
  Bytes result(block_bytes(call.operation));
  for (std::size_t offset = 0; offset < result.size(); offset += sizeof(T)) {
    T total{};
    for (const Bytes& input : call.inputs) {
      T value{};
      std::memcpy(&value, input.data() + at + offset, sizeof value);
      if (&input == &call.inputs[0])
        total = value;
      else if (call.operation.op == ReduceOp::kMin)
        total = std::min(total, value);
      else if (call.operation.op == ReduceOp::kMax)
        total = std::max(total, value);
      else
        total =
            static_cast<T>(static_cast<std::uint64_t>(total) + static_cast<std::uint64_t>(value));
    }
    std::memcpy(result.data() + offset, &total, sizeof total);
  }
  return result;
}

/// What the members' blocks at `at` of their inputs reduce to.
Bytes reduced(const CallCase& call, std::size_t at, bool& is_finite) {
  if (is_scaled_sum(call.operation)) return scaled_sum(call, at, is_finite);
  switch (call.operation.type) {
    case DataType::kInt8:
      return combined<std::int8_t>(call, at);
    case DataType::kUint8:
      return combined<std::uint8_t>(call, at);
    case DataType::kInt32:
      return combined<std::int32_t>(call, at);
    case DataType::kUint32:
      return combined<std::uint32_t>(call, at);
    case DataType::kInt64:
      return combined<std::int64_t>(call, at);
    default:
      return combined<std::uint64_t>(call, at);
  }
}

void compute_outputs(CallCase& call) {
  const Operation& operation = call.operation;
  const auto members = static_cast<unsigned>(call.inputs.size());
  const auto root = static_cast<std::size_t>(operation.root);
  switch (operation.collective) {
    case Collective::kReduce:
      call.outputs[root] = reduced(call, 0, call.is_finite);
      return;
    case Collective::kBroadcast:
      std::ranges::fill(call.outputs, call.inputs[root]);
      return;
    case Collective::kReduceScatter:
      for (unsigned member = 0; member < members; ++member)
        call.outputs[member] = reduced(call, member * block_bytes(operation), call.is_finite);
      return;
    case Collective::kAllGather: {
      Bytes all;
      for (const Bytes& input : call.inputs) all.insert(all.end(), input.begin(), input.end());
      std::ranges::fill(call.outputs, all);
      return;
    }
    default:
      std::ranges::fill(call.outputs, reduced(call, 0, call.is_finite));
  }
}

/// The bound on the sum of a chunk's integers, as exponents.hpp states it.
double error_of_sums(const CallCase& call, std::size_t offset, std::size_t count) {
  const Exponent greatest = greatest_exponent(call, offset, count);
  const auto members = static_cast<double>(call.inputs.size());
  return has_steps(greatest) ? members * scale_for(call, greatest).step / 2 : 0;
}

/// Of a type: bits of the mantissa, the leading one included, the least and the greatest value.
struct TypeLimits {
  int digits;
  double least, greatest;
};
TypeLimits limits_of_type(DataType type) {
  if (type == DataType::kFloat16) return {11, 0x1p-24, 65504};
  if (type == DataType::kBfloat16) return {8, 0x1p-133, 0x1.fep127};
  return {24, 0x1p-149, 0x1.fffffep127};
}

/// The distance of value and exact sum, over what is allowed: `summed`, and one rounding.
double relative_error(DataType type, double value, double exact, double summed) {
  const TypeLimits limits = limits_of_type(type);
  if (value == exact) return 0;
  const double magnitude = std::fabs(exact) + summed;
  const double rounding = std::max(std::ldexp(magnitude, -limits.digits), limits.least / 2);
  const double bound = (summed + rounding) * (1 + 0x1p-10);  // `exact` is a sum of doubles
  if (std::isinf(value) && std::fabs(exact) + bound > limits.greatest) return 0;
  return std::fabs(value - exact) / bound;
}

}  // namespace

CallCase with_inputs(const Operation& operation, std::vector<Bytes> inputs) {
  CallCase call{.operation = operation, .inputs = std::move(inputs), .outputs = {}};
  call.outputs.resize(call.inputs.size());
  compute_outputs(call);
  return call;
}

CallCase case_of(const Operation& operation, std::mt19937_64& random, unsigned members) {
  std::vector<Bytes> inputs(members);
  for (unsigned member = 0; member < members; ++member) {
    inputs[member].resize(input_bytes(operation, members, member));
    fill_input(operation, inputs[member], random);
  }
  return with_inputs(operation, std::move(inputs));
}

CallCase random_case(std::mt19937_64& random, unsigned members, std::size_t chunks) {
  constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kAllReduce,
                                 Collective::kAllReduce, Collective::kReduce,
                                 Collective::kBroadcast, Collective::kReduceScatter,
                                 Collective::kAllGather};
  constexpr DataType kAdded[] = {DataType::kInt32,   DataType::kUint32,  DataType::kFloat32,
                                 DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                                 DataType::kInt8,    DataType::kUint8,   DataType::kInt64,
                                 DataType::kUint64};
  constexpr unsigned kBits[] = {32, 32, 16, 8};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
  Operation operation{.collective = kAll[random() % std::size(kAll)],
                      .type = kAdded[random() % std::size(kAdded)],
                      .op = kOps[random() % std::size(kOps)],
                      .bits = kBits[random() % std::size(kBits)],
                      .root = static_cast<Rank>(random() % members)};
  if (is_scaled(operation.type)) operation.op = ReduceOp::kSum;
  if (!has_precision({members, operation.bits})) operation.bits = 32;
  if (!reduces(operation.collective) && random() % 2 == 0) operation.type = DataType::kUint8;
  const std::size_t blocks = has_blocks(operation) ? members : 1;
  const std::size_t most = std::max<std::size_t>(chunks * chunk_values(operation) / blocks, 1);
  operation.count = random() % (random() % 4 == 0 ? 20 : most + 1);
  if (random() % 8 == 0) operation.count -= operation.count % chunk_values(operation);
  CallCase call = case_of(operation, random, members);
  if (!is_scaled_sum(operation) || operation.count == 0 || random() % 10 != 0) return call;
  Bytes& spoiled = call.inputs[random() % members];  // one NaN or infinity
  const std::size_t size = size_of(operation.type);
  const std::uint32_t special = operation.type == DataType::kFloat32   ? 0x7f800000
                                : operation.type == DataType::kFloat16 ? 0x7c01
                                                                       : 0xff80;
  std::memcpy(spoiled.data() + random() % (spoiled.size() / size) * size, &special, size);
  compute_outputs(call);
  return call;
}

double error_of(const CallCase& call, unsigned member, const Bytes& output) {
  const Operation& operation = call.operation;
  if (!is_scaled_sum(operation)) return 0;
  const std::size_t size = size_of(operation.type);
  const std::size_t at =
      operation.collective == Collective::kReduceScatter ? member * block_bytes(operation) : 0;
  double worst = 0;
  double summed = 0;  // error that the contract allows before the rounding to the type
  for (std::size_t i = 0; i * size < output.size(); ++i) {
    const std::size_t offset = at + i * size;
    if (i % chunk_values(operation) == 0)
      summed = error_of_sums(call, offset, std::min(chunk_values(operation), operation.count - i));
    double exact = 0;
    for (const Bytes& input : call.inputs) exact += value_at(operation.type, input.data() + offset);
    const double value = value_at(operation.type, output.data() + i * size);
    worst = std::max(worst, relative_error(operation.type, value, exact, summed));
  }
  return worst;
}

}  // namespace tutti::in_network
