#include "src/ir/replay.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "src/base/result.hpp"
#include "src/ir/cells.hpp"
#include "src/ir/contributions.hpp"
#include "src/ir/recipe.hpp"
#include "src/ir/text.hpp"

namespace tutti::ir {
namespace {

constexpr SetId kNobody = std::numeric_limits<SetId>::max();

/// What a cell holds: the sum over `from` of chunk `chunk` of their inputs, in `format`, after
/// `lossy` conversions into formats, or more than can be counted. Eight bytes, since a replay holds
/// one for every chunk of every rank.
struct Value {
  static constexpr std::uint32_t kChunkBits = 25, kMostLossy = kMostLossyCounted;
  std::uint32_t chunk : kChunkBits = 0;
  std::uint32_t format : 2 = kPlain;
  std::uint32_t lossy : 5 = 0;
  SetId from = kNobody;

  [[nodiscard]] bool defined() const { return from != kNobody; }
};

/// What the collective promises in an output chunk. `from` is kNoRank for the sum over all ranks.
struct Promise {
  std::uint32_t chunk = 0;
  Rank from = kNoRank;
};

Promise promise(const Schedule& schedule, Rank rank, std::uint32_t output) {
  const std::uint32_t per_block = schedule.chunks_per_block;
  const auto block = static_cast<Rank>(output / per_block);
  const std::uint32_t within = output % per_block;
  const std::uint32_t of_own_block = static_cast<std::uint32_t>(rank) * per_block + within;
  switch (schedule.request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return {output, kNoRank};
    case Collective::kReduceScatter:
      return {of_own_block, kNoRank};
    case Collective::kAllGather:
    case Collective::kGather:
      return {within, block};
    case Collective::kAllToAll:
      return {of_own_block, block};
    case Collective::kBroadcast:
      return {output, schedule.request.root};
    case Collective::kScatter:
      return {of_own_block, schedule.request.root};
    case Collective::kSend:
    case Collective::kRecv:
      break;  // refused by verify() before any replay
  }
  return {};
}

/// The messages between a send and a receive, oldest first.
struct Fifo {
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  std::vector<Value> values;    // of the messages in flight, one after the other
  std::vector<Recipe> recipes;  // as many, or none
  std::size_t head = 0;

  void pop(std::size_t count) {
    head += count;
    if (2 * head < values.size()) return;
    const auto gone = static_cast<std::ptrdiff_t>(head);
    values.erase(values.begin(), values.begin() + gone);
    if (!recipes.empty()) recipes.erase(recipes.begin(), recipes.begin() + gone);
    head = 0;
  }
};

class Replay {
 public:
  Replay(const Schedule& schedule, const Matching& matching, const GroupOperations& operations,
         const VerifyOptions& options);
  Result<Proof> run() &&;

 private:
  struct RankState {
    CellMap map;
    std::vector<Value> cells;
    std::vector<Recipe> recipes;  // of the cells, if the schedule has formats
    StepId next = 0;
    bool at_rendezvous = false;  // has come to the group step `next`, and waits for the others
    std::uint64_t chunks_sent = 0;
  };
  /// The operation that members of a group come to next.
  struct Rendezvous {
    std::size_t operation = 0;
    std::size_t arrived = 0;
  };

  const Program& program(Rank rank) const {
    return schedule_.programs[static_cast<std::size_t>(rank)];
  }
  RankState& state(Rank rank) { return states_[static_cast<std::size_t>(rank)]; }
  Value& at(Rank rank, const ChunkSet& set, std::uint32_t i) {
    RankState& s = state(rank);
    return s.cells[s.map.cell(set.space, set.at(i))];
  }
  [[nodiscard]] bool has_recipes() const { return !schedule_.formats.empty(); }
  /// Only if has_recipes().
  Recipe& recipe(Rank rank, const ChunkSet& set, std::uint32_t i) {
    RankState& s = state(rank);
    return s.recipes[s.map.cell(set.space, set.at(i))];
  }
  ChannelId channel_of(Rank rank, StepId id) const {
    return matching_.channel_of[static_cast<std::size_t>(rank)][id];
  }

