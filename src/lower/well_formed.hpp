// The form of a step program, apart from what it computes: every index has something behind it,
// every field that an op uses is set, every count fits what executors provide for it. Replay and
// executors rely on it and do not look again.
#pragma once

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// Accepts or refuses any bytes whatever that have the shape of a Lowered; time and memory are
/// linear in its size. Errors are kInternal and name rank, op and field.
Status check_form(const Lowered& lowered, const Placement& placement);

}  // namespace tutti::lower
