// The form of a step program, apart from what it computes: every index has something behind it,
// every field that an op uses is set, every count fits what executors provide for it. Replay and
// executors rely on it and do not look again.
#pragma once

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// Accepts or refuses any bytes whatever that have the shape of a Lowered; time and memory are
/// linear in its size. Errors are kInternal and name rank, op and field. `uneven_blocks`: see
/// CheckOptions.
Status check_form(const Lowered& lowered, const Placement& placement, bool uneven_blocks = false);

/// Of chunks of the buffer of all blocks. Those with the same index within their blocks are equally
/// long, unless blocks have different sizes.
inline bool same_length(const Lowered& lowered, bool uneven_blocks, std::uint32_t a,
                        std::uint32_t b) {
  if (uneven_blocks) return a == b;
  return a % lowered.chunks_per_block == b % lowered.chunks_per_block;
}

}  // namespace tutti::lower
