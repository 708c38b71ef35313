#include "src/lower/replay.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/ir/blocks.hpp"
#include "src/ir/contributions.hpp"
#include "src/ir/request.hpp"
#include "src/lower/host_clocks.hpp"
#include "src/lower/lower.hpp"
#include "src/lower/replay_memory.hpp"
#include "src/lower/well_formed.hpp"

namespace tutti::lower {
namespace {

bool uses_buffers_of(const Program& user, Rank owner) {
  for (const Op& op : user.ops)
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands)
        if (is_peers_buffer(operand.memory) && operand.owner == owner) return true;
  return false;
}

/// Messages of one (source, destination, lane), in order.
struct Stream {
  std::vector<std::vector<Value>> messages;
  std::uint64_t receives = 0;  ///< posted
};

/// What one member has posted of its part in an operation of a group.
struct GroupPost {
  Rank rank = kNoRank;
  const Op* op = nullptr;
  std::vector<Value> contributed;
};

/// The operations of one group, in order.
struct GroupStream {
  std::vector<std::uint64_t> posted;          ///< by each member
  std::vector<std::vector<GroupPost>> posts;  ///< of each operation
  std::vector<std::vector<Value>> results;    ///< of each complete operation, by position
};

/// The transfers of one op for one slice; 0: none under way.
struct Posted {
  std::uint64_t slice_and_one = 0;
  std::uint64_t number = 0;  ///< in its stream
};

struct RankState {
  std::uint32_t call = 0;
  std::uint64_t iteration = 0;
  std::vector<std::uint32_t> todo;    ///< ops that have a slice in this iteration, last one first
  std::uint32_t op = 0;               ///< the present or next one
  bool entered = false;               ///< the present call
  std::uint32_t finished = 0;         ///< calls whose ops are all done
  std::vector<std::uint32_t> stream;  ///< per op that transfers
  std::vector<std::array<Posted, kTransfersInFlight>> posted;  ///< per op
  std::vector<std::vector<std::uint32_t>> by_stage;            ///< ops
};

/// One replay with a fixed number of slices. The program must be well-formed.
class Replay {
 public:
  Replay(const Lowered& lowered, const Placement& placement, const CheckOptions& options,
         std::uint32_t slices)
      : lowered_(lowered),
        options_(options),
        slices_(slices),
        memory_(lowered, slices),
        clocks_(placement),
        sets_(lowered.request.ranks),
        states_(lowered.programs.size()) {
    for (Rank rank = 0; rank < ranks(); ++rank) sort_by_stage(rank);
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
  /// A piece of the rank's own memory, or of a slot.
  [[nodiscard]] std::size_t cell_index(Rank rank, const Operand& operand, std::uint32_t piece,
                                       std::uint64_t slice) const {
    return memory_.index(rank, operand, piece, slice, states_[rank].call);
  }
  Cell& own_cell(Rank rank, const Operand& operand, std::uint32_t piece, std::uint64_t slice) {
    return memory_.cell(rank, cell_index(rank, operand, piece, slice));
  }
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

  // --- ranks ---

  void sort_by_stage(Rank rank) {
    const Program& mine = program(rank);
    RankState& state = states_[rank];
    state.by_stage.resize(std::size_t{mine.last_stage} + 1);
    for (std::uint32_t id = 0; id < mine.ops.size(); ++id)
      state.by_stage[mine.ops[id].stage].push_back(id);
  }

  void find_streams() {
    std::map<std::tuple<Rank, Rank, Lane>, std::uint32_t> known;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      RankState& state = states_[rank];
      state.stream.resize(program(rank).ops.size());
      state.posted.resize(program(rank).ops.size());
      for (std::size_t id = 0; id < program(rank).ops.size(); ++id) {
        const Op& op = program(rank).ops[id];
        if (op.kind == OpKind::kGroup || op.peer == kNoRank) continue;
        const auto ends =
            op.kind == OpKind::kSend ? std::pair(rank, op.peer) : std::pair(op.peer, rank);
        const auto next = static_cast<std::uint32_t>(known.size());
        state.stream[id] =
            known.try_emplace({ends.first, ends.second, op.lane}, next).first->second;
      }
    }
    streams_.resize(known.size());
    groups_.resize(lowered_.groups.size());
    for (std::size_t group = 0; group < groups_.size(); ++group)
      groups_[group].posted.resize(static_cast<std::size_t>(ranks()), 0);
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
      clocks_.tick(rank);
      TUTTI_TRY(execute(rank, op, slice));
      if (op.published)
        clocks_.publish(rank, base(rank, state.call) + mine.position(state.op, slice));
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
      for (const Rank peer : clocks_.neighbours(rank))
        if (peer != rank && !clocks_.join(rank, peer, base(peer, state.call - 1))) return false;
    clocks_.tick(rank);
    for (std::uint64_t slice = 0; slice < slices_; ++slice)
      for (std::uint32_t chunk = 0; chunk < memory_.input_chunks(rank); ++chunk)
        memory_.user(rank, ProgramMemory::kInput, chunk, slice).value =
            memory_.input(rank, chunk, slice, state.call);
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
    clocks_.tick(rank);
    TUTTI_TRY(check_output(rank));
    ++state.call;
    clocks_.publish(rank, base(rank, state.call));
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
      if (!clocks_.join(rank, wait.rank, position)) return false;
    }
    for (const TransferWait& wait : op.transfers) {
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
      if (wanted < 0) continue;
      TUTTI_ASSIGN(const bool complete, complete_transfer(rank, wait.op, wanted));
      if (!complete) return false;
    }
    if (is_transfer(op.kind) && slice >= kTransfersInFlight)
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

