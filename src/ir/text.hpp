// The text form of a schedule: one line a step, readable and exact. parse(print(s)) == s when the
// fields that a step does not use hold their defaults and no limit is exceeded.
// Grammar and limits: docs/formats.md. Files come from users, so the parser treats them as hostile:
// every error names line, column, the token and what was expected.
#pragma once

#include <string>
#include <string_view>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

std::string print(const Schedule& schedule);
/// "in[3]", "out[2..5]" or, with a stride, "tmp[1..7:2]" (the last chunk included).
std::string print(const ChunkSet& set);
/// What a step does, without its dependencies: "send in[3] to 1 lane 2".
std::string print_action(const Step& step);

Result<Schedule> parse(std::string_view text);

}  // namespace tutti::ir
