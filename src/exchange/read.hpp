// Reads a schedule in any format that Tutti knows. The beginning of the text tells the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// Reads our text form, MSCCL's XML, MSCCL++'s plans and SCCL's JSON. Every returned schedule is
/// verified. Errors name the place in the text. `notes`, if given, gets what was skipped.
Result<Schedules> read(std::string_view text, std::vector<std::string>* notes = nullptr);

}  // namespace tutti::exchange
