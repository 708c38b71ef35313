#include "src/ir/compress.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/ir/blocks.hpp"
#include "src/ir/builder.hpp"
#include "src/ir/cells.hpp"

namespace tutti::ir {
namespace {

/// Which messages are compressed; both ends ask.
class Selection {
 public:
  Selection(const Request& request, CompressedMessages messages) {
    if (messages == CompressedMessages::kAll || request.layout.empty()) return;
    for (const std::int32_t cell : request.layout.cells)
      host_.push_back(cell / request.layout.extents.front());
  }
  [[nodiscard]] bool compresses(Rank a, Rank b) const {
    return host_.empty() ||
           host_[static_cast<std::size_t>(a)] != host_[static_cast<std::size_t>(b)];
  }

 private:
  std::vector<std::int32_t> host_;  ///< empty: all messages are compressed
};

/// A value as a rank's program computes it: what one step writes to one chunk. Copies keep it.
using ValueId = std::uint32_t;

/// Numbers a rank's values, and finds those that it will encode: the ones that it sends compressed
/// and did not receive so.
class Values {
 public:
  Values(const Schedule& schedule, const Selection& selection, Rank rank)
      : map_(schedule, rank), value_(map_.size()) {
    number_cells();
    for (const Step& step : schedule.programs[static_cast<std::size_t>(rank)].steps) {
      const bool compressed = uses_peer(step.verb) && selection.compresses(rank, step.peer);
      const std::uint32_t chunks = step.verb == Verb::kSend ? step.src.count : step.dst.count;
      for (std::uint32_t i = 0; i < chunks; ++i) {
        if (step.verb == Verb::kSend && compressed) encoded_[at(step.src, i)] = true;
        if (step.verb == Verb::kCopy) at(step.dst, i) = at(step.src, i);
        if (uses_dst(step.verb) && step.verb != Verb::kCopy) at(step.dst, i) = fresh();
      }
    }
    number_cells();
  }

  // For walking through the steps a second time, which gives the same numbers.
  [[nodiscard]] ValueId present(std::size_t cell) const { return value_[cell]; }
  void copy(std::size_t from, std::size_t to) { value_[to] = value_[from]; }
  void renew(std::size_t cell) { value_[cell] = fresh(); }
  [[nodiscard]] bool is_encoded(ValueId value) const { return encoded_[value]; }

 private:
  ValueId& at(const ChunkSet& set, std::uint32_t i) {
    return value_[map_.cell(set.space, set.at(i))];
  }
  void number_cells() {
    next_ = 0;
    for (ValueId& value : value_) value = fresh();
  }
  ValueId fresh() {
    if (next_ == encoded_.size()) encoded_.push_back(false);
    return next_++;
  }

  CellMap map_;
  std::vector<ValueId> value_;  ///< of each cell
  std::vector<bool> encoded_;
  ValueId next_ = 0;
};

/// Rewrites one rank's program.
class Rewriter {
 public:
  Rewriter(const Schedule& plain, const Selection& selection, Builder& builder, Rank rank)
      : plain_(plain),
        selection_(selection),
        me_(builder.rank(rank)),
        format_(builder.format(kWireFormat)),
        rank_(rank),
        map_(plain, rank),
        values_(plain, selection, rank),
        cells_(map_.size()) {}

  void run() {
    const Program& program = plain_.programs[static_cast<std::size_t>(rank_)];
    me_.scratch_for(program.scratch);
    for (const Step& step : program.steps) rewrite(step);
    make_plain({Space::kOutput, 0, static_cast<std::uint32_t>(map_.chunks(Space::kOutput)), 1});
  }

 private:
  /// What is known of a cell.
  struct Cell {
    std::optional<std::uint32_t> code;  ///< scratch chunk that holds the value in the format
    bool is_plain = true;               ///< the cell itself holds the value
  };

  Cell& cell(const ChunkSet& set, std::uint32_t i) {
    return cells_[map_.cell(set.space, set.at(i))];
  }

