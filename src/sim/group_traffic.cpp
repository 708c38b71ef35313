#include "src/sim/group_traffic.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "src/base/result.hpp"
#include "src/ir/match.hpp"
#include "src/sim/rounds.hpp"

namespace tutti::sim {
namespace {

/// Plans the operations of one group after another.
class GroupPlanner {
 public:
  /// `first_limit`: the number of the fabric's links.
  GroupPlanner(const ir::Schedule& schedule, const TaskGraph& graph, LinkId first_limit)
      : schedule_(schedule), graph_(graph) {
    plan_.slices = graph.slices();
    plan_.first_limit = first_limit;
    plan_.operation_of.resize(graph.tasks() / graph.slices());
  }

  /// `turns`: of the operations on slice 0.
  void add(ir::GroupId group, const NetworkTree& tree,
           const std::vector<ir::GroupOperation>& operations,
           const std::vector<std::uint32_t>& turns) {
    tree_ = &tree;
    group_ = group;
    all_up_.reset();
    all_down_.reset();
    const auto first = static_cast<std::uint32_t>(plan_.operations.size());
    for (const ir::GroupOperation& operation : operations) add(operation);
    plan_.groups.push_back({.name = tree.name,
                            .outstanding = tree.outstanding,
                            .rate = tree.rate,
                            .order = order(first, turns)});
  }

  GroupTraffic::Plan finish() && { return std::move(plan_); }

 private:
  void add(const ir::GroupOperation& operation) {
    made_ = {
        .group = group_, .parts = {}, .streams = {}, .latency = from_microseconds(tree_->latency)};
    const std::vector<Rank>& ranks = schedule_.groups[group_].ranks;
    for (std::size_t place = 0; place < ranks.size(); ++place) {
      made_.parts.push_back({ranks[place], operation.parts[place].step});
      plan_.operation_of[graph_.number(ranks[place], operation.parts[place].step)] =
          static_cast<std::uint32_t>(plan_.operations.size());
    }
    if (step(0).verb == ir::Verb::kGroupReduce)
      reduce();
    else
      multicast();
    plan_.operations.push_back(std::move(made_));
  }

  void reduce() {
    const auto members = static_cast<std::uint32_t>(made_.parts.size());
    const std::vector<std::uint32_t> receivers = places_with(&ir::Step::dst);
    const bool is_for_all = receivers.size() == members && step(0).dst.count == step(0).src.count;
    const double on_links = is_for_all && tree_->sums_in_parts ? 1 + 1.0 / members : 1;
    if (on_links > 1) made_.latency *= 2;
    add_stream(up_of_all(), 0, step(0).src, on_links);
    if (is_for_all)
      add_stream(down_to_all(), 0, step(0).dst, on_links);
    else
      for (const std::uint32_t place : receivers)
        add_stream(path_id(tree_->members[place].down), place, step(place).dst);
  }

  void multicast() {
    for (const std::uint32_t place : places_with(&ir::Step::src))
      add_stream(path_id(tree_->members[place].up), place, step(place).src);
    const std::vector<std::uint32_t> receivers = places_with(&ir::Step::dst);
    const bool is_for_all = receivers.size() == made_.parts.size();
    add_stream(is_for_all ? down_to_all() : path_id(ways(receivers, &NetworkTree::Member::down)),
               receivers.front(), step(receivers.front()).dst);
  }

  void add_stream(std::uint32_t path, std::uint32_t place, const ir::ChunkSet& chunks,
                  double on_links = 1) {
    made_.streams.push_back({path, made_.parts[place].rank, chunks, on_links});
  }

  [[nodiscard]] const ir::Step& step(std::uint32_t place) const {
    const Part& part = made_.parts[place];
    return schedule_.programs[static_cast<std::size_t>(part.rank)].steps[part.step];
  }

  [[nodiscard]] std::vector<std::uint32_t> places_with(ir::ChunkSet ir::Step::* operand) const {
    std::vector<std::uint32_t> places;
    for (std::uint32_t place = 0; place < made_.parts.size(); ++place)
      if ((step(place).*operand).count > 0) places.push_back(place);
    return places;
  }

