#include "tests/switch/slot_model.hpp"

#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

namespace tutti::model {
namespace {

struct SlotState {
  Processes all;
  std::vector<Message> sent;                 ///< kAnyOrder: a sorted set
  std::vector<std::vector<Message>> queues;  ///< kFifo: up, then down for each worker
};

/// How a state was reached.
struct Origin {
  std::size_t from = 0;
  std::string step;
};

/// Appends values as bytes: equal states have equal keys.
class KeyWriter {
 public:
  template <class T>
  void put(T value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const Message& message) {
    put(static_cast<std::uint8_t>(message.node * 2 + (message.is_down ? 1 : 0)));
    put(message.sender);
    put(message.chunk);
    put(message.value);
    put(message.exponent);
  }
  void put(const SlotVersion& version) {
    put(static_cast<std::uint8_t>(version.mark.chunk));
    put(static_cast<std::uint8_t>(version.mark.arrived));
    put(static_cast<std::uint8_t>(version.mark.count));
    put(static_cast<std::uint8_t>(version.mark.stage));
    put(version.mark.exponent);
    put(version.value);
  }
  void put(const WorkerState& worker, unsigned chunks) {
    put(worker.call);
    for (std::uint32_t slot = 0; slot < worker.window.slots(); ++slot)
      put(static_cast<std::uint8_t>(worker.window.ready(slot).value_or(0xff)));
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk)
      if (worker.window.awaits(chunk)) put(static_cast<std::uint8_t>(chunk));
  }
  std::string take() && { return std::move(key_); }

 private:
  std::string key_;
};

void put_processes(KeyWriter& key, const Processes& all, unsigned chunks) {
  for (const Node& node : all.nodes)
    for (const auto& slot : node.slots)
      for (const SlotVersion& version : slot) key.put(version);
  for (const WorkerState& worker : all.workers) key.put(worker, chunks);
}

class SlotExplorer {
 public:
  explicit SlotExplorer(const SlotJob& job) : job_(job), system_(job) {}

