#include "src/exchange/assembly.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::exchange {
namespace {

// What a file may ask for, since its numbers become memory.
constexpr std::uint64_t kMostCells = std::uint64_t{1} << 22;  // chunks over all ranks and buffers
constexpr std::uint64_t kMostFresh = std::uint64_t{1} << 22;  // scratch that files do not name

/// In place, o[k] shares its memory with i[k + shift].
std::int64_t in_place_shift(const ir::Request& request, Rank rank, std::uint32_t per_block) {
  const auto own_block = static_cast<std::int64_t>(rank) * per_block;
  switch (request.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
      return -own_block;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return own_block;
    default:
      return 0;
  }
}

}  // namespace

std::string print(const Run& run) {
  constexpr std::string_view kBuffers = "ios";
  const char buffer = kBuffers[static_cast<std::size_t>(run.space)];
  if (run.count == 1) return fmt::format("{}[{}]", buffer, run.first);
  return fmt::format("{}[{}..{}]", buffer, run.first, std::uint64_t{run.first} + run.count - 1);
}

Assembly::Assembly(const ir::Request& request, std::string_view name,
                   std::uint32_t chunks_per_block)
    : request_(request),
      chunks_per_block_(chunks_per_block),
      build_(request, name, chunks_per_block) {}

Result<Assembly> Assembly::create(const ir::Request& request, std::string_view name,
                                  std::uint32_t chunks_per_block,
                                  const std::vector<BufferSizes>& sizes) {
  std::uint64_t cells = 0;
  std::vector<BufferSizes> enlarged = sizes;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const ir::BlockCounts blocks = ir::block_counts(request, rank);
    BufferSizes& size = enlarged[index(rank)];
    const std::uint64_t per_block = chunks_per_block;
    size.input = std::max(size.input, per_block * static_cast<std::uint64_t>(blocks.input));
    size.output = std::max(size.output, per_block * static_cast<std::uint64_t>(blocks.output));
    cells += std::min(size.input, kMostCells) + std::min(size.output, kMostCells) +
             std::min(size.scratch, kMostCells);
    if (cells > kMostCells)
      return make_error(Code::kInvalidArgument,
                        "the buffers of all ranks have more than {} chunks; use fewer chunks",
                        kMostCells);
  }
  Assembly assembly(request, name, chunks_per_block);
  for (Rank rank = 0; rank < request.ranks; ++rank) assembly.add_rank(rank, enlarged[index(rank)]);
  return assembly;
}

/// The homes of cells without an output chunk are scratch chunks of the cell's own number; finish()
/// drops those that nothing used.
void Assembly::add_rank(Rank rank, const BufferSizes& sizes) {
  RankState& state = ranks_.emplace_back();
  state.sizes = sizes;
  state.cells.resize(sizes.input + sizes.output + sizes.scratch);
  state.lengths.assign(state.cells.size(), -1);
  for (std::size_t i = 0; i < state.cells.size(); ++i)
    state.cells[i].home = {ir::Space::kScratch, static_cast<std::uint32_t>(i)};
  const ir::BlockCounts blocks = ir::block_counts(request_, rank);
  const auto chunks = [&](std::int32_t of) {
    return static_cast<std::uint32_t>(of) * chunks_per_block_;
  };
  for (std::uint32_t i = 0; i < chunks(blocks.output); ++i)
    state.cells[cell(rank, ir::Space::kOutput, i)].home = {ir::Space::kOutput, i};
  for (std::uint32_t i = 0; i < chunks(blocks.input); ++i) {
    Cell& input = state.cells[cell(rank, ir::Space::kInput, i)];
    const bool shared = input.home.space == ir::Space::kOutput;
    input.value = shared ? input.home : Place{ir::Space::kInput, i};
  }
}

std::size_t Assembly::cell(Rank rank, ir::Space space, std::uint32_t chunk) const {
  const BufferSizes& sizes = ranks_[index(rank)].sizes;
  if (space == ir::Space::kScratch) return sizes.output + sizes.input + chunk;
  if (space == ir::Space::kInput) return sizes.output + chunk;
  if (!request_.in_place) return chunk;
  const std::int64_t input = chunk + in_place_shift(request_, rank, chunks_per_block_);
  const bool shared = input >= 0 && static_cast<std::uint64_t>(input) < sizes.input;
  return shared ? sizes.output + static_cast<std::size_t>(input) : chunk;
}

Status Assembly::check(Rank rank, const Run& run) const {
  const BufferSizes& sizes = ranks_[index(rank)].sizes;
  const std::uint64_t limit = run.space == ir::Space::kInput    ? sizes.input
                              : run.space == ir::Space::kOutput ? sizes.output
                                                                : sizes.scratch;
  if (run.count > 0 && std::uint64_t{run.first} + run.count <= limit) return ok_status();
  return make_error(Code::kInvalidArgument, "{} is outside a buffer of {} chunks", print(run),
                    limit);
}

std::uint32_t Assembly::length(Rank rank, const Place& place) const {
  if (place.space != ir::Space::kScratch) return place.chunk % chunks_per_block_;
  return static_cast<std::uint32_t>(ranks_[index(rank)].lengths[place.chunk]);
}

