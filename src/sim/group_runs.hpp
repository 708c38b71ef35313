// Operations of groups during a simulation: who has come, what flows, when it ends.
//
// An operation begins when all members have come to it, the data of the operation before it in its
// group has flowed, and fewer than the tree's limit are under way. Then its data flows
// (src/sim/flow_network). When all of it has, and the latency of the tree has passed, the operation
// is complete.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/sim/agenda.hpp"
#include "src/sim/flow_network.hpp"
#include "src/sim/group_traffic.hpp"

namespace tutti::sim {

/// One thread at a time. Time never decreases between calls.
class GroupRuns {
 public:
  /// Bytes of a stream on its links, on a slice.
  using BytesOf = std::function<std::uint64_t(const Stream&, std::uint32_t slice)>;

  /// `traffic` and `network` must outlive this object. Flows of run i are named `first_flow` + i.
  GroupRuns(const GroupTraffic& traffic, FlowNetwork& network, std::uint32_t first_flow,
            BytesOf bytes_of);

  /// A member has come to its part in the run.
  void come(RunId run, Time now);
  /// A flow of the run has ended.
  void flow_ended(RunId run, Time now);

  /// When the next run is complete, if nothing else happens; kNever if none is.
  [[nodiscard]] Time next_end() const { return ends_.next(); }
  /// Appends the runs that are complete now, and begins those that waited for them.
  void end_runs(Time now, std::vector<RunId>& ended);

  [[nodiscard]] bool is_complete(RunId run) const { return runs_[run].is_complete; }
  [[nodiscard]] Time start(RunId run) const { return runs_[run].start; }
  /// Time during which at least one operation of the group was under way.
  [[nodiscard]] Time busy(ir::GroupId group) const { return groups_[group].busy; }

 private:
  struct Run {
    std::uint32_t missing = 0;  // members
    std::uint32_t flows = 0;    // that have not ended
    Time start = 0;
    bool is_complete = false;
  };
  struct Group {
    std::size_t next = 0;         // in GroupOnTree::order
    std::uint32_t under_way = 0;  // operations
    bool is_flowing = false;      // data of the last of them
    Time busy_since = 0;
    Time busy = 0;
  };

  /// Begins operations of the group as far as possible.
  void offer(ir::GroupId group, Time now);
  void begin(RunId run, Time now);

  const GroupTraffic& traffic_;
  FlowNetwork& network_;
  std::uint32_t first_flow_;
  BytesOf bytes_of_;
  std::vector<Run> runs_;
  std::vector<Group> groups_;
  Agenda<RunId> ends_;
};

}  // namespace tutti::sim
