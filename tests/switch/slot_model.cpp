#include "tests/switch/slot_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/switch/slot_mark.hpp"
#include "src/switch/window.hpp"

namespace tutti::model {
namespace {

using namespace in_network;

/// Stands for values that somebody sent: whether there are any is all that decisions look at.
constexpr std::array<std::byte, 4> kSomeValues{};

/// A packet under way. From a worker or leaf up to `node`, or from `node` down to those below.
struct Message {
  bool is_down = false;
  std::uint8_t node = 0;
  std::uint8_t sender = 0;  ///< up: number among those below `node`. Down: 0
  std::uint8_t chunk = 0;
  std::int16_t exponent = 0;
  std::int32_t value = 0;
  friend auto operator<=>(const Message&, const Message&) = default;
};

struct SlotVersion {
  SlotMark mark;
  std::int32_t value = 0;
};

/// A switch: the root, or a leaf below it.
struct Node {
  std::vector<std::array<SlotVersion, 2>> slots;
};

struct WorkerState {
  Window window;
  std::uint8_t call = 0;
};

struct State {
  std::vector<Node> nodes;
  std::vector<WorkerState> workers;
  std::vector<Message> sent;                 ///< kAnyOrder: a sorted set
  std::vector<std::vector<Message>> queues;  ///< kFifo: up and down for each worker
};

struct Origin {
  std::size_t from = 0;
  std::string step;
};

class SlotExplorer {
 public:
  explicit SlotExplorer(const SlotJob& job) : job_(job) {
    for (const unsigned chunks : job.calls) chunks_ += chunks;
    is_tree_ = job.leaves > 0;
  }

  SlotExploration run() {
    add(first(), 0, "");
    for (std::size_t at = 0; !unvisited_.empty() && result_.mistake.empty(); ++at) {
      const State state = std::move(unvisited_.front());
      unvisited_.pop_front();
      at_ = at;
      if (job_.checks_progress) check_progress(state);
      if (result_.mistake.empty()) visit(state);
    }
    result_.states = origins_.size();
    return std::move(result_);
  }

 private:
  // --- who is where ---

  [[nodiscard]] unsigned worker_count() const {
    return is_tree_ ? job_.workers * job_.leaves : job_.workers;
  }
  [[nodiscard]] unsigned node_of(unsigned worker) const {
    return is_tree_ ? 1 + worker / job_.workers : 0;
  }
  [[nodiscard]] SlotRules rules_of(unsigned node) const {
    const unsigned below = node == 0 && is_tree_ ? job_.leaves : job_.workers;
    return {.slots = job_.slots, .all = (1U << below) - 1, .is_leaf = node > 0};
  }
  [[nodiscard]] bool has(SlotMistake mistake) const { return job_.mistake == mistake; }
  [[nodiscard]] bool is_fifo() const { return job_.network == Network::kFifo; }

  [[nodiscard]] State first() const {
    State state;
    state.nodes.resize(1 + job_.leaves);
    for (Node& node : state.nodes) node.slots.resize(job_.slots);
    const bool early = has(SlotMistake::kSendsEarly) || has(SlotMistake::kSendsEarlyAllowed);
    for (unsigned worker = 0; worker < worker_count(); ++worker) {
      state.workers.push_back({Window(job_.slots * (early ? 2 : 1)), 0});
      state.workers.back().window.begin(job_.calls[0]);
    }
    state.queues.resize(is_fifo() ? std::size_t{2} * worker_count() : 0);
    return state;
  }

  // --- values ---

  /// 1, 40, 1600 ... times the chunk's number: no two mixes of contributions have one sum.
  [[nodiscard]] static std::int32_t value_of(unsigned worker, unsigned chunk) {
    std::int32_t value = static_cast<std::int32_t>(chunk) + 1;
    for (; worker > 0; --worker) value *= 40;
    return value;
  }
  [[nodiscard]] static std::int16_t exponent_of(unsigned worker, unsigned chunk) {
    return static_cast<std::int16_t>((worker * 2 + chunk) % 3);
  }
  [[nodiscard]] Message contribution_of(unsigned worker, std::uint64_t chunk) const {
    const auto number = static_cast<unsigned>(chunk);
    return {.node = static_cast<std::uint8_t>(node_of(worker)),
            .sender = static_cast<std::uint8_t>(worker % job_.workers),
            .chunk = static_cast<std::uint8_t>(number),
            .exponent = exponent_of(worker, number),
            .value = value_of(worker, number)};
  }
  [[nodiscard]] Message right_result(std::uint8_t chunk) const {
    Message right{.is_down = true, .chunk = chunk};
    for (unsigned worker = 0; worker < worker_count(); ++worker) {
      right.value += value_of(worker, chunk);
      right.exponent = std::max(right.exponent, exponent_of(worker, chunk));
    }
    return right;
  }

