// What is known of a communicator once it is made. None of it changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/topo/job/fuse.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Value.
struct GroupFacts {
  Rank rank = 0;
  std::int32_t size = 1;
  std::string name;
  std::uint64_t id = 0;  ///< the same on all its ranks; no other communicator has it
  std::vector<Rank> ranks_of_this_process;  ///< threads of this process; holds `rank` too
  bool shares_one_gpu = false;              ///< all ranks are threads of this process and share one
  std::vector<std::string> transports;      ///< in use here: {"shm"}, {"shm","tcp"} ...
  std::int32_t hosts = 1;
  /// Host of each rank. Hosts are numbered from 0 in the order of their first ranks.
  std::vector<std::int32_t> host_of_ranks;
  std::vector<std::string> host_names;  ///< by rank: what its host calls itself
  /// The machines that the ranks run on, and where on them; the same on every rank. Not null.
  std::shared_ptr<const topo::JobTopology> job;

  /// "[name rank/size]", for log lines.
  [[nodiscard]] std::string who() const;
};

}  // namespace tutti
