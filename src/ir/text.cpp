#include "src/ir/text.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace tutti::ir {
namespace {

/// A line of a key and numbers: "scratch 0..3 7".
template <class Number>
void print_ranges(std::string& text, std::string_view key, const std::vector<Number>& numbers) {
  text += key;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    fmt::format_to(std::back_inserter(text), " {}", numbers[begin]);
    if (end - begin > 1) fmt::format_to(std::back_inserter(text), "..{}", numbers[end - 1]);
    begin = end;
  }
  text += "\n";
}

std::string print_group_action(const Step& step, std::span<const std::string> formats) {
  std::string text(name_of(step.verb));
  if (step.src.count != 0) text += " " + print(step.src, formats);
  if (step.dst.count != 0) text += " into " + print(step.dst, formats);
  return text + fmt::format(" over {}", step.group);
}

void print_program(std::string& text, const Program& program,
                   std::span<const std::string> formats) {
  if (!program.scratch.empty()) print_ranges(text, "scratch", program.scratch);
  for (std::size_t id = 0; id < program.steps.size(); ++id) {
    const Step& step = program.steps[id];
    fmt::format_to(std::back_inserter(text), "{}: {}", id, print_action(step, formats));
    if (!step.deps.empty()) {
      fmt::format_to(std::back_inserter(text), " after {}", fmt::join(step.deps, " "));
    }
    text += "\n";
  }
}

}  // namespace

std::string print(const ChunkSet& set, std::span<const std::string> formats) {
  const std::string_view space = name_of(set.space);
  const std::uint64_t last = set.first + (std::uint64_t{std::max(set.count, 1U)} - 1) * set.stride;
  std::string text(space);
  if (set.count == 0)
    text += "[]";
  else if (set.count == 1)
    text += fmt::format("[{}]", set.first);
  else if (set.stride == 1)
    text += fmt::format("[{}..{}]", set.first, last);
  else
    text += fmt::format("[{}..{}:{}]", set.first, last, set.stride);
  if (set.format == kPlain) return text;
  const std::size_t format = std::size_t{set.format} - 1;
  return text + (format < formats.size() ? "." + formats[format] : fmt::format(".{}", set.format));
}

std::string print_action(const Step& step, std::span<const std::string> formats) {
  const std::string lane = step.lane == 0 ? "" : fmt::format(" lane {}", step.lane);
  switch (step.verb) {
    case Verb::kSend:
      return fmt::format("send {} to {}{}", print(step.src, formats), step.peer, lane);
    case Verb::kRecv:
      return fmt::format("recv {} from {}{}", print(step.dst, formats), step.peer, lane);
    case Verb::kGroupReduce:
    case Verb::kMulticast:
      return print_group_action(step, formats);
    case Verb::kCopy:
    case Verb::kReduce:
      break;
  }
  return fmt::format("{} {} into {}", name_of(step.verb), print(step.src, formats),
                     print(step.dst, formats));
}

std::string print(const Schedule& schedule) {
  const Request& request = schedule.request;
  std::string text = "tutti-schedule 1\n";
  const auto line = [&](std::string_view key, const auto& value) {
    fmt::format_to(std::back_inserter(text), "{} {}\n", key, value);
  };
  line("collective", name_of(request.collective));
  line("ranks", request.ranks);
  if (rooted(request.collective)) line("root", request.root);
  line("in_place", request.in_place ? "yes" : "no");
  if (!request.layout.empty()) line("layout", print(request.layout));
  if (!schedule.algorithm.empty()) line("algorithm", schedule.algorithm);
  line("chunks_per_block", schedule.chunks_per_block);
  line("lanes", schedule.lanes);
  if (!schedule.formats.empty())
    fmt::format_to(std::back_inserter(text), "formats {}\n", fmt::join(schedule.formats, " "));
  for (const Group& group : schedule.groups) print_ranges(text, "group", group.ranks);
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    text += "\n";
    line("rank", rank);
    print_program(text, schedule.programs[rank], schedule.formats);
  }
  return text;
}

}  // namespace tutti::ir
