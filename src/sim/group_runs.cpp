#include "src/sim/group_runs.hpp"

#include <utility>

namespace tutti::sim {

GroupRuns::GroupRuns(const GroupTraffic& traffic, FlowNetwork& network, std::uint32_t first_flow,
                     BytesOf bytes_of)
    : traffic_(traffic),
      network_(network),
      first_flow_(first_flow),
      bytes_of_(std::move(bytes_of)),
      runs_(traffic.runs()),
      groups_(traffic.groups().size()) {
  for (RunId run = 0; run < runs_.size(); ++run)
    runs_[run].missing = static_cast<std::uint32_t>(traffic.operation(run).parts.size());
}

void GroupRuns::come(RunId run, Time now) {
  if (--runs_[run].missing == 0) offer(traffic_.operation(run).group, now);
}

void GroupRuns::offer(ir::GroupId group, Time now) {
  const GroupOnTree& on_tree = traffic_.groups()[group];
  Group& state = groups_[group];
  while (state.next < on_tree.order.size() && !state.is_flowing) {
    const RunId run = on_tree.order[state.next];
    if (runs_[run].missing > 0) return;
    if (on_tree.outstanding != 0 && state.under_way == on_tree.outstanding) return;
    if (state.under_way++ == 0) state.busy_since = now;
    ++state.next;
    begin(run, now);
  }
}

void GroupRuns::begin(RunId run, Time now) {
  const Operation& operation = traffic_.operation(run);
  runs_[run].start = now;
  for (const Stream& stream : operation.streams) {
    const std::uint64_t bytes = bytes_of_(stream, traffic_.slice(run));
    if (bytes == 0) continue;
    ++runs_[run].flows;
    network_.start(traffic_.path(stream), bytes, first_flow_ + run, now);
  }
  groups_[operation.group].is_flowing = runs_[run].flows > 0;
  if (runs_[run].flows == 0) ends_.enter(now + operation.latency, run);
}

void GroupRuns::flow_ended(RunId run, Time now) {
  if (--runs_[run].flows > 0) return;
  const Operation& operation = traffic_.operation(run);
  ends_.enter(now + operation.latency, run);
  groups_[operation.group].is_flowing = false;
  offer(operation.group, now);
}

void GroupRuns::end_runs(Time now, std::vector<RunId>& ended) {
  while (ends_.next() == now) {
    const RunId run = ends_.take();
    runs_[run].is_complete = true;
    ended.push_back(run);
    const ir::GroupId group = traffic_.operation(run).group;
    Group& state = groups_[group];
    if (--state.under_way == 0) state.busy += now - state.busy_since;
    offer(group, now);
  }
}

}  // namespace tutti::sim
