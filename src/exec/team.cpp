#include "src/exec/team.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <unistd.h>

#include "src/base/process_memory.hpp"

namespace tutti::exec {

StoreGuess StoreGuess::for_this_machine() {
  StoreGuess stores;
#if defined(__x86_64__)
  unsigned int highest = 0, b = 0, c = 0, d = 0;
  constexpr unsigned int kAuth = 0x68747541;  // "AuthenticAMD"
  if (__get_cpuid(0, &highest, &b, &c, &d) != 0 && b == kAuth) {
    stores.slots = true;
    stores.peer_output_from = 0;
  }
#endif
  return stores;
}

Team::Team(Rank rank, std::int32_t size, StagingPool& staging, const TeamOptions& options)
    : rank_(rank),
      heap_(staging.heap()),
      options_(options),
      members_(size),
      leases_{{staging, options.communicator, options.staging_bytes + kLine},
              {staging, options.communicator, options.staging_bytes + kLine}},
      peer_regions_(size),
      scratch_(nullptr, [](std::byte* data) { std::free(data); }) {}

Result<std::unique_ptr<Team>> Team::create(Rank rank, std::int32_t size, StagingPool& staging,
                                           LocalBoard& board, const TeamOptions& options) {
  std::unique_ptr<Team> team(new Team(rank, size, staging, options));
  TUTTI_ASSIGN(std::byte* const memory, team->allocate_shared(block_bytes(size)));
  Member& self = team->members_[rank];
  self.block = new (memory) RankBlock{};
  self.heap = team->heap_->mapping();
  self.process = getpid();
  self.places = board.of({options.communicator, rank});
  self.block->nonce = options.communicator ^ (static_cast<std::uint64_t>(rank) + 1) << 32 ^
                      static_cast<std::uint64_t>(self.process);
  self.label = fmt::format("rank {}", rank);
  return team;
}

Team::~Team() {
  for (std::byte* memory : shared_) (void)heap_->free(memory);
}

std::uint64_t Team::block_offset() const {
  return offset_of(reinterpret_cast<const std::byte*>(members_[rank_].block));
}

std::uint64_t Team::offset_of(const std::byte* data) const {
  return static_cast<std::uint64_t>(data - heap_->mapping().data());
}

Status Team::add_mapped(Rank rank, std::span<std::byte> mapping, std::uint64_t offset,
                        std::shared_ptr<Connection> connection, std::string label) {
  const std::size_t bytes = block_bytes(size());
  const bool fits =
      offset % kLine == 0 && mapping.size() >= bytes && offset <= mapping.size() - bytes;
  if (!fits)
    return peer_error(Code::kPeerFailed, rank,
                      "{} announces its block at offset {} of a heap of {} bytes: the ranks do not "
                      "run the same library",
                      label, offset, mapping.size());
  const pid_t process = connection ? connection->local_pid() : getpid();
  members_[rank] = {reinterpret_cast<RankBlock*>(mapping.data() + offset),
                    mapping,
                    process,
                    connection ? ProcessLife::of(process) : ProcessLife(),
                    std::move(connection),
                    nullptr,
                    std::move(label)};
  return ok_status();
}

Status Team::add_local(Rank rank, std::uint64_t offset, LocalBoard& board, std::string label) {
  TUTTI_TRY(add_mapped(rank, heap_->mapping(), offset, nullptr, std::move(label)));
  members_[rank].places = board.of({options_.communicator, rank});
  return ok_status();
}

void Team::add_remote(Rank rank, std::shared_ptr<Connection> connection, std::string label) {
  if (std::find(remote_.begin(), remote_.end(), connection.get()) == remote_.end())
    remote_.push_back(connection.get());
  members_[rank] = {nullptr, {}, -1, {}, std::move(connection), nullptr, std::move(label)};
}

void Team::set_cpus(int ranks, int cpus) {
  options_.wait = WaitPolicy::for_ranks_on_host(ranks, cpus);
  options_.wait_with_computing_caller = WaitPolicy::with_computing_callers(ranks, cpus);
  stores_for_peers_ = ranks <= cpus ? Stores::kContended : Stores::kForPeers;
}

bool Team::can_read(Rank rank, std::uint64_t address) const {
  const Member& peer = members_[rank];
  if (peer.block == nullptr || peer.process < 0) return false;
  std::uint64_t nonce = 0;
  const auto bytes = std::as_writable_bytes(std::span(&nonce, 1));
  return read_process_memory(peer.process, address + offsetof(RankBlock, nonce), bytes) &&
         nonce == peer.block->nonce;
}

Result<std::byte*> Team::allocate_shared(std::size_t bytes) {
  TUTTI_ASSIGN(const std::span<std::byte> memory, heap_->allocate(bytes));
  shared_.push_back(memory.data());
  return memory.data();
}

Result<std::byte*> Team::enter_region(std::uint64_t call, std::size_t lead) {
  const std::uint64_t parity = call % 2;
  TUTTI_ASSIGN(std::byte* const region, leases_[parity].enter());
  entered_ = &leases_[parity];
  std::byte* const slots = region + lead;
  if (slots != announced_[parity]) {
    announced_[parity] = slots;
    own_block().progress.staging_offset[parity].store(announce(offset_of(slots)),
                                                      std::memory_order_release);
  }
  return slots;
}

Result<std::byte*> Team::peer_memory(Rank rank, std::uint64_t offset, std::size_t bytes) const {
  const Member& peer = members_[rank];
  if (offset % kLine != 0 || bytes > peer.heap.size() || offset > peer.heap.size() - bytes)
    return peer_error(Code::kPeerFailed, rank, "{} announces {} bytes at offset {} of a heap of {}",
                      peer.label, bytes, offset, peer.heap.size());
  return peer.heap.data() + offset;
}

/// One look serves for the whole call, call k: the peer announced its region before the progress
/// that this rank has waited for, and announces the one of call k + 2 in its place only once this
/// rank has left call k (see StagedRun::take_memory).
Result<std::byte*> Team::peer_region(std::uint64_t call, Rank rank) {
  PeerRegion& known = peer_regions_[rank];
  const std::uint64_t parity = call % 2;
  if (known.call == call + 1) return known.region[parity];
  const Member& peer = members_[rank];
  const std::uint64_t announced =
      peer.block->progress.staging_offset[parity].load(std::memory_order_acquire);
  if (announced == 0)
    return peer_error(Code::kPeerFailed, rank,
                      "{} passed a step that needs staging memory but announced none", peer.label);
  if (announced != known.announced[parity]) {
    const std::uint64_t slots = announced_offset(announced);
    const std::size_t lead = lead_of(slots);
    TUTTI_ASSIGN(std::byte* const region,
                 peer_memory(rank, slots - lead, lead + options_.staging_bytes));
    known.region[parity] = region + lead;
    known.announced[parity] = announced;
  }
  known.call = call + 1;
  return known.region[parity];
}

std::byte* Team::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
    scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    scratch_bytes_ = scratch_ ? rounded : 0;
  }
  return scratch_.get();
}

