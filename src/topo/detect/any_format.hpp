// A topology out of a file, whatever its format.
#pragma once

#include <string>
#include <string_view>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Reads NCCL's XML (nccl_xml.hpp), hwloc's (hwloc_xml.hpp), Tutti's JSON (json.hpp) and recorded
/// machines (recorded.hpp), and tells them apart by how they begin. kWrongData names `name`, what
/// it looks like, and what is wrong there, with line and column.
Result<Noted> read_any_format(std::string_view text, std::string_view name);

/// The same of the file at `path`. kUnavailable where it cannot be read.
Result<Noted> read_topology_file(const std::string& path);

/// Of a recorded machine alone: what detection finds on it.
Result<Noted> read_recording(std::string_view text);

}  // namespace tutti::topo
