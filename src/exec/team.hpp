// The ranks of a communicator as the executor sees them: who is mapped, who is behind a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/abort_word.hpp"
#include "src/base/process_life.hpp"
#include "src/base/result.hpp"
#include "src/base/shared_heap.hpp"
#include "src/base/waiter.hpp"
#include "src/exec/layout.hpp"
#include "src/exec/local_board.hpp"
#include "src/exec/staging_pool.hpp"
#include "src/lower/program.hpp"
#include "src/reduce/reduce.hpp"
#include "src/transport/transport.hpp"

namespace tutti::exec {

struct Member {
  RankBlock* block = nullptr;              ///< null when not mapped
  std::span<std::byte> heap;               ///< the mapping that `block` lies in
  pid_t process = -1;                      ///< of mapped ones, as seen from here
  ProcessLife life;                        ///< of that, unless it is this process
  std::shared_ptr<Connection> connection;  ///< null for this process's own ranks
  std::shared_ptr<LocalPlaces> places;     ///< of this process's own ranks
  std::string label;                       ///< "rank 3 (host:pid)", for messages
};

/// Where non-temporal stores are tried first (store_choice.hpp finds out where they pay).
struct StoreGuess {
  /// Into slots that peers read. On EPYC virtual machines ordinary stores into lines that another
  /// core holds cost a remote invalidation each, and streaming was up to 7 times faster; on Xeon
  /// (Sapphire Rapids) ordinary stores, which leave the slot in a shared cache, were 1.1 to 1.8
  /// times faster.
  bool slots = false;
  /// Into outputs of at least so many bytes: they save the read for ownership, and the output would
  /// not stay in the cache anyway.
  std::size_t output_from = std::size_t{4} << 20;
  /// The same with Protocol::kDirect, where copies through the kernel, ordinary stores, fill most
  /// of it.
  std::size_t direct_output_from = std::size_t{16} << 20;
  /// The same for stores into the outputs of peers, with Protocol::kDirect.
  std::size_t peer_output_from = std::size_t{2} << 20;

  /// By the processor's maker.
  static StoreGuess for_this_machine();
};

struct TeamOptions {
  std::uint64_t communicator = 0;       ///< agreed id, tells streams apart
  std::size_t staging_bytes = 1 << 20;  ///< of one region
  bool direct = true;                   ///< peers may load from and store to buffers
  StoreGuess stores = StoreGuess::for_this_machine();
  WaitPolicy wait;
  WaitPolicy wait_beside_caller;  ///< while another thread of this rank computes
};

/// Resource; one per communicator and rank. Used by the thread that drives the communicator.
class Team {
 public:
  /// Allocates this rank's block, in the heap of `staging`; its offset travels to the peers before
  /// they can be added. The pool outlives the team.
  static Result<std::unique_ptr<Team>> create(Rank rank, std::int32_t size, StagingPool& staging,
                                              LocalBoard& board, const TeamOptions& options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] std::uint64_t block_offset() const;
  /// Whether this rank can read the memory of mapped member `rank` where it lies; tried with its
  /// block, which its process has at `address`.
  [[nodiscard]] bool can_read(Rank rank, std::uint64_t address) const;
  /// As all ranks agreed: every one can read every other's memory where it lies.
  void set_reads_inputs(bool can) { reads_inputs_ = can; }
  [[nodiscard]] bool reads_inputs() const { return reads_inputs_; }
  /// Whether all ranks are threads of this process.
  [[nodiscard]] bool in_one_process() const { return in_one_process_; }
  /// Validates `offset` against `mapping`.
  Status add_mapped(Rank rank, std::span<std::byte> mapping, std::uint64_t offset,
                    std::shared_ptr<Connection> connection, std::string label);
  /// A rank that is another thread of this process.
  Status add_local(Rank rank, std::uint64_t offset, LocalBoard& board, std::string label);
  void add_remote(Rank rank, std::shared_ptr<Connection> connection, std::string label);
  /// Once all members are added.
  void set_placement(lower::Placement placement);
  /// The ranks of this machine, `ranks`, have `cpus` CPUs together.
  void set_cpus(int ranks, int cpus);
  /// Ordinary stores to lines that peers read. Where ranks take turns on a CPU its cache often has
  /// them already, and asking for them costs time (an eighth more for 8 ranks on 2 CPUs).
  [[nodiscard]] Stores stores_for_peers() const { return stores_for_peers_; }

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
  [[nodiscard]] const Member& member(Rank rank) const { return members_[rank]; }
  [[nodiscard]] const lower::Placement& placement() const { return placement_; }
  [[nodiscard]] const TeamOptions& options() const { return options_; }
  [[nodiscard]] RankBlock& own_block() { return *members_[rank_].block; }
  [[nodiscard]] AbortWord& abort_word() { return abort_; }

