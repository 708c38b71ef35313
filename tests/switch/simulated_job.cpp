#include "tests/switch/simulated_job.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tutti::in_network {

void SimulatedWorker::equip(std::uint64_t session, const PacketKey& key, std::uint32_t slots,
                            std::size_t call) {
  session_ = session;
  sealer_.emplace(key);
  unsealer_.emplace(key);
  engine_.emplace(WorkerOptions{.session = session,
                                .worker = worker_,
                                .member = member_,
                                .slots = slots,
                                .first_timeout = std::chrono::milliseconds(2),
                                .greatest_timeout = std::chrono::milliseconds(20),
                                .silence = std::chrono::seconds(4)});
  is_running_ = false;
  call_ = call;
}

void SimulatedWorker::receive(TimePoint now) {
  for (; !inbox_.empty(); inbox_.pop_front()) {
    const SimulatedBytes& bytes = *inbox_.front();
    Packet packet;
    if (parse(bytes, packet) != Flaw::kNone || packet.session != session_ ||
        packet.sender != kTheSwitch)
      continue;
    if (unsealer_->accepts(packet, bytes))
      engine_->received(packet, now);
    else if (packet.reason == Refusal::kUnknownSession)
      engine_->hinted_unknown();
  }
}

Status SimulatedWorker::begin_call(const CallCase& call, bool in_place, TimePoint now) {
  const Bytes& expected = call.outputs[number()];
  input_ = call.inputs[number()];
  output_.assign(expected.size(), std::byte{0xee});
  in_place_ = in_place && input_.size() == expected.size();
  Operation operation = call.operation;
  operation.input = input_.data();
  operation.output = in_place_ ? input_.data() : output_.data();
  is_running_ = true;
  return engine_->begin(operation, now);
}

std::span<const std::byte> SimulatedWorker::next_packet(TimePoint now, PacketBytes& room) {
  const std::optional<Packet> packet = engine_->next_packet(now, room);
  if (!packet) return {};
  return sealer_->seal(*packet, room);
}

std::string SimulatedWorker::check(const CallCase& call) const {
  const bool finite = engine_->progress() == Progress::kDone;
  const auto name =
      fmt::format("call {} ({} of {}) of worker {}", call_, name_of(call.operation.collective),
                  name_of(call.operation.type), number());
  if (finite != call.is_finite) return name + " ends wrongly as finite or not";
  const Bytes& expected = call.outputs[number()];
  if (!finite || expected.empty() || output() == expected) return "";
  return name + " has a wrong result";
}

SimulatedJob::SimulatedJob(const JobPlan& plan, NodeId first) : plan_(plan) {
  unsigned all = 0;
  for (const unsigned workers : plan.leaves) all += workers;
  unsigned number = 0;
  for (unsigned leaf = 0; leaf < plan.leaves.size(); ++leaf)
    for (unsigned worker = 0; worker < plan.leaves[leaf]; ++worker, ++number)
      workers_.emplace_back(first + number, leaf, static_cast<std::uint8_t>(worker),
                            Member{.number = number, .of = all});
}

bool SimulatedJob::is_over() const { return first_open_call() == plan_.calls.size(); }

std::size_t SimulatedJob::first_open_call() const {
  std::size_t call = plan_.calls.size();
  for (const SimulatedWorker& worker : workers_) call = std::min(call, worker.call());
  return call;
}

std::vector<NodeId> SimulatedJob::nodes_of(std::uint64_t session, std::uint32_t bits) const {
  std::vector<NodeId> nodes;
  const auto which = std::ranges::find(sessions, session) - sessions.begin();
  if (which == static_cast<std::ptrdiff_t>(sessions.size())) return nodes;
  if (is_tree() && which == 0) {
    for (unsigned leaf = 0; leaf < plan_.leaves.size(); ++leaf)
      if ((bits >> leaf & 1) != 0) nodes.push_back(switch_of(leaf));
    return nodes;
  }
  for (const SimulatedWorker& worker : workers_)
    if ((!is_tree() || worker.leaf() + 1 == which) && (bits >> worker.worker() & 1) != 0)
      nodes.push_back(worker.node());
  return nodes;
}

}  // namespace tutti::in_network
