// Reads a schedule in any format that Tutti knows. The beginning of the text tells the format.
#pragma once

#include <string_view>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// Reads our text form, MSCCL's XML, MSCCL++'s plans and SCCL's JSON. Every returned schedule is
/// verified. Errors name the place in the text.
Result<Schedules> read(std::string_view text);

}  // namespace tutti::exchange
