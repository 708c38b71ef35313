#include "src/lower/draft.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "src/ir/blocks.hpp"
#include "src/lower/places.hpp"
#include "src/lower/tidy.hpp"

namespace tutti::lower {

using ir::ChunkSet;
using ir::Space;
using ir::Step;
using ir::Verb;

namespace {

/// One piece of an operand, wherever it is to be read from.
struct PieceRef {
  ProgramMemory memory = ProgramMemory::kInput;
  Rank owner = kNoRank;
  std::optional<MessageId> message;  ///< kSlot
  std::uint32_t piece = 0;
  ir::FormatId format = ir::kPlain;

  [[nodiscard]] bool same_memory(const PieceRef& other) const {
    return memory == other.memory && owner == other.owner && message == other.message &&
           format == other.format;
  }
};

/// What is known of one place while walking through the steps.
struct DraftCell {
  std::uint32_t version = 0;            ///< writes so far
  std::optional<std::uint32_t> writer;  ///< the op that wrote the present version
  std::optional<PieceRef> alias;        ///< the present version lives there instead
  bool read = false;                    ///< the present version has been read or sent
};

class RankDrafter {
 public:
  RankDrafter(const ir::Schedule& schedule, const ir::Proof& proof, const Placement& placement,
              const LowerOptions& options, const Messages& messages,
              const ir::GroupOperations& operations, Rank rank)
      : schedule_(schedule),
        proof_(proof),
        placement_(placement),
        options_(options),
        messages_(messages),
        operations_(operations),
        rank_(rank),
        next_operation_(operations.size(), 0) {}

  Draft run() {
    const ir::Program& program = schedule_.programs[rank_];
    for (step_ = 0; step_ < program.steps.size(); ++step_) {
      const Step& step = program.steps[step_];
      switch (step.verb) {
        case Verb::kSend:
          send(step);
          break;
        case Verb::kRecv:
          recv(step);
          break;
        case Verb::kCopy:
          copy(step);
          break;
        case Verb::kReduce:
          reduce(step);
          break;
        case Verb::kGroupReduce:
        case Verb::kMulticast:
          take_part(step);
          break;
      }
    }
    if (options_.scales_input && reduces(schedule_.request.collective)) scale_untouched_output();
    skip_copies_of_own_input(draft_, {schedule_.request, schedule_.chunks_per_block, rank_});
    drop_unread_scratch(draft_);
    return std::move(draft_);
  }

 private:
  // --- places ---

  [[nodiscard]] PlaceKey key(Space space, std::uint32_t chunk) const {
    const ProgramMemory memory = space == Space::kInput    ? ProgramMemory::kInput
                                 : space == Space::kOutput ? ProgramMemory::kOutput
                                                           : ProgramMemory::kScratch;
    return place_of(schedule_.request, schedule_.chunks_per_block, rank_, memory, chunk);
  }
  DraftCell& cell(Space space, std::uint32_t chunk) { return cells_[key(space, chunk)]; }

  /// See Op::like.
  [[nodiscard]] std::uint32_t like(Space space, std::uint32_t chunk) const {
    if (space != Space::kScratch)
      return ir::chunk_of_all(schedule_.request, schedule_.chunks_per_block, rank_, space, chunk);
    const std::vector<std::uint32_t>& scratch = schedule_.programs[rank_].scratch;
    return chunk < scratch.size() ? scratch[chunk] : extra_like_[chunk - scratch.size()];
  }
  [[nodiscard]] std::vector<std::uint32_t> like(const ChunkSet& set) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t i = 0; i < set.count; ++i) result.push_back(like(set.space, set.at(i)));
    return result;
  }

  PieceRef resolve(Space space, std::uint32_t chunk) {
    DraftCell& place = cell(space, chunk);
    place.read = true;
    if (place.alias) return *place.alias;
    return own(space, chunk);
  }
  /// The place itself. Input that was never written is raw; an aliased output that was never
  /// written still is the input; input that was overwritten in place is output.
  PieceRef own(Space space, std::uint32_t chunk) {
    if (space == Space::kScratch) return {ProgramMemory::kScratch, kNoRank, {}, chunk};
    const PlaceKey place = key(space, chunk);
    const bool raw = place.memory == ProgramMemory::kInput && cells_[place].version == 0;
    if (raw) return {ProgramMemory::kInput, kNoRank, {}, place.piece};
    if (space == Space::kOutput) return {ProgramMemory::kOutput, kNoRank, {}, chunk};
    return {ProgramMemory::kOutput, kNoRank, {}, output_chunk_over(chunk)};
  }
  [[nodiscard]] std::uint32_t output_chunk_over(std::uint32_t input_chunk) const {
    const ir::Aliasing alias = ir::aliasing(schedule_.request, rank_);
    const std::uint32_t per_block = schedule_.chunks_per_block;
    return static_cast<std::uint32_t>(alias.output_block) * per_block + input_chunk -
           static_cast<std::uint32_t>(alias.input_block) * per_block;
  }

