// Reads a schedule in any format that Tutti knows, telling the format by how the text begins.
#pragma once

#include <string_view>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// Our own text form, MSCCL's XML, MSCCL++'s plans and SCCL's JSON. Every schedule has been
/// verified. Errors name the place in the text.
Result<Schedules> read(std::string_view text);

}  // namespace tutti::exchange
