// Lists the presets and the synthetic machines for `tutti topo --list`.
#pragma once

#include <string>

namespace tutti::tools {

/// All presets by name with their titles, of fabrics with their parameters and what these are where
/// they are not given; and the forms of synthetic machines with theirs.
std::string list_of_machines();

}  // namespace tutti::tools