std::vector<std::uint32_t> Assembly::lengths(Rank rank, const Places& places) const {
  std::vector<std::uint32_t> like;
  like.reserve(places.size());
  for (const Place& place : places) like.push_back(length(rank, place));
  return like;
}

Result<Assembly::Places> Assembly::read(Rank rank, const Run& run) const {
  TUTTI_TRY(check(rank, run));
  Places places;
  places.reserve(run.count);
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const Cell& source = ranks_[index(rank)].cells[cell(rank, run.space, run.first + i)];
    if (!source.value)
      return make_error(Code::kInvalidArgument, "{} is read before anything is written there",
                        print(Run{run.space, run.first + i, 1}));
    places.push_back(*source.value);
  }
  return places;
}

/// New scratch chunks, one after the other.
Result<Assembly::Places> Assembly::fresh(Rank rank, const std::vector<std::uint32_t>& like) {
  fresh_chunks_ += like.size();
  if (fresh_chunks_ > kMostFresh)
    return make_error(Code::kInvalidArgument,
                      "more than {} chunks are needed for what arrives and is added at once",
                      kMostFresh);
  std::vector<std::int64_t>& lengths = ranks_[index(rank)].lengths;
  Places places;
  places.reserve(like.size());
  for (const std::uint32_t each : like) {
    places.push_back({ir::Space::kScratch, static_cast<std::uint32_t>(lengths.size())});
    lengths.push_back(each);
  }
  return places;
}

/// Whether the homes of these cells are in a row and have, or can get, these lengths.
bool Assembly::fits(Rank rank, const Run& run, const std::vector<std::uint32_t>& like) const {
  const RankState& state = ranks_[index(rank)];
  Places homes;
  homes.reserve(run.count);
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const Place& home = state.cells[cell(rank, run.space, run.first + i)].home;
    const bool unused = home.space == ir::Space::kScratch && state.lengths[home.chunk] < 0;
    if (!unused && length(rank, home) != like[i]) return false;
    homes.push_back(home);
  }
  return consecutive(homes);
}

/// Where the new value of `run` goes. An output chunk takes no other length than its own.
Result<Assembly::Places> Assembly::write(Rank rank, const Run& run,
                                         const std::vector<std::uint32_t>& like) {
  TUTTI_TRY(check(rank, run));
  if (like.size() != run.count)
    return make_error(Code::kInvalidArgument, "{} chunks cannot become {}", like.size(),
                      print(run));
  RankState& state = ranks_[index(rank)];
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const Place& home = state.cells[cell(rank, run.space, run.first + i)].home;
    if (home.space == ir::Space::kOutput && length(rank, home) != like[i])
      return make_error(Code::kInvalidArgument,
                        "{} is chunk {} of its block and gets chunk {} of another, whose length "
                        "may differ",
                        print(Run{run.space, run.first + i, 1}), length(rank, home), like[i]);
  }
  Places places;
  if (fits(rank, run, like)) {
    for (std::uint32_t i = 0; i < run.count; ++i)
      places.push_back(state.cells[cell(rank, run.space, run.first + i)].home);
  } else {
    TUTTI_ASSIGN(places, fresh(rank, like));
  }
  for (std::uint32_t i = 0; i < run.count; ++i) {
    state.cells[cell(rank, run.space, run.first + i)].value = places[i];
    if (places[i].space == ir::Space::kScratch) state.lengths[places[i].chunk] = like[i];
  }
  return places;
}

Status Assembly::same_lengths(Rank rank, const Run& src, const Places& from, const Run& dst,
                              const std::vector<std::uint32_t>& like) const {
  if (lengths(rank, from) == like) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{} and {} are not the same chunks of their blocks: their lengths may differ",
                    print(src), print(dst));
}

bool Assembly::consecutive(const Places& places) {
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].space != places[0].space || places[i].chunk != places[0].chunk + i) return false;
  return true;
}

ir::ChunkSet Assembly::set_of(const Places& places) {
  return {places[0].space, places[0].chunk, static_cast<std::uint32_t>(places.size()), 1};
}

/// Calls visit(from, to) for the longest runs that are consecutive on both sides.
template <class Visit>
void Assembly::for_each_run(const Places& from, const Places& to, Visit&& visit) {
  for (std::size_t begin = 0; begin < from.size();) {
    const auto goes_on = [&](const Places& places, std::size_t i) {
      return places[i].space == places[begin].space &&
             places[i].chunk == places[begin].chunk + (i - begin);
    };
    std::size_t end = begin + 1;
    while (end < from.size() && goes_on(from, end) && goes_on(to, end)) ++end;
    const auto count = static_cast<std::uint32_t>(end - begin);
    visit(ir::ChunkSet{from[begin].space, from[begin].chunk, count, 1},
          ir::ChunkSet{to[begin].space, to[begin].chunk, count, 1});
    begin = end;
  }
}

