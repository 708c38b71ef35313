#include "tests/switch/simulation.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

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

/// A worker and the process around it.
struct Member {
  NodeId node = 0;
  unsigned number = 0;
  unsigned leaf = 0;
  std::uint8_t worker = 0;  ///< at its switch
  std::optional<Worker> engine;
  std::optional<Sealer> sealer;
  std::optional<Unsealer> unsealer;
  std::uint64_t session = 0;
  std::size_t call = 0;  ///< that runs, or will
  bool is_running = false;
  Bytes input, output;
  TimePoint away_until;
  TimePoint wake_at = TimePoint::max();
  std::deque<std::shared_ptr<const SimulatedBytes>> inbox;
};

struct Job {
  const JobPlan* plan = nullptr;
  std::vector<Member> members;
  std::vector<std::uint64_t> sessions;  ///< of the root, or of the root and each leaf
};

class Simulation final : PacketSink {
 public:
  explicit Simulation(const SimulationPlan& plan)
      : plan_(plan), random_(plan.seed), network_(random_, plan.faults) {}

  SimulationReport run() {
    build_nodes();
    for (Job& job : jobs_) open_session(job);
    for (unsigned i = 0; i < plan_.restarts; ++i)
      network_.restart(static_cast<NodeId>(random_() % switches_.size()),
                       TimePoint(Nanos(random_() % 20'000'000)));
    while (!is_over()) {
      const std::optional<Event> event = network_.next();
      if (!event) fail("nothing happens any more");
      if (network_.events() > kMostEvents) fail("no end after very many events");
      if (is_over()) break;
      handle(*event);
    }
    report_.events = network_.events();
    for (const Member& member : jobs_[0].members) report_.counts.push_back(member.engine->counts());
    return std::move(report_);
  }

 private:
  // --- nodes ---

  void build_nodes() {
    std::size_t leaves = 1;
    for (const JobPlan& plan : plan_.jobs) leaves = std::max(leaves, plan.leaves.size());
    const std::size_t count = leaves == 1 ? 1 : 1 + leaves;
    for (std::size_t i = 0; i < count; ++i) switches_.push_back(fresh_switch());
    NodeId node = kFirstWorker;
    for (const JobPlan& plan : plan_.jobs) {
      Job& job = jobs_.emplace_back();
      job.plan = &plan;
      for (unsigned leaf = 0; leaf < plan.leaves.size(); ++leaf)
        for (unsigned worker = 0; worker < plan.leaves[leaf]; ++worker) {
          Member& member = job.members.emplace_back();
          member.node = node++;
          member.number = static_cast<unsigned>(job.members.size()) - 1;
          member.leaf = leaf;
          member.worker = static_cast<std::uint8_t>(worker);
        }
    }
  }
  [[nodiscard]] static bool is_tree(const Job& job) { return job.plan->leaves.size() > 1; }
  /// The switch of the job's leaf.
  [[nodiscard]] static NodeId switch_of(const Job& job, unsigned leaf) {
    return is_tree(job) ? 1 + leaf : 0;
  }

  // --- sessions: what a control plane does ---

  PacketKey random_key() {
    PacketKey key;
    for (std::byte& byte : key) byte = static_cast<std::byte>(random_());
    return key;
  }

  void open_session(Job& job) {
    close_sessions(job);
    const auto leaves = static_cast<unsigned>(job.plan->leaves.size());
    const PacketKey root_key = random_key();
    const std::uint64_t root_id = random_();
    std::uint32_t slots = open(job, 0,
                               {.id = root_id,
                                .key = root_key,
                                .workers = is_tree(job) ? leaves : job.plan->leaves[0],
                                .slots = job.plan->slots});
    std::vector<PacketKey> keys = {root_key};
    std::vector<std::uint64_t> ids = {root_id};
    for (unsigned leaf = 0; is_tree(job) && leaf < leaves; ++leaf) {
      keys.push_back(random_key());
      ids.push_back(random_());
      const Above above{
          .session = root_id, .key = root_key, .worker = static_cast<std::uint8_t>(leaf)};
      const std::uint32_t granted = open(job, 1 + leaf,
                                         {.id = ids.back(),
                                          .key = keys.back(),
                                          .workers = job.plan->leaves[leaf],
                                          .slots = slots,
                                          .above = above});
      if (granted != slots) fail("a leaf got fewer slots than the root");
    }
    for (Member& member : job.members) {
      const std::size_t which = is_tree(job) ? 1 + member.leaf : 0;
      equip(job, member, ids[which], keys[which], slots);
    }
  }

  std::uint32_t open(Job& job, NodeId node, const SessionRequest& request) {
    const Result<Session*> session = switches_[node].sessions->open(request, network_.now());
    if (!session) {
      fail(session.error().what);
      return 1;
    }
    job.sessions.push_back(request.id);
    return (*session)->pool().slots();
  }

  void close_sessions(Job& job) {
    for (const std::uint64_t id : job.sessions)
      for (SwitchNode& node : switches_) node.sessions->close(id);
    job.sessions.clear();
  }

  void equip(const Job& job, Member& member, std::uint64_t session, const PacketKey& key,
             std::uint32_t slots) {
    member.session = session;
    member.sealer.emplace(key);
    member.unsealer.emplace(key);
    member.engine.emplace(WorkerOptions{
        .session = session,
        .worker = member.worker,
        .member = {.number = member.number, .of = static_cast<unsigned>(job.members.size())},
        .slots = slots,
        .first_timeout = std::chrono::milliseconds(2),
        .greatest_timeout = std::chrono::milliseconds(20),
        .silence = std::chrono::seconds(4)});
    member.is_running = false;
    wake(member, network_.now() + Nanos(random_() % kThinking.count()));
  }

