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
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const Aliasing alias = aliasing(request, rank);
    if (!alias.exists) continue;
    const auto chunks = [&](std::int32_t blocks) {
      return static_cast<std::uint32_t>(blocks) * chunks_per_block;
    };
    RankState& state = states_[static_cast<std::size_t>(rank)];
    state.alias_input = chunks(alias.input_block);
    state.alias_output = chunks(alias.output_block);
    state.alias_chunks = chunks(alias.blocks);
  }
}

Builder::Cell& Builder::cell(RankState& state, Space space, std::uint32_t chunk) {
  if (space == Space::kInput && chunk >= state.alias_input &&
      chunk - state.alias_input < state.alias_chunks) {
    space = Space::kOutput;
    chunk = chunk - state.alias_input + state.alias_output;
  }
  std::vector<Cell>& cells = space == Space::kInput    ? state.input
                             : space == Space::kOutput ? state.output
                                                       : state.scratch;
  // Grown on demand: a chunk outside its space is the verifier's finding, with a better message.
  if (chunk >= cells.size()) cells.resize(std::size_t{chunk} + 1);
  return cells[chunk];
}

void Builder::add_read(RankState& state, Cell& cell, StepId step) {
  std::uint32_t read = state.unused_reads;
  if (read == kNoRead) {
    read = static_cast<std::uint32_t>(state.reads.size());
    state.reads.emplace_back();
  } else {
    state.unused_reads = state.reads[read].next;
  }
  state.reads[read] = {step, cell.readers};
  cell.readers = read;
}

void Builder::set_writer(RankState& state, Cell& cell, StepId step) {
  while (cell.readers != kNoRead) {
    const std::uint32_t read = cell.readers;
    cell.readers = state.reads[read].next;
    state.reads[read] = {kNoStep, state.unused_reads};
    state.unused_reads = read;
  }
  cell.writer = step;
}

bool Builder::same_memory(Rank rank, const ChunkSet& a, const ChunkSet& b) {
  if (a.count != b.count) return false;
  RankState& state = states_[static_cast<std::size_t>(rank)];
  for (std::uint32_t i = 0; i < a.count; ++i) {
    cell(state, a.space, a.at(i));  // both exist before addresses are compared
    cell(state, b.space, b.at(i));
    if (&cell(state, a.space, a.at(i)) != &cell(state, b.space, b.at(i))) return false;
  }
  return true;
}

/// Into dependencies_: ascending, each once.
void Builder::collect_dependencies(RankState& state, const Step& step) {
  dependencies_.clear();
  const auto add = [&](StepId id) {
    const bool is_known = !dependencies_.empty() && dependencies_.back() == id;
    if (id != kNoStep && !is_known) dependencies_.push_back(id);
  };
  const auto after_writers = [&](const ChunkSet& set) {
    for (std::uint32_t i = 0; i < set.count; ++i) add(cell(state, set.space, set.at(i)).writer);
  };
  after_writers(step.src);
  if (step.verb == Verb::kReduce) after_writers(step.dst);
  // A write after reads needs no edge to the write before them: the reads have it already.
  for (std::uint32_t i = 0; i < step.dst.count; ++i) {
    const Cell& written = cell(state, step.dst.space, step.dst.at(i));
    if (written.readers == kNoRead) add(written.writer);
    for (std::uint32_t read = written.readers; read != kNoRead; read = state.reads[read].next)
      add(state.reads[read].step);
  }
  sort_unique(dependencies_);
}

Builder::RankBuilder& Builder::RankBuilder::append(Step step) {
  Program& program = builder_->schedule_.programs[static_cast<std::size_t>(rank_)];
  RankState& state = builder_->states_[static_cast<std::size_t>(rank_)];
  const auto id = static_cast<StepId>(program.steps.size());
  step.src = canonical(step.src);
  step.dst = canonical(step.dst);
  builder_->collect_dependencies(state, step);
  // Copied, so that the step holds no more memory than it needs.
  step.deps.assign(builder_->dependencies_.begin(), builder_->dependencies_.end());

  for (std::uint32_t i = 0; i < step.src.count; ++i)
    add_read(state, cell(state, step.src.space, step.src.at(i)), id);
  for (std::uint32_t i = 0; i < step.dst.count; ++i)
    set_writer(state, cell(state, step.dst.space, step.dst.at(i)), id);
  builder_->schedule_.lanes =
      std::max(builder_->schedule_.lanes, static_cast<std::uint32_t>(step.lane) + 1);
  program.steps.push_back(std::move(step));
  return *this;
}

