// The ranks of a communicator as the executor sees them: mapped, or behind a connection.
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
  RankBlock* block = nullptr;              ///< null if not mapped
  std::span<std::byte> heap;               ///< the mapping that contains `block`
  pid_t process = -1;                      ///< pid of a mapped rank, as seen from here
  ProcessLife life;                        ///< of that process, unless it is this process
  std::shared_ptr<Connection> connection;  ///< null for this process's own ranks
  std::shared_ptr<LocalPlaces> places;     ///< for this process's own ranks
  std::string label;                       ///< "rank 3 (host:pid)", for messages
};

/// Where streaming stores are tried first; store_choice.hpp measures where they pay.
struct StoreGuess {
  /// To slots that peers read. On EPYC virtual machines streaming was up to 7 times faster, because
  /// each ordinary store to a line that another core holds costs a remote invalidation. On Xeon
  /// (Sapphire Rapids) ordinary stores were 1.1 to 1.8 times faster, because they leave the slot in
  /// a shared cache.
  bool slots = false;
  /// To outputs of at least this many bytes. Streaming saves the read for ownership, and such an
  /// output would not stay in the cache anyway.
  std::size_t output_from = std::size_t{4} << 20;
  /// The same with ProgramProtocol::kDirect, where the kernel's copies, which use ordinary stores,
  /// fill most of the output.
  std::size_t direct_output_from = std::size_t{16} << 20;
  /// The same for stores to peers' outputs, with ProgramProtocol::kDirect.
  std::size_t peer_output_from = std::size_t{2} << 20;

  /// By the processor's vendor.
  static StoreGuess for_this_machine();
};

struct TeamOptions {
  std::uint64_t communicator = 0;       ///< agreed id; tells streams apart
  std::size_t staging_bytes = 1 << 20;  ///< of one region
  bool direct = true;                   ///< peers may load from and store to buffers
  StoreGuess stores = StoreGuess::for_this_machine();
  WaitPolicy wait;
  WaitPolicy wait_with_computing_caller;  ///< while another thread of this rank computes
};

/// Resource. One per communicator and rank. Used by the thread that drives the communicator.
class Team {
 public:
  /// Allocates this rank's block in the heap of `staging`. Its offset must reach the peers before
  /// they can be added. The pool must outlive the team.
  static Result<std::unique_ptr<Team>> create(Rank rank, std::int32_t size, StagingPool& staging,
                                              LocalBoard& board, const TeamOptions& options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] std::uint64_t block_offset() const;
  /// Whether this rank can read the memory of mapped member `rank` through the kernel. Tries it on
  /// the member's block, which lies at `address` in its process.
  [[nodiscard]] bool can_read(Rank rank, std::uint64_t address) const;
  /// As all ranks agreed: whether every rank can read every other's memory through the kernel.
  void set_reads_inputs(bool can) { reads_inputs_ = can; }
  [[nodiscard]] bool reads_inputs() const { return reads_inputs_; }
  /// Whether all ranks are threads of this process.
  [[nodiscard]] bool in_one_process() const { return in_one_process_; }
  /// Adds a rank whose memory is mapped. Validates `offset` against `mapping`.
  Status add_mapped(Rank rank, std::span<std::byte> mapping, std::uint64_t offset,
                    std::shared_ptr<Connection> connection, std::string label);
  /// Adds a rank that is another thread of this process.
  Status add_local(Rank rank, std::uint64_t offset, LocalBoard& board, std::string label);
  void add_remote(Rank rank, std::shared_ptr<Connection> connection, std::string label);
  /// Call after all members are added.
  void set_placement(lower::Placement placement);
  /// `ranks` ranks of this machine share `cpus` CPUs.
  void set_cpus(int ranks, int cpus);
  /// Kind of ordinary stores for lines that peers read. Where ranks take turns on a CPU, its cache
  /// often has these lines already, and prefetching them costs time (an eighth more for 8 ranks on
  /// 2 CPUs).
  [[nodiscard]] Stores stores_for_peers() const { return stores_for_peers_; }

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
  [[nodiscard]] const Member& member(Rank rank) const { return members_[rank]; }
  [[nodiscard]] const lower::Placement& placement() const { return placement_; }
  [[nodiscard]] const TeamOptions& options() const { return options_; }
  [[nodiscard]] RankBlock& own_block() { return *members_[rank_].block; }
  [[nodiscard]] AbortWord& abort_word() { return abort_; }