  /// The memory for this rank's slots in `call` (see ProgressCounters::calls()), which is staged,
  /// `lead` bytes behind a line and announced to the peers, which have all left the call before
  /// last.
  Result<std::byte*> enter_region(std::uint64_t call, std::size_t lead);
  /// This rank is done with the region that it entered, if any, and rank r is once its progress
  /// reaches `left_at[r]`.
  void leave_region(std::span<const std::uint64_t> left_at) {
    if (entered_ != nullptr) std::exchange(entered_, nullptr)->leave(left_at);
  }
  /// A mapped peer's region in `call`, in which it has made progress.
  Result<std::byte*> peer_region(std::uint64_t call, Rank rank);
  /// Private scratch of at least this size, 64-byte aligned; contents are lost when it grows.
  std::byte* scratch(std::size_t bytes);
  /// Zeroed shared memory that lives as long as the team.
  Result<std::byte*> allocate_shared(std::size_t bytes);
  [[nodiscard]] std::uint64_t offset_of(const std::byte* data) const;
  [[nodiscard]] SharedHeap& heap() const { return *heap_; }
  /// [offset, offset+bytes) of a mapped peer's heap, or an error that blames the peer.
  Result<std::byte*> peer_memory(Rank rank, std::uint64_t offset, std::size_t bytes) const;

  /// Where the running operation last found nothing to do.
  void blocked_on(Rank peer, const WaitWord& word) {
    if (word.word != blocked_.word || word.seen != blocked_.seen) fruitless_ = 0;
    on_several_ = false;
    blocked_peer_ = peer;
    blocked_ = word;
  }
  void blocked_on_network(Rank peer) { blocked_on(peer, {}); }
  /// The same where a change of any of `words` (none: the network alone) helps; `moved`: something
  /// has, since the call before.
  void blocked_on_any(Rank peer, std::span<const WaitWord> words, bool moved);
  /// The peer that blocked_on() last named.
  [[nodiscard]] Rank waiting_for() const { return blocked_peer_; }
  /// Whether a mapped peer has departed. All it ever did is visible then: what is still missing
  /// never comes. (The connections of others say so themselves.)
  [[nodiscard]] bool has_left(Rank peer) const;
  [[nodiscard]] Error left_error(Rank peer) const;
  /// Moves the connections of unmapped peers on. Returns whether anything moved.
  bool progress_connections();
  /// True when all that was sent is on its way; else this rank is blocked on the network, for the
  /// rest moves only while somebody polls.
  bool flushed();
  /// Fruitless poll number `polls` of this wait: spins, yields, or sleeps up to a millisecond. A
  /// wait for something new begins with spinning again.
  void idle(std::uint32_t polls, Beside beside = Beside::kNobody);
  /// idle() for a thread that polls several teams: instead of waiting, adds what this one waits
  /// for.
  void add_waits(WaitSet& waits, Beside beside = Beside::kNobody);

  /// Tells the mapped peers that this rank will never again touch their memory or change its own,
  /// and lets go of the connections; only unobserved() and the destructor may follow. `tell` false:
  /// without a word, for when the peers may have given their memory back already.
  void depart(bool tell = true);
  /// After depart(): whether every mapped peer has told that it departed, or its process has ended,
  /// so that this team may be destroyed.
  [[nodiscard]] bool unobserved();

 private:
  Team(Rank rank, std::int32_t size, StagingPool& staging, const TeamOptions& options);
  [[nodiscard]] const WaitPolicy& policy(Beside beside) const {
    return beside == Beside::kNobody ? options_.wait : options_.wait_beside_caller;
  }
  void add_wakers(WaitSet& waits) const;

  Rank rank_;
  std::shared_ptr<SharedHeap> heap_;
  TeamOptions options_;
  std::vector<Member> members_;
  std::vector<Connection*> remote_;  ///< distinct connections of unmapped members
  struct Observer {
    Rank rank;
    ProcessLife process;
  };
  std::vector<Observer> observers_;  ///< once departed: mapped peers that may read its memory
  lower::Placement placement_;
  bool reads_inputs_ = false, in_one_process_ = false;
  Stores stores_for_peers_ = Stores::kForPeers;
  AbortWord abort_;
  WaitWord blocked_;
  std::vector<WaitWord> also_blocked_;  ///< while on_several_
  bool on_several_ = false;
  Rank blocked_peer_ = kNoRank;
  std::uint32_t fruitless_ = 0;  ///< idle() calls since anything changed
  std::vector<std::byte*> shared_;
  StagingPool::Lease leases_[2];           ///< for even and odd calls
  StagingPool::Lease* entered_ = nullptr;  ///< of those, in the call that runs
  std::byte* announced_[2] = {};           ///< where peers know the slots to be
  struct PeerRegion {
    std::uint64_t call = 0;  ///< 1 + the one in which it was looked up; 0: none
    std::uint64_t announced[2] = {};
    std::byte* region[2] = {};
  };
  std::vector<PeerRegion> peer_regions_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tutti::exec
