#include "src/switch/operation.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/base/bytes.hpp"
#include "src/base/hash.hpp"
#include "src/base/result.hpp"

namespace tutti::in_network {
namespace {

bool is_integer(DataType type) { return type <= DataType::kUint64; }
static_assert(DataType::kFloat16 > DataType::kUint64);

bool adds_floats(const Operation& operation) {
  return reduces(operation.collective) && in_network::is_scaled(operation.type) &&
         operation.op == ReduceOp::kSum;
}

std::optional<Lanes> lanes_of(const Operation& operation) {
  if (!reduces(operation.collective)) return Lanes::kWords;
  if (adds_floats(operation)) {
    if (operation.bits == 16) return Lanes::kInt16Sum;
    return sum_of(operation.bits == 8 ? DataType::kInt8 : DataType::kInt32);
  }
  if (!is_integer(operation.type)) return std::nullopt;
  const int sum = static_cast<int>(sum_of(operation.type));
  switch (operation.op) {
    case ReduceOp::kSum:
      return static_cast<Lanes>(sum);
    case ReduceOp::kMin:
      return static_cast<Lanes>(sum + 1);
    case ReduceOp::kMax:
      return static_cast<Lanes>(sum + 2);
    default:
      return std::nullopt;
  }
}

/// Collectives whose buffers have one block for each member.
bool has_blocks(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather;
}

/// What members must agree about. 32 bits: members that differ are found in all but one of 2^32
/// cases.
std::uint32_t hash_of(const Operation& operation, std::uint64_t sequence) {
  const std::uint64_t kinds =
      to_underlying(operation.collective) | std::uint64_t{to_underlying(operation.type)} << 8 |
      std::uint64_t{to_underlying(operation.op)} << 16 | std::uint64_t{operation.bits} << 24;
  const std::uint64_t root =
      rooted(operation.collective) ? static_cast<std::uint32_t>(operation.root) : 0;
  return static_cast<std::uint32_t>(
      mix(mix(mix(mix(mix(0, sequence), kinds), root), operation.count), operation.call));
}

}  // namespace

Status supported(const Operation& operation, unsigned members) {
  switch (operation.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kAllGather:
      break;
    default:
      return make_error(Code::kUnsupported, "a switch does no {}; choose another algorithm",
                        name_of(operation.collective));
  }
  if (!lanes_of(operation))
    return make_error(Code::kUnsupported,
                      "a switch has no {} of {}: it has sum, min and max of integers, and sums of "
                      "float32, float16 and bfloat16; choose another algorithm",
                      name_of(operation.op), name_of(operation.type));
  if (adds_floats(operation) && !has_precision({.members = members, .bits = operation.bits}))
    return make_error(Code::kUnsupported,
                      "integers of {} bits for the sums of {} ranks; 8 bits do for at most 16, 16 "
                      "for any number",
                      operation.bits, members);
  return ok_status();
}

OperationChunks::OperationChunks(const Operation& operation, const Member& member,
                                 std::uint32_t slots, std::uint64_t sequence)
    : operation_(operation),
      member_(member),
      lanes_(lanes_of(operation).value_or(Lanes::kWords)),
      call_(hash_of(operation, sequence)) {
  is_scaled_ = adds_floats(operation);
  const std::size_t element = is_scaled_ ? size_of(operation.type) : width_of(lanes_);
  block_bytes_ = operation.count * size_of(operation.type);
  chunk_bytes_ = most_values(lanes_) * element;
  chunks_per_block_ = (block_bytes_ + chunk_bytes_ - 1) / chunk_bytes_;
  values_ = chunks_per_block_ * (has_blocks(operation.collective) ? member.of : 1);
  if (is_scaled_) leading_ = std::min<std::uint64_t>(slots, values_);
}

bool OperationChunks::owns(std::uint64_t block) const {
  const bool by_block = has_blocks(operation_.collective);
  return member_.number == (by_block ? block : static_cast<std::uint64_t>(operation_.root));
}

OperationChunks::Piece OperationChunks::values_of(std::uint64_t index) const {
  const std::uint64_t block = index / chunks_per_block_;
  const std::size_t at = index % chunks_per_block_ * chunk_bytes_;
  const std::size_t in_whole = block * block_bytes_ + at;  // where all blocks are in one buffer
  Piece piece{.count = 0, .bytes = std::min(chunk_bytes_, block_bytes_ - at)};
  const std::size_t lane_bytes = chunk_bytes_ / most_values(lanes_);
  piece.count = static_cast<std::uint16_t>((piece.bytes + lane_bytes - 1) / lane_bytes);
  const bool owner = owns(block);
  switch (operation_.collective) {
    case Collective::kReduce:
      piece.input = operation_.input + at;
      if (owner) piece.output = operation_.output + at;
      return piece;
    case Collective::kBroadcast:
      if (owner) piece.input = operation_.input + at;
      if (!owner) piece.output = operation_.output + at;
      return piece;
    case Collective::kReduceScatter:
      piece.input = operation_.input + in_whole;
      if (owner) piece.output = operation_.output + at;
      return piece;
    case Collective::kAllGather:
      if (owner) piece.input = operation_.input + at;
      if (!owner) piece.output = operation_.output + in_whole;
      return piece;
    default:
      piece.input = operation_.input + at;
      piece.output = operation_.output + at;
      return piece;
  }
}

OperationChunks::Piece OperationChunks::piece(std::uint64_t index) const {
  return index < leading_ ? Piece{} : values_of(index - leading_);
}

Exponent OperationChunks::exponent_carried(std::uint64_t index) const {
  if (!is_scaled() || index >= values_) return kAllZero;
  const Piece piece = values_of(index);
  return exponent_of(operation_.type, piece.input, piece.count, fixed(), operation_.factor);
}

void OperationChunks::copy_own() const {
  const Collective collective = operation_.collective;
  const bool gathers = collective == Collective::kAllGather;
  const bool is_root = collective == Collective::kBroadcast && owns(0);
  if (block_bytes_ == 0 || operation_.output == nullptr || (!gathers && !is_root)) return;
  std::byte* const to = operation_.output + (gathers ? member_.number * block_bytes_ : 0);
  if (to != operation_.input) std::memmove(to, operation_.input, block_bytes_);
}

}  // namespace tutti::in_network
