#include "src/ir/embed.hpp"

#include <map>
#include <tuple>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::ir {
namespace {

struct Cell {
  Space space = Space::kInput;
  std::uint32_t chunk = 0;
};

/// Whether `next` goes on where `set` ends; makes the second chunk fix the stride.
bool extend(ChunkSet& set, const Cell& next) {
  if (next.space != set.space || next.chunk <= set.at(set.count - 1)) return false;
  const std::uint32_t distance = next.chunk - set.at(set.count - 1);
  if (set.count > 1 && distance != set.stride) return false;
  set.stride = distance;
  ++set.count;
  return true;
}

ChunkSet start(const Cell& cell) { return {cell.space, cell.chunk, 1, 1}; }

/// One operand of the leaf as pairs of sets of the whole, at the two ends of a step.
struct Piece {
  ChunkSet src, dst;
};

/// The longest pieces that are one set at both ends.
std::vector<Piece> pieces_of(const std::vector<Cell>& src, const std::vector<Cell>& dst) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (!pieces.empty()) {
      Piece longer = pieces.back();
      if (extend(longer.src, src[i]) && extend(longer.dst, dst[i])) {
        pieces.back() = longer;
        continue;
      }
    }
    pieces.push_back({start(src[i]), start(dst[i])});
  }
  return pieces;
}

class Embedder {
 public:
  Embedder(const Schedule& leaf, const Part& part, Builder& whole)
      : leaf_(leaf), part_(part), whole_(whole) {}

  Status run() {
    TUTTI_CHECK(part_.members.size() == leaf_.programs.size(), "{} members for {} ranks",
                part_.members.size(), leaf_.programs.size());
    for (const std::string& name : leaf_.formats) formats_.push_back(whole_.format(name));
    for (Rank member = 0; member < leaf_.request.ranks; ++member) place(member);
    pair_messages();
    for (Rank member = 0; member < leaf_.request.ranks; ++member) TUTTI_TRY(append(member));
    return ok_status();
  }

 private:
  struct End {
    Rank member = kNoRank;
    StepId step = 0;
  };
  using Channel = std::tuple<Rank, Rank, Lane>;
  /// Where each chunk of each space of a member lies.
  struct Places {
    std::vector<Region> spaces[kSpaces];
  };

  const Program& program(Rank member) const {
    return leaf_.programs[static_cast<std::size_t>(member)];
  }
  const Step& step(End end) const { return program(end.member).steps[end.step]; }

  void place(Rank member) {
    Places& places = places_.emplace_back();
    const BlockCounts blocks = block_counts(leaf_.request, member);
    const auto chunks = [&](std::int32_t count) {
      return static_cast<std::uint32_t>(count) * leaf_.chunks_per_block;
    };
    auto& [input, output, scratch] = places.spaces;
    for (std::uint32_t c = 0; c < chunks(blocks.input); ++c)
      input.push_back(part_.input(member, c));
    for (std::uint32_t c = 0; c < chunks(blocks.output); ++c)
      output.push_back(part_.output(member, c));
    // Scratch has the sizes of numbered chunks, and it is the larger buffer that has them all.
    const auto& sizes = output.size() >= input.size() ? output : input;
    Builder::RankBuilder rank = whole_.rank(part_.members[static_cast<std::size_t>(member)]);
    for (const std::uint32_t like : program(member).scratch) {
      Region& region = scratch.emplace_back();
      for (const ChunkSet& set : sizes[like]) region.push_back(rank.scratch(set));
    }
  }

  void pair_messages() {
    std::map<Channel, std::vector<End>> sends, receives;
    for (Rank member = 0; member < leaf_.request.ranks; ++member) {
      for (StepId id = 0; id < program(member).steps.size(); ++id) {
        const Step& step = program(member).steps[id];
        if (step.verb == Verb::kSend) sends[{member, step.peer, step.lane}].push_back({member, id});
        if (step.verb == Verb::kRecv)
          receives[{step.peer, member, step.lane}].push_back({member, id});
      }
      others_.emplace_back(program(member).steps.size());
    }
    for (const auto& [channel, from] : sends) {
      const std::vector<End>& to = receives[channel];
      for (std::size_t i = 0; i < from.size() && i < to.size(); ++i) {
        others_[static_cast<std::size_t>(from[i].member)][from[i].step] = to[i];
        others_[static_cast<std::size_t>(to[i].member)][to[i].step] = from[i];
      }
    }
  }

  /// Where the chunks of an operand lie, one after the other.
  void list_cells(Rank member, const ChunkSet& set, std::vector<Cell>& cells) const {
    cells.clear();
    const auto& regions =
        places_[static_cast<std::size_t>(member)].spaces[static_cast<std::size_t>(set.space)];
    for (std::uint32_t i = 0; i < set.count; ++i) {
      for (const ChunkSet& part : regions[set.at(i)])
        for (std::uint32_t j = 0; j < part.count; ++j) cells.push_back({part.space, part.at(j)});
    }
  }

