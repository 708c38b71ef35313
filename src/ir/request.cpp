#include "src/ir/request.hpp"

#include <algorithm>

namespace tutti::ir {

BlockCounts block_counts(const Request& request, Rank rank) {
  const std::int32_t n = request.ranks;
  const bool is_root = rank == request.root;
  switch (request.collective) {
    case Collective::kAllReduce:
      return {1, 1};
    case Collective::kAllGather:
      return {1, n};
    case Collective::kReduceScatter:
      return {n, 1};
    case Collective::kAllToAll:
      return {n, n};
    case Collective::kBroadcast:
      return {is_root ? 1 : 0, 1};
    case Collective::kReduce:
      return {1, is_root ? 1 : 0};
    case Collective::kGather:
      return {1, is_root ? n : 0};
    case Collective::kScatter:
      return {is_root ? n : 0, 1};
    case Collective::kSend:
    case Collective::kRecv:
      return {};  // a rank-local plan, not a global schedule
  }
  return {};
}

std::int32_t largest_block_count(const Request& request) {
  std::int32_t most = 1;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const BlockCounts counts = block_counts(request, rank);
    most = std::max({most, counts.input, counts.output});
  }
  return most;
}

Aliasing aliasing(const Request& request, Rank rank) {
  const BlockCounts counts = block_counts(request, rank);
  if (!request.in_place || counts.input == 0 || counts.output == 0) return {};
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return {true, 0, 0, 1};
    case Collective::kAllGather:
    case Collective::kGather:
      return {true, 0, rank, 1};
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {true, rank, 0, 1};
    case Collective::kAllToAll:
    case Collective::kSend:
    case Collective::kRecv:
      return {};
  }
  return {};
}

}  // namespace tutti::ir
