#include "tools/machines/degrade.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

/// Which nodes the pattern means.
Result<std::vector<char>> selected(const Topology& topology, std::string_view pattern) {
  std::vector<char> chosen(topology.nodes().size(), 0);
  bool some = false;
  for (NodeId id = 0; id < topology.nodes().size(); ++id) {
    chosen[id] = matches(pattern, full_name(topology, id)) ? 1 : 0;
    some = some || chosen[id] != 0;
  }
  if (some) return chosen;
  constexpr std::size_t kMostCandidates = 4096;  // switches, which are more often misspelt, first
  std::vector<std::string> names;
  for (const HostId host : {kNoHost, HostId{0}})
    for (const NodeId id : topology.nodes_of(host))
      if (names.size() < kMostCandidates) names.push_back(full_name(topology, id));
  const std::string meant = nearest(pattern, names);
  return make_error(Code::kInvalidArgument, "no node is named {}{}", shown(pattern),
                    meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  // After a star the shortest run is tried first; a mismatch lengthens that of the last star alone,
  // which suffices: what an earlier one would take more, the last one can take as well.
  std::size_t p = 0, n = 0, star = pattern.npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

Result<Topology> degraded(const Topology& topology, const LinkSelector& links, double factor) {
  if (!(factor >= 0 && factor <= 1))
    return make_error(Code::kInvalidArgument,
                      "a link cannot run at {:g} of its bandwidth: the factor must be from 0 to 1",
                      factor);
  TUTTI_ASSIGN(const std::vector<char> nodes, selected(topology, links.node));
  std::vector<char> others(nodes.size(), 1);
  if (!links.other.empty()) {
    TUTTI_ASSIGN(others, selected(topology, links.other));
  }
  Parts parts = topology.parts();
  std::size_t found = 0;
  std::erase_if(parts.links, [&](Link& link) {
    const bool there = nodes[link.from] != 0 && others[link.to] != 0;
    const bool back = nodes[link.to] != 0 && others[link.from] != 0;
    if (!there && !back) return false;
    ++found;
    link.bandwidth *= factor;
    return factor == 0;
  });
  if (found == 0)
    return make_error(Code::kInvalidArgument, "no link joins {} and {}", shown(links.node),
                      links.other.empty() ? "anything" : shown(links.other));
  return Topology::create(std::move(parts));
}

}  // namespace tutti::topo