  void rewrite(const Step& step) {
    const bool compressed = uses_peer(step.verb) && selection_.compresses(rank_, step.peer);
    if (uses_src(step.verb)) encode_what_is_sent_ever(step.src);
    switch (step.verb) {
      case Verb::kSend:
        if (compressed)
          me_.send(codes_of(step.src), step.peer, step.lane);
        else
          me_.send(plain_of(step.src), step.peer, step.lane);
        return;
      case Verb::kRecv:
        return compressed ? receive_code(step) : receive_plain(step);
      case Verb::kCopy:
        return copy(step);
      case Verb::kReduce:
        encode_what_is_sent_ever(step.dst);
        return reduce(step);
      case Verb::kGroupReduce:
      case Verb::kMulticast:
        return take_part(step);
    }
  }

  /// Runs fn(first, count) over the longest runs in which `alike` holds of neighbours.
  template <class Alike, class Fn>
  static void for_each_run(std::uint32_t count, const Alike& alike, const Fn& fn) {
    for (std::uint32_t begin = 0; begin < count;) {
      std::uint32_t end = begin + 1;
      while (end < count && alike(end - 1, end)) ++end;
      fn(begin, end - begin);
      begin = end;
    }
  }
  static ChunkSet part(const ChunkSet& set, std::uint32_t first, std::uint32_t count) {
    return {set.space, set.at(first), count, set.stride, set.format};
  }
  /// New scratch for values of `set`, plain or not.
  ChunkSet scratch_like(const ChunkSet& set, FormatId format) {
    std::vector<std::uint32_t> like;
    for (std::uint32_t i = 0; i < set.count; ++i)
      like.push_back(
          set.space == Space::kScratch
              ? plain_.programs[static_cast<std::size_t>(rank_)].scratch[set.at(i)]
              : chunk_of_all(plain_.request, plain_.chunks_per_block, rank_, set.space, set.at(i)));
    return me_.scratch_for(like, format);
  }

  // --- encoding ---

  /// Before anyone reads them here, so that everyone reads the same.
  void encode_what_is_sent_ever(const ChunkSet& set) {
    const auto is_due = [&](std::uint32_t i) {
      const std::size_t at = map_.cell(set.space, set.at(i));
      return !cells_[at].code && values_.is_encoded(values_.present(at));
    };
    const auto alike = [&](std::uint32_t a, std::uint32_t b) { return is_due(a) == is_due(b); };
    for_each_run(set.count, alike, [&](std::uint32_t first, std::uint32_t count) {
      if (!is_due(first)) return;
      const ChunkSet run = part(set, first, count);
      const ChunkSet code = scratch_like(run, format_);
      me_.copy(run, code);
      for (std::uint32_t i = 0; i < count; ++i) cell(run, i) = {code.at(i), false};
    });
  }

  /// All of `set` in the format, as one operand: where it is, or gathered.
  ChunkSet codes_of(const ChunkSet& set) {
    const std::uint32_t first = *cell(set, 0).code;
    const std::uint32_t second = set.count > 1 ? *cell(set, 1).code : first + 1;
    ChunkSet codes{Space::kScratch, first, set.count, second > first ? second - first : 1, format_};
    bool in_line = true;
    for (std::uint32_t i = 0; i < set.count; ++i)
      in_line = in_line && *cell(set, i).code == codes.at(i);
    if (in_line) return codes;
    codes = scratch_like(set, format_);
    for (std::uint32_t i = 0; i < set.count; ++i) me_.copy(code(set, i), part(codes, i, 1));
    return codes;
  }
  ChunkSet code(const ChunkSet& set, std::uint32_t i) {
    return {Space::kScratch, *cell(set, i).code, 1, 1, format_};
  }

  // --- decoding ---

  /// Puts the values into their cells.
  void make_plain(const ChunkSet& set) {
    decode(set, set);
    for (std::uint32_t i = 0; i < set.count; ++i) cell(set, i).is_plain = true;
  }
  /// What of `set` is not plain, at its place in `to`.
  void decode(const ChunkSet& set, const ChunkSet& to) {
    for_each_run(
        set.count, [&](std::uint32_t a, std::uint32_t b) { return follows(set, a, b); },
        [&](std::uint32_t first, std::uint32_t count) {
          if (cell(set, first).is_plain) return;
          me_.copy(codes_of(part(set, first, count)), part(to, first, count));
        });
  }
  /// Whether two neighbours are read from the same memory, one after the other.
  bool follows(const ChunkSet& set, std::uint32_t a, std::uint32_t b) {
    const Cell &before = cell(set, a), &after = cell(set, b);
    if (before.is_plain != after.is_plain) return false;
    return before.is_plain || *after.code == *before.code + 1;
  }