  // --- transfers ---

  /// Whether the transfers of an op for a slice are over. A send may be so only once its receive is
  /// posted. Neither orders anything between the ranks: a message of no elements is never sent.
  Result<bool> complete_transfer(Rank rank, std::uint32_t id, std::uint64_t slice) {
    RankState& state = states_[rank];
    Posted& posted = state.posted[id][slice % kTransfersInFlight];
    if (posted.slice_and_one != slice + 1) return true;
    const Op& op = program(rank).ops[id];
    if (op.kind == OpKind::kGroup) {
      TUTTI_ASSIGN(const bool complete, complete_part(rank, op, slice, posted.number));
      if (complete) posted.slice_and_one = 0;
      return complete;
    }
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

  // --- operations of groups ---

  Status post_part(Rank rank, const Op& op, std::uint64_t slice) {
    RankState& state = states_[rank];
    GroupStream& group = groups_[op.group];
    const std::uint64_t number = group.posted[static_cast<std::size_t>(rank)]++;
    if (group.posts.size() <= number) group.posts.resize(number + 1);
    GroupPost post{rank, &op, {}};
    for (std::size_t i = 0; i < op.like.size(); ++i) {
      TUTTI_ASSIGN(Value value, load(rank, op.sources[0], op.sources[0].pieces[i], slice));
      TUTTI_TRY(check_length(rank, value, op.like[i]));
      TUTTI_TRY(check_scaled(rank, value));
      value.raw = false;
      post.contributed.push_back(value);
    }
    for (std::size_t i = 0; i < op.like_received.size(); ++i) {
      TUTTI_TRY(check_replaced(rank, op, i, slice));
      Cell& cell = own_cell(rank, op.destinations[0], op.destinations[0].pieces[i], slice);
      TUTTI_TRY(check_overwritable(rank, cell, slice));
      cell.receiver = state.op;
    }
    for (std::size_t i = 0; i < op.like.size(); ++i)
      ++own_cell(rank, op.sources[0], op.sources[0].pieces[i], slice).sends;
    group.posts[number].push_back(std::move(post));
    state.posted[state.op][slice % kTransfersInFlight] = {slice + 1, number};
    return ok_status();
  }

  /// A result may go where a source is only if it is of the same position.
  Status check_replaced(Rank rank, const Op& op, std::size_t i, std::uint64_t slice) const {
    const auto position = static_cast<std::uint32_t>(op.first_received + i);
    const std::size_t written =
        cell_index(rank, op.destinations[0], op.destinations[0].pieces[i], slice);
    for (std::size_t s = 0; s < op.like.size(); ++s)
      if (cell_index(rank, op.sources[0], op.sources[0].pieces[s], slice) == written &&
          op.first_sent + s != position)
        return wrong(rank, "writes position {} where it contributes position {} from", position,
                     op.first_sent + s);
    return ok_status();
  }

  /// Whether all members have posted theirs. Then its results are where they belong.
  Result<bool> complete_part(Rank rank, const Op& op, std::uint64_t slice, std::uint64_t number) {
    GroupStream& group = groups_[op.group];
    if (group.posts[number].size() < lowered_.groups[op.group].ranks.size()) return false;
    if (group.results.size() <= number) group.results.resize(number + 1);
    std::vector<Value>& results = group.results[number];
    if (results.empty()) {
      TUTTI_ASSIGN(results, results_of(group.posts[number]));
    }
    for (std::size_t i = 0; i < op.like.size(); ++i)
      --own_cell(rank, op.sources[0], op.sources[0].pieces[i], slice).sends;
    for (std::size_t i = 0; i < op.like_received.size(); ++i) {
      const Value& value = results[op.first_received + i];
      TUTTI_TRY(check_length(rank, value, op.like_received[i]));
      TUTTI_TRY(check_format(rank, value, op.destinations[0]));
      const bool completes = reducing() && adds(op.form) && sets_.is_all(value.contributors);
      if (completes != op.completes)
        return wrong(rank, "is {}marked as completing the sum", op.completes ? "" : "not ");
      Cell& cell = own_cell(rank, op.destinations[0], op.destinations[0].pieces[i], slice);
      cell.value = value;
      cell.receiver = kNoOp;
    }
    return true;
  }

  /// By position. Sums are joined in no order.
  Result<std::vector<Value>> results_of(const std::vector<GroupPost>& posts) {
    const Op& first = *posts.front().op;
    std::vector<Value> results(first.positions);
    for (const GroupPost& post : posts) {
      const Op& op = *post.op;
      if (op.form != first.form || op.root != first.root || op.positions != first.positions)
        return wrong(post.rank, "takes part in another operation than rank {}", posts.front().rank);
      for (std::size_t i = 0; i < post.contributed.size(); ++i) {
        Value& result = results[op.first_sent + i];
        Value addend = post.contributed[i];
        if (adds(op.form)) addend.recipe = ir::recipe_in_any_order(addend.recipe);
        if (!result.defined) {
          result = addend;
          continue;
        }
        if (!adds(op.form)) return wrong(post.rank, "sends what another member sends");
        const ir::FormatId format = result.format;
        const ir::Recipe joined = result.recipe + addend.recipe;
        TUTTI_TRY(add(post.rank, result, addend));
        result.recipe = joined;
        result.format = format;
      }
    }
    return results;
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
    if (op.kind == OpKind::kGroup) return post_part(rank, op, slice);
    for (std::uint32_t i = 0; i < op.like.size(); ++i) {
      TUTTI_ASSIGN(const Value result, evaluate(rank, op, i, slice));
      for (const Operand& destination : op.destinations)
        TUTTI_TRY(store(rank, destination, destination.pieces[i], slice,
                        in_format(rank, destination.format, result)));
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
  [[nodiscard]] Value in_format(Rank rank, ir::FormatId format, Value value) const {
    const bool rounds = format != ir::kPlain && format != value.format;
    if (rounds && has_recipes()) value.recipe = ir::recipe_in(format, rank, value.recipe);
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
    const Cell& cell = memory_.cell(slot ? source.owner : rank, index);
    if (slot) {
      Sharing& shared = memory_.sharing(source.owner, index);
      if (source.owner != rank && clocks_.known(rank, source.owner) < shared.written)
        return wrong(rank, "reads a slot of rank {} without waiting for it", source.owner);
      if (source.owner != rank) remember_reader(shared, rank, clocks_.known(rank, rank));
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
    Value value = memory_.input(source.owner, piece, slice, state.call);
    if (lowered_.protocol == ProgramProtocol::kDirect) {
      if (owner.call != state.call)
        return wrong(rank, "reads the input of rank {}, which is in another call", source.owner);
      value = memory_.user(source.owner, ProgramMemory::kInput, piece, slice).value;
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
      memory_.user(destination.owner, ProgramMemory::kOutput, piece, slice).value = value;
      return ok_status();
    }
    const std::size_t index = cell_index(rank, destination, piece, slice);
    TUTTI_TRY(check_overwritable(rank, memory_.cell(rank, index), slice));
    if (destination.memory == ProgramMemory::kSlot) {
      Sharing& shared = memory_.sharing(destination.owner, index);
      for (const auto& [reader, clock] : shared.read)
        if (clocks_.known(rank, reader) < clock)
          return wrong(rank, "overwrites a slot that rank {} may still be reading", reader);
      shared.written = clocks_.known(rank, rank);
      shared.read.clear();
    }
    memory_.cell(rank, index).value = value;
    return ok_status();
  }

  // --- the promise ---

  Status check_output(Rank rank) const {
    for (std::uint64_t slice = 0; slice < slices_; ++slice)
      for (std::uint32_t chunk = 0; chunk < memory_.output_chunks(rank); ++chunk) {
        const Value& value = memory_.user(rank, ProgramMemory::kOutput, chunk, slice).value;
        if (!value.defined || value.call != states_[rank].call || value.slice != slice)
          return wrong(rank, "output chunk {} is not written", chunk);
        const bool whole = !reducing() || sets_.is_all(value.contributors);
        if (value.origin != memory_.promised(rank, chunk) || !whole || value.format != ir::kPlain)
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

  const Lowered& lowered_;
  const CheckOptions options_;
  const std::uint64_t slices_;
  ReplayMemory memory_;
  HostClocks clocks_;
  ir::RankSets sets_;
  std::vector<RankState> states_;
  std::vector<Stream> streams_;
  std::vector<GroupStream> groups_;
};

}  // namespace

Status replay(const Lowered& lowered, const Placement& placement, const CheckOptions& options,
              std::uint32_t slices) {
  return Replay(lowered, placement, options, slices).run();
}

}  // namespace tutti::lower
