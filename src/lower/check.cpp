#include "src/lower/check.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/lower/draft.hpp"
#include "src/lower/lower.hpp"

namespace tutti::lower {
namespace {

using RankSet = std::vector<bool>;
using VectorClock = std::vector<std::uint64_t>;

/// What a piece of memory holds for one slice of one call.
struct Value {
  std::uint32_t call = 0;
  std::uint32_t slice = 0;
  std::uint64_t origin = 0;  ///< chunk; for collectives that do not reduce, rank and chunk
  RankSet contributors;
  bool encoded = false;
};

/// One place in memory, with instances told apart.
struct Place {
  Rank rank = 0;
  Memory memory = Memory::kInput;
  std::uint32_t slot = 0;
  std::uint32_t piece = 0;
  std::uint32_t instance = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// A place that peers read: who wrote it when, and who has read it since.
struct Shared {
  std::uint64_t written = 0;        ///< the owner's clock
  std::vector<std::uint64_t> read;  ///< per reader, its clock
};

struct Publish {
  std::uint64_t progress = 0;
  VectorClock clock;
};

struct Message {
  std::vector<Value> pieces;
  VectorClock clock;
};

/// A posted send or receive that nobody has waited for yet.
struct Pending {
  std::vector<Place> places;
  bool writes = false;
  std::optional<std::tuple<Rank, Rank, Lane, std::uint64_t>> message;  ///< receives: which
};

struct RankState {
  std::uint32_t call = 0;
  std::uint64_t iteration = 0;
  std::uint32_t op = 0;
  VectorClock clock;
  std::vector<Publish> published;
  std::map<std::tuple<std::uint32_t, std::uint64_t>, Pending> pending;  ///< (op, slice)
  std::map<std::tuple<Rank, Lane>, std::uint64_t> sent, received;
  bool entered = false;  ///< the present call
};

class Checker {
 public:
  Checker(const Lowered& lowered, const Placement& placement, const CheckOptions& options)
      : lowered_(lowered),
        placement_(placement),
        options_(options),
        slices_(lowered.protocol == Protocol::kPublished ? 1 : options.slices),
        states_(lowered.programs.size()) {
    for (RankState& state : states_) state.clock.assign(states_.size(), 0);
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
        return make_error(Code::kInternal, "deadlock: {} never gets what it waits for ({})",
                          describe(lowered_, rank, states_[rank].op), where(rank));
    return ok_status();
  }

 private:
  [[nodiscard]] std::int32_t ranks() const { return lowered_.request.ranks; }
  [[nodiscard]] const Program& program(Rank rank) const { return lowered_.programs[rank]; }
  [[nodiscard]] bool reducing() const { return reduces(lowered_.request.collective); }

  [[nodiscard]] std::string where(Rank rank) const {
    const RankState& state = states_[rank];
    return fmt::format("{} lowered, rank {}, call {}, iteration {}, op {}", lowered_.algorithm,
                       rank, state.call, state.iteration, state.op);
  }
  template <class... Args>
  Error wrong(Rank rank, fmt::format_string<Args...> format, Args&&... args) const {
    const RankState& state = states_[rank];
    const std::string op = state.op < program(rank).ops.size() ? describe(lowered_, rank, state.op)
                                                               : std::string("end of call");
    return make_error(Code::kInternal, "{}: {} ({})", op,
                      fmt::format(format, std::forward<Args>(args)...), where(rank));
  }

  /// Executes the rank's next op, or enters or leaves a call. False: it has to wait, or is
  /// finished.
  Result<bool> step(Rank rank) {
    RankState& state = states_[rank];
    if (state.call == options_.calls) return false;
    const Program& mine = program(rank);
    if (!state.entered) return enter(rank);
    if (state.iteration == mine.iterations(slices_)) return leave(rank);
    const Op& op = mine.ops[state.op];
    const std::uint64_t slice = state.iteration - op.stage;
    if (state.iteration >= op.stage && slice < slices_) {
      TUTTI_ASSIGN(const bool ready, ready_to_run(rank, op, slice));
      if (!ready) return false;
      ++state.clock[rank];
      TUTTI_TRY(execute(rank, op, slice));
      if (op.published) publish(rank, base(rank, state.call) + mine.position(state.op, slice));
    }
    if (++state.op == mine.ops.size()) {
      state.op = 0;
      ++state.iteration;
    }
    return true;
  }

