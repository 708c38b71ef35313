#include "src/ir/builder.hpp"

#include <algorithm>
#include <utility>

namespace tutti::ir {
namespace {

/// A stride says nothing about a single chunk; the canonical form is 1.
ChunkSet canonical(ChunkSet set) {
  if (set.count <= 1) set.stride = 1;
  return set;
}

void sort_unique(std::vector<StepId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

Builder::Builder(const Request& request, std::string_view algorithm,
                 std::uint32_t chunks_per_block) {
  schedule_.request = request;
  schedule_.algorithm = algorithm;
  schedule_.chunks_per_block = chunks_per_block;
  schedule_.programs.resize(static_cast<std::size_t>(request.ranks));
  states_.resize(static_cast<std::size_t>(request.ranks));
}

Builder::Cell& Builder::cell(Rank rank, Space space, std::uint32_t chunk) {
  const std::uint32_t per_block = schedule_.chunks_per_block;
  if (space == Space::kInput) {
    const Aliasing alias = aliasing(schedule_.request, rank);
    const std::uint32_t block = chunk / per_block;
    const auto first = static_cast<std::uint32_t>(alias.input_block);
    if (alias.exists && block >= first &&
        block < first + static_cast<std::uint32_t>(alias.blocks)) {
      space = Space::kOutput;
      chunk += (static_cast<std::uint32_t>(alias.output_block) - first) * per_block;
    }
  }
  RankState& state = states_[static_cast<std::size_t>(rank)];
  std::vector<Cell>& cells = space == Space::kInput    ? state.input
                             : space == Space::kOutput ? state.output
                                                       : state.scratch;
  // Grown on demand: a chunk outside its space is the verifier's finding, with a better message.
  if (chunk >= cells.size()) cells.resize(std::size_t{chunk} + 1);
  return cells[chunk];
}

bool Builder::same_memory(Rank rank, const ChunkSet& a, const ChunkSet& b) {
  if (a.count != b.count) return false;
  for (std::uint32_t i = 0; i < a.count; ++i) {
    cell(rank, a.space, a.at(i));  // both exist before addresses are compared
    cell(rank, b.space, b.at(i));
    if (&cell(rank, a.space, a.at(i)) != &cell(rank, b.space, b.at(i))) return false;
  }
  return true;
}

Builder::RankBuilder& Builder::RankBuilder::append(Verb verb, ChunkSet src, ChunkSet dst, Rank peer,
                                                   Lane lane) {
  Program& program = builder_->schedule_.programs[static_cast<std::size_t>(rank_)];
  const auto id = static_cast<StepId>(program.steps.size());
  Step step{verb, canonical(src), canonical(dst), peer, lane, {}};

  const auto for_each_cell = [&](const ChunkSet& set, auto&& visit) {
    for (std::uint32_t i = 0; i < set.count; ++i)
      visit(builder_->cell(rank_, set.space, set.at(i)));
  };
  const auto after_writer = [&](const Cell& cell) {
    if (cell.writer >= 0) step.deps.push_back(static_cast<StepId>(cell.writer));
  };
  // A write after reads needs no edge to the write before them: the reads have it already.
  const auto after_readers = [&](const Cell& cell) {
    if (cell.readers.empty()) after_writer(cell);
    step.deps.insert(step.deps.end(), cell.readers.begin(), cell.readers.end());
  };
  for_each_cell(step.src, after_writer);
  if (step.verb == Verb::kReduce) for_each_cell(step.dst, after_writer);
  for_each_cell(step.dst, after_readers);
  sort_unique(step.deps);

  for_each_cell(step.src, [&](Cell& cell) { cell.readers.push_back(id); });
  for_each_cell(step.dst, [&](Cell& cell) {
    cell.writer = id;
    cell.readers.clear();
  });
  builder_->schedule_.lanes =
      std::max(builder_->schedule_.lanes, static_cast<std::uint32_t>(step.lane) + 1);
  program.steps.push_back(std::move(step));
  return *this;
}

Builder::RankBuilder& Builder::RankBuilder::send(ChunkSet src, Rank peer, Lane lane) {
  return append(Verb::kSend, src, {}, peer, lane);
}

Builder::RankBuilder& Builder::RankBuilder::recv(ChunkSet dst, Rank peer, Lane lane) {
  return append(Verb::kRecv, {}, dst, peer, lane);
}

Builder::RankBuilder& Builder::RankBuilder::copy(ChunkSet src, ChunkSet dst) {
  if (builder_->same_memory(rank_, src, dst)) return *this;
  return append(Verb::kCopy, src, dst);
}

Builder::RankBuilder& Builder::RankBuilder::reduce(ChunkSet src, ChunkSet dst) {
  return append(Verb::kReduce, src, dst);
}

Builder::RankBuilder& Builder::RankBuilder::encode(ChunkSet src, ChunkSet dst) {
  return append(Verb::kEncode, src, dst);
}

Builder::RankBuilder& Builder::RankBuilder::decode(ChunkSet src, ChunkSet dst) {
  return append(Verb::kDecode, src, dst);
}

ChunkSet Builder::RankBuilder::scratch(ChunkSet like) {
  std::vector<std::uint32_t>& sizes =
      builder_->schedule_.programs[static_cast<std::size_t>(rank_)].scratch;
  const auto first = static_cast<std::uint32_t>(sizes.size());
  for (std::uint32_t i = 0; i < like.count; ++i) {
    const std::uint32_t chunk = like.at(i);
    sizes.push_back(like.space == Space::kScratch ? sizes[chunk] : chunk);
  }
  return {Space::kScratch, first, like.count, 1};
}

Schedule Builder::finish() && { return std::move(schedule_); }

}  // namespace tutti::ir