  /// A worker found its session failed: all begin anew, with the first call that any lacks.
  void recover(Job& job, const Error& error) {
    ++report_.session_failures;
    report_.errors.push_back(error.what);
    if (plan_.restarts == 0) return fail("a session failed: " + error.what);
    std::size_t call = job.plan->calls.size();
    for (const Member& member : job.members) call = std::min(call, member.call);
    for (Member& member : job.members) member.call = call;
    open_session(job);
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
      Job& job = job_of(event.to);
      Member& member = job.members[event.to - job.members[0].node];
      if (event.kind == Event::Kind::kPacket)
        member.inbox.push_back(event.bytes);
      else if (member.wake_at == event.at)
        member.wake_at = TimePoint::max();
      turn(job, member);
    }
  }

  Job& job_of(NodeId node) {
    for (Job& job : jobs_)
      if (node <= job.members.back().node) return job;
    return jobs_.back();
  }

  void wake(Member& member, TimePoint when) {
    if (member.wake_at <= when && member.wake_at >= network_.now()) return;
    member.wake_at = when;
    network_.wake(member.node, when);
  }

  // --- workers ---

  void turn(Job& job, Member& member) {
    if (network_.now() < member.away_until) return wake(member, member.away_until);
    if (random_() % 1000 < plan_.stragglers) {
      member.away_until = network_.now() + Nanos(random_() % kStraggling.count());
      return wake(member, member.away_until);
    }
    for (; !member.inbox.empty(); member.inbox.pop_front()) receive(member, *member.inbox.front());
    if (!member.is_running && !begin_call(job, member)) return;
    PacketBytes room;
    PacketBytes sealed;
    while (const auto packet = member.engine->next_packet(network_.now(), room))
      network_.send(member.node, switch_of(job, member.leaf), member.sealer->seal(*packet, sealed));
    if (const auto deadline = member.engine->next_deadline()) wake(member, *deadline);
    if (member.engine->progress() != Progress::kRunning) end_call(job, member);
  }

  void receive(Member& member, const SimulatedBytes& bytes) {
    Packet packet;
    if (parse(bytes, packet) != Flaw::kNone || packet.session != member.session ||
        packet.sender != kTheSwitch)
      return;
    if (member.unsealer->accepts(packet, bytes))
      member.engine->received(packet, network_.now());
    else if (packet.kind == PacketKind::kRefusal && packet.reason == Refusal::kUnknownSession)
      member.engine->hinted_unknown();
  }

  /// False if the job is over for this member.
  bool begin_call(const Job& job, Member& member) {
    if (member.call == job.plan->calls.size()) return false;
    const CallCase& call = job.plan->calls[member.call];
    const Bytes& expected = call.outputs[member.number];
    Operation operation = call.operation;
    member.input = call.inputs[member.number];
    member.output.assign(expected.size(), std::byte{0xee});
    const bool one_buffer =
        job.plan->in_place && plan_.restarts == 0 && member.input.size() == expected.size();
    operation.input = member.input.data();
    operation.output = one_buffer ? member.input.data() : member.output.data();
    const Status begun = member.engine->begin(operation, network_.now());
    if (!begun) fail(begun.error().what);
    member.is_running = true;
    return true;
  }

  void end_call(Job& job, Member& member) {
    const Worker& engine = *member.engine;
    if (engine.progress() == Progress::kFailed) return recover(job, Error(engine.error()));
    check(job, member);
    member.is_running = false;
    ++member.call;
    wake(member, network_.now() + Nanos(1 + random_() % kThinking.count()));
  }

  void check(const Job& job, const Member& member) {
    const CallCase& call = job.plan->calls[member.call];
    const bool finite = member.engine->progress() == Progress::kDone;
    const auto name = fmt::format("call {} ({} of {}) of worker {}", member.call,
                                  name_of(call.operation.collective), name_of(call.operation.type),
                                  member.number);
    if (finite != call.is_finite) return fail(name + " ends wrongly as finite or not");
    const Bytes& expected = call.outputs[member.number];
    if (!finite || expected.empty()) return;
    const bool one_buffer =
        job.plan->in_place && plan_.restarts == 0 && member.input.size() == expected.size();
    const Bytes& output = one_buffer ? member.input : member.output;
    if (output != expected) return fail(name + " has a wrong result");
    report_.greatest_error =
        std::max(report_.greatest_error, error_of(call, member.number, output));
  }

  [[nodiscard]] bool is_over() const {
    if (!report_.wrong.empty()) return true;
    return std::ranges::all_of(jobs_, [](const Job& job) {
      return std::ranges::all_of(
          job.members, [&](const Member& member) { return member.call == job.plan->calls.size(); });
    });
  }
  void fail(const std::string& what) {
    if (report_.wrong.empty()) report_.wrong = what;
  }

  // --- what a switch sends ---

  void heard(const Session& /*session*/, std::uint8_t /*worker*/) override {}
  void to_workers(const Session& session, std::uint32_t workers,
                  std::span<const std::byte> bytes) override {
    for (const Job& job : jobs_)
      for (std::size_t i = 0; i < job.sessions.size(); ++i) {
        if (job.sessions[i] != session.id()) continue;
        if (is_tree(job) && i == 0) {
          for (unsigned leaf = 0; leaf < job.plan->leaves.size(); ++leaf)
            if ((workers >> leaf & 1) != 0) network_.send(at_switch_, switch_of(job, leaf), bytes);
          continue;
        }
        for (const Member& member : job.members)
          if ((!is_tree(job) || member.leaf + 1 == i) && (workers >> member.worker & 1) != 0)
            network_.send(at_switch_, member.node, bytes);
      }
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
  std::vector<Job> jobs_;
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
