#include "src/comm/tree_setup.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/transport/tree_abilities.hpp"

namespace tutti {
namespace {

/// A switch has few trees for a job.
constexpr std::size_t kMostTrees = 8;
constexpr std::size_t kLongestReason = 400;

/// Whether no group has two ranks of one host: each host sends its data once.
bool takes_one_of_each_host(const ir::Group& group, const lower::Placement& placement) {
  std::set<std::int32_t> hosts;
  return std::ranges::all_of(group.ranks, [&](Rank rank) {
    return hosts.insert(placement.host[static_cast<std::size_t>(rank)]).second;
  });
}

struct TreeAlgorithm {
  const ir::Algorithm* algorithm = nullptr;
  std::vector<ir::Group> groups;
};

/// The first algorithm that suits these hosts, by its all-reduce.
TreeAlgorithm tree_algorithm_for(const Runtime& runtime, const lower::Placement& placement) {
  const ir::Request request{.collective = Collective::kAllReduce,
                            .ranks = static_cast<std::int32_t>(placement.host.size()),
                            .layout = ir::Layout::of_hosts(placement.host)};
  for (const ir::Algorithm& algorithm : runtime.in_network) {
    if (!algorithm.supports(request)) continue;
    auto schedule = algorithm.generate(request);
    if (!schedule || schedule->groups.empty() || schedule->groups.size() > kMostTrees) continue;
    const bool fits = std::ranges::all_of(schedule->groups, [&](const ir::Group& group) {
      return takes_one_of_each_host(group, placement);
    });
    if (fits) return {&algorithm, std::move(schedule->groups)};
  }
  return {};
}

using Trees = std::vector<std::unique_ptr<AggregationTree>>;

/// A rank without trees holds nobody up.
TreeAbilities tree_abilities_of(const Trees& trees) {
  TreeAbilities abilities = TreeAbilities::all();
  for (const auto& tree : trees)
    if (tree) abilities &= TreeAbilities::of(*tree);
  return abilities;
}

/// What all ranks come to.
struct TreesAgreement {
  std::string problem;  ///< why a rank goes without; "": none does
  TreeAbilities abilities = TreeAbilities::all();
};

/// Of a rank: its abilities, then why it goes without, if it does.
Status take_trees_of(Rank rank, std::span<const std::byte> told, TreesAgreement& agreed) {
  const auto split = std::min(told.size(), kTreeAbilitiesBytes);
  const auto abilities = decode_tree_abilities(told.first(split));
  if (!abilities) return peer_error(abilities.error().code, rank, "{}", abilities.error().what);
  agreed.abilities &= *abilities;
  const auto reason = told.subspan(split);
  if (reason.empty() || !agreed.problem.empty()) return ok_status();
  const std::string text(reinterpret_cast<const char*>(reason.data()),
                         std::min(reason.size(), kLongestReason));
  agreed.problem = fmt::format("rank {}: {}", rank, without_controls(text));
  return ok_status();
}

Result<TreesAgreement> agree_on_trees(const Result<Trees>& trees, Bootstrap& bootstrap,
                                      Deadline deadline) {
  Blob mine = encode(trees ? tree_abilities_of(*trees) : TreeAbilities());
  if (!trees) {
    const auto reason = as_bytes(trees.error().what);
    ByteWriter(mine).bytes(reason.first(std::min(reason.size(), kLongestReason)));
  }
  TUTTI_ASSIGN(const std::vector<Blob> told, bootstrap.all_gather(std::move(mine), deadline));
  TreesAgreement agreed;
  for (Rank rank = 0; rank < bootstrap.size(); ++rank)
    TUTTI_TRY(take_trees_of(rank, told[static_cast<std::size_t>(rank)], agreed));
  return agreed;
}

}  // namespace

Result<const ir::Algorithm*> join_trees(Runtime& runtime, Bootstrap& bootstrap, exec::Team& team,
                                        Deadline deadline) {
  const TreeAlgorithm choice = tree_algorithm_for(runtime, team.placement());
  if (choice.algorithm == nullptr) return static_cast<const ir::Algorithm*>(nullptr);
  TreesRequest request{.groups = {},
                       .rank = team.rank(),
                       .ranks = team.size(),
                       .communicator = team.options().communicator,
                       .key = bootstrap.key(),
                       .all_gather =
                           [&](std::span<const std::byte> mine) {
                             return bootstrap.all_gather(Blob(mine.begin(), mine.end()), deadline);
                           },
                       .deadline = deadline};
  for (const ir::Group& group : choice.groups) request.groups.push_back(group.ranks);
  Result<Trees> trees = runtime.aggregation->join(request);
  TUTTI_ASSIGN(const TreesAgreement agreed, agree_on_trees(trees, bootstrap, deadline));
  const std::string who = fmt::format("[rank {}/{}]", team.rank(), team.size());
  if (!agreed.problem.empty()) {
    if (team.rank() == 0)
      log_warn(who, "{} adds nothing for this communicator: {}", runtime.aggregation->describe(),
               agreed.problem);
    return static_cast<const ir::Algorithm*>(nullptr);
  }
  for (std::size_t group = 0; group < trees->size(); ++group)
    team.add_tree(request.groups[group], std::move((*trees)[group]));
  team.set_tree_abilities(agreed.abilities);
  log_info(Subsystem::kInit, who, "{} adds for {} groups: {}", runtime.aggregation->describe(),
           request.groups.size(), choice.algorithm->name);
  return choice.algorithm;
}

}  // namespace tutti