  // --- switches ---

  static Packet packet_of(const Message& message) {
    return {.kind = message.is_down ? PacketKind::kResult : PacketKind::kContribution,
            .sender = message.sender,
            .chunk = message.chunk,
            .count = 1,
            .exponent = message.exponent,
            .wants = true,
            .values = kSomeValues};
  }

  /// A switch takes a contribution, or a leaf what the root says. What it sends goes to `out`.
  void take(State& state, unsigned node, const Message& message, std::vector<Message>& out) {
    const SlotRules rules = rules_of(node);
    auto& slot = state.nodes[node].slots[slot_of(message.chunk, rules.slots)];
    const unsigned which =
        has(SlotMistake::kOneVersion) ? 0 : version_of(message.chunk, rules.slots);
    SlotVersion& version = slot[which];
    const SlotMark other = other_of(slot[1 - which].mark, message.chunk);
    Decision decision;
    if (message.is_down)
      decision = answer_from_above(version.mark, packet_of(message), rules);
    else if (has(SlotMistake::kNoNumbers))
      decision = switchml(version.mark, slot[1 - which].mark, message, rules);
    else
      decision = decide(version.mark, other, message, rules);
    apply(version, decision, message, node, out);
  }

  /// What the turn of a chunk is checked with.
  [[nodiscard]] SlotMark other_of(const SlotMark& other, std::uint64_t chunk) const {
    const bool unchecked = has(SlotMistake::kOneVersion) || has(SlotMistake::kTakesStale) ||
                           has(SlotMistake::kSendsEarlyAllowed);
    if (!unchecked) return other;
    return {.chunk = chunk - job_.slots, .stage = Stage::kComplete};
  }

