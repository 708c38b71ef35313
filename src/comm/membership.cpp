#include "src/comm/membership.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::uint32_t kShrinkColor = 0xffffffff;  // colors of split groups are not negative

}  // namespace

Result<Subgroup> Membership::split(int color, int key, Deadline deadline) {
  const std::uint64_t tag = ++splits_ << 32 | static_cast<std::uint32_t>(color);
  TUTTI_TRY(calls_.usable());
  TUTTI_ASSIGN(std::vector<Rank> ranks, ranks_of(color, key, deadline));
  if (color < 0) return Subgroup();
  return meet(std::move(ranks), tag, deadline);
}

/// The ranks of the same color, ordered by (key, rank). Collective.
Result<std::vector<Rank>> Membership::ranks_of(int color, int key, Deadline deadline) {
  struct Wish {
    int color = -1, key = 0;
  };
  const Wish mine{color, key};
  Blob blob(sizeof mine);
  std::memcpy(blob.data(), &mine, sizeof mine);
  TUTTI_ASSIGN(const std::vector<Blob> blobs, bootstrap_.all_gather(std::move(blob), deadline));
  std::vector<std::pair<int, Rank>> members;
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    Wish theirs;
    if (blobs[peer].size() != sizeof theirs)
      return peer_error(Code::kPeerFailed, peer, "rank {} sent {} bytes as color and key", peer,
                        blobs[peer].size());
    std::memcpy(&theirs, blobs[peer].data(), sizeof theirs);
    if (theirs.color == color) members.emplace_back(theirs.key, peer);
  }
  std::sort(members.begin(), members.end());
  std::vector<Rank> ranks;
  for (const auto& [order, peer] : members) ranks.push_back(peer);
  return ranks;
}

Result<Subgroup> Membership::shrink(std::span<const Rank> exclude, Deadline deadline) {
  const std::uint64_t tag = ++shrinks_ << 32 | kShrinkColor;
  std::vector<bool> excluded(facts_.size, false);
  for (const Rank peer : exclude) {
    if (peer < 0 || peer >= facts_.size)
      return make_error(Code::kInvalidArgument,
                        "shrink excludes rank {}, but the communicator has ranks 0..{}", peer,
                        facts_.size - 1);
    excluded[peer] = true;
  }
  if (excluded[facts_.rank])
    return make_error(Code::kInvalidArgument, "rank {} is excluded and must not call shrink",
                      facts_.rank);
  std::vector<Rank> ranks;
  for (Rank peer = 0; peer < facts_.size; ++peer)
    if (!excluded[peer]) ranks.push_back(peer);
  return meet(std::move(ranks), tag, deadline);
}

Result<Subgroup> Membership::meet(std::vector<Rank> ranks, std::uint64_t tag, Deadline deadline) {
  TUTTI_ASSIGN(auto bootstrap, bootstrap_.subgroup(ranks, tag, deadline));
  return Subgroup{std::move(ranks), std::move(bootstrap)};
}

Error Membership::seen_from_here(Error error, std::span<const Rank> ranks) const {
  error.what = fmt::format("making a communicator of the ranks {} of {}, as 0..{}: {}",
                           fmt::join(ranks, ","), facts_.name, ranks.size() - 1, error.what);
  if (error.peer >= 0 && error.peer < static_cast<Rank>(ranks.size())) {
    error.peer = ranks[error.peer];
    error.what += fmt::format(" (rank {} of {})", error.peer, facts_.name);
  }
  return error;
}

}  // namespace tutti