void Assembly::copy_places(Rank rank, const Places& from, const Places& to) {
  auto program = build_.rank(rank);
  for_each_run(from, to, [&](const ir::ChunkSet& src, const ir::ChunkSet& dst) {
    if (src != dst) program.copy(src, dst);
  });
}

void Assembly::reduce_places(Rank rank, const Places& from, const Places& to) {
  auto program = build_.rank(rank);
  for_each_run(from, to,
               [&](const ir::ChunkSet& src, const ir::ChunkSet& dst) { program.reduce(src, dst); });
}

/// The places as one operand; those that do not stand in a row are brought together first.
Result<ir::ChunkSet> Assembly::gathered(Rank rank, const Places& places) {
  if (consecutive(places)) return set_of(places);
  TUTTI_ASSIGN(const Places row, fresh(rank, lengths(rank, places)));
  copy_places(rank, places, row);
  return set_of(row);
}

Result<Message> Assembly::send(Rank rank, const Run& src, Rank peer, Lane lane) {
  TUTTI_ASSIGN(const Places from, read(rank, src));
  TUTTI_ASSIGN(const ir::ChunkSet set, gathered(rank, from));
  build_.rank(rank).send(set, peer, lane);
  return Message{rank, lane, lengths(rank, from)};
}

Status Assembly::recv(Rank rank, const Message& message, const Run& dst) {
  TUTTI_ASSIGN(const Places to, write(rank, dst, message.like));
  build_.rank(rank).recv(set_of(to), message.source, message.lane);
  return ok_status();
}

Status Assembly::recv_reduce(Rank rank, const Message& message, const Run& src, const Run& dst) {
  TUTTI_ASSIGN(const Places own, read(rank, src));
  TUTTI_TRY(same_lengths(rank, src, own, dst, message.like));
  TUTTI_ASSIGN(const Places to, write(rank, dst, message.like));
  if (std::ranges::find_first_of(own, to) == own.end()) {
    build_.rank(rank).recv(set_of(to), message.source, message.lane);
    reduce_places(rank, own, to);
    return ok_status();
  }
  TUTTI_ASSIGN(const Places landing, fresh(rank, message.like));
  build_.rank(rank).recv(set_of(landing), message.source, message.lane);
  copy_places(rank, own, to);
  reduce_places(rank, landing, to);
  return ok_status();
}

Result<Message> Assembly::recv_reduce_send(Rank rank, const Message& message, const Run& src,
                                           Rank peer, Lane lane) {
  TUTTI_ASSIGN(const Places own, read(rank, src));
  TUTTI_TRY(same_lengths(rank, src, own, src, message.like));
  TUTTI_ASSIGN(const Places landing, fresh(rank, message.like));
  build_.rank(rank).recv(set_of(landing), message.source, message.lane);
  reduce_places(rank, own, landing);
  build_.rank(rank).send(set_of(landing), peer, lane);
  return Message{rank, lane, message.like};
}

Status Assembly::copy(Rank rank, const Run& src, const Run& dst) {
  TUTTI_ASSIGN(const Places from, read(rank, src));
  TUTTI_ASSIGN(const Places to, write(rank, dst, lengths(rank, from)));
  copy_places(rank, from, to);
  return ok_status();
}

Status Assembly::reduce(Rank rank, const Run& src, const Run& dst) {
  TUTTI_ASSIGN(const Places from, read(rank, src));
  TUTTI_ASSIGN(const Places old, read(rank, dst));
  TUTTI_TRY(same_lengths(rank, src, from, dst, lengths(rank, old)));
  TUTTI_ASSIGN(const Places to, write(rank, dst, lengths(rank, old)));
  copy_places(rank, old, to);
  reduce_places(rank, from, to);
  return ok_status();
}

ir::Schedule Assembly::finish() && {
  for (Rank rank = 0; rank < request_.ranks; ++rank) {
    const auto outputs =
        static_cast<std::uint32_t>(ir::block_counts(request_, rank).output) * chunks_per_block_;
    Places from, to;
    for (std::uint32_t i = 0; i < outputs; ++i) {
      const Place home{ir::Space::kOutput, i};
      const Cell& result = ranks_[index(rank)].cells[cell(rank, ir::Space::kOutput, i)];
      if (!result.value || *result.value == home) continue;
      from.push_back(*result.value);
      to.push_back(home);
    }
    copy_places(rank, from, to);
  }
  ir::Schedule schedule = std::move(build_).finish();
  for (Rank rank = 0; rank < request_.ranks; ++rank) {
    ir::Program& program = schedule.programs[index(rank)];
    const std::vector<std::int64_t>& lengths = ranks_[index(rank)].lengths;
    std::vector<std::uint32_t> renumbered(lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] < 0) continue;
      renumbered[i] = static_cast<std::uint32_t>(program.scratch.size());
      program.scratch.push_back(static_cast<std::uint32_t>(lengths[i]));
    }
    for (ir::Step& step : program.steps)
      for (ir::ChunkSet* set : {&step.src, &step.dst})
        if (set->space == ir::Space::kScratch && set->count > 0)
          set->first = renumbered[set->first];
  }
  return schedule;
}

}  // namespace tutti::exchange
