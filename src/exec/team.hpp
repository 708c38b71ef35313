// The ranks of a communicator as the executor sees them: mapped, or behind a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/abort_word.hpp"
#include "src/base/process_life.hpp"
#include "src/base/result.hpp"
#include "src/base/shared_heap.hpp"
#include "src/exec/layout.hpp"
#include "src/exec/local_board.hpp"
#include "src/exec/member.hpp"
#include "src/exec/packet_ring.hpp"
#include "src/exec/staging_pool.hpp"
#include "src/exec/staging_regions.hpp"
#include "src/exec/store_guess.hpp"
#include "src/exec/wait_state.hpp"
#include "src/lower/program.hpp"
#include "src/reduce/reduce.hpp"
#include "src/transport/aggregation.hpp"
#include "src/transport/transport.hpp"
#include "src/transport/tree_abilities.hpp"

namespace tutti::exec {

struct TeamOptions {
  std::uint64_t communicator = 0;       ///< agreed id; tells streams apart
  std::size_t staging_bytes = 1 << 20;  ///< of one region
  bool direct = true;                   ///< peers may load from and store to buffers
  StoreGuess stores = StoreGuess::for_this_machine();
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
  /// A tree of the network that adds for `ranks`; null where this rank is none of them. All ranks
  /// add the same groups, before any plan is bound to one.
  void add_tree(std::vector<Rank> ranks, std::unique_ptr<AggregationTree> tree);
  /// No plan that is bound to one may be used afterwards.
  void drop_trees();
  /// The same, but they end with the team: ending a plugin's group may wait for its other members.
  void retire_trees();
  /// Whether the network adds for this group: the same on all ranks.
  [[nodiscard]] bool has_tree(std::span<const Rank> ranks) const;
  /// Null: there is none for this group, or this rank is not in it.
  [[nodiscard]] AggregationTree* tree_of(std::span<const Rank> ranks) const;
  /// What all ranks' trees can do, as all ranks agreed.
  void set_tree_abilities(const TreeAbilities& abilities) { tree_abilities_ = abilities; }
  [[nodiscard]] const TreeAbilities& tree_abilities() const { return tree_abilities_; }
  /// Ok, or why one of this rank's trees is broken.
  [[nodiscard]] Status trees_health() const;
  /// See AggregationTree::take_unsummed().
  bool take_unsummed();
  /// Call after all members are added.
  void set_placement(lower::Placement placement);
  /// `ranks` ranks of this machine share `cpus` CPUs.
  void set_cpus(int ranks, int cpus);
  /// Kind of ordinary stores for lines that peers read. Where many ranks take turns on a CPU, its
  /// cache often has these lines already, and prefetching them costs time (an eighth more for 8
  /// ranks on 2 CPUs).
  [[nodiscard]] Stores stores_for_peers() const { return stores_for_peers_; }
  /// Whether streaming stores are the best known to slots and packets: a guess, then what the last
  /// plan found out that measured (store_choice.hpp).
  [[nodiscard]] bool streams_to_peers() const { return streams_to_peers_; }
  void set_streams_to_peers(bool streams) { streams_to_peers_ = streams; }
  /// Whether this machine has at most two ranks to a CPU.
  [[nodiscard]] bool few_per_cpu() const { return few_per_cpu_; }
  [[nodiscard]] std::size_t packet_ring_bytes() const {
    return exec::packet_ring_bytes(few_per_cpu_);
  }

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
  [[nodiscard]] const Member& member(Rank rank) const { return members_[rank]; }
  /// The others whose memory is mapped, in order.
  [[nodiscard]] std::span<const Rank> mapped_peers() const { return mapped_peers_; }
  [[nodiscard]] const lower::Placement& placement() const { return placement_; }
  [[nodiscard]] const TeamOptions& options() const { return options_; }
  [[nodiscard]] RankBlock& own_block() { return *members_[rank_].block; }
  [[nodiscard]] AbortWord& abort_word() { return abort_; }

  /// Zeroed shared memory that lives as long as the team.
  Result<std::byte*> allocate_shared(std::size_t bytes);
  [[nodiscard]] std::uint64_t offset_of(const std::byte* data) const;
  [[nodiscard]] SharedHeap& heap() const { return *heap_; }

  /// What this thread waits for.
  [[nodiscard]] WaitState& waits() { return waits_; }
  /// The slots of staged calls.
  [[nodiscard]] StagingRegions& staging() { return staging_; }

  /// Whether a mapped peer has departed. Everything it ever did is visible then, so what is still
  /// missing never comes. Peers behind connections report this through the connection.
  [[nodiscard]] bool has_left(Rank peer) const;
  [[nodiscard]] Error left_error(Rank peer) const;
  /// Advances the connections of unmapped peers, and the trees. Returns whether anything moved.
  bool progress_connections();
  /// True when everything sent is under way. Otherwise this rank is blocked on the network, because
  /// the rest moves only while a thread polls.
  bool flushed();

  /// Tells the mapped peers that this rank will never again touch their memory or change its own,
  /// and releases the connections. Only unobserved() and the destructor may follow. `tell` false:
  /// tells nothing, because the peers may have freed their memory already.
  void depart(bool tell = true);
  /// After depart(): whether every mapped peer has departed or its process has ended. Then this
  /// team may be destroyed.
  [[nodiscard]] bool unobserved();

 private:
  Team(Rank rank, std::int32_t size, StagingPool& staging, const TeamOptions& options);

  Rank rank_;
  std::shared_ptr<SharedHeap> heap_;
  TeamOptions options_;
  std::vector<Member> members_;
  std::vector<Connection*> remote_;  ///< distinct connections of unmapped members
  std::vector<Rank> mapped_peers_;
  struct Tree {
    std::vector<Rank> ranks;
    std::unique_ptr<AggregationTree> tree;
  };
  std::vector<Tree> trees_;  ///< of this rank
  std::vector<Tree> retired_;
  std::vector<std::vector<Rank>> groups_;  ///< with a tree, of all ranks
  TreeAbilities tree_abilities_;
  struct Observer {
    Rank rank;
    ProcessLife process;
  };
  std::vector<Observer>
      observers_;  ///< after depart(): mapped peers that may still read its memory
  lower::Placement placement_;
  bool reads_inputs_ = false, in_one_process_ = false;
  Stores stores_for_peers_ = Stores::kForPeers;
  bool few_per_cpu_ = false, streams_to_peers_ = options_.stores.slots;
  AbortWord abort_;
  std::vector<std::byte*> shared_;
  WaitState waits_{remote_};
  StagingRegions staging_;
};

}  // namespace tutti::exec