  void written(const ChunkSet& set, std::optional<std::uint32_t> writer) {
    for (std::uint32_t i = 0; i < set.count; ++i) {
      DraftCell& place = cell(set.space, set.at(i));
      ++place.version;
      place.writer = writer;
      place.alias.reset();
      place.read = false;
    }
  }

  Operand target(const ChunkSet& set) const {
    Operand operand;
    operand.memory =
        set.space == Space::kScratch ? ProgramMemory::kScratch : ProgramMemory::kOutput;
    operand.format = set.format;
    for (std::uint32_t i = 0; i < set.count; ++i) operand.pieces.push_back(set.at(i));
    return operand;
  }

  // --- ops ---

  /// Whether the present step is a reduction of this rank that completes a sum.
  [[nodiscard]] bool completes_here() const {
    return schedule_.programs[rank_].steps[step_].verb == Verb::kReduce &&
           proof_.completes[rank_][step_];
  }
  [[nodiscard]] std::uint32_t round() const { return proof_.round[rank_][step_]; }

  std::uint32_t append(DraftOp op) {
    draft_.ops.push_back(std::move(op));
    return static_cast<std::uint32_t>(draft_.ops.size() - 1);
  }

  static void add_piece(DraftOp& op, std::size_t source, const PieceRef& ref) {
    if (op.op.sources.size() <= source) {
      Operand operand;
      operand.memory = ref.memory;
      operand.owner = ref.owner;
      operand.format = ref.format;
      if (ref.message) {
        operand.index = static_cast<std::uint32_t>(op.messages.size());
        op.messages.push_back(*ref.message);
      }
      op.op.sources.push_back(std::move(operand));
    }
    op.op.sources[source].pieces.push_back(ref.piece);
  }

  /// Calls fn(first piece, pieces) for the longest runs in which every source stays in one memory.
  template <class Fn>
  static void for_each_run(const std::vector<std::vector<PieceRef>>& sources, std::uint32_t pieces,
                           Fn fn) {
    for (std::uint32_t begin = 0; begin < pieces;) {
      std::uint32_t end = begin + 1;
      const auto continues = [&](const std::vector<PieceRef>& source) {
        return source[end].same_memory(source[begin]);
      };
      while (end < pieces && std::all_of(sources.begin(), sources.end(), continues)) ++end;
      fn(begin, end - begin);
      begin = end;
    }
  }

  static ChunkSet part(const ChunkSet& set, std::uint32_t first, std::uint32_t count) {
    return {set.space, set.at(first), count, set.stride, set.format};
  }

  /// dst = combination of `sources`, each a list of one PieceRef per piece of dst.
  void combine(const std::vector<std::vector<PieceRef>>& sources, const ChunkSet& dst) {
    for_each_run(sources, dst.count, [&](std::uint32_t first, std::uint32_t count) {
      const ChunkSet run = part(dst, first, count);
      DraftOp op;
      op.round = round();
      op.op.completes = completes_here();
      op.op.like = like(run);
      for (std::size_t s = 0; s < sources.size(); ++s)
        for (std::uint32_t i = 0; i < count; ++i) add_piece(op, s, sources[s][first + i]);
      op.op.destinations.push_back(target(run));
      written(run, append(std::move(op)));
    });
  }

