// Checks that the ranks of a lowered program keep pace, for any number of slices.
//
// Iterations are a common clock: a rank in iteration t waits until a peer has passed an op in
// iteration t + c, where c follows from stages and slice deltas only. If every c is negative, the
// rank that is furthest behind can always go on, so there is no deadlock. Waits for transfers count
// likewise: a receive ends once its send is posted, and a send ends at the latest when its receive
// is posted.
//
// Messages pair in posting order. So the two ends of a stream must run its ops in the same order
// over all slices. This means more than the same order within a slice. Slice k of one op must
// precede slice k' of another at both ends or at neither, for every k and k'.
#pragma once

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// The program must be well-formed. Errors are kInternal and name rank and op.
Status check_pace(const Lowered& lowered);

}  // namespace tutti::lower
