// How the ranks of a step program keep pace, whatever the number of slices.
//
// Iterations are a common clock: a rank in iteration t waits for peers to have passed some op in
// iteration t + c, where c follows from stages and slice deltas alone. When every c is negative,
// the rank that is furthest behind can always go on, so nothing ever deadlocks. Waits for transfers
// count likewise: a receive is over once its send is posted, a send at the latest once its receive
// is.
//
// Messages pair in the order posted. The ops of one stream, at its two ends, must come in the same
// order over all slices: not only the same ops within a slice, but slice k of one before slice k'
// of another at both ends or at neither, for every k and k'.
#pragma once

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// The program must be well-formed. Errors are kInternal and name rank and op.
Status check_pace(const Lowered& lowered);

}  // namespace tutti::lower
