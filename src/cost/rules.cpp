#include "src/cost/rules.hpp"

#include <algorithm>
#include <bit>

#include "src/cost/tuning.hpp"

namespace tutti {
namespace {

/// For two ranks on two hosts: straight from where it is to where it is wanted, and added
/// in rank order, as on one host.
std::vector<std::string_view> between_two(Collective collective, std::size_t bytes) {
  switch (collective) {
    case Collective::kAllReduce:
      // In one shot they wait for one round instead of two; but each adds everything, and not half
      // of it.
      if (bytes <= 128 * 1024) return {"one_shot", "two_shot"};
      return {"two_shot", "one_shot"};
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return {"one_shot", "ring"};
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return {"direct", "ring"};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

/// The same for more: logarithmic rounds while latency rules, fewest bytes per link above.
std::vector<std::string_view> between_hosts(Collective collective, std::size_t bytes,
                                            std::int32_t ranks) {
  if (ranks == 2) return between_two(collective, bytes);
  const bool small = bytes <= 64 * 1024;
  const bool tiny = bytes <= 4 * 1024;
  switch (collective) {
    case Collective::kAllReduce:
      if (tiny) return {"recursive_doubling", "ring"};
      if (small) return {"circulant", "ring"};
      return {"ring"};
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      if (small) return {"circulant", "ring"};
      return {"ring"};
    case Collective::kBroadcast:
    case Collective::kReduce:
      return {"circulant_blocks", "ring"};
    case Collective::kAllToAll:
      if (tiny) return {"bruck", "pairwise", "direct"};
      return {"pairwise", "direct"};
    case Collective::kGather:
    case Collective::kScatter:
      return {"direct"};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

/// What comes before those where several ranks share each host: what crosses from host to host is
/// then as little as can be, and all ranks of a host carry it.
std::vector<std::string_view> in_two_levels(Collective collective, std::size_t bytes) {
  const bool small = bytes <= 64 * 1024;
  switch (collective) {
    case Collective::kAllReduce:
      if (small) return {"leader_doubling"};
      return {"hierarchical_ring"};
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      if (small) return {"hierarchical_circulant"};
      return {"hierarchical_ring"};
    case Collective::kBroadcast:
    case Collective::kReduce:
      if (small) return {"leader_tree"};
      return {"hierarchical_tree"};
    case Collective::kAllToAll:
      // What has to be passed on inside hosts costs more than fewer messages gain, if it is much.
      if (bytes <= 1024 * 1024) return {"hierarchical_pairwise"};
      return {};
    default:
      return {};
  }
}

/// Ranks share hosts, and no host has far more than another: a rank alone on its host would have to
/// answer each of the many of another host.
bool in_levels(const ir::Request& request) {
  if (request.layout.empty()) return false;
  const auto nodes = ir::nodes_of(request.layout);
  const auto [least, most] = std::ranges::minmax(nodes, {}, &std::vector<Rank>::size);
  return most.size() <= 2 * least.size();
}

/// Whether a reduction has the same bits by every algorithm for several hosts: integers and their
/// extremes do in any order. Floats do where two ranks choose one of two numbers, which they do in
/// rank order. They do not where two ranks add: of two NaNs the sum is either, depending on where
/// in a vector register they meet (src/reduce/reduce.hpp).
bool is_exact(DataType type, ReduceOp op, std::int32_t ranks) {
  const bool is_integer = type <= DataType::kUint64;
  return is_integer || (ranks == 2 && (op == ReduceOp::kMax || op == ReduceOp::kMin));
}

}  // namespace

std::vector<std::string_view> on_one_host(Collective collective, std::size_t bytes,
                                          std::int32_t ranks) {
  // A single pass that reads all inputs beats two passes while its n-fold reading is cheap.
  const bool small = bytes * static_cast<std::size_t>(ranks) <= 64 * 1024;
  switch (collective) {
    case Collective::kAllReduce:
      return small ? std::vector<std::string_view>{"one_shot", "two_shot"}
                   : std::vector<std::string_view>{"two_shot", "one_shot"};
    case Collective::kReduce:
      return small || ranks == 2 ? std::vector<std::string_view>{"one_shot", "two_shot"}
                                 : std::vector<std::string_view>{"two_shot", "one_shot"};
    case Collective::kReduceScatter:
      return {"one_shot", "ring"};
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return {"direct"};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

std::vector<std::string_view> in_mapped_buffers(Collective collective, std::size_t bytes,
                                                std::int32_t ranks) {
  // All wait for all then, and no longer for the root alone: ranks that share CPUs take turns more
  // often, which up to 256 KiB cost 3 to 8 ranks on 2 CPUs as much as it gained or more.
  const bool worth_meeting = ranks == 2 || bytes > 256 * 1024;
  if (collective == Collective::kBroadcast && worth_meeting) return {"spread"};
  if (collective == Collective::kReduce && bytes > 64 * 1024) return {"two_shot"};
  return {};
}

bool are_rivals(Collective collective, std::size_t bytes, std::int32_t ranks) {
  if (collective != Collective::kAllReduce && collective != Collective::kReduce) return false;
  const std::uint8_t size = size_class(bytes);
  if (size >= 32) return false;
  const std::uint64_t read = (std::uint64_t{1} << size) * static_cast<std::uint64_t>(ranks);
  return read > 16 * 1024 && read <= 512 * 1024;
}

std::vector<std::string_view> over_hosts(const ir::Request& request, std::size_t bytes) {
  std::vector<std::string_view> names;
  if (in_levels(request)) names = in_two_levels(request.collective, bytes);
  const auto flat = between_hosts(request.collective, bytes, request.ranks);
  names.insert(names.end(), flat.begin(), flat.end());
  return names;
}

std::vector<std::string_view> rivals_between_hosts(const Situation& situation) {
  const Collective collective = situation.request.collective;
  const std::int32_t ranks = situation.request.ranks;
  const std::uint8_t size = size_class(situation.largest_input);
  constexpr int kBand = 3;  // powers of two on each side of a threshold of between_hosts()
  const auto near = [size](int threshold) {
    return size > threshold - kBand && size <= threshold + kBand;
  };
  constexpr int kTiny = 12, kSmall = 16, kForTwo = 17;
  if (reduces(collective) && !is_exact(situation.type, situation.op, ranks)) return {};
  const bool levels = in_levels(situation.request);
  if (ranks == 2) {
    if (collective == Collective::kAllReduce && near(kForTwo)) return {"one_shot", "two_shot"};
    return {};  // nothing else has another way to go
  }
  std::vector<std::string_view> names;
  switch (collective) {
    case Collective::kAllReduce:
      if (levels && !near(kSmall)) return {};
      if (levels) return {"leader_doubling", "hierarchical_ring", "ring"};
      if (near(kTiny)) names.emplace_back("recursive_doubling");
      if (near(kTiny) || near(kSmall)) names.emplace_back("circulant");
      if (near(kSmall)) names.emplace_back("ring");
      return names;
    case Collective::kReduceScatter:
      if (near(kSmall) && levels) return {"hierarchical_circulant", "hierarchical_ring", "ring"};
      if (near(kSmall)) return {"circulant", "ring"};
      break;
    case Collective::kAllGather:  // whose thresholds are of the output
      if (near(kSmall - std::bit_width(static_cast<std::uint32_t>(ranks - 1)))) {
        if (levels) return {"hierarchical_circulant", "hierarchical_ring", "direct"};
        return {"circulant", "ring", "direct"};
      }
      break;
    case Collective::kBroadcast: {
      constexpr std::uint64_t kMostSent = 4 << 20;  // by the root: a course is to be cheap
      const bool cheap = size <= 20 && static_cast<std::uint64_t>(ranks - 1) << size <= kMostSent;
      if (cheap && levels) return {"leader_tree", "hierarchical_tree", "direct"};
      if (cheap) return {"circulant_blocks", "direct"};
      break;
    }
    case Collective::kAllToAll:
      if (near(kTiny) && levels) return {"hierarchical_pairwise", "pairwise", "direct"};
      if (near(kTiny)) return {"bruck", "pairwise", "direct"};
      break;
    default:
      break;
  }
  return {};
}

std::vector<std::string_view> compressed(const ir::Request& request, std::size_t bytes,
                                         bool one_host) {
  const Collective collective = request.collective;
  std::vector<std::string_view> names;
  if (!one_host && in_levels(request) && collective != Collective::kAllToAll)
    names.emplace_back("hierarchical_direct");
  // What is sent compressed in several rounds is copied, not added.
  const auto plain = !one_host && !reduces(collective)
                         ? over_hosts(request, bytes)
                         : on_one_host(collective, bytes, request.ranks);
  names.insert(names.end(), plain.begin(), plain.end());
  return names;
}

}  // namespace tutti
