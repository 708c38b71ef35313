#include "src/ir/text.hpp"

#include <fmt/format.h>

namespace tutti::ir {

std::string print(const ChunkSet& set) {
  const std::string_view space = name_of(set.space);
  if (set.count == 0) return fmt::format("{}[]", space);
  if (set.count == 1) return fmt::format("{}[{}]", space, set.first);
  const std::uint64_t last = set.first + (std::uint64_t{set.count} - 1) * set.stride;
  if (set.stride == 1) return fmt::format("{}[{}..{}]", space, set.first, last);
  return fmt::format("{}[{}..{}:{}]", space, set.first, last, set.stride);
}

std::string print_action(const Step& step) {
  const std::string lane = step.lane == 0 ? "" : fmt::format(" lane {}", step.lane);
  switch (step.verb) {
    case Verb::kSend:
      return fmt::format("send {} to {}{}", print(step.src), step.peer, lane);
    case Verb::kRecv:
      return fmt::format("recv {} from {}{}", print(step.dst), step.peer, lane);
    case Verb::kCopy:
    case Verb::kReduce:
    case Verb::kEncode:
    case Verb::kDecode:
      break;
  }
  return fmt::format("{} {} into {}", name_of(step.verb), print(step.src), print(step.dst));
}

}  // namespace tutti::ir
