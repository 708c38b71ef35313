#include "src/exec/staging_regions.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti::exec {

StagingRegions::StagingRegions(const std::vector<Member>& members, Rank rank, StagingPool& pool,
                               std::uint64_t communicator, std::size_t bytes)
    : members_(members),
      rank_(rank),
      bytes_(bytes),
      leases_{{pool, communicator, bytes + kLine}, {pool, communicator, bytes + kLine}} {}

void StagingRegions::set_readers() {
  peers_.resize(members_.size());
  std::vector<StagingPool::Lease::Reader> readers;
  for (Rank peer = 0; peer < static_cast<Rank>(members_.size()); ++peer)
    if (const RankBlock* const block = members_[peer].block; peer != rank_ && block != nullptr)
      readers.push_back({peer, &block->progress.progress});
  for (StagingPool::Lease& lease : leases_) lease.set_readers(readers);
}

void StagingRegions::begin(std::uint64_t call, std::size_t used) {
  call_ = call;
  std::size_t& next = next_[call % 2];
  part_ = takes_turns_ && used <= bytes_ - next ? next : 0;
  next = std::min(bytes_, (part_ + used + kLine - 1) / kLine * kLine);
}

Result<std::byte*> StagingRegions::enter(std::size_t lead) {
  const std::uint64_t parity = call_ % 2;
  TUTTI_ASSIGN(std::byte* const region, leases_[parity].enter());
  entered_ = &leases_[parity];
  std::byte* const begin = region + lead;
  if (begin != announced_[parity]) {
    announced_[parity] = begin;
    const Member& self = members_[rank_];
    const auto offset = static_cast<std::uint64_t>(begin - self.heap.data());
    self.block->progress.staging_offset[parity].store(announce(offset), std::memory_order_release);
  }
  return begin + part_;
}

/// One look serves for the whole call, call k: the peer announced its region before the progress
/// that this rank has waited for, and announces the one of call k + 2 in its place only once this
/// rank has left call k (see StagedRun::take_memory).
Result<std::byte*> StagingRegions::of_peer(Rank rank) {
  PeerRegion& known = peers_[rank];
  const std::uint64_t parity = call_ % 2;
  if (known.call == call_ + 1) return known.region[parity] + part_;
  const Member& peer = members_[rank];
  const std::uint64_t announced =
      peer.block->progress.staging_offset[parity].load(std::memory_order_acquire);
  if (announced == 0)
    return peer_error(Code::kPeerFailed, rank,
                      "{} passed a step that needs staging memory but announced none", peer.label);
  if (announced != known.announced[parity]) {
    const std::uint64_t slots = announced_offset(announced);
    const std::size_t lead = lead_of(slots);
    TUTTI_ASSIGN(std::byte* const region, memory_of(peer, rank, slots - lead, lead + bytes_));
    const std::byte* const before = known.region[parity];
    if (before == nullptr || before - lead_of(known.announced[parity]) != region)
      map_pages({region, lead + bytes_});
    known.region[parity] = region + lead;
    known.announced[parity] = announced;
  }
  known.call = call_ + 1;
  return known.region[parity] + part_;
}

void StagingRegions::close() {
  for (StagingPool::Lease& lease : leases_) lease.close();
}

}  // namespace tutti::exec
