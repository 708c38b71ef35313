#include "tools/bench/wrong.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/chunking.hpp"
#include "tools/bench/numbers.hpp"

namespace tutti::bench {
namespace {

/// A chunk of one rank's memory; where input and output overlap it is named by the output.
struct Place {
  Rank rank;
  ir::Space space;
  std::uint32_t chunk;
  friend bool operator==(const Place&, const Place&) = default;
};

Place place_of(const ir::Schedule& schedule, Rank rank, ir::Space space, std::uint32_t chunk) {
  const ir::Aliasing alias = ir::aliasing(schedule.request, rank);
  const auto per_block = schedule.chunks_per_block;
  const auto first = static_cast<std::uint32_t>(alias.input_block) * per_block;
  const auto last = first + static_cast<std::uint32_t>(alias.blocks) * per_block;
  if (!alias.exists || space != ir::Space::kInput || chunk < first || chunk >= last)
    return {rank, space, chunk};
  const auto output = static_cast<std::uint32_t>(alias.output_block) * per_block;
  return {rank, ir::Space::kOutput, chunk - first + output};
}

/// Which chunk of `set` is `place`.
std::optional<std::uint32_t> position(const ir::Schedule& schedule, const ir::ChunkSet& set,
                                      const Place& place) {
  for (std::uint32_t i = 0; i < set.count; ++i)
    if (place_of(schedule, place.rank, set.space, set.at(i)) == place) return i;
  return std::nullopt;
}

/// The send that the receive `recv` of `rank` takes: both are the k-th of their lane.
std::size_t matching_send(const ir::Schedule& schedule, Rank rank, std::size_t recv) {
  const ir::Program& program = schedule.programs[rank];
  const ir::Step& taken = program.steps[recv];
  const auto same_lane = [&](const ir::Step& step, ir::Verb verb, Rank peer) {
    return step.verb == verb && step.peer == peer && step.lane == taken.lane;
  };
  auto before = std::count_if(
      program.steps.begin(), program.steps.begin() + static_cast<std::ptrdiff_t>(recv),
      [&](const ir::Step& step) { return same_lane(step, ir::Verb::kRecv, taken.peer); });
  const auto& sends = schedule.programs[taken.peer].steps;
  const auto send = std::ranges::find_if(sends, [&](const ir::Step& step) {
    return same_lane(step, ir::Verb::kSend, rank) && before-- == 0;
  });
  return static_cast<std::size_t>(send - sends.begin());
}

/// Fills in owner, reduced and path of the chunk at `place`. Ends because a proved schedule defines
/// every value by earlier steps.
void trace(const ir::Schedule& schedule, Place place, ChunkOrigin& origin) {
  std::size_t step = schedule.programs[place.rank].steps.size();
  while (step-- > 0) {
    const ir::Step& writer = schedule.programs[place.rank].steps[step];
    const auto at = uses_dst(writer.verb) ? position(schedule, writer.dst, place) : std::nullopt;
    if (!at) continue;
    origin.reduced = writer.verb == ir::Verb::kReduce;
    if (origin.reduced) break;
    const bool received = writer.verb == ir::Verb::kRecv;
    const Rank from = received ? writer.peer : place.rank;
    if (received) {
      origin.path.insert(origin.path.begin(), from);
      step = matching_send(schedule, place.rank, step);
    }
    const ir::ChunkSet& source = schedule.programs[from].steps[step].src;
    place = place_of(schedule, from, source.space, source.at(*at));
  }
  origin.owner = place.rank;
}

std::string origin_text(const ChunkOrigin& origin, std::string_view algorithm) {
  std::string text = fmt::format("; it lies in chunk {} of 0..{} (elements {} to {}) of {}, {}",
                                 origin.chunk, origin.chunks - 1, origin.begin, origin.end - 1,
                                 algorithm, origin.reduced ? "added up by" : "the input of");
  text += fmt::format(" rank {}", origin.owner);
  if (origin.path.size() > 1) {
    const std::span<const Rank> between(origin.path.begin() + 1, origin.path.end());
    text += fmt::format(" and passed on by rank{} {}", between.size() > 1 ? "s" : "",
                        fmt::join(between, " "));
  }
  return text;
}

}  // namespace

std::optional<ChunkOrigin> chunk_origin(const Shape& shape, bool in_place,
                                        std::string_view algorithm, Rank rank, std::size_t index) {
  if (shape.test == kSendRecv || shape.count == 0 || shape.ranks > kMostTracedRanks) return {};
  const ir::Request request{shape.test, shape.ranks, rooted(shape.test) ? shape.root : 0, in_place};
  const auto known = algorithms::all();
  const auto found = std::ranges::find(known, algorithm, &ir::Algorithm::name);
  if (found == known.end() || !found->supports(request)) return {};
  const auto schedule = found->generate(request);
  if (!schedule) return {};

  const auto blocks = static_cast<std::uint32_t>(ir::block_counts(request, rank).output);
  const std::uint32_t per_block = schedule->chunks_per_block;
  const ir::Chunking chunking(shape.count, size_of(shape.type), per_block);
  ChunkOrigin origin;
  origin.chunks = blocks * per_block;
  for (; origin.chunk < origin.chunks; ++origin.chunk) {
    const ir::ElementRange range = chunking.elements(origin.chunk);
    if (index < range.begin || index >= range.end) continue;
    origin.begin = range.begin;
    origin.end = range.end;
    trace(*schedule, place_of(*schedule, rank, ir::Space::kOutput, origin.chunk), origin);
    return origin;
  }
  return {};
}

std::string wrong_text(const Shape& shape, bool in_place, std::string_view algorithm, Rank rank,
                       const Findings& findings) {
  const std::string where =
      fmt::format("{} of {} {} elements, {}, rank {}", test_name(shape.test), shape.count,
                  name_of(shape.type), in_place ? "in place" : "out of place", rank);
  if (!findings.first)
    return fmt::format("{}: {} bytes beyond the receive buffer were overwritten", where,
                       findings.wrong);
  const auto& first = *findings.first;
  const auto origin = chunk_origin(shape, in_place, algorithm, rank, first.index);
  return fmt::format("{}: element {} (block {}) is wrong: expected {}, got {}; {} wrong here{}",
                     where, first.index, first.index / shape.count,
                     element_text(shape.type, first.expected), element_text(shape.type, first.got),
                     findings.wrong, origin ? origin_text(*origin, algorithm) : "");
}

}  // namespace tutti::bench
