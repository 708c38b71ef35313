#include "src/lower/check.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/ir/blocks.hpp"
#include "src/ir/contributions.hpp"
#include "src/ir/request.hpp"
#include "src/lower/draft.hpp"
#include "src/lower/lower.hpp"
#include "src/lower/pace.hpp"
#include "src/lower/well_formed.hpp"

namespace tutti::lower {
namespace {

/// What a rank knows of the progress of those whose memory it maps, itself included: only they
/// order anything for each other, as messages do not.
using VectorClock = std::vector<std::uint32_t>;

bool uses_buffers_of(const Program& user, Rank owner) {
  for (const Op& op : user.ops)
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands)
        if (is_peers_buffer(operand.memory) && operand.owner == owner) return true;
  return false;
}

/// What a piece of memory holds for one slice of one call.
struct Value {
  std::uint32_t call = 0;
  std::uint32_t slice = 0;
  std::uint64_t origin = 0;  ///< chunk; for collectives that do not reduce, rank and chunk
  ir::SetId contributors = 0;
  ir::Recipe recipe = 0;  ///< if the program has formats
  bool defined = false;
  ir::FormatId format = ir::kPlain;
  bool raw = false;  ///< the user's input as it is: kPreMulSum has not scaled it
};

constexpr std::uint32_t kNoOp = ~std::uint32_t{0};

struct Cell {
  Value value;
  std::uint32_t sends = 0;         ///< posted sends that may still read it
  std::uint32_t receiver = kNoOp;  ///< the posted receive that may still write it
};

/// Cells of slots are read by peers: who wrote it when, and who has read it since.
struct Sharing {
  std::uint32_t written = 0;                         ///< the owner's clock
  std::vector<std::pair<Rank, std::uint32_t>> read;  ///< reader, its clock
};

struct Publish {
  std::uint64_t progress = 0;
  VectorClock clock;
};

/// Messages of one (source, destination, lane), in order.
struct Stream {
  std::vector<std::vector<Value>> messages;
  std::uint64_t receives = 0;  ///< posted
};

/// The transfers of one op for one slice; 0: none under way.
struct Posted {
  std::uint64_t slice_and_one = 0;
  std::uint64_t number = 0;  ///< in its stream
};

struct RankState {
  std::uint32_t call = 0;
  std::uint64_t iteration = 0;
  std::vector<std::uint32_t> todo;  ///< ops that have a slice in this iteration, last one first
  std::uint32_t op = 0;             ///< the present or next one
  bool entered = false;             ///< the present call
  std::uint32_t finished = 0;       ///< calls whose ops are all done
  std::size_t place = 0;            ///< in the clocks of its host
  VectorClock clock;
  std::vector<Publish> published;
  std::vector<std::uint32_t> stream;                           ///< per op that transfers
  std::vector<std::array<Posted, kTransfersInFlight>> posted;  ///< per op
  std::vector<std::vector<std::uint32_t>> by_stage;            ///< ops
  std::vector<Cell> cells;      ///< user memory, then scratch, then slots
  std::vector<Sharing> shared;  ///< of the slots
  std::size_t scratch_begin = 0;
  std::size_t slots_begin = 0;
};

/// One replay with a fixed number of slices. The program must be well-formed.
class Replay {
 public:
  Replay(const Lowered& lowered, const Placement& placement, const CheckOptions& options,
         std::uint32_t slices)
      : lowered_(lowered),
        placement_(placement),
        options_(options),
        slices_(slices),
        sets_(lowered.request.ranks),
        states_(lowered.programs.size()) {
    number_within_hosts();
    for (Rank rank = 0; rank < ranks(); ++rank) lay_out(rank);
    find_streams();
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < ranks(); ++rank) {
        for (;;) {
          TUTTI_ASSIGN(const bool stepped, step(rank));
          if (!stepped) break;
          moved = true;
        }
      }
    }
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (states_[rank].call < options_.calls)
        return wrong(rank, "deadlock: never gets what it waits for");
    return ok_status();
  }

 private:
  [[nodiscard]] std::int32_t ranks() const { return lowered_.request.ranks; }
  [[nodiscard]] const Program& program(Rank rank) const { return lowered_.programs[rank]; }
  [[nodiscard]] bool reducing() const { return reduces(lowered_.request.collective); }
  [[nodiscard]] bool has_recipes() const { return !lowered_.formats.empty(); }
  [[nodiscard]] bool staged() const { return lowered_.protocol == ProgramProtocol::kStaged; }

  template <class... Args>
  Error wrong(Rank rank, fmt::format_string<Args...> format, Args&&... args) const {
    const RankState& state = states_[rank];
    const bool in_op = state.entered && state.iteration < program(rank).iterations(slices_);
    return make_error(
        Code::kInternal, "{}: {} ({} lowered, rank {}, {} slices, call {}, iteration {}, op {})",
        in_op ? describe(lowered_, rank, state.op) : std::string("at the border of a call"),
        fmt::format(format, std::forward<Args>(args)...), lowered_.algorithm, rank, slices_,
        state.call, state.iteration, state.op);
  }

  // --- memory ---

  [[nodiscard]] std::uint32_t input_chunks(Rank rank) const {
    return static_cast<std::uint32_t>(ir::block_counts(lowered_.request, rank).input) *
           lowered_.chunks_per_block;
  }
  [[nodiscard]] std::uint32_t output_chunks(Rank rank) const {
    return static_cast<std::uint32_t>(ir::block_counts(lowered_.request, rank).output) *
           lowered_.chunks_per_block;
  }

  void number_within_hosts() {
    for (Rank rank = 0; rank < ranks(); ++rank) {
      std::vector<Rank>& host = hosts_[placement_.host[rank]];
      states_[rank].place = host.size();
      host.push_back(rank);
    }
    for (Rank rank = 0; rank < ranks(); ++rank)
      states_[rank].clock.assign(neighbours(rank).size(), 0);
  }
  /// The ranks of its host, itself included.
  [[nodiscard]] const std::vector<Rank>& neighbours(Rank rank) const {
    return hosts_.at(placement_.host[rank]);
  }
  /// What `rank` knows of the clock of a rank of its host.
  [[nodiscard]] std::uint32_t known(Rank rank, Rank of) const {
    return states_[rank].clock[states_[of].place];
  }
  void tick(Rank rank) { ++states_[rank].clock[states_[rank].place]; }

  void lay_out(Rank rank) {
    const Program& mine = program(rank);
    RankState& state = states_[rank];
    state.by_stage.resize(std::size_t{mine.last_stage} + 1);
    for (std::uint32_t id = 0; id < mine.ops.size(); ++id)
      state.by_stage[mine.ops[id].stage].push_back(id);
    state.scratch_begin =
        (std::size_t{input_chunks(rank)} + output_chunks(rank)) * std::size_t{slices_};
    state.slots_begin = state.scratch_begin + std::size_t{mine.scratch_pieces} * mine.scratch_depth;
    state.shared.resize(std::size_t{mine.slot_pieces} * 2 * lowered_.slot_depth);
    state.cells.resize(state.slots_begin + state.shared.size());
  }

  void find_streams() {
    std::map<std::tuple<Rank, Rank, Lane>, std::uint32_t> known;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      RankState& state = states_[rank];
      state.stream.resize(program(rank).ops.size());
      state.posted.resize(program(rank).ops.size());
      for (std::size_t id = 0; id < program(rank).ops.size(); ++id) {
        const Op& op = program(rank).ops[id];
        if (op.peer == kNoRank) continue;
        const auto ends =
            op.kind == OpKind::kSend ? std::pair(rank, op.peer) : std::pair(op.peer, rank);
        const auto next = static_cast<std::uint32_t>(known.size());
        state.stream[id] =
            known.try_emplace({ends.first, ends.second, op.lane}, next).first->second;
      }
    }
    streams_.resize(known.size());
  }

  /// The cell of a chunk of the user's memory, in-place aliases folded together.
  [[nodiscard]] std::size_t user_cell(Rank rank, ProgramMemory memory, std::uint32_t chunk,
                                      std::uint64_t slice) const {
    const PlaceKey key = place_of(lowered_.request, lowered_.chunks_per_block, rank, memory, chunk);
    const std::size_t place = key.memory == ProgramMemory::kInput
                                  ? key.piece
                                  : std::size_t{input_chunks(rank)} + key.piece;
    return place * slices_ + slice;
  }

  /// One of the staging regions serves different slots at different times: cells are told apart by
  /// position.
  [[nodiscard]] std::size_t slot_cell(const Operand& operand, std::uint32_t piece,
                                      std::uint64_t slice, std::uint32_t call) const {
    const std::size_t depth = lowered_.slot_depth;
    const std::size_t position = program(operand.owner).slots[operand.index].first_piece + piece;
    return states_[operand.owner].slots_begin + position * 2 * depth + (call % 2) * depth +
           slice % depth;
  }

  /// Where `operand` lies among the cells of the rank that owns it; not for kPublished.
  [[nodiscard]] std::size_t cell_index(Rank rank, const Operand& operand, std::uint32_t piece,
                                       std::uint64_t slice) const {
    switch (operand.memory) {
      case ProgramMemory::kSlot:
        return slot_cell(operand, piece, slice, states_[rank].call);
      case ProgramMemory::kScratch: {
        const std::size_t depth = program(rank).scratch_depth;
        return states_[rank].scratch_begin + piece * depth + slice % depth;
      }
      default:
        return user_cell(rank, operand.memory, piece, slice);
    }
  }
  Cell& own_cell(Rank rank, const Operand& operand, std::uint32_t piece, std::uint64_t slice) {
    return states_[rank].cells[cell_index(rank, operand, piece, slice)];
  }
  Sharing& sharing(const Operand& slot, std::size_t cell) {
    RankState& owner = states_[slot.owner];
    return owner.shared[cell - owner.slots_begin];
  }

  [[nodiscard]] Value input(Rank rank, std::uint32_t chunk, std::uint64_t slice) const {
    Value value;
    value.call = states_[rank].call;
    value.slice = static_cast<std::uint32_t>(slice);
    value.origin = origin(rank, chunk);
    value.contributors = ir::RankSets::only(rank);
    value.defined = true;
    value.raw = true;
    if (has_recipes()) value.recipe = ir::recipe_of_input(rank, chunk);
    return value;
  }
  [[nodiscard]] std::uint64_t origin(Rank rank, std::uint32_t chunk) const {
    return reducing() ? chunk : (static_cast<std::uint64_t>(rank) << 32 | chunk);
  }

  // --- stepping ---

  /// Executes the rank's next op, or enters or leaves a call. False: it has to wait, or is
  /// finished.
  Result<bool> step(Rank rank) {
    RankState& state = states_[rank];
    if (state.call == options_.calls) return false;
    const Program& mine = program(rank);
    if (!state.entered) return enter(rank);
    if (state.iteration == mine.iterations(slices_)) return leave(rank);
    if (!state.todo.empty()) {
      state.op = state.todo.back();
      const Op& op = mine.ops[state.op];
      const std::uint64_t slice = state.iteration - op.stage;
      TUTTI_ASSIGN(const bool ready, ready_to_run(rank, op, slice));
      if (!ready) return false;
      tick(rank);
      TUTTI_TRY(execute(rank, op, slice));
      if (op.published) publish(rank, base(rank, state.call) + mine.position(state.op, slice));
      state.todo.pop_back();
    }
    if (state.todo.empty()) begin_iteration(rank, state.iteration + 1);
    return true;
  }

  /// Most ops of a long program have no slice in a given iteration: these are not even looked at.
  void begin_iteration(Rank rank, std::uint64_t iteration) {
    RankState& state = states_[rank];
    state.iteration = iteration;
    const std::uint64_t end = std::min<std::uint64_t>(iteration + 1, state.by_stage.size());
    for (std::uint64_t stage = iteration < slices_ ? 0 : iteration - slices_ + 1; stage < end;
         ++stage)
      state.todo.insert(state.todo.end(), state.by_stage[stage].begin(),
                        state.by_stage[stage].end());
    std::ranges::sort(state.todo, std::greater());
  }

  [[nodiscard]] std::uint64_t base(Rank rank, std::uint32_t call) const {
    return call * program(rank).positions(slices_);
  }

  /// Staging memory alternates between two regions: before call c writes, all peers on this host
  /// have left call c - 2.
  Result<bool> enter(Rank rank) {
    RankState& state = states_[rank];
    if (state.call >= 2 && staged())
      for (const Rank peer : neighbours(rank))
        if (peer != rank && !join_progress(rank, peer, base(peer, state.call - 1))) return false;
    tick(rank);
    for (std::uint64_t slice = 0; slice < slices_; ++slice)
      for (std::uint32_t chunk = 0; chunk < input_chunks(rank); ++chunk)
        state.cells[user_cell(rank, ProgramMemory::kInput, chunk, slice)].value =
            input(rank, chunk, slice);
    state.entered = true;
    begin_iteration(rank, 0);
    return true;
  }

  Result<bool> leave(Rank rank) {
    RankState& state = states_[rank];
    for (std::uint32_t id = 0; id < program(rank).ops.size(); ++id)
      for (const Posted& posted : state.posted[id]) {
        if (posted.slice_and_one == 0) continue;
        TUTTI_ASSIGN(const bool complete, complete_transfer(rank, id, posted.slice_and_one - 1));
        if (!complete) return false;
      }
    state.finished = state.call + 1;
    if (lowered_.protocol == ProgramProtocol::kDirect && !users_finished(rank)) return false;
    tick(rank);
    TUTTI_TRY(check_output(rank));
    ++state.call;
    publish(rank, base(rank, state.call));
    state.entered = false;
    return true;
  }

  /// Whether all that touch this rank's buffers in this call have done so.
  [[nodiscard]] bool users_finished(Rank rank) const {
    for (Rank user = 0; user < ranks(); ++user)
      if (states_[user].finished <= states_[rank].call && uses_buffers_of(program(user), rank))
        return false;
    return true;
  }

  // --- waiting ---

  Result<bool> ready_to_run(Rank rank, const Op& op, std::uint64_t slice) {
    const RankState& state = states_[rank];
    for (const Wait& wait : op.waits) {
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
      if (wanted < 0) continue;
      const std::uint64_t position =
          base(wait.rank, state.call) + program(wait.rank).position(wait.op, wanted);
      if (!join_progress(rank, wait.rank, position)) return false;
    }
    for (const TransferWait& wait : op.transfers) {
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
      if (wanted < 0) continue;
      TUTTI_ASSIGN(const bool complete, complete_transfer(rank, wait.op, wanted));
      if (!complete) return false;
    }
    if (op.peer != kNoRank && slice >= kTransfersInFlight)
      return complete_transfer(rank, state.op, slice - kTransfersInFlight);
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands)
        if (is_peers_buffer(operand.memory) && !has_entered(operand.owner, state.call))
          return false;
    return true;
  }
  [[nodiscard]] bool has_entered(Rank peer, std::uint32_t call) const {
    const RankState& state = states_[peer];
    return state.call > call || (state.call == call && state.entered);
  }

  /// Joins what `peer` knew when it first published a progress of at least `position`.
  bool join_progress(Rank rank, Rank peer, std::uint64_t position) {
    if (position == 0) return true;
    const std::vector<Publish>& published = states_[peer].published;
    const auto found = std::lower_bound(
        published.begin(), published.end(), position,
        [](const Publish& entry, std::uint64_t value) { return entry.progress < value; });
    if (found == published.end()) return false;
    VectorClock& mine = states_[rank].clock;
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], found->clock[i]);
    return true;
  }
  void publish(Rank rank, std::uint64_t progress) {
    RankState& state = states_[rank];
    state.published.push_back({progress, state.clock});
  }

  // --- transfers ---

  /// Whether the transfers of an op for a slice are over. A send may be so only once its receive is
  /// posted. Neither orders anything between the ranks: a message of no elements is never sent.
  Result<bool> complete_transfer(Rank rank, std::uint32_t id, std::uint64_t slice) {
    RankState& state = states_[rank];
    Posted& posted = state.posted[id][slice % kTransfersInFlight];
    if (posted.slice_and_one != slice + 1) return true;
    const Op& op = program(rank).ops[id];
    Stream& stream = streams_[state.stream[id]];
    if (op.kind == OpKind::kSend) {
      if (stream.receives <= posted.number) return false;
      for (const std::uint32_t piece : op.sources[0].pieces)
        --own_cell(rank, op.sources[0], piece, slice).sends;
    } else {
      if (stream.messages.size() <= posted.number) return false;
      TUTTI_TRY(deliver(rank, op, slice, stream.messages[posted.number]));
    }
    posted.slice_and_one = 0;
    return true;
  }

  Status deliver(Rank rank, const Op& op, std::uint64_t slice, const std::vector<Value>& message) {
    if (message.size() != op.like.size())
      return wrong(rank, "a message of {} pieces arrives where {} are expected", message.size(),
                   op.like.size());
    for (std::size_t i = 0; i < message.size(); ++i) {
      TUTTI_TRY(check_length(rank, message[i], op.like[i]));
      TUTTI_TRY(check_format(rank, message[i], op.destinations[0]));
      Cell& cell = own_cell(rank, op.destinations[0], op.destinations[0].pieces[i], slice);
      cell.value = message[i];
      cell.receiver = kNoOp;
    }
    return ok_status();
  }

  Status post_send(Rank rank, const Op& op, std::uint64_t slice) {
    std::vector<Value> message;
    for (std::size_t i = 0; i < op.like.size(); ++i) {
      const std::uint32_t piece = op.sources[0].pieces[i];
      TUTTI_ASSIGN(Value value, load(rank, op.sources[0], piece, slice));
      TUTTI_TRY(check_length(rank, value, op.like[i]));
      TUTTI_TRY(check_scaled(rank, value));
      value.raw = false;
      ++own_cell(rank, op.sources[0], piece, slice).sends;
      message.push_back(value);
    }
    RankState& state = states_[rank];
    Stream& stream = streams_[state.stream[state.op]];
    state.posted[state.op][slice % kTransfersInFlight] = {slice + 1, stream.messages.size()};
    stream.messages.push_back(std::move(message));
    return ok_status();
  }

  Status post_recv(Rank rank, const Op& op, std::uint64_t slice) {
    RankState& state = states_[rank];
    for (const std::uint32_t piece : op.destinations[0].pieces) {
      Cell& cell = own_cell(rank, op.destinations[0], piece, slice);
      TUTTI_TRY(check_overwritable(rank, cell, slice));
      cell.receiver = state.op;
    }
    Stream& stream = streams_[state.stream[state.op]];
    state.posted[state.op][slice % kTransfersInFlight] = {slice + 1, stream.receives++};
    return ok_status();
  }

  /// No transfer may still read or write what is to be written, and a place goes from slice to
  /// slice in order: then what comes before slice k + depth there comes before all later ones, too.
  Status check_overwritable(Rank rank, const Cell& cell, std::uint64_t slice) const {
    const Value& held = cell.value;
    if (held.defined && held.call == states_[rank].call && held.slice > slice)
      return wrong(rank, "writes slice {} where slice {} has been", slice, held.slice);
    if (cell.receiver != kNoOp)
      return wrong(rank, "overwrites what op {} is still receiving", cell.receiver);
    if (cell.sends > 0) return wrong(rank, "overwrites what is still being sent");
    return ok_status();
  }

  // --- executing ---

  /// Piece by piece, as executors do it: a piece may read what an earlier one wrote.
  Status execute(Rank rank, const Op& op, std::uint64_t slice) {
    if (op.kind == OpKind::kRecv) return post_recv(rank, op, slice);
    if (op.kind == OpKind::kSend) return post_send(rank, op, slice);
    for (std::uint32_t i = 0; i < op.like.size(); ++i) {
      TUTTI_ASSIGN(const Value result, evaluate(rank, op, i, slice));
      for (const Operand& destination : op.destinations)
        TUTTI_TRY(store(rank, destination, destination.pieces[i], slice,
                        in_format(destination.format, result)));
    }
    return ok_status();
  }

  Result<Value> evaluate(Rank rank, const Op& op, std::uint32_t index, std::uint64_t slice) {
    TUTTI_ASSIGN(Value value, load(rank, op.sources[0], op.sources[0].pieces[index], slice));
    TUTTI_TRY(check_length(rank, value, op.like[index]));
    for (std::size_t s = 1; s < op.sources.size(); ++s) {
      TUTTI_ASSIGN(const Value other,
                   load(rank, op.sources[s], op.sources[s].pieces[index], slice));
      TUTTI_TRY(add(rank, value, other));
    }
    TUTTI_TRY(check_apart(rank, op, index, slice));
    value.raw = false;
    const bool completes = reducing() && op.sources.size() > 1 && sets_.is_all(value.contributors);
    if (completes != op.completes)
      return wrong(rank, "is {}marked as completing the sum", op.completes ? "" : "not ");
    return value;
  }

  /// The value as it is stored.
  [[nodiscard]] Value in_format(ir::FormatId format, Value value) const {
    const bool rounds = format != ir::kPlain && format != value.format;
    if (rounds && has_recipes()) value.recipe = ir::recipe_in(format, value.recipe);
    value.format = format;
    return value;
  }

  Status check_format(Rank rank, const Value& value, const Operand& operand) const {
    const auto name = [&](ir::FormatId format) {
      return format == ir::kPlain ? std::string_view("plain") : lowered_.formats[format - 1];
    };
    if (value.format != operand.format)
      return wrong(rank, "takes {} data for {}", name(value.format), name(operand.format));
    return ok_status();
  }

  /// A place cannot be read in one format while it is written in another.
  Status check_apart(Rank rank, const Op& op, std::uint32_t index, std::uint64_t slice) const {
    for (const Operand& from : op.sources)
      for (const Operand& to : op.destinations)
        if (from.format != to.format && from.memory == to.memory && from.owner == to.owner &&
            cell_index(rank, from, from.pieces[index], slice) ==
                cell_index(rank, to, to.pieces[index], slice))
          return wrong(rank, "converts onto itself");
    return ok_status();
  }

  /// Only combinations scale; where the operator does, nothing else may read raw input.
  Status check_scaled(Rank rank, const Value& value) const {
    if (value.raw && options_.scales_input && reducing())
      return wrong(rank, "takes input that has to be scaled first");
    return ok_status();
  }

  Status check_length(Rank rank, const Value& value, std::uint32_t like) const {
    const std::uint32_t chunk = ir::chunk_of_all(
        lowered_.request, lowered_.chunks_per_block, static_cast<Rank>(value.origin >> 32),
        ir::Space::kInput, static_cast<std::uint32_t>(value.origin));
    if (!same_length(lowered_, options_.uneven_blocks, chunk, like))
      return wrong(rank, "takes chunk {} to be as long as chunk {}", chunk, like);
    return ok_status();
  }

  Status add(Rank rank, Value& sum, const Value& other) {
    if (!reducing()) return wrong(rank, "adds in a collective that does not reduce");
    if (sum.origin != other.origin)
      return wrong(rank, "adds chunk {} to chunk {}", other.origin, sum.origin);
    if (!sets_.disjoint(sum.contributors, other.contributors))
      return wrong(rank, "adds the contribution of a rank twice");
    const auto joined = sets_.join(sum.contributors, other.contributors);
    if (!joined) return wrong(rank, "has more distinct partial sums than a replay can hold");
    sum.contributors = *joined;
    sum.format = ir::kPlain;
    if (has_recipes()) sum.recipe = ir::recipe_of_sum(sum.recipe, other.recipe);
    return ok_status();
  }

  Result<Value> load(Rank rank, const Operand& source, std::uint32_t piece, std::uint64_t slice) {
    const RankState& state = states_[rank];
    if (source.memory == ProgramMemory::kPublished) return load_input(rank, source, piece, slice);
    const bool slot = source.memory == ProgramMemory::kSlot;
    const std::size_t index = cell_index(rank, source, piece, slice);
    const Cell& cell = states_[slot ? source.owner : rank].cells[index];
    if (slot) {
      Sharing& shared = sharing(source, index);
      if (source.owner != rank && known(rank, source.owner) < shared.written)
        return wrong(rank, "reads a slot of rank {} without waiting for it", source.owner);
      if (source.owner != rank) remember_reader(shared, rank, known(rank, rank));
    }
    if (cell.receiver != kNoOp)
      return wrong(rank, "reads what op {} is still receiving", cell.receiver);
    if (!cell.value.defined) return wrong(rank, "reads memory that was never written");
    if (cell.value.call != state.call || cell.value.slice != slice)
      return wrong(rank, "reads slice {} of call {} where slice {} of call {} belongs",
                   cell.value.slice, cell.value.call, slice, state.call);
    if (cell.value.raw != (source.memory == ProgramMemory::kInput))
      return wrong(rank, "takes {} for {}", cell.value.raw ? "raw input" : "a result",
                   cell.value.raw ? "a result" : "raw input");
    TUTTI_TRY(check_format(rank, cell.value, source));
    return cell.value;
  }
  /// Of another rank: a copy that nobody changes, or the input itself.
  Result<Value> load_input(Rank rank, const Operand& source, std::uint32_t piece,
                           std::uint64_t slice) {
    const RankState& state = states_[rank];
    const RankState& owner = states_[source.owner];
    Value value = input(source.owner, piece, slice);
    if (lowered_.protocol == ProgramProtocol::kDirect) {
      if (owner.call != state.call)
        return wrong(rank, "reads the input of rank {}, which is in another call", source.owner);
      value = owner.cells[user_cell(source.owner, ProgramMemory::kInput, piece, slice)].value;
      if (!value.raw) return wrong(rank, "takes a result for raw input of rank {}", source.owner);
      TUTTI_TRY(check_scaled(rank, value));
    }
    value.call = state.call;
    value.raw = false;
    return value;
  }
  static void remember_reader(Sharing& shared, Rank reader, std::uint32_t clock) {
    for (auto& [rank, last] : shared.read)
      if (rank == reader) {
        last = clock;
        return;
      }
    shared.read.emplace_back(reader, clock);
  }

  Status store(Rank rank, const Operand& destination, std::uint32_t piece, std::uint64_t slice,
               const Value& value) {
    RankState& state = states_[rank];
    if (destination.memory == ProgramMemory::kPeerOutput) {
      RankState& owner = states_[destination.owner];
      if (owner.call != state.call)
        return wrong(rank, "writes the output of rank {}, which is in another call",
                     destination.owner);
      owner.cells[user_cell(destination.owner, ProgramMemory::kOutput, piece, slice)].value = value;
      return ok_status();
    }
    const std::size_t index = cell_index(rank, destination, piece, slice);
    TUTTI_TRY(check_overwritable(rank, state.cells[index], slice));
    if (destination.memory == ProgramMemory::kSlot) {
      Sharing& shared = sharing(destination, index);
      for (const auto& [reader, clock] : shared.read)
        if (known(rank, reader) < clock)
          return wrong(rank, "overwrites a slot that rank {} may still be reading", reader);
      shared.written = known(rank, rank);
      shared.read.clear();
    }
    state.cells[index].value = value;
    return ok_status();
  }

  // --- the promise ---

  Status check_output(Rank rank) const {
    for (std::uint64_t slice = 0; slice < slices_; ++slice)
      for (std::uint32_t chunk = 0; chunk < output_chunks(rank); ++chunk) {
        const Value& value =
            states_[rank].cells[user_cell(rank, ProgramMemory::kOutput, chunk, slice)].value;
        if (!value.defined || value.call != states_[rank].call || value.slice != slice)
          return wrong(rank, "output chunk {} is not written", chunk);
        const bool whole = !reducing() || sets_.is_all(value.contributors);
        if (value.origin != expected(rank, chunk) || !whole || value.format != ir::kPlain)
          return wrong(rank, "output chunk {} does not hold what {} promises", chunk,
                       name_of(lowered_.request.collective));
        TUTTI_TRY(check_scaled(rank, value));
        if (has_recipes() && options_.recipes != nullptr &&
            value.recipe != (*options_.recipes)[rank][chunk])
          return wrong(rank, "output chunk {} is not rounded and added up as in the schedule",
                       chunk);
      }
    return ok_status();
  }

  [[nodiscard]] std::uint64_t expected(Rank rank, std::uint32_t chunk) const {
    const std::uint32_t per_block = lowered_.chunks_per_block;
    const auto block = static_cast<Rank>(chunk / per_block);
    const std::uint32_t within = chunk % per_block;
    const std::uint32_t mine = static_cast<std::uint32_t>(rank) * per_block + within;
    switch (lowered_.request.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return origin(0, chunk);
      case Collective::kReduceScatter:
        return origin(0, mine);
      case Collective::kBroadcast:
        return origin(lowered_.request.root, chunk);
      case Collective::kScatter:
        return origin(lowered_.request.root, mine);
      case Collective::kAllGather:
      case Collective::kGather:
        return origin(block, within);
      case Collective::kAllToAll:
        return origin(block, mine);
      case Collective::kSend:
      case Collective::kRecv:
        break;
    }
    return 0;
  }

  const Lowered& lowered_;
  const Placement& placement_;
  const CheckOptions options_;
  const std::uint64_t slices_;
  ir::RankSets sets_;
  std::vector<RankState> states_;
  std::map<std::int32_t, std::vector<Rank>> hosts_;
  std::vector<Stream> streams_;
};

