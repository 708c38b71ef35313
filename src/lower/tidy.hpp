// What is done to a rank's draft after its steps are fused: ops that nobody needs go. Each pass
// leaves a draft that does the same. Used inside this folder.
#pragma once

#include "src/lower/draft.hpp"

namespace tutti::lower {

/// Whose draft it is.
struct DraftOwner {
  const ir::Request& request;
  std::uint32_t chunks_per_block = 1;
  Rank rank = 0;
};

/// In place, algorithms save their own input to scratch before the result overwrites it. When the
/// one reader of that copy is the very op that overwrites, element by element, it can read the
/// input itself.
void skip_copies_of_own_input(Draft& draft, const DraftOwner& owner);

/// Scratch that nobody reads is not written, and ops that write nothing else do not run.
void drop_unread_scratch(Draft& draft);

}  // namespace tutti::lower