  Status append(Rank member) {
    Builder::RankBuilder rank = whole_.rank(part_.members[static_cast<std::size_t>(member)]);
    for (StepId id = 0; id < program(member).steps.size(); ++id) {
      const End own{member, id};
      const Step& step = this->step(own);
      if (uses_group(step.verb)) {
        TUTTI_TRY(append_group_step(rank, member, step));
        continue;
      }
      const End other = others_[static_cast<std::size_t>(member)][id];
      TUTTI_CHECK(!uses_peer(step.verb) || other.member != kNoRank,
                  "a {} of {}'s rank {} has no other end", name_of(step.verb), leaf_.algorithm,
                  member);
      const End from = step.verb == Verb::kRecv ? other : own;
      const End to = step.verb == Verb::kSend ? other : own;
      list_cells(from.member, this->step(from).src, src_);
      list_cells(to.member, this->step(to).dst, dst_);
      if (src_.size() != dst_.size())
        return make_error(Code::kUnsupported,
                          "{} needs blocks of one size: {} chunks at rank {} are {} at rank {}",
                          leaf_.algorithm, src_.size(), from.member, dst_.size(), to.member);
      // A lane for each piece: neither end waits with the next one for the other to take the last.
      std::uint32_t lane = step.lane;
      for (Piece& piece : pieces_of(src_, dst_)) {
        piece.src.format = format_in_whole(step.src.format);
        piece.dst.format = format_in_whole(step.dst.format);
        append(rank, step, piece, static_cast<Lane>(lane));
        lane += leaf_.lanes;
      }
    }
    return ok_status();
  }

  void append(Builder::RankBuilder& rank, const Step& step, const Piece& piece, Lane lane) const {
    const auto peer = [&] { return part_.members[static_cast<std::size_t>(step.peer)]; };
    switch (step.verb) {
      case Verb::kSend:
        rank.send(piece.src, peer(), lane);
        return;
      case Verb::kRecv:
        rank.recv(piece.dst, peer(), lane);
        return;
      case Verb::kCopy:
        rank.copy(piece.src, piece.dst);
        return;
      case Verb::kReduce:
        rank.reduce(piece.src, piece.dst);
        return;
      case Verb::kGroupReduce:
      case Verb::kMulticast:
        return;  // append_group_step()
    }
  }

  /// As one step: what is split would have to be split alike on all members.
  Status append_group_step(Builder::RankBuilder& rank, Rank member, const Step& step) {
    TUTTI_ASSIGN(const ChunkSet src, in_one_set(member, step.src));
    TUTTI_ASSIGN(const ChunkSet dst, in_one_set(member, step.dst));
    std::vector<Rank> ranks;
    for (const Rank of_leaf : leaf_.groups[step.group].ranks)
      ranks.push_back(part_.members[static_cast<std::size_t>(of_leaf)]);
    const GroupId group = whole_.group(ranks);
    if (step.verb == Verb::kGroupReduce)
      rank.group_reduce(src, dst, group);
    else
      rank.multicast(src, dst, group);
    return ok_status();
  }

  Result<ChunkSet> in_one_set(Rank member, const ChunkSet& set) {
    if (set.count == 0) return ChunkSet{};
    list_cells(member, set, src_);
    if (src_.empty())
      return make_error(Code::kUnsupported, "{}: rank {} has no data of a group step",
                        leaf_.algorithm, member);
    ChunkSet found = start(src_.front());
    for (std::size_t i = 1; i < src_.size(); ++i)
      if (!extend(found, src_[i]))
        return make_error(Code::kUnsupported,
                          "{}: rank {}'s data of a group step is no set of chunks", leaf_.algorithm,
                          member);
    found.format = format_in_whole(set.format);
    return found;
  }

  [[nodiscard]] FormatId format_in_whole(FormatId of_leaf) const {
    return of_leaf == kPlain ? kPlain : formats_[std::size_t{of_leaf} - 1];
  }

  const Schedule& leaf_;
  const Part& part_;
  Builder& whole_;
  std::vector<FormatId> formats_;  // of the leaf, in the whole
  std::vector<Places> places_;
  std::vector<std::vector<End>> others_;  // of each member's steps: the other end of the message
  std::vector<Cell> src_, dst_;           // of the step being appended
};

}  // namespace

Region region_of(Space space, std::span<const std::uint32_t> chunks) {
  Region region;
  for (const std::uint32_t chunk : chunks) {
    const Cell next{space, chunk};
    if (region.empty() || !extend(region.back(), next)) region.push_back(start(next));
  }
  return region;
}

Status embed(const Schedule& leaf, const Part& part, Builder& whole) {
  return Embedder(leaf, part, whole).run();
}

}  // namespace tutti::ir