/// The numbers of slices that speak for all (check.hpp).
std::set<std::uint32_t> telling_slices(const Lowered& lowered) {
  std::set<std::uint32_t> slices{1};
  if (one_round(lowered.protocol)) return slices;  // never sliced
  if (lowered.max_slot_pieces > 0) slices.insert(lowered.slot_depth + 1);
  for (const Program& program : lowered.programs)
    if (program.scratch_pieces > 0) slices.insert(program.scratch_depth + 1);
  return slices;
}

/// There is one for each output chunk.
Status check_recipes(const Lowered& lowered, const std::vector<std::vector<ir::Recipe>>& recipes) {
  bool fit = recipes.size() == lowered.programs.size();
  for (Rank rank = 0; fit && rank < lowered.request.ranks; ++rank) {
    const auto blocks = static_cast<std::size_t>(ir::block_counts(lowered.request, rank).output);
    fit = recipes[rank].size() == blocks * lowered.chunks_per_block;
  }
  if (fit) return ok_status();
  return make_error(Code::kInternal, "{} lowered has other outputs than its schedule",
                    lowered.algorithm);
}

/// What anybody writes is touched by one rank alone, so no timing matters. Well-formed programs.
Status check_direct(const Lowered& lowered) {
  if (lowered.protocol != ProgramProtocol::kDirect) return ok_status();
  struct Use {
    Rank rank = kNoRank;
    std::uint32_t op = 0;
    bool several = false, written = false;
  };
  std::map<std::pair<Rank, PlaceKey>, Use> uses;
  const auto touch = [&](Rank rank, std::uint32_t op, const Operand& operand, bool writes) {
    const bool peers = is_peers_buffer(operand.memory);
    const Rank owner = peers ? operand.owner : rank;
    const ProgramMemory memory = operand.memory == ProgramMemory::kPublished ? ProgramMemory::kInput
                                 : operand.memory == ProgramMemory::kPeerOutput
                                     ? ProgramMemory::kOutput
                                     : operand.memory;
    for (const std::uint32_t piece : operand.pieces) {
      const PlaceKey place =
          place_of(lowered.request, lowered.chunks_per_block, owner, memory, piece);
      Use& use = uses.try_emplace({owner, place}, Use{rank, op}).first->second;
      if (use.rank != rank) use.several = true;
      if (writes) use.written = true;
    }
  };
  for (Rank rank = 0; rank < lowered.request.ranks; ++rank)
    for (std::uint32_t id = 0; id < lowered.programs[rank].ops.size(); ++id) {
      const Op& op = lowered.programs[rank].ops[id];
      for (const Operand& source : op.sources) touch(rank, id, source, false);
      for (const Operand& destination : op.destinations) touch(rank, id, destination, true);
    }
  for (const auto& [place, use] : uses)
    if (use.written && use.several)
      return make_error(Code::kInternal,
                        "{} shares {}[{}] of rank {}, which is written, with "
                        "another rank",
                        describe(lowered, use.rank, use.op), name_of(place.second.memory),
                        place.second.piece, place.first);
  return ok_status();
}

}  // namespace

Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options) {
  TUTTI_TRY(check_form(lowered, placement, options.uneven_blocks));
  if (options.recipes != nullptr) TUTTI_TRY(check_recipes(lowered, *options.recipes));
  TUTTI_TRY(check_direct(lowered));
  TUTTI_TRY(check_pace(lowered));
  for (const std::uint32_t slices : telling_slices(lowered))
    TUTTI_TRY(Replay(lowered, placement, options, slices).run());
  return ok_status();
}

}  // namespace tutti::lower
