#include "tools/bench/shape.hpp"

#include <algorithm>
#include <array>

namespace tutti::bench {
namespace {

constexpr std::array kTests = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
    Collective::kBroadcast, Collective::kReduce,    Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,   kSendRecv,
};

/// True when the larger buffer holds one block for each rank.
bool holds_a_block_per_rank(Collective test) {
  return test == Collective::kAllGather || test == Collective::kReduceScatter ||
         test == Collective::kAllToAll || test == Collective::kGather ||
         test == Collective::kScatter;
}

}  // namespace

std::span<const Collective> all_tests() { return kTests; }

std::string_view test_name(Collective test) {
  return test == kSendRecv ? "send_recv" : name_of(test);
}

std::optional<Collective> test_by_name(std::string_view name) {
  if (name == "alltoall") return Collective::kAllToAll;
  if (name == "sendrecv") return kSendRecv;
  const auto found = std::ranges::find(kTests, name, test_name);
  if (found == kTests.end()) return std::nullopt;
  return *found;
}

std::optional<Collective> test_by_program(std::string_view argv0) {
  constexpr std::string_view kSuffix = "_perf";
  if (const auto slash = argv0.rfind('/'); slash != argv0.npos) argv0.remove_prefix(slash + 1);
  if (!argv0.ends_with(kSuffix)) return std::nullopt;
  argv0.remove_suffix(kSuffix.size());
  return test_by_name(argv0);
}

std::size_t count_for(Collective test, DataType type, Rank ranks, std::size_t bytes) {
  if (bytes == 0) return 0;
  const std::size_t blocks = holds_a_block_per_rank(test) ? static_cast<std::size_t>(ranks) : 1;
  return std::max<std::size_t>(1, bytes / size_of(type) / blocks);
}

Blocks blocks_of(const Shape& shape, Rank rank) {
  const auto n = static_cast<std::size_t>(shape.ranks);
  const std::size_t at_root = rank == shape.root ? 1 : 0;
  switch (shape.test) {
    case Collective::kAllReduce:
    case Collective::kSend:
    case Collective::kRecv:
      return {1, 1};
    case Collective::kAllGather:
      return {1, n};
    case Collective::kReduceScatter:
      return {n, 1};
    case Collective::kBroadcast:
      return {at_root, 1};
    case Collective::kReduce:
      return {1, at_root};
    case Collective::kAllToAll:
      return {n, n};
    case Collective::kGather:
      return {1, n * at_root};
    case Collective::kScatter:
      return {n * at_root, 1};
  }
  return {};
}

std::size_t shown_bytes(const Shape& shape) {
  const auto blocks =
      holds_a_block_per_rank(shape.test) ? static_cast<std::size_t>(shape.ranks) : 1;
  return shape.block_bytes() * blocks;
}

std::optional<Blocks> in_place_offsets(const Shape& shape, Rank rank) {
  const auto own = static_cast<std::size_t>(rank);
  const bool at_root = rank == shape.root;
  switch (shape.test) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return Blocks{0, 0};
    case Collective::kAllGather:
      return Blocks{own, 0};
    case Collective::kReduceScatter:
      return Blocks{0, own};
    case Collective::kGather:
      return at_root ? Blocks{own, 0} : Blocks{0, 0};
    case Collective::kScatter:
      return at_root ? Blocks{0, own} : Blocks{0, 0};
    case Collective::kAllToAll:
    case Collective::kSend:
    case Collective::kRecv:
      return std::nullopt;
  }
  return std::nullopt;
}

Origin origin_of(const Shape& shape, Rank rank, std::size_t block) {
  switch (shape.test) {
    case Collective::kAllGather:
    case Collective::kGather:
      return {static_cast<Rank>(block), 0};
    case Collective::kAllToAll:
      return {static_cast<Rank>(block), static_cast<std::size_t>(rank)};
    case Collective::kScatter:
      return {shape.root, static_cast<std::size_t>(rank)};
    case Collective::kSend:
    case Collective::kRecv:
      return {(rank + shape.ranks - 1) % shape.ranks, 0};
    default:
      return {shape.root, 0};
  }
}

double algorithm_bandwidth(const Shape& shape, double us) {
  return us > 0 ? static_cast<double>(shown_bytes(shape)) / us / 1e3 : 0;
}

double bus_factor(Collective test, Rank ranks) {
  const double n = ranks;
  if (test == Collective::kAllReduce) return 2 * (n - 1) / n;
  return holds_a_block_per_rank(test) ? (n - 1) / n : 1;
}

}  // namespace tutti::bench
