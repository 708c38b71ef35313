// The text form of a schedule: one line per step, readable and exact. parse(print(s)) == s if
// unused fields of steps hold their defaults and no limit is exceeded. Grammar and limits:
// docs/formats.md. Users supply the files, so the parser treats them as hostile. Every error names
// the line, the column, the token and what was expected.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

std::string print(const Schedule& schedule);
/// "in[3]", "out[2..5]", with a stride "tmp[1..7:2]", or with a format "tmp[3].bf16"; the last
/// chunk is included. `formats`: of the schedule. A format that it does not have is a number.
std::string print(const ChunkSet& set, std::span<const std::string> formats = {});
/// A step without its dependencies: "send in[3] to 1 lane 2", "group_reduce in[0] into out[0] over
/// 0".
std::string print_action(const Step& step, std::span<const std::string> formats = {});

Result<Schedule> parse(std::string_view text);

}  // namespace tutti::ir