  /// The values of `set` as one plain operand. Input cannot be overwritten.
  ChunkSet plain_of(const ChunkSet& set) {
    bool all_plain = true;
    for (std::uint32_t i = 0; i < set.count; ++i) all_plain = all_plain && cell(set, i).is_plain;
    if (all_plain) return set;
    if (set.space != Space::kInput) {
      make_plain(set);
      return set;
    }
    const ChunkSet copy = scratch_like(set, kPlain);
    for (std::uint32_t i = 0; i < set.count; ++i)
      if (cell(set, i).is_plain) me_.copy(part(set, i, 1), part(copy, i, 1));
    decode(set, copy);
    return copy;
  }

  // --- verbs ---

  void receive_code(const Step& step) {
    const ChunkSet code = scratch_like(step.dst, format_);
    me_.recv(code, step.peer, step.lane);
    for (std::uint32_t i = 0; i < step.dst.count; ++i) set_cell(step.dst, i, {code.at(i), false});
  }
  void receive_plain(const Step& step) {
    me_.recv(step.dst, step.peer, step.lane);
    for (std::uint32_t i = 0; i < step.dst.count; ++i) set_cell(step.dst, i, {});
  }
  void set_cell(const ChunkSet& set, std::uint32_t i, const Cell& known) {
    values_.renew(map_.cell(set.space, set.at(i)));
    cell(set, i) = known;
  }

  /// What exists in the format need not be copied: it never changes.
  void copy(const Step& step) {
    for_each_run(
        step.src.count,
        [&](std::uint32_t a, std::uint32_t b) {
          return cell(step.src, a).is_plain == cell(step.src, b).is_plain;
        },
        [&](std::uint32_t first, std::uint32_t count) {
          if (cell(step.src, first).is_plain)
            me_.copy(part(step.src, first, count), part(step.dst, first, count));
        });
    for (std::uint32_t i = 0; i < step.src.count; ++i) {
      values_.copy(map_.cell(step.src.space, step.src.at(i)),
                   map_.cell(step.dst.space, step.dst.at(i)));
      cell(step.dst, i) = Cell(cell(step.src, i));
    }
  }

  void reduce(const Step& step) {
    make_plain(step.dst);
    for_each_run(
        step.src.count, [&](std::uint32_t a, std::uint32_t b) { return follows(step.src, a, b); },
        [&](std::uint32_t first, std::uint32_t count) {
          const ChunkSet run = part(step.src, first, count);
          me_.reduce(cell(run, 0).is_plain ? run : codes_of(run), part(step.dst, first, count));
        });
    for (std::uint32_t i = 0; i < step.dst.count; ++i) set_cell(step.dst, i, {});
  }

  /// The network gets plain values, and returns such.
  void take_part(const Step& step) {
    const ChunkSet src = step.src.count == 0 ? ChunkSet{} : plain_of(step.src);
    if (step.verb == Verb::kGroupReduce)
      me_.group_reduce(src, step.dst, step.group);
    else
      me_.multicast(src, step.dst, step.group);
    for (std::uint32_t i = 0; i < step.dst.count; ++i) set_cell(step.dst, i, {});
  }

  const Schedule& plain_;
  const Selection& selection_;
  Builder::RankBuilder me_;
  const FormatId format_;
  const Rank rank_;
  const CellMap map_;
  Values values_;
  std::vector<Cell> cells_;
};

}  // namespace

Schedule compress(const Schedule& plain, CompressedMessages messages) {
  const Selection selection(plain.request, messages);
  Builder builder(plain.request, plain.algorithm, plain.chunks_per_block);
  builder.add_groups(plain.groups);
  for (Rank rank = 0; rank < plain.request.ranks; ++rank)
    Rewriter(plain, selection, builder, rank).run();
  return std::move(builder).finish();
}

}  // namespace tutti::ir
