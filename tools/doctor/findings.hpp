// What is wrong, why it matters and what to do: pure functions over facts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/facts.hpp"

namespace tutti::doctor {

enum class Severity : std::uint8_t {
  kError,    ///< a job will fail, or not do what its settings ask for
  kWarning,  ///< a job will run, but slowly or by luck
  kNote,     ///< worth knowing
};
std::string_view name_of(Severity severity);

struct Finding {
  Severity severity = Severity::kNote;
  std::string place;   ///< "node1", "node1, mlx5_0 port 1", "node1 -> node2"
  std::string what;    ///< sentences without a full stop at their end
  std::string why;     ///< why it matters
  std::string remedy;  ///< what to do
  friend bool operator==(const Finding&, const Finding&) = default;
};

/// Of one host alone. `alone`: the job has no other host.
std::vector<Finding> findings_of(const HostFacts& host, bool alone);
/// Of one pair; `first` and `second` are its hosts.
std::vector<Finding> findings_of(const PairFacts& pair, const HostFacts& first,
                                 const HostFacts& second);
/// What differs between hosts, pairs that are slower than others, and hosts that did not answer.
std::vector<Finding> findings_between(const JobFacts& job);

/// All of them, errors first.
std::vector<Finding> all_findings(const JobFacts& job);

}  // namespace tutti::doctor
