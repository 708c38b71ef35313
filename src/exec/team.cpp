#include "src/exec/team.hpp"

#include <algorithm>
#include <new>

#include <unistd.h>

#include "src/base/process_memory.hpp"

namespace tutti::exec {

Team::Team(Rank rank, std::int32_t size, StagingPool& staging, const TeamOptions& options)
    : rank_(rank),
      heap_(staging.heap()),
      options_(options),
      members_(size),
      staging_(members_, rank, staging, options.communicator, options.staging_bytes) {}

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
  mapped_peers_.insert(std::ranges::lower_bound(mapped_peers_, rank), rank);
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

void Team::add_tree(std::vector<Rank> ranks, std::unique_ptr<AggregationTree> tree) {
  groups_.push_back(ranks);
  if (tree == nullptr) return;
  waits_.add_tree(*tree);
  trees_.push_back({std::move(ranks), std::move(tree)});
}

void Team::drop_trees() {
  waits_.forget_trees();
  trees_.clear();
  groups_.clear();
}

void Team::retire_trees() {
  retired_ = std::move(trees_);
  drop_trees();
}

bool Team::has_tree(std::span<const Rank> ranks) const {
  return std::ranges::any_of(groups_,
                             [&](const auto& group) { return std::ranges::equal(group, ranks); });
}

AggregationTree* Team::tree_of(std::span<const Rank> ranks) const {
  const auto found = std::ranges::find_if(
      trees_, [&](const Tree& tree) { return std::ranges::equal(tree.ranks, ranks); });
  return found == trees_.end() ? nullptr : found->tree.get();
}

bool Team::take_unsummed() {
  bool any = false;
  for (const Tree& tree : trees_) any |= tree.tree->take_unsummed();
  return any;
}

Status Team::trees_health() const {
  for (const Tree& tree : trees_) TUTTI_TRY(tree.tree->health());
  return ok_status();
}

void Team::set_cpus(int ranks, int cpus) {
  waits_.set_cpus(ranks, cpus);
  few_per_cpu_ = ranks <= 2 * cpus;
  stores_for_peers_ = few_per_cpu_ ? Stores::kContended : Stores::kForPeers;
  staging_.set_takes_turns(few_per_cpu_);
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

void Team::set_placement(lower::Placement placement) {
  placement_ = std::move(placement);
  in_one_process_ =
      std::ranges::all_of(members_, [](const Member& member) { return member.places != nullptr; });
  staging_.set_readers();
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
  staging_.close();
  drop_trees();
  retired_.clear();
  remote_.clear();
  mapped_peers_.clear();
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

bool Team::flushed() {
  const auto full = std::ranges::find_if(remote_, [](Connection* connection) {
    if (connection->wants_write()) connection->progress();
    return connection->wants_write();
  });
  if (full == remote_.end()) return true;
  const auto peer = std::ranges::find_if(
      members_, [&](const Member& member) { return member.connection.get() == *full; });
  waits_.blocked_on_network(static_cast<Rank>(peer - members_.begin()));
  return false;
}

bool Team::progress_connections() {
  bool moved = false;
  for (Connection* connection : remote_) moved |= connection->progress();
  for (const Tree& tree : trees_) moved |= tree.tree->progress();
  if (moved) waits_.moved();
  return moved;
}

}  // namespace tutti::exec