  [[nodiscard]] std::uint64_t base(Rank rank, std::uint32_t call) const {
    return call * program(rank).positions(slices_);
  }

  /// Staging memory alternates between two regions: before call c writes, all peers on this host
  /// have left call c - 2.
  Result<bool> enter(Rank rank) {
    RankState& state = states_[rank];
    if (state.call >= 2 && lowered_.protocol == Protocol::kStaged)
      for (Rank peer = 0; peer < ranks(); ++peer)
        if (peer != rank && placement_.mapped(rank, peer) &&
            !join_progress(rank, peer, base(peer, state.call - 1)))
          return false;
    ++state.clock[rank];
    for (std::uint64_t slice = 0; slice < slices_; ++slice) fill_input(rank, slice);
    state.entered = true;
    return true;
  }

  void fill_input(Rank rank, std::uint64_t slice) {
    const std::int32_t blocks = ir::block_counts(lowered_.request, rank).input;
    const std::uint32_t chunks = static_cast<std::uint32_t>(blocks) * lowered_.chunks_per_block;
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      Value value;
      value.call = states_[rank].call;
      value.slice = static_cast<std::uint32_t>(slice);
      value.origin = origin(rank, chunk);
      value.contributors.assign(states_.size(), false);
      value.contributors[rank] = true;
      memory_[own(rank, Memory::kInput, chunk, slice)] = value;
      if (lowered_.protocol == Protocol::kPublished)
        memory_[{rank, Memory::kPublished, 0, chunk, states_[rank].call}] = value;
    }
  }
  [[nodiscard]] std::uint64_t origin(Rank rank, std::uint32_t chunk) const {
    return reducing() ? chunk : (static_cast<std::uint64_t>(rank) << 32 | chunk);
  }

  Result<bool> leave(Rank rank) {
    RankState& state = states_[rank];
    std::vector<std::tuple<std::uint32_t, std::uint64_t>> open;
    for (const auto& [id, pending] : state.pending) open.push_back(id);
    for (const auto& [op, slice] : open) {
      TUTTI_ASSIGN(const bool complete, complete_transfer(rank, op, slice));
      if (!complete) return false;
    }
    ++state.clock[rank];
    TUTTI_TRY(check_output(rank));
    ++state.call;
    publish(rank, base(rank, state.call));
    state.iteration = 0;
    state.entered = false;
    return true;
  }

  // --- waiting ---

  Result<bool> ready_to_run(Rank rank, const Op& op, std::uint64_t slice) {
    RankState& state = states_[rank];
    for (const Wait& wait : op.waits) {
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
      if (wanted < 0) continue;
      if (wait.op >= program(wait.rank).ops.size())
        return wrong(rank, "waits for op {} of rank {}, which has {}", wait.op, wait.rank,
                     program(wait.rank).ops.size());
      if (!program(wait.rank).ops[wait.op].published)
        return wrong(rank, "waits for op {} of rank {}, which is not published", wait.op,
                     wait.rank);
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
    if (lowered_.protocol == Protocol::kPublished)
      for (const Operand& source : op.sources)
        if (source.memory == Memory::kPublished && !has_entered(source.owner, state.call))
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
    join(states_[rank].clock, found->clock);
    return true;
  }
  static void join(VectorClock& mine, const VectorClock& other) {
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], other[i]);
  }
  void publish(Rank rank, std::uint64_t progress) {
    RankState& state = states_[rank];
    state.published.push_back({progress, state.clock});
  }