  [[nodiscard]] Decision decide(SlotMark& mark, const SlotMark& other, const Message& message,
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

  /// The switch program of the paper (section 3): a bitmap for each version, which the worker's
  /// next packet to the other version clears. The result names the chunk of the last contribution.
  static Decision switchml(SlotMark& mark, SlotMark& other, const Message& message,
                           const SlotRules& rules) {
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

  void apply(SlotVersion& version, const Decision& decision, const Message& message, unsigned node,
             std::vector<Message>& out) {
    if (decision.fill == Fill::kStore) version.value = message.value;
    if (decision.fill == Fill::kAdd) version.value += message.value;
    Message answer{.node = static_cast<std::uint8_t>(node),
                   .chunk = static_cast<std::uint8_t>(version.mark.chunk),
                   .exponent = version.mark.exponent,
                   .value = version.value};
    if (decision.send == Send::kResult) {
      answer.is_down = true;
      out.push_back(answer);
    } else if (decision.send == Send::kSum) {
      answer.node = 0;
      answer.sender = static_cast<std::uint8_t>(node - 1);
      out.push_back(answer);
    } else if (decision.send == Send::kRefusal) {
      wrong_ = fmt::format("{} is refused: {}", shown(message), meaning_of(decision.refusal));
    }
    last_to_ = decision.to;
  }

  // --- workers ---

  /// The chunk that a worker takes this result for.
  [[nodiscard]] std::optional<std::uint64_t> taken_for(const Window& window,
                                                       const Message& result) const {
    if (window.awaits(result.chunk)) return result.chunk;
    if (!has(SlotMistake::kTakesAnyResult)) return std::nullopt;
    for (std::uint64_t chunk = result.chunk % job_.slots; chunk < chunks_; chunk += job_.slots)
      if (window.awaits(chunk)) return chunk;
    return std::nullopt;
  }

  void receive(State& state, unsigned worker, const Message& result) {
    WorkerState& self = state.workers[worker];
    const auto chunk = taken_for(self.window, result);
    if (!chunk || !self.window.accept(*chunk)) return;
    const Message right = right_result(static_cast<std::uint8_t>(*chunk));
    if (result.value != right.value || result.exponent != right.exponent)
      wrong_ = fmt::format("worker {} takes {} and {} for chunk {}, which is {} and {}", worker,
                           result.value, result.exponent, *chunk, right.value, right.exponent);
    if (self.window.is_done() && self.call + 1U < job_.calls.size())
      self.window.begin(job_.calls[++self.call]);
  }

  // --- steps ---

  void visit(const State& state) {
    for (unsigned worker = 0; worker < worker_count(); ++worker) visit_sends(state, worker);
    if (is_fifo())
      for (unsigned queue = 0; queue < state.queues.size(); ++queue) visit_queue(state, queue);
    else
      for (const Message& message : state.sent) visit_delivery(state, message);
  }

  void visit_sends(const State& state, unsigned worker) {
    const Window& window = state.workers[worker].window;
    for (std::uint32_t slot = 0; slot < window.slots(); ++slot) {
      const auto chunk = window.ready(slot);
      if (!chunk) continue;
      State next = state;
      next.workers[worker].window.sent(slot);
      const Message message = contribution_of(worker, *chunk);
      put(next, worker, message);
      add(std::move(next), at_, fmt::format("worker {} sends chunk {}", worker, *chunk));
    }
    if (!is_fifo()) return;  // there, what was sent stays
    for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      if (!window.awaits(chunk)) continue;
      State next = state;
      put(next, worker, contribution_of(worker, chunk));
      add(std::move(next), at_, fmt::format("worker {} repeats chunk {}", worker, chunk));
    }
  }

  void put(State& state, unsigned worker, const Message& message) const {
    if (!is_fifo()) return insert(state, message);
    auto& queue = state.queues[worker];
    if (queue.size() < job_.queue) queue.push_back(message);
  }
  static void insert(State& state, const Message& message) {
    const auto place = std::ranges::lower_bound(state.sent, message);
    if (place == state.sent.end() || *place != message) state.sent.insert(place, message);
  }

  void visit_delivery(const State& state, const Message& message) {
    if (!message.is_down) return deliver_to_node(state, message.node, message);
    for (unsigned worker = 0; worker < worker_count(); ++worker) {
      if (node_of(worker) != message.node) continue;
      State next = state;
      receive(next, worker, message);
      add_checked(std::move(next), fmt::format("{} reaches worker {}", shown(message), worker));
    }
    if (is_tree_ && message.node == 0)
      for (unsigned leaf = 1; leaf <= job_.leaves; ++leaf) deliver_to_node(state, leaf, message);
  }

  void deliver_to_node(const State& state, unsigned node, const Message& message) {
    State next = state;
    std::vector<Message> out;
    take(next, node, message, out);
    for (const Message& answer : out) insert(next, answer);
    for (auto& slot : next.nodes[node].slots)
      for (SlotVersion& version : slot) version.mark.asked = version.mark.owed = 0;
    add_checked(std::move(next), fmt::format("{} reaches switch {}", shown(message), node));
  }

  /// kFifo: what is first in a queue is lost, delivered, or delivered and kept as a copy.
  void visit_queue(const State& state, unsigned queue) {
    if (state.queues[queue].empty()) return;
    const Message message = state.queues[queue].front();
    for (const char* const fate : {"is lost", "arrives", "arrives, and a copy follows"}) {
      State next = state;
      const bool stays = fate[0] == 'a' && fate[7] == ',';
      if (!stays) next.queues[queue].erase(next.queues[queue].begin());
      if (fate[0] == 'a') deliver_from_queue(next, queue, message);
      add_checked(std::move(next), fmt::format("{} {}", shown(message), fate));
    }
  }
  void deliver_from_queue(State& state, unsigned queue, const Message& message) {
    if (message.is_down) return receive(state, queue - worker_count(), message);
    std::vector<Message> out;
    take(state, 0, message, out);
    for (const Message& answer : out)
      for (unsigned worker = 0; worker < worker_count(); ++worker) {
        auto& down = state.queues[worker_count() + worker];
        if ((last_to_ >> worker & 1) != 0 && down.size() < job_.queue) down.push_back(answer);
      }
  }

  // --- states ---

  void add_checked(State state, const std::string& step) {
    if (!wrong_.empty() && result_.mistake.empty()) found_mistake(wrong_, step);
    if (wrong_.empty()) add(std::move(state), at_, step);
    wrong_.clear();
  }

  void add(State state, std::size_t from, std::string step) {
    if (!result_.mistake.empty() || !known_.insert(key_of(state)).second) return;
    unvisited_.push_back(std::move(state));
    origins_.push_back({from, std::move(step)});
  }

  void found_mistake(const std::string& mistake, const std::string& last) {
    result_.mistake = mistake;
    if (!last.empty()) result_.steps.push_back(last);
    for (std::size_t at = at_; at != 0; at = origins_[at].from)
      result_.steps.push_back(origins_[at].step);
    std::ranges::reverse(result_.steps);
  }

  /// Equal states have equal keys. Of switches and workers alone, or of all.
  [[nodiscard]] std::string key_of(const State& state, bool with_network = true) const {
    std::string key;
    const auto put = [&](auto value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (const Node& node : state.nodes)
      for (const auto& slot : node.slots)
        for (const SlotVersion& version : slot) {
          put(static_cast<std::uint8_t>(version.mark.chunk));
          put(static_cast<std::uint8_t>(version.mark.arrived));
          put(static_cast<std::uint8_t>(version.mark.count));
          put(static_cast<std::uint8_t>(version.mark.stage));
          put(version.mark.exponent);
          put(version.value);
        }
    for (const WorkerState& worker : state.workers) {
      put(worker.call);
      for (std::uint32_t slot = 0; slot < worker.window.slots(); ++slot)
        put(static_cast<std::uint8_t>(worker.window.ready(slot).value_or(kNoChunk)));
      for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk)
        if (worker.window.awaits(chunk)) put(static_cast<std::uint8_t>(chunk));
    }
    if (!with_network) return key;
    const auto put_message = [&](const Message& message) {
      put(static_cast<std::uint8_t>(message.node * 2 + (message.is_down ? 1 : 0)));
      put(message.sender);
      put(message.chunk);
      put(message.value);
      put(message.exponent);
    };
    for (const Message& message : state.sent) put_message(message);
    for (const auto& queue : state.queues) {
      put('q');
      for (const Message& message : queue) put_message(message);
    }
    return key;
  }

  // --- progress ---

  [[nodiscard]] bool is_end(const State& state) const {
    return std::ranges::all_of(state.workers, [&](const WorkerState& worker) {
      return worker.window.is_done() && worker.call + 1U == job_.calls.size();
    });
  }

  /// All packets under way are lost; from now on none is, and workers repeat what they wait for.
  /// They must come to the end, also if a leaf believes that its sum has just been asked for.
  void check_progress(const State& state) {
    if (!progressed_.insert(key_of(state, false)).second) return;
    for (const std::uint32_t asked : {0U, ~0U}) {
      State rest = state;
      rest.sent.clear();
      for (auto& queue : rest.queues) queue.clear();
      for (Node& node : rest.nodes)
        for (auto& slot : node.slots)
          for (SlotVersion& version : slot)
            if (version.mark.stage == Stage::kSummed) version.mark.asked = asked & ~1U;
      for (std::uint64_t round = 0; round < 4 * chunks_ && !is_end(rest); ++round) round_of(rest);
      const std::string wrong = std::exchange(wrong_, "");
      if (!is_end(rest)) return found_mistake("nobody can go on " + wrong, "");
    }
  }

  void round_of(State& state) {
    for (unsigned worker = 0; worker < worker_count(); ++worker) {
      const std::uint32_t slots = state.workers[worker].window.slots();
      for (std::uint32_t slot = 0; slot < slots; ++slot)
        if (state.workers[worker].window.ready(slot)) state.workers[worker].window.sent(slot);
      for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk)
        if (state.workers[worker].window.awaits(chunk))
          pass_on(state, contribution_of(worker, chunk));
    }
  }