void Team::set_placement(lower::Placement placement) {
  placement_ = std::move(placement);
  in_one_process_ =
      std::ranges::all_of(members_, [](const Member& member) { return member.places != nullptr; });
  std::vector<StagingPool::Lease::Reader> readers;
  for (Rank peer = 0; peer < size(); ++peer)
    if (peer != rank_ && members_[peer].block != nullptr)
      readers.push_back({peer, &members_[peer].block->progress.progress});
  for (StagingPool::Lease& lease : leases_) lease.set_readers(readers);
}

bool Team::has_left(Rank peer) const {
  if (peer == kNoRank || members_[peer].block == nullptr) return false;
  return members_[peer].block->progress.left.load(std::memory_order_acquire) != 0;
}

Error Team::left_error(Rank peer) const {
  return peer_error(Code::kPeerFailed, peer,
                    "{} has left: it ended its communicator without a part in this call",
                    members_[peer].label);
}

void Team::depart(bool tell) {
  for (StagingPool::Lease& lease : leases_) lease.close();
  remote_.clear();
  own_block().progress.left.store(1, std::memory_order_release);
  for (Rank peer = 0; peer < size(); ++peer) {
    Member& member = members_[peer];
    if (peer == rank_) continue;
    if (member.block != nullptr) {
      if (tell) departure_mark(*member.block, rank_).store(1, std::memory_order_release);
      observers_.push_back({peer, member.life});
    }
    member = {};
  }
}

bool Team::unobserved() {
  std::erase_if(observers_, [this](const Observer& observer) {
    const auto& mark = departure_mark(own_block(), observer.rank);
    return mark.load(std::memory_order_acquire) != 0 || observer.process.ended();
  });
  return observers_.empty();
}

void Team::blocked_on_any(Rank peer, std::span<const WaitWord> words, bool moved) {
  if (moved) fruitless_ = 0;
  blocked_peer_ = peer;
  blocked_ = words.empty() ? WaitWord{} : words.front();
  on_several_ = words.size() > 1;
  if (on_several_) also_blocked_.assign(words.begin() + 1, words.end());
}

void Team::idle(std::uint32_t polls, CallerActivity caller) {
  const WaitPolicy& policy = this->policy(caller);
  polls = std::min(polls, fruitless_++);
  if (policy.phase(polls) != WaitPhase::kSleep || (remote_.empty() && !on_several_))
    return wait_once(policy, polls, blocked_);
  WaitSet waits;
  add_wakers(waits);
  wait_once(waits);
}

void Team::add_waits(WaitSet& waits, CallerActivity caller) {
  const WaitPhase phase = policy(caller).phase(fruitless_++);
  waits.phase = std::min(waits.phase, phase);
  if (phase == WaitPhase::kSleep) add_wakers(waits);
}

void Team::add_wakers(WaitSet& waits) const {
  waits.longest_sleep = std::min(waits.longest_sleep, options_.wait.longest_sleep);
  if (blocked_.word != nullptr) waits.words.push_back(blocked_);
  if (on_several_)
    waits.words.insert(waits.words.end(), also_blocked_.begin(), also_blocked_.end());
  for (const Connection* connection : remote_)
    if (const int fd = connection->poll_fd(); fd >= 0)
      waits.descriptors.push_back(
          {fd, static_cast<short>(connection->wants_write() ? POLLIN | POLLOUT : POLLIN), 0});
}

bool Team::flushed() {
  const auto full = std::ranges::find_if(remote_, [](Connection* connection) {
    if (connection->wants_write()) connection->progress();
    return connection->wants_write();
  });
  if (full == remote_.end()) return true;
  const auto peer = std::ranges::find_if(
      members_, [&](const Member& member) { return member.connection.get() == *full; });
  blocked_on_network(static_cast<Rank>(peer - members_.begin()));
  return false;
}

bool Team::progress_connections() {
  bool moved = false;
  for (Connection* connection : remote_) moved |= connection->progress();
  if (moved) fruitless_ = 0;
  return moved;
}

}  // namespace tutti::exec