  /// All links on the ways of these members, each once.
  std::vector<LinkId> ways(const std::vector<std::uint32_t>& places,
                           std::vector<LinkId> NetworkTree::Member::* way) const {
    std::vector<LinkId> links;
    for (const std::uint32_t place : places) {
      const std::vector<LinkId>& own = tree_->members[place].*way;
      links.insert(links.end(), own.begin(), own.end());
    }
    std::ranges::sort(links);
    const auto repeated = std::ranges::unique(links);
    links.erase(repeated.begin(), repeated.end());
    return links;
  }

  [[nodiscard]] std::vector<std::uint32_t> all_places() const {
    std::vector<std::uint32_t> places;
    for (std::uint32_t place = 0; place < tree_->members.size(); ++place) places.push_back(place);
    return places;
  }

  /// Of what is added: with the limit of the tree, if there is one.
  std::uint32_t up_of_all() {
    if (!all_up_) {
      std::vector<LinkId> links = ways(all_places(), &NetworkTree::Member::up);
      if (tree_->rate > 0) links.push_back(plan_.first_limit + group_);
      all_up_ = path_id(std::move(links));
    }
    return *all_up_;
  }
  std::uint32_t down_to_all() {
    if (!all_down_) all_down_ = path_id(ways(all_places(), &NetworkTree::Member::down));
    return *all_down_;
  }

  std::uint32_t path_id(std::vector<LinkId> links) {
    const auto [at, is_new] =
        known_.try_emplace(std::move(links), static_cast<std::uint32_t>(plan_.paths.size()));
    if (is_new) plan_.paths.push_back(at->first);
    return at->second;
  }

  [[nodiscard]] std::vector<RunId> order(std::uint32_t first,
                                         const std::vector<std::uint32_t>& turns) const {
    const std::uint32_t slices = graph_.slices();
    std::vector<RunId> runs;
    for (std::uint32_t k = 0; k < turns.size(); ++k)
      for (std::uint32_t slice = 0; slice < slices; ++slice)
        runs.push_back((first + k) * slices + slice);
    std::ranges::sort(runs, {}, [&](const RunId run) {
      return std::pair(turns[run / slices - first] + run % slices, run);
    });
    return runs;
  }

  const ir::Schedule& schedule_;
  const TaskGraph& graph_;
  GroupTraffic::Plan plan_;
  std::map<std::vector<LinkId>, std::uint32_t> known_;  // ids of paths
  const NetworkTree* tree_ = nullptr;                   // of the current group
  ir::GroupId group_ = 0;
  std::optional<std::uint32_t> all_up_, all_down_;
  Operation made_;
};

/// turns[group][k], where the rounds of steps are known.
std::vector<std::vector<std::uint32_t>> turns_of(const ir::Schedule& schedule,
                                                 const ir::GroupOperations& operations,
                                                 const GroupTraffic::Rounds& rounds) {
  std::vector<std::vector<std::uint32_t>> turns;
  for (std::size_t group = 0; group < operations.size(); ++group) {
    const auto rank = static_cast<std::size_t>(schedule.groups[group].ranks.front());
    auto& of_group = turns.emplace_back();
    for (const ir::GroupOperation& operation : operations[group])
      of_group.push_back(rounds[rank][operation.parts.front().step]);
  }
  return turns;
}

}  // namespace

Result<GroupTraffic> GroupTraffic::plan(const ir::Schedule& schedule, Fabric& fabric,
                                        const TaskGraph& graph, const Rounds& rounds) {
  if (schedule.groups.empty()) return GroupTraffic({});
  TUTTI_ASSIGN(const ir::GroupOperations operations,
               ir::group_operations(schedule, ir::Membership(schedule)));
  TUTTI_ASSIGN(const std::vector<NetworkTree> trees, fabric.trees(schedule.groups));
  TUTTI_ASSIGN(const ir::Matching matching, ir::match(schedule));
  const auto turns = rounds.empty() ? count_rounds(schedule, matching, operations).operations
                                    : turns_of(schedule, operations, rounds);
  GroupPlanner planner(schedule, graph, static_cast<LinkId>(fabric.links().size()));
  for (std::size_t group = 0; group < trees.size(); ++group)
    planner.add(static_cast<ir::GroupId>(group), trees[group], operations[group], turns[group]);
  return GroupTraffic(std::move(planner).finish());
}

}  // namespace tutti::sim