  /// Delivers a packet, and what follows from it.
  void pass_on(State& state, const Message& message) {
    std::vector<Message> out;
    if (!message.is_down) {
      take(state, message.node, message, out);
    } else {
      const std::uint32_t to = last_to_;
      for (unsigned worker = 0; worker < worker_count(); ++worker)
        if (node_of(worker) == message.node && (to >> worker % job_.workers & 1) != 0)
          receive(state, worker, message);
      if (is_tree_ && message.node == 0)
        for (unsigned leaf = 1; leaf <= job_.leaves; ++leaf)
          if ((to >> (leaf - 1) & 1) != 0) {
            out.clear();
            take(state, leaf, message, out);
            for (const Message& answer : out) pass_on(state, answer);
          }
      return;
    }
    for (const Message& answer : out) pass_on(state, answer);
  }

  static std::string shown(const Message& message) {
    if (message.is_down)
      return fmt::format("the result {} of chunk {} by switch {}", message.value, message.chunk,
                         message.node);
    return fmt::format("contribution {} of {} to chunk {} of switch {}", message.value,
                       message.sender, message.chunk, message.node);
  }

  const SlotJob& job_;
  unsigned chunks_ = 0;
  bool is_tree_ = false;
  std::unordered_set<std::string> known_;       ///< keys
  std::unordered_set<std::string> progressed_;  ///< keys without the network
  std::vector<Origin> origins_;                 ///< of all states, in the order they were found
  std::deque<State> unvisited_;                 ///< the last of them
  std::size_t at_ = 0;                          ///< the state that is visited
  std::string wrong_;                           ///< with the step at hand
  std::uint32_t last_to_ = 0;                   ///< whom the last decision sends something
  SlotExploration result_;
};

}  // namespace

SlotExploration explore(const SlotJob& job) { return SlotExplorer(job).run(); }

}  // namespace tutti::model
