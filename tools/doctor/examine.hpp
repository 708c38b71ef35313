// The checks of a job: rank 0 asks, the others answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/bootstrap/launcher.hpp"
#include "src/wire/service.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/doctor/station.hpp"
#include "tutti/error.hpp"

namespace tutti::doctor {

struct ExamineOptions {
  Nanos patience = std::chrono::seconds(30);  ///< for ranks to come
  bool all_pairs = false;                     ///< however many hosts there are
  std::vector<std::string> names{};  ///< of the hosts by rank, as the user calls them; may be empty
  JoinOptions join{};
};

/// Rank 0: asks all ranks, and measures pairs of hosts. Returns in time whatever the others do: who
/// does not answer is in JobFacts::silent. One rank of each host takes part, the lowest.
JobFacts examine(const std::shared_ptr<Service>& service, const MeetingPoint& point,
                 Station& station, const ExamineOptions& options);

/// The other ranks: answers what rank 0 asks, until that lets it go. A station that did not open is
/// an error here, after rank 0 was told of it.
Status be_examined(const std::shared_ptr<Service>& service, const MeetingPoint& point,
                   Result<std::unique_ptr<Station>> station, const ExamineOptions& options);

}  // namespace tutti::doctor
