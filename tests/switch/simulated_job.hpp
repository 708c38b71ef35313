// A job of the simulation: its workers, each with the process around it, and its sessions.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/switch/seal.hpp"
#include "src/switch/worker.hpp"
#include "tests/switch/call_case.hpp"
#include "tests/switch/hostile_network.hpp"

namespace tutti::in_network {

struct JobPlan {
  std::vector<unsigned> leaves;  ///< workers of each leaf; one entry: no tree
  std::uint32_t slots = 4;
  std::vector<CallCase> calls;
  bool in_place = false;
};

/// A worker's process: it seals and opens packets, and runs calls one after the other.
class SimulatedWorker {
 public:
  SimulatedWorker(NodeId node, unsigned leaf, std::uint8_t worker, const Member& member)
      : node_(node), leaf_(leaf), worker_(worker), member_(member) {}

  /// Begins a session, with this call of the plan.
  void equip(std::uint64_t session, const PacketKey& key, std::uint32_t slots, std::size_t call);
  void hear(std::shared_ptr<const SimulatedBytes> bytes) { inbox_.push_back(std::move(bytes)); }
  /// Takes what it heard.
  void receive(TimePoint now);
  Status begin_call(const CallCase& call, bool in_place, TimePoint now);
  /// The next sealed packet, in `room`; empty if there is none.
  std::span<const std::byte> next_packet(TimePoint now, PacketBytes& room);
  /// What is wrong with a call that ended well; "" if nothing is.
  [[nodiscard]] std::string check(const CallCase& call) const;
  [[nodiscard]] const Bytes& output() const { return in_place_ ? input_ : output_; }
  void end_call() {
    is_running_ = false;
    ++call_;
  }

  [[nodiscard]] NodeId node() const { return node_; }
  [[nodiscard]] unsigned leaf() const { return leaf_; }
  [[nodiscard]] std::uint8_t worker() const { return worker_; }
  [[nodiscard]] unsigned number() const { return member_.number; }
  [[nodiscard]] const Worker& engine() const { return *engine_; }
  [[nodiscard]] bool is_running() const { return is_running_; }
  /// The call that runs, or will.
  [[nodiscard]] std::size_t call() const { return call_; }

  TimePoint away_until{};                 ///< does nothing before
  TimePoint wakes_at = TimePoint::max();  ///< has asked to be woken

 private:
  NodeId node_;
  unsigned leaf_;
  std::uint8_t worker_;  ///< at its switch
  Member member_;
  std::optional<Worker> engine_;
  std::optional<Sealer> sealer_;
  std::optional<Unsealer> unsealer_;
  std::uint64_t session_ = 0;
  std::size_t call_ = 0;
  bool is_running_ = false;
  bool in_place_ = false;
  Bytes input_, output_;
  std::deque<std::shared_ptr<const SimulatedBytes>> inbox_;
};

class SimulatedJob {
 public:
  /// Its workers' nodes count from `first`.
  SimulatedJob(const JobPlan& plan, NodeId first);

  [[nodiscard]] const JobPlan& plan() const { return plan_; }
  [[nodiscard]] bool is_tree() const { return plan_.leaves.size() > 1; }
  [[nodiscard]] bool is_over() const;
  /// The switch that adds for this leaf's workers.
  [[nodiscard]] NodeId switch_of(unsigned leaf) const { return is_tree() ? 1 + leaf : 0; }
  [[nodiscard]] std::vector<SimulatedWorker>& workers() { return workers_; }
  [[nodiscard]] const std::vector<SimulatedWorker>& workers() const { return workers_; }
  [[nodiscard]] NodeId end() const { return workers_.back().node() + 1; }
  [[nodiscard]] SimulatedWorker& worker_at(NodeId node) {
    return workers_[node - workers_.front().node()];
  }
  /// The first call that not all workers have done.
  [[nodiscard]] std::size_t first_open_call() const;

  /// Ids: of the root, or of the root and then of each leaf.
  std::vector<std::uint64_t> sessions;
  /// The nodes of these workers of a session, which are workers or leaves; none if it is another
  /// job's.
  [[nodiscard]] std::vector<NodeId> nodes_of(std::uint64_t session, std::uint32_t bits) const;

 private:
  const JobPlan& plan_;
  std::vector<SimulatedWorker> workers_;
};

}  // namespace tutti::in_network