  /// The memory for this rank's slots in staged call `call` (see ProgressCounters::calls()), `lead`
  /// bytes behind a line. Announces it to the peers, which must all have left the call before last.
  Result<std::byte*> enter_region(std::uint64_t call, std::size_t lead);
  /// This rank no longer uses the region that it entered, if any. Rank r no longer does once its
  /// progress reaches `left_at[r]`.
  void leave_region(std::span<const std::uint64_t> left_at) {
    if (entered_ != nullptr) std::exchange(entered_, nullptr)->leave(left_at);
  }
  /// The region of a mapped peer in `call`. The peer must have made progress in that call.
  Result<std::byte*> peer_region(std::uint64_t call, Rank rank);
  /// Private scratch of at least `bytes` bytes, 64-byte aligned. Its contents are lost when it
  /// grows.
  std::byte* scratch(std::size_t bytes);
  /// Zeroed shared memory that lives as long as the team.
  Result<std::byte*> allocate_shared(std::size_t bytes);
  [[nodiscard]] std::uint64_t offset_of(const std::byte* data) const;
  [[nodiscard]] SharedHeap& heap() const { return *heap_; }
  /// [offset, offset+bytes) of a mapped peer's heap. An invalid range is an error that blames the
  /// peer.
  Result<std::byte*> peer_memory(Rank rank, std::uint64_t offset, std::size_t bytes) const;

  /// Says that the running operation can do nothing until `word` changes.
  void blocked_on(Rank peer, const WaitWord& word) {
    if (word.word != blocked_.word || word.seen != blocked_.seen) fruitless_ = 0;
    on_several_ = false;
    blocked_peer_ = peer;
    blocked_ = word;
  }
  void blocked_on_network(Rank peer) { blocked_on(peer, {}); }
  /// The same for several words: a change of any of `words` helps (none: only the network does).
  /// `moved`: something has moved since the previous call.
  void blocked_on_any(Rank peer, std::span<const WaitWord> words, bool moved);
  /// The peer that blocked_on() named last.
  [[nodiscard]] Rank waiting_for() const { return blocked_peer_; }
  /// Whether a mapped peer has departed. Everything it ever did is visible then, so what is still
  /// missing never comes. Peers behind connections report this through the connection.
  [[nodiscard]] bool has_left(Rank peer) const;
  [[nodiscard]] Error left_error(Rank peer) const;
  /// Advances the connections of unmapped peers. Returns whether anything moved.
  bool progress_connections();
  /// True when everything sent is under way. Otherwise this rank is blocked on the network, because
  /// the rest moves only while a thread polls.
  bool flushed();
  /// After fruitless poll number `polls` of this wait: spins, yields, or sleeps up to a
  /// millisecond. A wait for something new starts with spinning again.
  void idle(std::uint32_t polls, CallerActivity caller = CallerActivity::kWaits);
  /// idle() for a thread that polls several teams: does not wait, but adds what this team waits
  /// for.
  void add_waits(WaitSet& waits, CallerActivity caller = CallerActivity::kWaits);

  /// Tells the mapped peers that this rank will never again touch their memory or change its own,
  /// and releases the connections. Only unobserved() and the destructor may follow. `tell` false:
  /// tells nothing, because the peers may have freed their memory already.
  void depart(bool tell = true);
  /// After depart(): whether every mapped peer has departed or its process has ended. Then this
  /// team may be destroyed.
  [[nodiscard]] bool unobserved();

 private:
  Team(Rank rank, std::int32_t size, StagingPool& staging, const TeamOptions& options);
  [[nodiscard]] const WaitPolicy& policy(CallerActivity caller) const {
    return caller == CallerActivity::kWaits ? options_.wait : options_.wait_with_computing_caller;
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
  std::vector<Observer>
      observers_;  ///< after depart(): mapped peers that may still read its memory
  lower::Placement placement_;
  bool reads_inputs_ = false, in_one_process_ = false;
  Stores stores_for_peers_ = Stores::kForPeers;
  AbortWord abort_;
  WaitWord blocked_;
  std::vector<WaitWord> also_blocked_;  ///< while on_several_
  bool on_several_ = false;
  Rank blocked_peer_ = kNoRank;
  std::uint32_t fruitless_ = 0;  ///< idle() calls since the last change
  std::vector<std::byte*> shared_;
  StagingPool::Lease leases_[2];           ///< for even and odd calls
  StagingPool::Lease* entered_ = nullptr;  ///< the lease of the running call
  std::byte* announced_[2] = {};           ///< where peers expect the slots
  struct PeerRegion {
    std::uint64_t call = 0;  ///< 1 + the call of the last lookup; 0: none
    std::uint64_t announced[2] = {};
    std::byte* region[2] = {};
  };
  std::vector<PeerRegion> peer_regions_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tutti::exec
