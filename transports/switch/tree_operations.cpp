#include "transports/switch/tree_operations.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace tutti::in_network {
namespace {

template <class Byte>
bool in_one_piece(std::span<const std::span<Byte>> pieces) {
  for (std::size_t i = 1; i < pieces.size(); ++i)
    if (pieces[i - 1].data() + pieces[i - 1].size() != pieces[i].data()) return false;
  return true;
}

template <class Byte>
std::size_t bytes_of(std::span<const std::span<Byte>> pieces) {
  std::size_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();
  return sum;
}

bool all_equal(const std::vector<std::size_t>& sizes) {
  return std::ranges::adjacent_find(sizes, std::not_equal_to()) == sizes.end();
}

}  // namespace

TreeOperations::TreeOperations(const TreePart& part, std::size_t place, std::size_t members)
    : place_(place), members_(members) {
  plan(part);
}

void TreeOperations::plan(const TreePart& part) {
  switch (part.form) {
    case TreeForm::kSumToAll:
      return sum(part, Collective::kAllReduce);
    case TreeForm::kSumToOne:
      return sum(part, Collective::kReduce);
    case TreeForm::kSumInParts:
      return sum_in_parts(part);
    case TreeForm::kFromOne:
      return from_one(part);
    case TreeForm::kFromAll:
      return from_all(part);
  }
}

void TreeOperations::deliver() {
  for (const auto& [to, from] : copies_) std::memcpy(to.data(), results_.data() + from, to.size());
}

const std::byte* TreeOperations::input_of(const TreePart& part) {
  if (part.sources.empty()) return nullptr;
  if (in_one_piece(part.sources)) return part.sources.front().data();
  for (const auto& piece : part.sources)
    gathered_.insert(gathered_.end(), piece.begin(), piece.end());
  return gathered_.data();
}

/// The destinations will be copied from results_, where they begin at `first`.
void TreeOperations::copy_out(const TreePart& part, std::size_t first) {
  for (const std::span<std::byte> piece : part.destinations) {
    copies_.push_back({piece, first});
    first += piece.size();
  }
}

std::byte* TreeOperations::output_of(const TreePart& part, bool may_replace_input) {
  if (part.destinations.empty()) return nullptr;
  const auto overlaps = [&](std::span<const std::byte> source) {
    return std::ranges::any_of(part.destinations, [&](std::span<const std::byte> to) {
      return source.data() < to.data() + to.size() && to.data() < source.data() + source.size();
    });
  };
  if (in_one_piece(part.destinations) &&
      (may_replace_input || std::ranges::none_of(part.sources, overlaps)))
    return part.destinations.front().data();
  results_.resize(bytes_of(part.destinations));
  copy_out(part, 0);
  return results_.data();
}

void TreeOperations::sum(const TreePart& part, Collective collective) {
  const std::byte* const input = input_of(part);
  operations_.push_back({.collective = collective,
                         .type = part.type,
                         .op = part.op,
                         .bits = part.bits,
                         .factor = part.factor,
                         .call = part.call,
                         .root = static_cast<Rank>(part.root),
                         .count = part.bytes / size_of(part.type),
                         .input = input,
                         .output = output_of(part, true)});
}

/// Of each member, where its pieces are one after the other.
std::vector<std::size_t> TreeOperations::block_sizes(const std::vector<std::size_t>& pieces) const {
  std::vector<std::size_t> blocks(members_, 0);
  const std::size_t each = pieces.size() / members_;
  for (std::size_t i = 0; i < each * members_; ++i) blocks[i / each] += pieces[i];
  return blocks;
}

void TreeOperations::sum_in_parts(const TreePart& part) {
  std::vector<std::size_t> pieces;
  for (const auto& source : part.sources) pieces.push_back(source.size());
  const std::vector<std::size_t> blocks = block_sizes(pieces);
  if (all_equal(blocks)) {
    const std::byte* const input = input_of(part);
    operations_.push_back({.collective = Collective::kReduceScatter,
                           .type = part.type,
                           .op = part.op,
                           .bits = part.bits,
                           .factor = part.factor,
                           .call = part.call,
                           .count = blocks.front() / size_of(part.type),
                           .input = input,
                           .output = output_of(part, !gathered_.empty())});
    return;
  }
  results_.resize(part.bytes);
  copy_out(part, part.first_received);
  operations_.push_back({.collective = Collective::kAllReduce,
                         .type = part.type,
                         .op = part.op,
                         .bits = part.bits,
                         .factor = part.factor,
                         .call = part.call,
                         .count = part.bytes / size_of(part.type),
                         .input = input_of(part),
                         .output = results_.data()});
}

void TreeOperations::from_one(const TreePart& part) {
  const bool is_root = place_ == part.root;
  if (is_root)  // what it sends need not come back
    for (std::size_t i = 0; i < part.destinations.size(); ++i)
      std::memmove(part.destinations[i].data(), part.sources[i].data(), part.sources[i].size());
  operations_.push_back({.collective = Collective::kBroadcast,
                         .type = DataType::kUint8,
                         .call = part.call,
                         .root = static_cast<Rank>(part.root),
                         .count = part.bytes,
                         .input = input_of(part),
                         .output = is_root ? nullptr : output_of(part, true)});
}

void TreeOperations::from_all(const TreePart& part) {
  std::vector<std::size_t> pieces;
  for (const auto& destination : part.destinations) pieces.push_back(destination.size());
  const std::vector<std::size_t> blocks = block_sizes(pieces);
  const std::byte* const input = input_of(part);
  if (all_equal(blocks)) {
    operations_.push_back({.collective = Collective::kAllGather,
                           .type = DataType::kUint8,
                           .call = part.call,
                           .count = blocks.front(),
                           .input = input,
                           .output = output_of(part, false)});
    return;
  }
  results_.resize(part.bytes);
  copy_out(part, 0);
  std::memcpy(results_.data() + part.first_sent, input, bytes_of(part.sources));
  std::size_t begin = 0;
  for (std::size_t sender = 0; sender < members_; ++sender) {
    if (blocks[sender] != 0)
      operations_.push_back({.collective = Collective::kBroadcast,
                             .type = DataType::kUint8,
                             .call = part.call,
                             .root = static_cast<Rank>(sender),
                             .count = blocks[sender],
                             .input = sender == place_ ? input : nullptr,
                             .output = sender == place_ ? nullptr : results_.data() + begin});
    begin += blocks[sender];
  }
}

}  // namespace tutti::in_network