  Result<bool> complete_transfer(Rank rank, std::uint32_t op_id, std::uint64_t slice) {
    RankState& state = states_[rank];
    const auto found = state.pending.find({op_id, slice});
    if (found == state.pending.end()) return true;
    Pending& pending = found->second;
    if (pending.message) {
      const auto message = messages_.find(*pending.message);
      if (message == messages_.end()) return false;
      if (message->second.pieces.size() != pending.places.size())
        return wrong(rank, "a message of {} pieces arrives where {} are expected",
                     message->second.pieces.size(), pending.places.size());
      join(state.clock, message->second.clock);
      for (std::size_t i = 0; i < pending.places.size(); ++i)
        memory_[pending.places[i]] = message->second.pieces[i];
      messages_.erase(message);
    }
    state.pending.erase(found);
    return true;
  }

  // --- executing ---

  [[nodiscard]] Place own(Rank rank, Memory memory, std::uint32_t piece,
                          std::uint64_t slice) const {
    const PlaceKey key = place_of(lowered_.request, lowered_.chunks_per_block, rank, memory, piece);
    const std::uint64_t instance =
        memory == Memory::kScratch ? slice % program(rank).scratch_depth : slice;
    return {rank, key.memory, 0, key.piece, static_cast<std::uint32_t>(instance)};
  }
  [[nodiscard]] Place place(Rank rank, const Operand& operand, std::uint32_t piece,
                            std::uint64_t slice) const {
    const std::uint32_t call = states_[rank].call;
    if (operand.memory == Memory::kPublished)
      return {operand.owner, Memory::kPublished, 0, piece, call};
    if (operand.memory != Memory::kSlot) return own(rank, operand.memory, piece, slice);
    const std::uint64_t instance = slice % lowered_.slot_depth + (call % 2) * lowered_.slot_depth;
    // One staging region serves different slots at different times: identify pieces by position.
    const std::uint32_t first = program(operand.owner).slots[operand.index].first_piece;
    return {operand.owner, Memory::kSlot, 0, first + piece, static_cast<std::uint32_t>(instance)};
  }

  Status execute(Rank rank, const Op& op, std::uint64_t slice) {
    TUTTI_TRY(check_shape(rank, op));
    if (op.kind == OpKind::kRecv) return post_recv(rank, op, slice);
    std::vector<Value> results;
    for (std::uint32_t i = 0; i < op.like.size(); ++i) {
      TUTTI_ASSIGN(Value value, evaluate(rank, op, i, slice));
      results.push_back(std::move(value));
    }
    if (op.kind == OpKind::kSend) return post_send(rank, op, slice, std::move(results));
    for (const Operand& destination : op.destinations)
      for (std::uint32_t i = 0; i < op.like.size(); ++i)
        TUTTI_TRY(store(rank, destination, destination.pieces[i], slice, results[i]));
    return ok_status();
  }

  Status check_shape(Rank rank, const Op& op) const {
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands) {
        if (operand.pieces.size() != op.like.size())
          return wrong(rank, "an operand has {} pieces, the op {}", operand.pieces.size(),
                       op.like.size());
        if (operand.memory == Memory::kSlot &&
            (operand.index >= program(operand.owner).slots.size() ||
             !placement_.mapped(rank, operand.owner)))
          return wrong(rank, "slot {} of rank {} does not exist here", operand.index,
                       operand.owner);
        if (operand.memory == Memory::kSlot)
          for (const std::uint32_t piece : operand.pieces)
            if (piece >= program(operand.owner).slots[operand.index].pieces)
              return wrong(rank, "slot piece {} does not exist", piece);
        if (operand.memory == Memory::kScratch)
          for (const std::uint32_t piece : operand.pieces)
            if (piece >= program(rank).scratch_pieces)
              return wrong(rank, "scratch piece {} does not exist", piece);
      }
    const bool combines = op.kind == OpKind::kCombine;
    if (op.kind != OpKind::kRecv && op.sources.empty()) return wrong(rank, "has no source");
    if (!combines && op.sources.size() > 1) return wrong(rank, "has more than one source");
    for (const Operand& destination : op.destinations)
      if (destination.memory == Memory::kSlot && destination.owner != rank)
        return wrong(rank, "writes a slot of rank {}", destination.owner);
      else if (destination.memory == Memory::kInput || destination.memory == Memory::kPublished)
        return wrong(rank, "writes {}", name_of(destination.memory));
    return ok_status();
  }