  std::vector<PieceRef> resolve(const ChunkSet& set) {
    std::vector<PieceRef> refs;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      refs.push_back(resolve(set.space, set.at(i)));
      refs.back().format = set.format;
    }
    return refs;
  }

  // --- verbs ---

  MessageId next_message(Rank source, Rank destination, Lane lane) {
    return {source, destination, lane, counts_[{source, destination, lane}]++};
  }

  void send(const Step& step) {
    const MessageId message = next_message(rank_, step.peer, step.lane);
    if (one_round(options_.protocol)) {
      if (messages_.at(message).stored) push(step, message);
      return;  // else the receiver reads it where it is
    }
    if (placement_.mapped(rank_, step.peer))
      publish(step, message);
    else
      post_send(step, message);
  }

  /// Writes what is sent where its receiver wants it.
  void push(const Step& step, const MessageId& message) {
    const ChunkSet& destination = messages_.at(message).destination;
    Operand target;
    target.memory = ProgramMemory::kPeerOutput;
    target.owner = step.peer;
    for (std::uint32_t i = 0; i < destination.count; ++i)
      target.pieces.push_back(destination.at(i));
    op_that_can_also_write(step.src, std::move(target));
  }

  void publish(const Step& step, const MessageId& message) {
    std::vector<std::uint32_t> versions;
    for (std::uint32_t i = 0; i < step.src.count; ++i)
      versions.push_back(cell(step.src.space, step.src.at(i)).version);
    const auto value = std::tuple(step.src.space, step.src.first, step.src.count, step.src.stride,
                                  std::move(versions));
    const auto known = published_.find(value);
    if (known != published_.end()) {
      draft_.publications[message] = known->second;
      return;
    }
    const auto slot = static_cast<std::uint32_t>(draft_.slots.size());
    draft_.slots.push_back({step.src.count, 0});
    Operand target;
    target.memory = ProgramMemory::kSlot;
    target.owner = rank_;
    target.index = slot;
    target.format = step.src.format;
    for (std::uint32_t i = 0; i < step.src.count; ++i) target.pieces.push_back(i);

    const std::uint32_t op = op_that_can_also_write(step.src, std::move(target));
    const Publication publication{slot, op};
    published_[value] = publication;
    draft_.publications[message] = publication;
  }

  /// Whether `op` can also write to one more place that peers see. One place is kept for the rank's
  /// own output, which a rank in place does not write: peers are to see the same of both.
  static bool has_room(const Op& op) {
    const std::size_t own = is_own(op.destinations.front().memory) ? 1 : 0;
    return op.destinations.size() - own < kMaxDestinations - 1;
  }

  /// The op that wrote exactly `src`, with one more destination; else a new op that copies it.
  std::uint32_t op_that_can_also_write(const ChunkSet& src, Operand target) {
    if (const auto writer = writer_of_exactly(src);
        writer && draft_.ops[*writer].op.kind == OpKind::kCombine &&
        has_room(draft_.ops[*writer].op)) {
      mark_read(src);
      draft_.ops[*writer].op.destinations.push_back(std::move(target));
      return *writer;
    }
    const std::vector<std::vector<PieceRef>> sources{resolve(src)};
    if (const auto copier = op_that_copies(sources[0], has_room)) {
      draft_.ops[*copier].op.destinations.push_back(std::move(target));
      return *copier;
    }
    std::uint32_t last = 0;
    for_each_run(sources, src.count, [&](std::uint32_t first, std::uint32_t count) {
      DraftOp op;
      op.round = round();
      op.op.like = like(part(src, first, count));
      for (std::uint32_t i = 0; i < count; ++i) add_piece(op, 0, sources[0][first + i]);
      Operand run = target;
      run.pieces.assign(target.pieces.begin() + first, target.pieces.begin() + first + count);
      op.op.destinations.push_back(std::move(run));
      last = append(std::move(op));
    });
    return last;  // ops run in order: once the last is passed, all are
  }

  /// An op that copies exactly `value` somewhere and `has_room` to write it to one more place, so
  /// that it is read once. Raw input; where nobody waits for single ops, own output as well.
  std::optional<std::uint32_t> op_that_copies(const std::vector<PieceRef>& value,
                                              bool (*has_room)(const Op&)) {
    const ProgramMemory memory = value.front().memory;
    const bool output =
        memory == ProgramMemory::kOutput && options_.protocol == ProgramProtocol::kDirect;
    if (memory != ProgramMemory::kInput && !output) return std::nullopt;
    for (std::uint32_t id = 0; id < draft_.ops.size(); ++id) {
      const DraftOp& op = draft_.ops[id];
      if (op.dead || op.op.kind != OpKind::kCombine || op.op.sources.size() != 1) continue;
      if (has_room(op.op) && reads_exactly(op.op.sources[0], value) &&
          (!output || sources_unchanged_since(id)))
        return id;
    }
    return std::nullopt;
  }
  static bool reads_exactly(const Operand& source, const std::vector<PieceRef>& value) {
    return std::ranges::equal(source.pieces, value,
                              [&](std::uint32_t piece, const PieceRef& wanted) {
                                return wanted.memory == source.memory && wanted.piece == piece;
                              });
  }

  std::optional<std::uint32_t> writer_of_exactly(const ChunkSet& set) {
    std::optional<std::uint32_t> writer;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const DraftCell& place = cell(set.space, set.at(i));
      if (place.alias || !place.writer) return std::nullopt;
      if (i > 0 && writer != place.writer) return std::nullopt;
      writer = place.writer;
    }
    const DraftOp& op = draft_.ops[*writer];
    if (op.dead || op.op.destinations.empty()) return std::nullopt;
    const auto is_written_by = [&](const Operand& destination) {
      if (!is_own(destination.memory) || destination.format != set.format ||
          destination.pieces.size() != set.count)
        return false;
      for (std::uint32_t i = 0; i < set.count; ++i)
        if (place(destination.memory, destination.pieces[i]) != key(set.space, set.at(i)))
          return false;
      return true;
    };
    return std::ranges::any_of(op.op.destinations, is_written_by) ? writer : std::nullopt;
  }

  void mark_read(const ChunkSet& set) {
    for (std::uint32_t i = 0; i < set.count; ++i) cell(set.space, set.at(i)).read = true;
  }

  void post_send(const Step& step, const MessageId& message) {
    const std::vector<PieceRef> refs = settle(step.src);
    DraftOp op;
    op.round = round();
    op.op.kind = OpKind::kSend;
    op.op.peer = step.peer;
    op.op.lane = step.lane;
    op.op.like = like(step.src);
    op.sends = message;
    // Pieces may lie in different memories only when they were settled; then all are scratch.
    for (std::uint32_t i = 0; i < step.src.count; ++i) add_piece(op, 0, refs[i]);
    draft_.sends[message] = append(std::move(op));
  }

  /// References to `set` that a transfer may read as they are: nothing of a peer's, no raw input
  /// that must be scaled, one memory.
  std::vector<PieceRef> settle(const ChunkSet& set) {
    std::vector<PieceRef> refs = resolve(set);
    const auto fits = [&](const PieceRef& ref) {
      const bool transient =
          ref.memory == ProgramMemory::kSlot || ref.memory == ProgramMemory::kPublished;
      const bool unscaled = ref.memory == ProgramMemory::kInput && options_.scales_input;
      return !transient && !unscaled && ref.same_memory(refs.front());
    };
    if (std::all_of(refs.begin(), refs.end(), fits)) return refs;
    const ChunkSet scratch = fresh_scratch(set);
    combine({refs}, scratch);
    return resolve(scratch);
  }

  ChunkSet fresh_scratch(const ChunkSet& set) {
    ChunkSet scratch{Space::kScratch, scratch_end(), set.count, 1, set.format};
    for (const std::uint32_t chunk : like(set)) extra_like_.push_back(chunk);
    return scratch;
  }
  [[nodiscard]] std::uint32_t scratch_end() const {
    return static_cast<std::uint32_t>(schedule_.programs[rank_].scratch.size() +
                                      extra_like_.size());
  }

  void recv(const Step& step) {
    const MessageId message = next_message(step.peer, rank_, step.lane);
    if (!placement_.mapped(rank_, step.peer)) return post_recv(step, message);
    if (messages_.at(message).stored) return written(step.dst, std::nullopt);  // by the sender
    std::vector<PieceRef> refs;
    for (std::uint32_t i = 0; i < step.dst.count; ++i) refs.push_back(remote(message, i));
    if (step.dst.space == Space::kScratch) return alias(step.dst, refs);
    combine({refs}, step.dst);
  }

  PieceRef remote(const MessageId& message, std::uint32_t piece) const {
    if (one_round(options_.protocol))
      return {
          ProgramMemory::kPublished, message.source, {}, messages_.at(message).source.at(piece)};
    const ir::FormatId format = messages_.at(message).source.format;
    return {ProgramMemory::kSlot, message.source, message, piece, format};
  }

  void alias(const ChunkSet& dst, const std::vector<PieceRef>& refs) {
    written(dst, std::nullopt);
    for (std::uint32_t i = 0; i < dst.count; ++i) cell(dst.space, dst.at(i)).alias = refs[i];
  }

  void post_recv(const Step& step, const MessageId& message) {
    DraftOp op;
    op.round = round() == 0 ? 0 : round() - 1;  // with its send, or earlier: see link()
    op.op.kind = OpKind::kRecv;
    op.op.peer = step.peer;
    op.op.lane = step.lane;
    op.op.like = like(step.dst);
    op.receives = message;
    op.op.destinations.push_back(target(step.dst));
    const std::uint32_t id = append(std::move(op));
    written(step.dst, id);
  }

  void take_part(const Step& step) {
    DraftOp op;
    op.op.kind = OpKind::kGroup;
    op.op.group = step.group;
    op.op.completes = proof_.completes[rank_][step_];
    op.operation = next_operation_[step.group]++;
    op.round = round() - 1;  // its results come a round later: see link()
    const ir::GroupOperation& operation = operations_[step.group][op.operation];
    const std::vector<Rank>& members = schedule_.groups[step.group].ranks;
    const auto place = std::ranges::find(members, rank_) - members.begin();
    const ir::GroupPart& part = operation.parts[static_cast<std::size_t>(place)];
    op.op.form = operation.form;
    op.op.root = operation.root;
    op.op.first_sent = part.first_sent;
    op.op.first_received = part.first;
    op.op.positions = operation.chunks;
    if (step.src.count != 0) {
      op.op.like = like(step.src);
      const std::vector<PieceRef> refs = settle(step.src);
      for (const PieceRef& ref : refs) add_piece(op, 0, ref);
    }
    if (step.dst.count != 0) {
      op.op.like_received = like(step.dst);
      op.op.destinations.push_back(target(step.dst));
    }
    const std::uint32_t id = append(std::move(op));
    if (step.dst.count != 0) written(step.dst, id);
  }

  void copy(const Step& step) {
    if (step.src.format != step.dst.format) return convert(step.src, step.dst);
    const std::vector<PieceRef> refs = resolve(step.src);
    const auto steady = [&](const PieceRef& ref) {
      const bool untouched_input =
          ref.memory == ProgramMemory::kInput && !schedule_.request.in_place;
      return untouched_input || ref.memory == ProgramMemory::kSlot ||
             ref.memory == ProgramMemory::kPublished;
    };
    if (step.dst.space == Space::kScratch && std::all_of(refs.begin(), refs.end(), steady))
      return alias(step.dst, refs);
    const auto has_any_room = [](const Op& op) {
      return op.destinations.size() < kMaxDestinations;
    };
    if (const auto copier = op_that_copies(refs, has_any_room);
        copier && is_fresh_output(step.dst)) {
      std::vector<Operand>& destinations = draft_.ops[*copier].op.destinations;
      destinations.insert(destinations.begin(), target(step.dst));
      return written(step.dst, copier);
    }
    combine({refs}, step.dst);
  }

  /// Output that nothing has touched and that shares no memory with the input: writing it may move
  /// to an earlier op.
  bool is_fresh_output(const ChunkSet& set) {
    if (set.space != Space::kOutput || schedule_.request.in_place) return false;
    for (std::uint32_t i = 0; i < set.count; ++i)
      if (cell(set.space, set.at(i)).version > 0) return false;
    return true;
  }

  void reduce(const Step& step) {
    const std::vector<PieceRef> refs = resolve(step.src);
    if (const auto earlier = op_to_extend(step.dst)) {
      DraftOp merged = draft_.ops[*earlier];
      const bool one_memory = std::all_of(refs.begin(), refs.end(), [&](const PieceRef& ref) {
        return ref.same_memory(refs.front());
      });
      if (one_memory && merged.op.sources.size() < kMaxSources) {
        draft_.ops[*earlier].dead = true;
        const std::size_t source = merged.op.sources.size();
        for (const PieceRef& ref : refs) add_piece(merged, source, ref);
        merged.round = std::max(merged.round, round());
        merged.op.completes = proof_.completes[rank_][step_];
        written(step.dst, append(std::move(merged)));
        return;
      }
    }
    combine({resolve(step.dst), refs}, step.dst);
  }

  /// The op whose result `dst` is and that nobody has looked at, so that it can take one more
  /// source and run now instead of then.
  std::optional<std::uint32_t> op_to_extend(const ChunkSet& dst) {
    const auto writer = writer_of_exactly(dst);
    if (!writer) return std::nullopt;
    const DraftOp& op = draft_.ops[*writer];
    if (op.op.kind != OpKind::kCombine || op.op.destinations.size() != 1) return std::nullopt;
    for (std::uint32_t i = 0; i < dst.count; ++i)
      if (cell(dst.space, dst.at(i)).read) return std::nullopt;
    return sources_unchanged_since(*writer) ? writer : std::nullopt;
  }

  /// No op after `id` writes what `id` reads.
  bool sources_unchanged_since(std::uint32_t id) {
    std::set<PlaceKey> reads;
    for (const Operand& source : draft_.ops[id].op.sources)
      if (is_own(source.memory))
        for (const std::uint32_t piece : source.pieces) reads.insert(place(source.memory, piece));
    for (std::size_t later = id + 1; later < draft_.ops.size(); ++later) {
      if (draft_.ops[later].dead) continue;
      for (const Operand& destination : draft_.ops[later].op.destinations)
        if (is_own(destination.memory))
          for (const std::uint32_t piece : destination.pieces)
            if (reads.contains(place(destination.memory, piece))) return false;
    }
    return true;
  }

  [[nodiscard]] PlaceKey place(ProgramMemory memory, std::uint32_t piece) const {
    return place_of(schedule_.request, schedule_.chunks_per_block, rank_, memory, piece);
  }

  /// Whoever made a plain value also encodes it, where that may move to an earlier op.
  void convert(const ChunkSet& src, const ChunkSet& dst) {
    if (const auto writer = src.format == ir::kPlain ? writer_of_exactly(src) : std::nullopt;
        writer && is_untouched(dst) && can_encode(draft_.ops[*writer].op, dst.format)) {
      mark_read(src);
      draft_.ops[*writer].op.destinations.push_back(target(dst));
      return written(dst, writer);
    }
    combine({resolve(src)}, dst);
  }
  bool is_untouched(const ChunkSet& set) {
    for (std::uint32_t i = 0; i < set.count; ++i)
      if (cell(set.space, set.at(i)).version > 0) return false;
    return true;
  }
  static bool can_encode(const Op& op, ir::FormatId format) {
    const auto serves = [&](const Operand& destination) {
      return destination.format == ir::kPlain || destination.format == format;
    };
    return op.kind == OpKind::kCombine && has_room(op) &&
           std::ranges::all_of(op.destinations, serves);
  }

  /// In place and alone, the input is the result but for its scale.
  void scale_untouched_output() {
    const auto blocks =
        static_cast<std::uint32_t>(ir::block_counts(schedule_.request, rank_).output);
    for (std::uint32_t chunk = 0; chunk < blocks * schedule_.chunks_per_block; ++chunk) {
      const PieceRef value = own(Space::kOutput, chunk);
      if (value.memory != ProgramMemory::kInput) continue;
      DraftOp op;
      op.op.like = {like(Space::kOutput, chunk)};
      add_piece(op, 0, value);
      op.op.destinations.push_back(target({Space::kOutput, chunk, 1, 1}));
      append(std::move(op));
    }
  }

  const ir::Schedule& schedule_;
  const ir::Proof& proof_;
  const Placement& placement_;
  const LowerOptions& options_;
  const Messages& messages_;
  const ir::GroupOperations& operations_;
  const Rank rank_;
  ir::StepId step_ = 0;
  Draft draft_;
  std::map<PlaceKey, DraftCell> cells_;
  std::map<std::tuple<Rank, Rank, Lane>, std::uint32_t> counts_;
  std::map<
      std::tuple<Space, std::uint32_t, std::uint32_t, std::uint32_t, std::vector<std::uint32_t>>,
      Publication>
      published_;
  std::vector<std::uint32_t> extra_like_;
  std::vector<std::uint32_t> next_operation_;  // per group
};

}  // namespace

Draft draft_rank(const ir::Schedule& schedule, const ir::Proof& proof, const Placement& placement,
                 const LowerOptions& options, const Messages& messages,
                 const ir::GroupOperations& operations, Rank rank) {
  return RankDrafter(schedule, proof, placement, options, messages, operations, rank).run();
}

}  // namespace tutti::lower
