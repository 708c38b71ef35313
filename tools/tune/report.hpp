// What tutti-tune prints, and its JSON.
#pragma once

#include <span>
#include <string>

#include "src/cost/measured_table.hpp"
#include "tools/tune/cell.hpp"

namespace tutti::tune {

/// "# ..." lines above the rows: who was measured, and the columns.
std::string table_head(bool check, const Arrangement& arrangement);
std::string table_row(bool check, const Cell& cell);
/// The closing lines of --check.
std::string regret_text(std::span<const Cell> cells);
/// All times, of every way that was measured.
std::string json_text(const Arrangement& arrangement, std::span<const Cell> cells);

}  // namespace tutti::tune
