#include "tests/switch/simulation.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "src/switch/data_plane.hpp"

namespace tutti::in_network {
namespace {

constexpr std::uint64_t kMostEvents = 4'000'000;
constexpr NodeId kFirstWorker = 100;  // nodes below are switches; 0 is the root
constexpr Nanos kThinking{300'000};
constexpr Nanos kStraggling{30'000'000};

struct SwitchNode {
  std::unique_ptr<Sessions> sessions;
  std::unique_ptr<DataPlane> plane;
};

SwitchNode fresh_switch() {
  SwitchNode node;
  node.sessions =
      std::make_unique<Sessions>(SwitchLimits{.slots = 64, .sessions = 4, .least_slots = 8});
  node.plane = std::make_unique<DataPlane>(*node.sessions);
  return node;
}

class Simulation final : PacketSink {
 public:
  explicit Simulation(const SimulationPlan& plan)
      : plan_(plan), random_(plan.seed), network_(random_, plan.faults) {
    std::size_t leaves = 1;
    NodeId node = kFirstWorker;
    for (const JobPlan& job : plan.jobs) {
      leaves = std::max(leaves, job.leaves.size());
      jobs_.emplace_back(job, node);
      node = jobs_.back().end();
    }
    const std::size_t count = leaves == 1 ? 1 : 1 + leaves;
    for (std::size_t i = 0; i < count; ++i) switches_.push_back(fresh_switch());
  }

  SimulationReport run() {
    for (SimulatedJob& job : jobs_) open_session(job);
    for (unsigned i = 0; i < plan_.restarts; ++i)
      network_.restart(static_cast<NodeId>(random_() % switches_.size()),
                       TimePoint(Nanos(random_() % 20'000'000)));
    while (!is_over()) {
      const std::optional<Event> event = network_.next();
      if (!event) fail("nothing happens any more");
      if (network_.events() > kMostEvents) fail("no end after very many events");
      if (event && report_.wrong.empty()) handle(*event);
    }
    report_.events = network_.events();
    report_.duration = network_.now() - TimePoint{};
    for (const SimulatedWorker& worker : jobs_[0].workers())
      report_.counts.push_back(worker.engine().counts());
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool is_over() const {
    return !report_.wrong.empty() || std::ranges::all_of(jobs_, &SimulatedJob::is_over);
  }
  void fail(const std::string& what) {
    if (report_.wrong.empty()) report_.wrong = what;
  }

  // --- sessions: what a control plane does ---

  PacketKey random_key() {
    PacketKey key;
    for (std::byte& byte : key) byte = static_cast<std::byte>(random_());
    return key;
  }

  void open_session(SimulatedJob& job) {
    for (const std::uint64_t id : job.sessions)
      for (SwitchNode& node : switches_) node.sessions->close(id);
    job.sessions.clear();
    const JobPlan& plan = job.plan();
    const auto leaves = static_cast<unsigned>(plan.leaves.size());
    const SessionRequest root{.id = random_(),
                              .key = random_key(),
                              .workers = job.is_tree() ? leaves : plan.leaves[0],
                              .slots = plan.slots};
    const std::uint32_t slots = open(job, 0, root);
    std::vector<PacketKey> keys = {root.key};
    for (unsigned leaf = 0; job.is_tree() && leaf < leaves; ++leaf) {
      const Above above{
          .session = root.id, .key = root.key, .worker = static_cast<std::uint8_t>(leaf)};
      keys.push_back(random_key());
      const std::uint32_t granted = open(job, job.switch_of(leaf),
                                         {.id = random_(),
                                          .key = keys.back(),
                                          .workers = plan.leaves[leaf],
                                          .slots = slots,
                                          .above = above});
      if (granted != slots) fail("a leaf got fewer slots than the root");
    }
    const std::size_t call = job.first_open_call();
    for (SimulatedWorker& worker : job.workers()) {
      const std::size_t which = job.is_tree() ? 1 + worker.leaf() : 0;
      worker.equip(job.sessions[which], keys[which], slots, call);
      think(worker);
    }
  }

  std::uint32_t open(SimulatedJob& job, NodeId node, const SessionRequest& request) {
    const Result<Session*> session = switches_[node].sessions->open(request, network_.now());
    job.sessions.push_back(request.id);
    if (!session) fail(session.error().what);
    return session ? (*session)->pool().slots() : 1;
  }

  // --- events ---

  void handle(const Event& event) {
    if (event.kind == Event::Kind::kRestart) {
      switches_[event.to] = fresh_switch();
    } else if (event.to < kFirstWorker) {
      at_switch_ = event.to;
      came_from_ = event.from;
      switches_[event.to].plane->take(*event.bytes, event.at, *this);
    } else {
      SimulatedJob& job = *std::ranges::find_if(
          jobs_, [&](const SimulatedJob& candidate) { return event.to < candidate.end(); });
      SimulatedWorker& worker = job.worker_at(event.to);
      if (event.kind == Event::Kind::kPacket)
        worker.hear(event.bytes);
      else if (worker.wakes_at == event.at)
        worker.wakes_at = TimePoint::max();
      turn(job, worker);
    }
  }

  void wake(SimulatedWorker& worker, TimePoint when) {
    if (worker.wakes_at <= when && worker.wakes_at >= network_.now()) return;
    worker.wakes_at = when;
    network_.wake(worker.node(), when);
  }
  void think(SimulatedWorker& worker) {
    wake(worker, network_.now() + Nanos(1 + random_() % kThinking.count()));
  }

  /// A worker's process goes once around its loop.
  void turn(SimulatedJob& job, SimulatedWorker& worker) {
    const TimePoint now = network_.now();
    if (now < worker.away_until) return wake(worker, worker.away_until);
    if (random_() % 1000 < plan_.stragglers) {
      worker.away_until = now + Nanos(random_() % kStraggling.count());
      return wake(worker, worker.away_until);
    }
    worker.receive(now);
    if (!worker.is_running()) {
      if (worker.call() == job.plan().calls.size()) return;
      const bool in_place = job.plan().in_place && plan_.restarts == 0;
      const Status begun = worker.begin_call(job.plan().calls[worker.call()], in_place, now);
      if (!begun) return fail(begun.error().what);
    }
    PacketBytes room;
    for (auto bytes = worker.next_packet(now, room); !bytes.empty();
         bytes = worker.next_packet(now, room))
      network_.send(worker.node(), job.switch_of(worker.leaf()), bytes);
    if (const auto deadline = worker.engine().next_deadline()) wake(worker, *deadline);
    if (worker.engine().progress() != Progress::kRunning) end_call(job, worker);
  }

  void end_call(SimulatedJob& job, SimulatedWorker& worker) {
    if (worker.engine().progress() == Progress::kFailed)
      return recover(job, worker.engine().error());
    const CallCase& call = job.plan().calls[worker.call()];
    const std::string wrong = worker.check(call);
    if (!wrong.empty()) return fail(wrong);
    if (call.is_finite && !call.outputs[worker.number()].empty())
      report_.greatest_error =
          std::max(report_.greatest_error, error_of(call, worker.number(), worker.output()));
    worker.end_call();
    think(worker);
  }

  /// A worker found its session failed: all begin anew, with the first call that any lacks.
  void recover(SimulatedJob& job, const Error& error) {
    ++report_.session_failures;
    report_.errors.push_back(error.what);
    if (plan_.restarts == 0) return fail("a session failed: " + error.what);
    open_session(job);
  }

  // --- what a switch sends ---

  void heard(const Session& /*session*/, std::uint8_t /*worker*/) override {}
  void to_workers(const Session& session, std::uint32_t workers,
                  std::span<const std::byte> bytes) override {
    for (const SimulatedJob& job : jobs_)
      for (const NodeId node : job.nodes_of(session.id(), workers))
        network_.send(at_switch_, node, bytes);
  }
  void to_above(const Session& /*session*/, std::span<const std::byte> bytes) override {
    network_.send(at_switch_, 0, bytes);
  }
  void reply(std::span<const std::byte> bytes) override {
    network_.send(at_switch_, came_from_, bytes);
  }

  const SimulationPlan& plan_;
  std::mt19937_64 random_;
  HostileNetwork network_;
  std::vector<SwitchNode> switches_;
  std::vector<SimulatedJob> jobs_;
  NodeId at_switch_ = 0;
  NodeId came_from_ = 0;
  SimulationReport report_;
};

NetworkFaults random_faults(std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<unsigned> chances) {
    return chances.begin()[random() % chances.size()];
  };
  return {.loss = one_of({0, 10, 50, 200}),
          .copies = one_of({0, 10, 200}),
          .late = one_of({0, 10, 100}),
          .damage = one_of({0, 10, 50}),
          .replays = one_of({0, 10, 200}),
          .inventions = one_of({0, 10, 100}),
          .delay = Nanos(random() % 100'000 + 1)};
}

}  // namespace

SimulationPlan random_plan(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  SimulationPlan plan{.seed = random(), .faults = random_faults(random), .jobs = {}};
  const bool tree = random() % 3 == 0;
  const std::size_t jobs = random() % 4 == 0 ? 2 : 1;
  for (std::size_t i = 0; i < jobs; ++i) {
    JobPlan& job = plan.jobs.emplace_back();
    const auto leaves = tree ? static_cast<unsigned>(2 + random() % 2) : 1;
    unsigned members = 0;
    for (unsigned leaf = 0; leaf < leaves; ++leaf) {
      job.leaves.push_back(static_cast<unsigned>(1 + random() % (8 / leaves)));
      members += job.leaves.back();
    }
    job.slots = static_cast<std::uint32_t>(1 + random() % 8);
    job.in_place = random() % 2 == 0;
    for (std::uint64_t calls = 1 + random() % 4; calls > 0; --calls)
      job.calls.push_back(random_case(random, members, random() % 24));
  }
  if (random() % 8 == 0) plan.restarts = static_cast<unsigned>(1 + random() % 2);
  if (random() % 4 == 0) plan.stragglers = static_cast<unsigned>(1 + random() % 20);
  return plan;
}

SimulationReport simulate(const SimulationPlan& plan) { return Simulation(plan).run(); }

}  // namespace tutti::in_network
