// The event loop of simulate(): one run of one schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "src/sim/agenda.hpp"
#include "src/sim/flow_network.hpp"
#include "src/sim/group_runs.hpp"
#include "src/sim/itineraries.hpp"
#include "src/sim/job.hpp"
#include "src/sim/ports.hpp"
#include "src/sim/simulate.hpp"

namespace tutti::sim {

class Simulation {
 public:
  /// Consumes the graph.
  Simulation(const Job& job, TaskGraph graph);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Runs to the end. Returns those errors of simulate() that only show here. Call once.
  Result<Outcome> run();

 private:
  enum class Happening : std::uint8_t {
    kWorkDone,  // a rank has finished its current work; subject: the rank
    kDeparts,   // a message begins to flow; subject: the message
    kLeft,      // its last byte has left
    kArrives,   // its last byte has arrived
    kComes,     // a member comes to an operation; subject: the run
  };
  struct Event {
    Happening what;
    std::uint32_t subject;
  };
  struct MessageState {
    bool send_is_ready = false;
    bool receive_is_ready = false;
    bool has_left = false;
    bool has_arrived = false;
    bool is_received = false;
  };
  struct ChannelState {
    MessageId next = 0;           // the next message to start
    std::uint32_t in_flight = 0;  // messages started and not received
    /// The previous message has not left (with ports: not arrived), or its sender is still working
    /// on it.
    bool is_busy = false;
    bool is_flowing = false;           // if sending is work: a message is on the links
    std::queue<MessageId> prepared{};  // if sending is work: messages that wait for the links
    bool waits = false;                // waits for ports
  };
  /// Work that occupies a rank: a task of its own, or sending or receiving a message.
  struct Work {
    enum class Kind : std::uint8_t { kStep, kSend, kReceive } kind = Kind::kStep;
    Task task;
    MessageId message = 0;
    Time duration = 0;
  };
  /// A rank, which does one piece of work at a time.
  struct Worker {
    double slowdown = 1;
    Time free_to_send = 0;  // when the last message's software cost is paid
    std::optional<Work> work;
    Time since = 0;
    std::queue<Work> waiting;
    bool waits_for_cpu = false;
  };
  /// CPUs that ranks share.
  struct Cpus {
    std::uint32_t free = 0;
    std::queue<Rank> waiting;
  };

  [[nodiscard]] const ir::Step& step_of(const Task& task) const;
  [[nodiscard]] Worker& worker(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Message& message(MessageId id) const { return job_.traffic.messages()[id]; }

  void start_ready_tasks();
  /// Processes everything that follows immediately from what has happened.
  void run_present();
  void take_events();
  void complete(const Task& task, Time since);
  void ready(const Task& task);

  // For steps that have an order.
  [[nodiscard]] bool in_order() const { return itineraries_.exist(); }
  /// Begins the rank's tasks as far as possible.
  void go_on(Rank rank);
  [[nodiscard]] bool may_begin(const Task& task) const;

  // Messages.
  void offer(ChannelId id);
  void start(ChannelId id);
  void prepared(MessageId id);
  void depart(MessageId id);
  void left(MessageId id);
  void arrive(MessageId id);
  void receive(MessageId id);
  void received(MessageId id);
  [[nodiscard]] std::uint64_t bytes_of(MessageId id) const;
  [[nodiscard]] std::uint64_t bytes_of(Rank rank, const ir::ChunkSet& chunks,
                                       std::uint32_t slice) const;

  // Operations of groups.
  void come(const Task& task);
  void ended(RunId run);
  [[nodiscard]] RunId run_of(const Task& task) const {
    return job_.groups.run_of(graph_.number(task.rank, task.step), task.slice);
  }

  // A rank's own work.
  /// When the rank has paid the software cost of a message that it begins to send now.
  Time free_to_send(Rank rank);
  void enqueue(Rank rank, const Work& work);
  void work_on(Rank rank);
  void finish(const Work& work, Time since);
  void work_done(Rank rank);
  /// Takes a CPU for the rank; if none is free, queues the rank and returns false.
  bool take_cpu(Rank rank);
  void free_cpu(Rank rank);
  [[nodiscard]] Time duration(const Task& task) const;
  [[nodiscard]] Time duration(Rank rank, double us, double ps_per_byte, MessageId message) const;

  [[nodiscard]] Status report_progress();
  [[nodiscard]] Error stuck() const;

  Job job_;
  TaskGraph graph_;
  FlowNetwork network_;
  GroupRuns groups_;
  std::optional<Ports> ports_;
  Agenda<Event> agenda_;
  Time now_ = 0;

  std::vector<Task> completed_;  // dependents are not notified yet
  std::vector<MessageState> messages_;
  std::vector<ChannelState> channels_;
  std::vector<Worker> workers_;
  Itineraries itineraries_;
  std::vector<Cpus> cpus_;           // by group, or empty
  std::vector<Time> message_start_;  // only for options.on_step
  std::vector<std::uint64_t> bytes_sent_;
  std::uint64_t done_ = 0;
  std::uint64_t reported_ = 0;

  std::vector<std::uint32_t> ended_flows_;
  std::vector<ChannelId> granted_;
  std::vector<RunId> ended_runs_;
};

}  // namespace tutti::sim
