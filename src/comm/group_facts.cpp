#include "src/comm/group_facts.hpp"

#include <fmt/format.h>

namespace tutti {

std::string GroupFacts::who() const { return fmt::format("[{} {}/{}]", name, rank, size); }

}  // namespace tutti