  Result<Value> evaluate(Rank rank, const Op& op, std::uint32_t index, std::uint64_t slice) {
    TUTTI_ASSIGN(Value value, load(rank, op.sources[0], op.sources[0].pieces[index], slice));
    for (std::size_t s = 1; s < op.sources.size(); ++s) {
      TUTTI_ASSIGN(const Value other,
                   load(rank, op.sources[s], op.sources[s].pieces[index], slice));
      TUTTI_TRY(add(rank, value, other));
    }
    const bool decodes = op.kind == OpKind::kDecode;
    const bool moves = op.kind == OpKind::kSend;
    if (!moves && value.encoded != decodes)
      return wrong(rank, "reads data that is {}encoded", value.encoded ? "" : "not ");
    if (moves && value.encoded != op.encoded)
      return wrong(rank, "sends data that is {}encoded as if it were not",
                   value.encoded ? "" : "not ");
    if (op.kind == OpKind::kEncode) value.encoded = true;
    if (decodes) value.encoded = false;
    const bool full = std::find(value.contributors.begin(), value.contributors.end(), false) ==
                      value.contributors.end();
    const bool completes =
        reducing() && op.kind == OpKind::kCombine && op.sources.size() > 1 && full;
    if (completes != op.completes)
      return wrong(rank, "is {}marked as completing the sum", op.completes ? "" : "not ");
    return value;
  }

  Status add(Rank rank, Value& sum, const Value& other) const {
    if (!reducing()) return wrong(rank, "adds in a collective that does not reduce");
    if (sum.encoded || other.encoded) return wrong(rank, "adds encoded data");
    if (sum.origin != other.origin)
      return wrong(rank, "adds chunk {} to chunk {}", other.origin, sum.origin);
    for (std::size_t i = 0; i < sum.contributors.size(); ++i) {
      if (sum.contributors[i] && other.contributors[i])
        return wrong(rank, "adds the contribution of rank {} twice", i);
      sum.contributors[i] = sum.contributors[i] || other.contributors[i];
    }
    return ok_status();
  }

  Result<Value> load(Rank rank, const Operand& source, std::uint32_t piece, std::uint64_t slice) {
    RankState& state = states_[rank];
    const Place from = place(rank, source, piece, slice);
    const auto found = memory_.find(from);
    if (found == memory_.end()) return wrong(rank, "reads memory that was never written");
    if (found->second.call != state.call || found->second.slice != slice)
      return wrong(rank, "reads slice {} of call {} where slice {} of call {} belongs",
                   found->second.slice, found->second.call, slice, state.call);
    for (const auto& [id, pending] : state.pending)
      if (pending.writes && touches(pending, from))
        return wrong(rank, "reads what op {} is still receiving", std::get<0>(id));
    if (source.memory == Memory::kSlot) {
      Shared& shared = shared_[from];
      if (source.owner != rank && state.clock[source.owner] < shared.written)
        return wrong(rank, "reads a slot of rank {} without waiting for it", source.owner);
      shared.read.resize(states_.size(), 0);
      shared.read[rank] = state.clock[rank];
    }
    return found->second;
  }

  Status store(Rank rank, const Operand& destination, std::uint32_t piece, std::uint64_t slice,
               const Value& value) {
    RankState& state = states_[rank];
    const Place to = place(rank, destination, piece, slice);
    for (const auto& [id, pending] : state.pending)
      if (touches(pending, to))
        return wrong(rank, "overwrites what op {} is still transferring", std::get<0>(id));
    if (destination.memory == Memory::kSlot) {
      Shared& shared = shared_[to];
      for (std::size_t reader = 0; reader < shared.read.size(); ++reader)
        if (static_cast<Rank>(reader) != rank && state.clock[reader] < shared.read[reader])
          return wrong(rank, "overwrites a slot that rank {} may still be reading", reader);
      shared.written = state.clock[rank];
      shared.read.assign(states_.size(), 0);
    }
    memory_[to] = value;
    return ok_status();
  }
  static bool touches(const Pending& pending, const Place& place) {
    return std::find(pending.places.begin(), pending.places.end(), place) != pending.places.end();
  }

