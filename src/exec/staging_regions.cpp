#include "src/exec/staging_regions.hpp"

#include "src/base/result.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

StagingRegions::StagingRegions(Team& team, StagingPool& pool, std::uint64_t communicator,
                               std::size_t bytes)
    : team_(team),
      bytes_(bytes),
      leases_{{pool, communicator, bytes + kLine}, {pool, communicator, bytes + kLine}} {}

void StagingRegions::set_readers() {
  peers_.resize(static_cast<std::size_t>(team_.size()));
  std::vector<StagingPool::Lease::Reader> readers;
  for (Rank peer = 0; peer < team_.size(); ++peer)
    if (const RankBlock* const block = team_.member(peer).block;
        peer != team_.rank() && block != nullptr)
      readers.push_back({peer, &block->progress.progress});
  for (StagingPool::Lease& lease : leases_) lease.set_readers(readers);
}

Result<std::byte*> StagingRegions::enter(std::uint64_t call, std::size_t lead) {
  const std::uint64_t parity = call % 2;
  TUTTI_ASSIGN(std::byte* const region, leases_[parity].enter());
  entered_ = &leases_[parity];
  std::byte* const slots = region + lead;
  if (slots != announced_[parity]) {
    announced_[parity] = slots;
    team_.own_block().progress.staging_offset[parity].store(announce(team_.offset_of(slots)),
                                                            std::memory_order_release);
  }
  return slots;
}

/// One look serves for the whole call, call k: the peer announced its region before the progress
/// that this rank has waited for, and announces the one of call k + 2 in its place only once this
/// rank has left call k (see StagedRun::take_memory).
Result<std::byte*> StagingRegions::of_peer(std::uint64_t call, Rank rank) {
  PeerRegion& known = peers_[rank];
  const std::uint64_t parity = call % 2;
  if (known.call == call + 1) return known.region[parity];
  const Member& peer = team_.member(rank);
  const std::uint64_t announced =
      peer.block->progress.staging_offset[parity].load(std::memory_order_acquire);
  if (announced == 0)
    return peer_error(Code::kPeerFailed, rank,
                      "{} passed a step that needs staging memory but announced none", peer.label);
  if (announced != known.announced[parity]) {
    const std::uint64_t slots = announced_offset(announced);
    const std::size_t lead = lead_of(slots);
    TUTTI_ASSIGN(std::byte* const region, team_.peer_memory(rank, slots - lead, lead + bytes_));
    known.region[parity] = region + lead;
    known.announced[parity] = announced;
  }
  known.call = call + 1;
  return known.region[parity];
}

void StagingRegions::close() {
  for (StagingPool::Lease& lease : leases_) lease.close();
}

}  // namespace tutti::exec
