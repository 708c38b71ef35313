// Reads a topology from a file in any of the formats that Tutti knows.
#pragma once

#include <string>
#include <string_view>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Reads NCCL's XML (src/topo/nccl/xml.hpp), hwloc's XML (src/topo/hwloc/xml.hpp), the matrix of
/// `nvidia-smi topo -m` (src/topo/smi/matrix.hpp), Tutti's JSON (src/topo/format/json.hpp) and
/// recorded machines (recorded.hpp). The text says which it is. kWrongData names `name`, the
/// format, and what is wrong, with line and column.
Result<Noted> read_any_format(std::string_view text, std::string_view name);

/// The same of the file at `path`. kUnavailable where it cannot be read.
Result<Noted> read_topology_file(const std::string& path);

/// Reads a recorded machine only: runs detection on it.
Result<Noted> read_recording(std::string_view text);

}  // namespace tutti::topo
