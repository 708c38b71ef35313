// Text in shared memory that a peer may show in an error.
#pragma once

#include <string>
#include <string_view>

#include "src/exec/layout.hpp"

namespace tutti::exec {

/// Cuts what does not fit.
void write_caption(Caption& caption, std::string_view text);

/// A peer's, copied once: "" when it wrote none. Hostile: what is not printable ASCII becomes '?',
/// and it ends where its memory does.
std::string read_caption(const Caption& caption);

/// A call in an error: its caption, or what every rank compares when there is none.
std::string shown(const CallSignature& call, std::string_view caption);

}  // namespace tutti::exec
