// What a switch adds: sum, min and max of the types that SHARP knows.
#pragma once

#include <cstddef>

namespace tutti::plugin::mock {

bool can_reduce(int type, int op);
/// acc[i] = acc[i] op other[i]
void reduce(int type, int op, std::byte* acc, const std::byte* other, std::size_t bytes);

}  // namespace tutti::plugin::mock
