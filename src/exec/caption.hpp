// Text in shared memory that a peer may show in an error.
#pragma once

#include <string>
#include <string_view>

#include "src/exec/layout.hpp"

namespace tutti::exec {

/// Writes `text`, cut to what fits.
void write_caption(Caption& caption, std::string_view text);

/// A peer's caption, copied once; "" if it wrote none. Peers are hostile: bytes that are not
/// printable ASCII become '?', and the text ends where its memory ends.
std::string read_caption(const Caption& caption);

/// A call as errors show it: its caption, or without one the signature that all ranks compare.
std::string shown(const CallSignature& call, std::string_view caption);

}  // namespace tutti::exec
