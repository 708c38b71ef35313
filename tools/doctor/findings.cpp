#include "tools/doctor/findings.hpp"

#include <algorithm>
#include <iterator>

#include "src/base/bytes.hpp"

namespace tutti::doctor {

std::string_view name_of(Severity severity) {
  constexpr std::string_view kNames[] = {"error", "warning", "note"};
  return kNames[to_underlying(severity)];
}

std::vector<Finding> all_findings(const JobFacts& job) {
  std::vector<Finding> all = findings_between(job);
  const auto add = [&](std::vector<Finding> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  for (const HostFacts& host : job.hosts)
    add(findings_of(host, job.hosts.size() == 1 && job.silent.empty()));
  for (const PairFacts& pair : job.pairs)
    add(findings_of(pair, job.hosts[pair.pair.first], job.hosts[pair.pair.second]));
  std::vector<Finding> by_severity;
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote})
    std::ranges::copy_if(all, std::back_inserter(by_severity),
                         [&](const Finding& one) { return one.severity == severity; });
  return by_severity;
}

}  // namespace tutti::doctor
