// Checks the form of a lowered program, but not what it computes: every index refers to something
// that exists, every field that an op uses is set, every count fits the executors' limits. Replay
// and executors rely on it and do not check again.
#pragma once

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// Accepts or rejects any content of a Lowered. Time and memory are linear in its size. Errors are
/// kInternal and name rank, op and field. `uneven_blocks`: see CheckOptions.
Status check_form(const Lowered& lowered, const Placement& placement, bool uneven_blocks = false);

/// For chunks of the buffer of all blocks. Chunks with the same index within their blocks are
/// equally long, unless blocks differ in size.
inline bool same_length(const Lowered& lowered, bool uneven_blocks, std::uint32_t a,
                        std::uint32_t b) {
  if (uneven_blocks) return a == b;
  return a % lowered.chunks_per_block == b % lowered.chunks_per_block;
}

}  // namespace tutti::lower
