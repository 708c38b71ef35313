#include "tests/switch/slot_system.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

namespace tutti::model {
namespace {

using namespace in_network;

/// Stands for values that somebody sent: whether there are any is all that decisions look at.
constexpr std::array<std::byte, 4> kSomeValues{};

/// 1, 40, 1600 ... times the chunk's number: no two mixes of contributions have one sum.
std::int32_t value_of(unsigned worker, unsigned chunk) {
  std::int32_t value = static_cast<std::int32_t>(chunk) + 1;
  for (; worker > 0; --worker) value *= 40;
  return value;
}
std::int16_t exponent_of(unsigned worker, unsigned chunk) {
  return static_cast<std::int16_t>((worker * 2 + chunk) % 3);
}
Packet packet_of(const Message& message) {
  return {.kind = message.is_down ? PacketKind::kResult : PacketKind::kContribution,
          .sender = message.sender,
          .chunk = message.chunk,
          .count = 1,
          .exponent = message.exponent,
          .wants = true,
          .values = kSomeValues};
}

/// The switch program of the paper (section 3): a bitmap for each version, which the worker's
/// next packet to the other version clears. The result names the chunk of the last contribution.
Decision switchml(SlotMark& mark, SlotMark& other, const Message& message, const SlotRules& rules) {
  const std::uint32_t worker = 1U << message.sender;
  const std::uint32_t before = mark.arrived;
  mark.arrived |= worker;
  other.arrived &= ~worker;
  mark.chunk = message.chunk;
  if ((before & worker) != 0) {
    const bool complete = mark.stage == Stage::kComplete;
    return {.send = complete ? Send::kResult : Send::kNothing, .to = worker};
  }
  mark.exponent = before == 0 ? message.exponent : std::max(mark.exponent, message.exponent);
  if (before == 0) mark.count = 0;
  ++mark.count;
  const bool complete = mark.count == static_cast<unsigned>(std::popcount(rules.all));
  mark.stage = complete ? Stage::kComplete : Stage::kOpen;
  return {.fill = before == 0 ? Fill::kStore : Fill::kAdd,
          .send = complete ? Send::kResult : Send::kNothing,
          .to = rules.all};
}

}  // namespace

SlotSystem::SlotSystem(const SlotJob& job)
    : job_(job), chunks_(std::accumulate(job.calls.begin(), job.calls.end(), 0U)) {}

Processes SlotSystem::first() const {
  Processes all;
  all.nodes.resize(1 + job_.leaves);
  for (Node& node : all.nodes) node.slots.resize(job_.slots);
  const bool early = has(SlotMistake::kSendsEarly) || has(SlotMistake::kSendsEarlyAllowed);
  for (unsigned worker = 0; worker < worker_count(); ++worker) {
    all.workers.push_back({Window(job_.slots * (early ? 2 : 1)), 0});
    all.workers.back().window.begin(job_.calls[0]);
  }
  return all;
}

bool SlotSystem::is_end(const Processes& all) const {
  return std::ranges::all_of(all.workers, [&](const WorkerState& worker) {
    return worker.window.is_done() && worker.call + 1U == job_.calls.size();
  });
}

SlotRules SlotSystem::rules_of(unsigned node) const {
  const unsigned below = node == 0 && is_tree() ? job_.leaves : job_.workers;
  return {.slots = job_.slots, .all = (1U << below) - 1, .is_leaf = node > 0};
}

Message SlotSystem::contribution_of(unsigned worker, std::uint64_t chunk) const {
  const auto number = static_cast<unsigned>(chunk);
  return {.node = static_cast<std::uint8_t>(node_of(worker)),
          .sender = static_cast<std::uint8_t>(number_of(worker)),
          .chunk = static_cast<std::uint8_t>(number),
          .exponent = exponent_of(worker, number),
          .value = value_of(worker, number)};
}

Message SlotSystem::right_result(std::uint64_t chunk) const {
  const auto number = static_cast<unsigned>(chunk);
  Message right{.is_down = true, .chunk = static_cast<std::uint8_t>(number)};
  for (unsigned worker = 0; worker < worker_count(); ++worker) {
    right.value += value_of(worker, number);
    right.exponent = std::max(right.exponent, exponent_of(worker, number));
  }
  return right;
}

// --- switches ---

Outcome SlotSystem::take(Processes& all, unsigned node, const Message& message) const {
  const SlotRules rules = rules_of(node);
  auto& slot = all.nodes[node].slots[slot_of(message.chunk, rules.slots)];
  const unsigned which = has(SlotMistake::kOneVersion) ? 0 : version_of(message.chunk, rules.slots);
  SlotVersion& version = slot[which];
  SlotMark& other = slot[1 - which].mark;
  Decision decision;
  if (message.is_down)
    decision = answer_from_above(version.mark, packet_of(message), false, rules);
  else if (has(SlotMistake::kNoNumbers))
    decision = switchml(version.mark, other, message, rules);
  else
    decision = decide(version.mark, other_of(other, message.chunk), message, rules);
  if (decision.fill == Fill::kStore) version.value = message.value;
  if (decision.fill == Fill::kAdd) version.value += message.value;

  Outcome outcome{.wrong = "", .answer = std::nullopt, .to = decision.to};
  if (decision.send == Send::kRefusal)
    outcome.wrong = fmt::format("{} is refused: {}", shown(message), meaning_of(decision.refusal));
  if (decision.send != Send::kResult && decision.send != Send::kSum) return outcome;
  const bool goes_up = decision.send == Send::kSum;
  outcome.answer = Message{.is_down = !goes_up,
                           .node = static_cast<std::uint8_t>(goes_up ? 0 : node),
                           .sender = static_cast<std::uint8_t>(goes_up ? node - 1 : 0),
                           .chunk = static_cast<std::uint8_t>(version.mark.chunk),
                           .exponent = version.mark.exponent,
                           .value = version.value};
  return outcome;
}

/// What the turn of a chunk is checked with.
SlotMark SlotSystem::other_of(const SlotMark& other, std::uint64_t chunk) const {
  const bool unchecked = has(SlotMistake::kOneVersion) || has(SlotMistake::kTakesStale) ||
                         has(SlotMistake::kSendsEarlyAllowed);
  if (!unchecked) return other;
  return {.chunk = chunk - job_.slots, .stage = Stage::kComplete};
}

Decision SlotSystem::decide(SlotMark& mark, const SlotMark& other, const Message& message,
                            const SlotRules& rules) const {
  const SlotMark before = mark;
  if (has(SlotMistake::kTakesStale) && mark.chunk != kNoChunk && mark.chunk > message.chunk)
    mark.chunk = kNoChunk;
  Decision decision = contribute(mark, other, packet_of(message), rules);
  const bool begins = before.chunk != mark.chunk;
  const bool is_copy = !begins && (before.arrived >> message.sender & 1) != 0;
  if (has(SlotMistake::kKeepsBitmap) && begins && before.chunk != kNoChunk) {
    mark.arrived |= before.arrived;
    if (mark.arrived == rules.all) mark.stage = Stage::kComplete;
    if (mark.arrived == rules.all) decision.send = Send::kResult;
  }
  if (has(SlotMistake::kAddsCopies) && is_copy) decision.fill = Fill::kAdd;
  if (has(SlotMistake::kDropsCopies) && is_copy) decision.send = Send::kNothing;
  if (has(SlotMistake::kLastExponent)) mark.exponent = message.exponent;
  if (has(SlotMistake::kLeafAnswersItself) && is_copy && rules.is_leaf)
    decision.send = Send::kResult;
  if (has(SlotMistake::kLeafSendsOnce) && is_copy && decision.send == Send::kSum)
    decision.send = Send::kNothing;
  return decision;
}

// --- workers ---

/// The chunk that a worker takes this result for.
std::optional<std::uint64_t> SlotSystem::taken_for(const Window& window,
                                                   const Message& result) const {
  if (window.awaits(result.chunk)) return result.chunk;
  if (!has(SlotMistake::kTakesAnyResult)) return std::nullopt;
  for (std::uint64_t chunk = result.chunk % job_.slots; chunk < chunks_; chunk += job_.slots)
    if (window.awaits(chunk)) return chunk;
  return std::nullopt;
}

Outcome SlotSystem::receive(Processes& all, unsigned worker, const Message& result) const {
  WorkerState& self = all.workers[worker];
  const auto chunk = taken_for(self.window, result);
  if (!chunk || !self.window.accept(*chunk)) return {};
  if (self.window.is_done() && self.call + 1U < job_.calls.size())
    self.window.begin(job_.calls[++self.call]);
  const Message right = right_result(*chunk);
  if (result.value == right.value && result.exponent == right.exponent) return {};
  return {.wrong = fmt::format("worker {} takes {} and {} for chunk {}, which is {} and {}", worker,
                               result.value, result.exponent, *chunk, right.value, right.exponent),
          .answer = std::nullopt};
}

std::string shown(const Message& message) {
  if (message.is_down)
    return fmt::format("the result {} of chunk {} by switch {}", message.value, message.chunk,
                       message.node);
  return fmt::format("contribution {} of {} to chunk {} of switch {}", message.value,
                     message.sender, message.chunk, message.node);
}

}  // namespace tutti::model
