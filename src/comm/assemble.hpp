// From a bootstrap to a Team: the ranks exchange settings and addresses, connect, and agree on who
// maps whom.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/compressor.hpp"
#include "src/comm/job_settings.hpp"
#include "src/comm/peer_info.hpp"
#include "src/comm/runtime.hpp"
#include "src/exec/team.hpp"
#include "src/topo/job/fuse.hpp"

namespace tutti {

struct Assembly {
  std::unique_ptr<exec::Team> team;
  Agreement agreement;
  /// What TUTTI_ALGO names, by path: the same files on all ranks. They are the Runtime's.
  std::map<std::string, const ImportedFile*> files;
  std::vector<AskedCompression> compress;  ///< TUTTI_COMPRESS
  MeasuredTable verdicts, table;           ///< of JobSettings
  std::optional<Calibration> calibration;  ///< that rank 0 has
  std::vector<std::string> transports;     ///< in use here: "threads", "shm", "tcp"
  std::vector<std::string> devices;        ///< of each rank: CommunicatorOptions::device
  std::vector<std::string> host_names;     ///< of each rank's host, as that names itself
  bool one_gpu = false;                    ///< all ranks are threads of this process and share one
  Arrangement arrangement;                 ///< without topology
  const ir::Algorithm* in_network = nullptr;  ///< that the team's trees serve; null: none
  /// The same on all ranks. Its `wiring` is equal for jobs on machines that are built alike.
  std::shared_ptr<const topo::JobTopology> job;
};

/// Collective over the bootstrap's ranks. `device`: as CommunicatorOptions.
Result<Assembly> assemble(Runtime& runtime, Bootstrap& bootstrap, const std::string& device,
                          Deadline deadline);

}  // namespace tutti