  Status post_send(Rank rank, const Op& op, std::uint64_t slice, std::vector<Value> values) {
    RankState& state = states_[rank];
    Pending pending;
    for (const std::uint32_t piece : op.sources[0].pieces)
      pending.places.push_back(place(rank, op.sources[0], piece, slice));
    const std::uint64_t number = state.sent[{op.peer, op.lane}]++;
    messages_[{rank, op.peer, op.lane, number}] = {std::move(values), state.clock};
    state.pending[{state.op, slice}] = std::move(pending);
    return ok_status();
  }

  Status post_recv(Rank rank, const Op& op, std::uint64_t slice) {
    RankState& state = states_[rank];
    Pending posted;
    posted.writes = true;
    for (const std::uint32_t piece : op.destinations[0].pieces) {
      const Place to = place(rank, op.destinations[0], piece, slice);
      for (const auto& [id, pending] : state.pending)
        if (touches(pending, to))
          return wrong(rank, "receives into what op {} is still transferring", std::get<0>(id));
      posted.places.push_back(to);
    }
    posted.message = {op.peer, rank, op.lane, state.received[{op.peer, op.lane}]++};
    state.pending[{state.op, slice}] = std::move(posted);
    return ok_status();
  }

  // --- the promise ---

  Status check_output(Rank rank) {
    const std::int32_t blocks = ir::block_counts(lowered_.request, rank).output;
    const std::uint32_t chunks = static_cast<std::uint32_t>(blocks) * lowered_.chunks_per_block;
    for (std::uint64_t slice = 0; slice < slices_; ++slice)
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const auto found = memory_.find(own(rank, Memory::kOutput, chunk, slice));
        if (found == memory_.end() || found->second.call != states_[rank].call ||
            found->second.slice != slice)
          return wrong(rank, "output chunk {} is not written", chunk);
        const auto [origin, contributors] = expected(rank, chunk);
        if (found->second.origin != origin || found->second.contributors != contributors ||
            found->second.encoded)
          return wrong(rank, "output chunk {} does not hold what {} promises", chunk,
                       name_of(lowered_.request.collective));
      }
    return ok_status();
  }

  [[nodiscard]] std::pair<std::uint64_t, RankSet> expected(Rank rank, std::uint32_t chunk) const {
    const std::uint32_t per_block = lowered_.chunks_per_block;
    const auto block = static_cast<Rank>(chunk / per_block);
    const std::uint32_t within = chunk % per_block;
    const std::uint32_t mine = static_cast<std::uint32_t>(rank) * per_block + within;
    RankSet from(states_.size(), reducing());
    const auto only = [&](Rank source) { from[source] = true; };
    switch (lowered_.request.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return {origin(0, chunk), from};
      case Collective::kReduceScatter:
        return {origin(0, mine), from};
      case Collective::kBroadcast:
        only(lowered_.request.root);
        return {origin(lowered_.request.root, chunk), from};
      case Collective::kScatter:
        only(lowered_.request.root);
        return {origin(lowered_.request.root, mine), from};
      case Collective::kAllGather:
      case Collective::kGather:
        only(block);
        return {origin(block, within), from};
      case Collective::kAllToAll:
        only(block);
        return {origin(block, mine), from};
      case Collective::kSend:
      case Collective::kRecv:
        break;
    }
    return {0, from};
  }

  const Lowered& lowered_;
  const Placement& placement_;
  const CheckOptions options_;
  const std::uint64_t slices_;
  std::vector<RankState> states_;
  std::map<Place, Value> memory_;
  std::map<Place, Shared> shared_;
  std::map<std::tuple<Rank, Rank, Lane, std::uint64_t>, Message> messages_;
};

}  // namespace

Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options) {
  return Checker(lowered, placement, options).run();
}

}  // namespace tutti::lower
