// Reads the topology that the options of `tutti topo` name.
#pragma once

#include <optional>
#include <string>

#include "src/topo/model/topology.hpp"
#include "tools/topo/interface.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// At most one of them is not empty; with none it is this machine.
struct TopologySource {
  std::string from;       ///< a file in any format that is read
  std::string synthetic;  ///< see tools/machines/synthetic.hpp
  std::string preset;     ///< see tools/machines/machine.hpp
  std::string machine;    ///< a file that detection recorded, see src/topo/detect/recorded.hpp
  std::optional<InterfaceSpeed> measured = std::nullopt;  ///< of this machine
};

struct NamedTopology {
  std::string name;  ///< for a title
  topo::Noted noted;
  /// The same without what the text slows down ("with leaf3 at 0.5"); unset where it is nothing.
  std::optional<topo::Topology> whole = std::nullopt;
};

/// kInvalidArgument says what is wrong with the text, kWrongData what is with the file: in which
/// format it seems to be, and where it errs.
Result<NamedTopology> load_topology(const TopologySource& source);

/// What detection reads of this machine, as `machine` above takes it.
Result<std::string> record_this_machine();

}  // namespace tutti::tools