  Status advance(Rank rank);
  bool blocked(Rank rank, StepId id);
  bool waits_for_members(Rank rank, const Step& step);
  void wake(Rank rank);
  Error deadlock() const;

  Status execute(Rank rank, StepId id, const Step& step);
  Status send(Rank rank, StepId id, const Step& step);
  Status receive(Rank rank, StepId id, const Step& step);
  void copy(Rank rank, const Step& step);
  Status reduce(Rank rank, StepId id, const Step& step);
  Status operate(const Step& step);
  Status add_parts(const Group& group, const GroupOperation& operation);
  Result<Value> added(Rank rank, StepId id, Value sum, const Value& addend);
  void collect_sent(const Group& group, const GroupOperation& operation);
  Status deliver(const Group& group, const GroupOperation& operation);
  Status check_readable(Rank rank, StepId id, const ChunkSet& set);
  Status check_outputs(Rank rank);
  void collect_recipes();
  void count_round(Rank rank, StepId id, const Step& step);
  void count_round(const Group& group, const GroupOperation& operation);

  std::string show(const Value& value) const;
  std::string show(SetId set) const;
  std::string last_writer(Rank rank, std::uint32_t output) const;
  template <class... Args>
  Error fail(Rank rank, StepId id, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(Code::kInvalidArgument, "{}: {}", describe(schedule_, rank, id),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  const Schedule& schedule_;
  const Matching& matching_;
  const GroupOperations& operations_;
  VerifyOptions options_;
  RankSets sets_;
  std::vector<RankState> states_;
  std::vector<Fifo> fifos_;
  std::vector<Rendezvous> rendezvous_;   // per group
  std::vector<Value> network_;           // what an operation delivers, by position
  std::vector<Recipe> network_recipes_;  // as many, or none
  std::vector<Rank> ready_;              // ranks that may be able to advance
  std::vector<bool> is_ready_;
  Proof proof_;
};

Replay::Replay(const Schedule& schedule, const Matching& matching,
               const GroupOperations& operations, const VerifyOptions& options)
    : schedule_(schedule),
      matching_(matching),
      operations_(operations),
      options_(options),
      sets_(schedule.request.ranks),
      fifos_(matching.channels.size()),
      rendezvous_(operations.size()),
      is_ready_(schedule.programs.size(), false) {
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    RankState& s = states_.emplace_back(RankState{CellMap(schedule, rank), {}, {}, 0, false, 0});
    s.cells.resize(s.map.size());
    if (has_recipes()) s.recipes.resize(s.map.size());
    for (std::uint32_t chunk = 0; chunk < s.map.chunks(Space::kInput); ++chunk) {
      Value& value = s.cells[s.map.cell(Space::kInput, chunk)];
      value.chunk = chunk & ((1U << Value::kChunkBits) - 1);
      value.from = RankSets::only(rank);
      if (has_recipes()) s.recipes[s.map.cell(Space::kInput, chunk)] = recipe_of_input(rank, chunk);
    }
    const std::size_t steps = program(rank).steps.size();
    proof_.completes.emplace_back(steps, false);
    proof_.round.emplace_back(steps, 0);
    proof_.steps += steps;
  }
}

Result<Proof> Replay::run() && {
  for (Rank rank = schedule_.request.ranks - 1; rank >= 0; --rank) wake(rank);
  while (!ready_.empty()) {
    const Rank rank = ready_.back();
    ready_.pop_back();
    is_ready_[static_cast<std::size_t>(rank)] = false;
    TUTTI_TRY(advance(rank));
  }
  for (Rank rank = 0; rank < schedule_.request.ranks; ++rank)
    if (state(rank).next < program(rank).steps.size()) return deadlock();
  for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
    TUTTI_TRY(check_outputs(rank));
    proof_.max_chunks_sent = std::max(proof_.max_chunks_sent, state(rank).chunks_sent);
  }
  if (has_recipes()) collect_recipes();
  return std::move(proof_);
}

Status Replay::advance(Rank rank) {
  const auto& steps = program(rank).steps;
  StepId& next = state(rank).next;
  while (next < steps.size() && !blocked(rank, next)) {
    if (uses_group(steps[next].verb)) {
      TUTTI_TRY(operate(steps[next]));  // goes on with all members
      continue;
    }
    TUTTI_TRY(execute(rank, next, steps[next]));
    ++next;
  }
  return ok_status();
}

/// Whether others have yet to come to the operation. Counts each member once.
bool Replay::waits_for_members(Rank rank, const Step& step) {
  Rendezvous& rendezvous = rendezvous_[step.group];
  if (!std::exchange(state(rank).at_rendezvous, true)) ++rendezvous.arrived;
  return rendezvous.arrived < schedule_.groups[step.group].ranks.size();
}

bool Replay::blocked(Rank rank, StepId id) {
  if (const Step& step = program(rank).steps[id]; uses_group(step.verb))
    return waits_for_members(rank, step);
  const ChannelId channel = channel_of(rank, id);
  if (channel == kNoChannel) return false;
  const Fifo& fifo = fifos_[channel];
  const std::uint32_t in_flight = fifo.sent - fifo.received;
  return program(rank).steps[id].verb == Verb::kSend ? in_flight >= options_.fifo_depth
                                                     : in_flight == 0;
}

void Replay::wake(Rank rank) {
  if (is_ready_[static_cast<std::size_t>(rank)]) return;
  is_ready_[static_cast<std::size_t>(rank)] = true;
  ready_.push_back(rank);
}

/// Follows who waits for whom from the lowest blocked rank until a rank comes up again.
Error Replay::deadlock() const {
  constexpr std::size_t kMostShown = 8;
  const auto next_of = [&](Rank rank) { return states_[static_cast<std::size_t>(rank)].next; };
  Rank rank = 0;
  while (next_of(rank) == program(rank).steps.size()) ++rank;
  const auto absent_member = [&](GroupId group) {
    for (const Rank member : schedule_.groups[group].ranks) {
      const RankState& s = states_[static_cast<std::size_t>(member)];
      const bool there = s.at_rendezvous && program(member).steps[s.next].group == group;
      if (!there) return member;
    }
    return kNoRank;
  };
  std::string chain;
  std::vector<Rank> seen;
  while (std::find(seen.begin(), seen.end(), rank) == seen.end() && seen.size() < kMostShown) {
    seen.push_back(rank);
    const Step& step = program(rank).steps[next_of(rank)];
    const Rank other = uses_group(step.verb) ? absent_member(step.group) : step.peer;
    chain += fmt::format("{}{} waits for rank {} to {}", chain.empty() ? "" : "; ",
                         describe(schedule_, rank, next_of(rank)), other,
                         uses_group(step.verb)      ? "take part"
                         : step.verb == Verb::kSend ? "make room"
                                                    : "send");
    rank = other;
  }
  return make_error(Code::kInvalidArgument,
                    "deadlock in program order with FIFOs of {} messages, where every rank was "
                    "expected to finish: {}",
                    options_.fifo_depth, chain);
}

Status Replay::execute(Rank rank, StepId id, const Step& step) {
  count_round(rank, id, step);
  TUTTI_TRY(check_readable(rank, id, step.src));
  switch (step.verb) {
    case Verb::kSend:
      return send(rank, id, step);
    case Verb::kRecv:
      return receive(rank, id, step);
    case Verb::kReduce:
      return reduce(rank, id, step);
    case Verb::kCopy:
      copy(rank, step);
      break;
    case Verb::kGroupReduce:
    case Verb::kMulticast:
      break;  // operate()
  }
  return ok_status();
}

/// All members have come to this step's operation.
Status Replay::operate(const Step& step) {
  const Group& group = schedule_.groups[step.group];
  Rendezvous& rendezvous = rendezvous_[step.group];
  const GroupOperation& operation = operations_[step.group][rendezvous.operation];
  rendezvous = {rendezvous.operation + 1, 0};
  count_round(group, operation);
  network_.assign(operation.chunks, Value{});
  network_recipes_.assign(has_recipes() ? operation.chunks : 0, Recipe{});
  for (std::size_t place = 0; place < group.ranks.size(); ++place) {
    const Rank rank = group.ranks[place];
    const StepId id = operation.parts[place].step;
    TUTTI_TRY(check_readable(rank, id, program(rank).steps[id].src));
    state(rank).chunks_sent += program(rank).steps[id].src.count;
  }
  if (adds(operation.form))
    TUTTI_TRY(add_parts(group, operation));
  else
    collect_sent(group, operation);
  TUTTI_TRY(deliver(group, operation));
  for (const Rank rank : group.ranks) {
    state(rank).at_rendezvous = false;
    ++state(rank).next;
    wake(rank);
  }
  return ok_status();
}

/// The network promises no order, so recipes are joined in none.
Status Replay::add_parts(const Group& group, const GroupOperation& operation) {
  for (std::size_t place = 0; place < group.ranks.size(); ++place) {
    const Rank rank = group.ranks[place];
    const StepId id = operation.parts[place].step;
    const ChunkSet& src = program(rank).steps[id].src;
    for (std::uint32_t i = 0; i < operation.chunks; ++i) {
      const Value& addend = at(rank, src, i);
      if (place == 0) {
        network_[i] = addend;
      } else {
        TUTTI_ASSIGN(network_[i], added(rank, id, network_[i], addend));
      }
      if (has_recipes()) network_recipes_[i] += recipe_in_any_order(recipe(rank, src, i));
    }
  }
  return ok_status();
}

void Replay::collect_sent(const Group& group, const GroupOperation& operation) {
  for (std::size_t place = 0; place < group.ranks.size(); ++place) {
    const Rank rank = group.ranks[place];
    const GroupPart& part = operation.parts[place];
    const ChunkSet& src = program(rank).steps[part.step].src;
    for (std::uint32_t i = 0; i < src.count; ++i) {
      network_[part.first_sent + i] = at(rank, src, i);
      if (has_recipes()) network_recipes_[part.first_sent + i] = recipe(rank, src, i);
    }
  }
}

Status Replay::deliver(const Group& group, const GroupOperation& operation) {
  for (std::size_t place = 0; place < group.ranks.size(); ++place) {
    const Rank rank = group.ranks[place];
    const GroupPart& part = operation.parts[place];
    const ChunkSet& dst = program(rank).steps[part.step].dst;
    std::uint32_t complete = 0;
    for (std::uint32_t i = 0; i < dst.count; ++i) {
      const Value& value = network_[part.first + i];
      at(rank, dst, i) = value;
      if (has_recipes()) recipe(rank, dst, i) = network_recipes_[part.first + i];
      complete += sets_.is_all(value.from) ? 1 : 0;
    }
    if (!adds(operation.form)) continue;
    if (complete != 0 && complete != dst.count)
      return fail(rank, part.step,
                  "completes {} of {} chunks; all or none were expected, split the step", complete,
                  dst.count);
    proof_.completes[static_cast<std::size_t>(rank)][part.step] = complete != 0;
  }
  return ok_status();
}

/// Members leave an operation in the round after the last one has come.
void Replay::count_round(const Group& group, const GroupOperation& operation) {
  std::uint32_t round = 0;
  for (std::size_t place = 0; place < group.ranks.size(); ++place) {
    const Rank rank = group.ranks[place];
    for (const StepId dep : program(rank).steps[operation.parts[place].step].deps)
      round = std::max(round, proof_.round[static_cast<std::size_t>(rank)][dep]);
  }
  for (std::size_t place = 0; place < group.ranks.size(); ++place)
    proof_.round[static_cast<std::size_t>(group.ranks[place])][operation.parts[place].step] =
        round + 1;
  proof_.rounds = std::max(proof_.rounds, round + 1);
}

void Replay::count_round(Rank rank, StepId id, const Step& step) {
  auto& rounds = proof_.round[static_cast<std::size_t>(rank)];
  std::uint32_t round = 0;
  for (const StepId dep : step.deps) round = std::max(round, rounds[dep]);
  if (step.verb == Verb::kRecv) {
    const ChannelId id_of_channel = channel_of(rank, id);
    const Channel& channel = matching_.channels[id_of_channel];
    const StepId sent = channel.sends[fifos_[id_of_channel].received];
    round = std::max(round, proof_.round[static_cast<std::size_t>(channel.source)][sent] + 1);
  }
  rounds[id] = round;
  proof_.rounds = std::max(proof_.rounds, round);
}

Status Replay::check_readable(Rank rank, StepId id, const ChunkSet& set) {
  for (std::uint32_t i = 0; i < set.count; ++i) {
    const Value& value = at(rank, set, i);
    const ChunkSet chunk{set.space, set.at(i), 1, 1, set.format};
    if (!value.defined())
      return fail(rank, id, "reads {}, where data was expected and nothing has been written",
                  print(chunk, schedule_.formats));
    if (value.format != set.format)
      return fail(rank, id, "reads {}, which holds {}", print(chunk, schedule_.formats),
                  show(value));
  }
  return ok_status();
}

Status Replay::send(Rank rank, StepId id, const Step& step) {
  Fifo& fifo = fifos_[channel_of(rank, id)];
  for (std::uint32_t i = 0; i < step.src.count; ++i) {
    fifo.values.push_back(at(rank, step.src, i));
    if (has_recipes()) fifo.recipes.push_back(recipe(rank, step.src, i));
  }
  ++fifo.sent;
  state(rank).chunks_sent += step.src.count;
  wake(step.peer);
  return ok_status();
}

Status Replay::receive(Rank rank, StepId id, const Step& step) {
  Fifo& fifo = fifos_[channel_of(rank, id)];
  for (std::uint32_t i = 0; i < step.dst.count; ++i) {
    const Value& value = fifo.values[fifo.head + i];
    if (value.format != step.dst.format)
      return fail(rank, id, "receives {} into {}", show(value), print(step.dst, schedule_.formats));
    at(rank, step.dst, i) = value;
    if (has_recipes()) recipe(rank, step.dst, i) = fifo.recipes[fifo.head + i];
  }
  fifo.pop(step.dst.count);
  ++fifo.received;
  wake(step.peer);
  return ok_status();
}

void Replay::copy(Rank rank, const Step& step) {
  const FormatId to = step.dst.format;
  for (std::uint32_t i = 0; i < step.src.count; ++i) {
    Value value = at(rank, step.src, i);
    if (to != kPlain && to != value.format && value.lossy < Value::kMostLossy) ++value.lossy;
    if (has_recipes()) {
      const bool rounds = to != kPlain && to != value.format;
      const Recipe from = recipe(rank, step.src, i);
      recipe(rank, step.dst, i) = rounds ? recipe_in(to, rank, from) : from;
    }
    value.format = to & 3;
    at(rank, step.dst, i) = value;
  }
}

Result<Value> Replay::added(Rank rank, StepId id, Value sum, const Value& addend) {
  if (addend.chunk != sum.chunk)
    return fail(rank, id, "adds {} to {}; two sums of the same chunk were expected", show(addend),
                show(sum));
  if (!sets_.disjoint(addend.from, sum.from))
    return fail(rank, id, "adds {} to {}; ranks that have not contributed yet were expected",
                show(addend), show(sum));
  const auto joined = sets_.join(addend.from, sum.from);
  if (!joined)
    return fail(rank, id, "makes more distinct sums than can be verified; fewer were expected");
  sum.from = *joined;
  sum.lossy = std::max(sum.lossy, addend.lossy) & Value::kMostLossy;
  return sum;
}

Status Replay::reduce(Rank rank, StepId id, const Step& step) {
  TUTTI_TRY(check_readable(rank, id, step.dst));
  std::uint32_t complete = 0;
  for (std::uint32_t i = 0; i < step.src.count; ++i) {
    Value& sum = at(rank, step.dst, i);
    TUTTI_ASSIGN(sum, added(rank, id, sum, at(rank, step.src, i)));
    if (has_recipes()) {
      Recipe& total = recipe(rank, step.dst, i);
      total = recipe_of_sum(total, recipe(rank, step.src, i));
    }
    complete += sets_.is_all(sum.from) ? 1 : 0;
  }
  if (complete != 0 && complete != step.src.count)
    return fail(rank, id, "completes {} of {} chunks; all or none were expected, split the step",
                complete, step.src.count);
  proof_.completes[static_cast<std::size_t>(rank)][id] = complete != 0;
  return ok_status();
}

Status Replay::check_outputs(Rank rank) {
  RankState& s = state(rank);
  for (std::uint32_t output = 0; output < s.map.chunks(Space::kOutput); ++output) {
    const Value& value = s.cells[s.map.cell(Space::kOutput, output)];
    const Promise expected = promise(schedule_, rank, output);
    const bool right_ranks =
        value.defined() && (expected.from == kNoRank ? sets_.is_all(value.from)
                                                     : value.from == RankSets::only(expected.from));
    proof_.lossy_steps = std::max(proof_.lossy_steps, std::uint32_t{value.lossy});
    if (right_ranks && value.chunk == expected.chunk && value.format == kPlain) continue;
    return make_error(
        Code::kInvalidArgument,
        "rank {} out[{}] ends with {}, where chunk {} of {} was expected; {}", rank, output,
        show(value), expected.chunk,
        expected.from == kNoRank ? std::string("all ranks") : fmt::format("rank {}", expected.from),
        last_writer(rank, output));
  }
  return ok_status();
}

/// Compares outputs with the same promise, of any two ranks.
void Replay::collect_recipes() {
  std::map<std::pair<std::uint32_t, Rank>, Recipe> known;
  bool same = true;
  for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
    const RankState& s = state(rank);
    std::vector<Recipe>& recipes = proof_.recipes.emplace_back();
    for (std::uint32_t output = 0; output < s.map.chunks(Space::kOutput); ++output) {
      const Promise what = promise(schedule_, rank, output);
      const Recipe made = s.recipes[s.map.cell(Space::kOutput, output)];
      recipes.push_back(made);
      same = same && known.try_emplace({what.chunk, what.from}, made).first->second == made;
    }
  }
  proof_.same_bits = same;
}

std::string Replay::last_writer(Rank rank, std::uint32_t output) const {
  const CellMap& map = states_[static_cast<std::size_t>(rank)].map;
  const auto& steps = program(rank).steps;
  for (auto id = static_cast<StepId>(steps.size()); id-- > 0;) {
    const ChunkSet& dst = steps[id].dst;
    for (std::uint32_t i = 0; i < dst.count; ++i)
      if (map.cell(dst.space, dst.at(i)) == map.cell(Space::kOutput, output))
        return "last written by " + describe(schedule_, rank, id);
  }
  return "no step writes it";
}

std::string Replay::show(const Value& value) const {
  if (!value.defined()) return "nothing";
  const std::string format =
      value.format == kPlain ? "" : fmt::format("{} of ", schedule_.formats[value.format - 1]);
  return fmt::format("{}chunk {} of {}", format, static_cast<std::uint32_t>(value.chunk),
                     show(value.from));
}

std::string Replay::show(SetId set) const {
  constexpr std::size_t kMostShown = 16;
  std::string text;
  std::size_t shown = 0;
  for (Rank rank = 0; rank < schedule_.request.ranks && shown < kMostShown; ++rank) {
    if (!sets_.contains(set, rank)) continue;
    text += fmt::format("{}{}", shown == 0 ? "" : ", ", rank);
    ++shown;
  }
  const std::size_t more = sets_.size(set) - shown;
  if (more != 0) text += fmt::format(" and {} more", more);
  return (sets_.size(set) == 1 ? "rank " : "ranks ") + text;
}

}  // namespace

Result<Proof> replay(const Schedule& schedule, const Matching& matching,
                     const GroupOperations& operations, const VerifyOptions& options) {
  return Replay(schedule, matching, operations, options).run();
}

}  // namespace tutti::ir