  SlotExploration run() {
    SlotState first{.all = system_.first(), .sent = {}, .queues = {}};
    first.queues.resize(is_fifo() ? std::size_t{2} * system_.worker_count() : 0);
    add(std::move(first), 0, "");
    for (std::size_t at = 0; !unvisited_.empty() && result_.mistake.empty(); ++at) {
      const SlotState state = std::move(unvisited_.front());
      unvisited_.pop_front();
      at_ = at;
      if (job_.checks_progress) check_progress(state.all);
      if (result_.mistake.empty()) visit(state);
    }
    result_.states = origins_.size();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_fifo() const { return job_.network == Network::kFifo; }

  // --- steps ---

  void visit(const SlotState& state) {
    for (unsigned worker = 0; worker < system_.worker_count(); ++worker) visit_sends(state, worker);
    for (unsigned queue = 0; queue < state.queues.size(); ++queue) visit_queue(state, queue);
    for (const Message& message : state.sent) visit_delivery(state, message);
  }

  void visit_sends(const SlotState& state, unsigned worker) {
    const in_network::Window& window = state.all.workers[worker].window;
    for (std::uint32_t slot = 0; slot < window.slots(); ++slot) {
      const auto chunk = window.ready(slot);
      if (!chunk) continue;
      SlotState next = state;
      next.all.workers[worker].window.sent(slot);
      put(next, worker, system_.contribution_of(worker, *chunk));
      add(std::move(next), at_, fmt::format("worker {} sends chunk {}", worker, *chunk));
    }
    if (!is_fifo()) return;  // there, what was sent stays
    for (std::uint64_t chunk = 0; chunk < system_.chunks(); ++chunk) {
      if (!window.awaits(chunk)) continue;
      SlotState next = state;
      put(next, worker, system_.contribution_of(worker, chunk));
      add(std::move(next), at_, fmt::format("worker {} repeats chunk {}", worker, chunk));
    }
  }

  void put(SlotState& state, unsigned queue, const Message& message) const {
    if (!is_fifo()) {
      const auto place = std::ranges::lower_bound(state.sent, message);
      if (place == state.sent.end() || *place != message) state.sent.insert(place, message);
    } else if (state.queues[queue].size() < job_.queue) {
      state.queues[queue].push_back(message);
    }
  }

  void visit_delivery(const SlotState& state, const Message& message) {
    if (!message.is_down) return deliver_to_node(state, message.node, message);
    for (unsigned worker = 0; worker < system_.worker_count(); ++worker) {
      if (system_.node_of(worker) != message.node) continue;
      SlotState next = state;
      const Outcome outcome = system_.receive(next.all, worker, message);
      add(std::move(next), outcome, fmt::format("{} reaches worker {}", shown(message), worker));
    }
    if (message.node != 0) return;
    for (unsigned leaf = 1; leaf <= job_.leaves; ++leaf) deliver_to_node(state, leaf, message);
  }

  void deliver_to_node(const SlotState& state, unsigned node, const Message& message) {
    SlotState next = state;
    const Outcome outcome = system_.take(next.all, node, message);
    if (outcome.answer) put(next, 0, *outcome.answer);
    // Who asked decides only whether a sum goes up again, which stays under way here.
    for (auto& slot : next.all.nodes[node].slots)
      for (SlotVersion& version : slot) version.mark.asked = version.mark.owed = 0;
    add(std::move(next), outcome, fmt::format("{} reaches switch {}", shown(message), node));
  }

  /// kFifo: what is first in a queue is lost, delivered, or delivered and kept as a copy.
  void visit_queue(const SlotState& state, unsigned queue) {
    if (state.queues[queue].empty()) return;
    const Message message = state.queues[queue].front();
    enum class Fate : std::uint8_t { kLost, kArrives, kCopied };
    for (const Fate fate : {Fate::kLost, Fate::kArrives, Fate::kCopied}) {
      constexpr const char* kFates[] = {"is lost", "arrives", "arrives, and a copy follows"};
      SlotState next = state;
      Outcome outcome;
      if (fate != Fate::kCopied) next.queues[queue].erase(next.queues[queue].begin());
      if (fate != Fate::kLost) outcome = deliver_from_queue(next, queue, message);
      add(std::move(next), outcome,
          fmt::format("{} {}", shown(message), kFates[static_cast<std::size_t>(fate)]));
    }
  }

  Outcome deliver_from_queue(SlotState& state, unsigned queue, const Message& message) const {
    const unsigned workers = system_.worker_count();
    if (message.is_down) return system_.receive(state.all, queue - workers, message);
    Outcome outcome = system_.take(state.all, 0, message);
    for (unsigned worker = 0; outcome.answer && worker < workers; ++worker)
      if ((outcome.to >> worker & 1) != 0) put(state, workers + worker, *outcome.answer);
    return outcome;
  }

  // --- states ---

  void add(SlotState state, const Outcome& outcome, const std::string& step) {
    if (outcome.wrong.empty()) return add(std::move(state), at_, step);
    if (result_.mistake.empty()) found_mistake(outcome.wrong, step);
  }

  void add(SlotState state, std::size_t from, std::string step) {
    KeyWriter key;
    put_processes(key, state.all, system_.chunks());
    for (const Message& message : state.sent) key.put(message);
    for (const auto& queue : state.queues) {
      key.put('q');
      for (const Message& message : queue) key.put(message);
    }
    if (!known_.insert(std::move(key).take()).second) return;
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

  // --- progress ---

  /// All packets under way are lost; from now on none is, and workers repeat what they wait for.
  /// They must come to the end, also if a leaf believes that its sum has just been asked for.
  void check_progress(const Processes& all) {
    KeyWriter key;
    put_processes(key, all, system_.chunks());
    if (!progressed_.insert(std::move(key).take()).second) return;
    for (const std::uint32_t asked : {0U, ~1U}) {
      Processes rest = all;
      for (Node& node : rest.nodes)
        for (auto& slot : node.slots)
          for (SlotVersion& version : slot) version.mark.asked = asked;
      for (unsigned round = 0; round < 4 * system_.chunks() && !system_.is_end(rest); ++round)
        repeat_all(rest);
      if (!system_.is_end(rest)) return found_mistake("nobody can go on", "");
    }
  }

  void repeat_all(Processes& all) const {
    for (unsigned worker = 0; worker < system_.worker_count(); ++worker) {
      in_network::Window& window = all.workers[worker].window;
      for (std::uint32_t slot = 0; slot < window.slots(); ++slot)
        if (window.ready(slot)) window.sent(slot);
      for (std::uint64_t chunk = 0; chunk < system_.chunks(); ++chunk)
        if (window.awaits(chunk))
          pass_on(all, system_.node_of(worker), system_.contribution_of(worker, chunk));
    }
  }

  /// Delivers a packet to a switch, and what follows from it.
  void pass_on(Processes& all, unsigned node, const Message& message) const {
    const Outcome outcome = system_.take(all, node, message);
    if (!outcome.answer) return;
    if (!outcome.answer->is_down) return pass_on(all, 0, *outcome.answer);
    for (unsigned worker = 0; worker < system_.worker_count(); ++worker)
      if (system_.node_of(worker) == node && (outcome.to >> system_.number_of(worker) & 1) != 0)
        (void)system_.receive(all, worker, *outcome.answer);
    for (unsigned leaf = 0; node == 0 && leaf < job_.leaves; ++leaf)
      if ((outcome.to >> leaf & 1) != 0) pass_on(all, 1 + leaf, *outcome.answer);
  }

  const SlotJob& job_;
  SlotSystem system_;
  std::unordered_set<std::string> known_;       ///< keys
  std::unordered_set<std::string> progressed_;  ///< keys without the network
  std::vector<Origin> origins_;                 ///< of all states, in the order they were found
  std::deque<SlotState> unvisited_;             ///< the last of them
  std::size_t at_ = 0;                          ///< the state that is visited
  SlotExploration result_;
};

}  // namespace

SlotExploration explore(const SlotJob& job) { return SlotExplorer(job).run(); }

}  // namespace tutti::model