Builder::RankBuilder& Builder::RankBuilder::send(ChunkSet src, Rank peer, Lane lane) {
  return append({.verb = Verb::kSend, .src = src, .peer = peer, .lane = lane});
}

Builder::RankBuilder& Builder::RankBuilder::recv(ChunkSet dst, Rank peer, Lane lane) {
  return append({.verb = Verb::kRecv, .dst = dst, .peer = peer, .lane = lane});
}

Builder::RankBuilder& Builder::RankBuilder::copy(ChunkSet src, ChunkSet dst) {
  if (src.format == dst.format && builder_->same_memory(rank_, src, dst)) return *this;
  return append({.verb = Verb::kCopy, .src = src, .dst = dst});
}

Builder::RankBuilder& Builder::RankBuilder::reduce(ChunkSet src, ChunkSet dst) {
  return append({.verb = Verb::kReduce, .src = src, .dst = dst});
}

Builder::RankBuilder& Builder::RankBuilder::group_reduce(ChunkSet src, ChunkSet dst,
                                                         GroupId group) {
  return append({.verb = Verb::kGroupReduce, .src = src, .dst = dst, .group = group});
}

Builder::RankBuilder& Builder::RankBuilder::multicast(ChunkSet src, ChunkSet dst, GroupId group) {
  return append({.verb = Verb::kMulticast, .src = src, .dst = dst, .group = group});
}

ChunkSet Builder::RankBuilder::scratch(ChunkSet like, FormatId format) {
  std::vector<std::uint32_t>& sizes =
      builder_->schedule_.programs[static_cast<std::size_t>(rank_)].scratch;
  const auto first = static_cast<std::uint32_t>(sizes.size());
  for (std::uint32_t i = 0; i < like.count; ++i) {
    const std::uint32_t chunk = like.at(i);
    sizes.push_back(like.space == Space::kScratch ? sizes[chunk] : chunk);
  }
  return {Space::kScratch, first, like.count, 1, format};
}

ChunkSet Builder::RankBuilder::scratch_for(std::span<const std::uint32_t> chunks, FormatId format) {
  std::vector<std::uint32_t>& sizes =
      builder_->schedule_.programs[static_cast<std::size_t>(rank_)].scratch;
  const auto first = static_cast<std::uint32_t>(sizes.size());
  sizes.insert(sizes.end(), chunks.begin(), chunks.end());
  return {Space::kScratch, first, static_cast<std::uint32_t>(chunks.size()), 1, format};
}

FormatId Builder::format(std::string_view name) {
  std::vector<std::string>& formats = schedule_.formats;
  auto known = std::find(formats.begin(), formats.end(), name);
  if (known == formats.end()) known = formats.emplace(formats.end(), name);
  return static_cast<FormatId>(known - formats.begin() + 1);
}

GroupId Builder::group(std::span<const Rank> ranks, std::size_t nth) {
  std::vector<Group>& groups = schedule_.groups;
  for (std::size_t id = 0; id < groups.size(); ++id)
    if (std::ranges::equal(groups[id].ranks, ranks) && nth-- == 0) return static_cast<GroupId>(id);
  groups.push_back({{ranks.begin(), ranks.end()}});
  return static_cast<GroupId>(groups.size() - 1);
}

void Builder::add_groups(std::span<const Group> groups) {
  schedule_.groups.insert(schedule_.groups.end(), groups.begin(), groups.end());
}

Schedule Builder::finish() && { return std::move(schedule_); }

}  // namespace tutti::ir
