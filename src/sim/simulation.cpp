#include "src/sim/simulation.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/program.hpp"
#include "src/sim/outcome.hpp"

namespace tutti::sim {

Simulation::Simulation(const Job& job, TaskGraph graph)
    : job_(job),
      graph_(std::move(graph)),
      network_(capacities(job)),
      groups_(job.groups, network_, static_cast<std::uint32_t>(job.traffic.messages().size()),
              [this](const Stream& stream, std::uint32_t slice) {
                const auto bytes = bytes_of(stream.rank, stream.chunks, slice);
                return static_cast<std::uint64_t>(static_cast<double>(bytes) * stream.on_links);
              }),
      messages_(job.traffic.messages().size()),
      workers_(static_cast<std::size_t>(job.schedule.request.ranks)),
      itineraries_(job.schedule, graph_.slices(), job.options.rounds),
      bytes_sent_(workers_.size(), 0) {
  if (job.costs.ports > 0) ports_.emplace(job.schedule.request.ranks, job.costs.ports, job.traffic);
  for (const Channel& channel : job.traffic.channels())
    channels_.push_back({.next = channel.first});
  for (const SlowRank& slow : job.costs.slow_ranks)
    if (slow.rank < job.schedule.request.ranks) worker(slow.rank).slowdown *= slow.factor;
  for (const std::int32_t group : job.costs.cpu_groups)
    cpus_.resize(std::max(cpus_.size(), static_cast<std::size_t>(group) + 1),
                 {.free = job.costs.cpus, .waiting = {}});
  if (job.options.on_step) message_start_.resize(messages_.size());
}

Result<Outcome> Simulation::run() {
  start_ready_tasks();
  for (;;) {
    run_present();
    TUTTI_TRY(report_progress());
    const Time next = std::min({agenda_.next(), network_.next_end(), groups_.next_end()});
    if (next == kNever) break;
    now_ = next;
    if (now_ > kLongest)
      return make_error(Code::kInvalidArgument,
                        "{}: more than {:.0f} s of virtual time; less data or lower costs were "
                        "expected",
                        job_.schedule.algorithm, static_cast<double>(kLongest) / 1e12);
    take_events();
  }
  if (done_ != graph_.tasks()) return stuck();
  return outcome_of(job_, {now_, graph_.tasks(), network_, groups_, bytes_sent_});
}

const ir::Step& Simulation::step_of(const Task& task) const {
  return job_.schedule.programs[static_cast<std::size_t>(task.rank)].steps[task.step];
}

void Simulation::start_ready_tasks() {
  for (Rank rank = 0; rank < graph_.ranks(); ++rank) {
    if (in_order()) {
      go_on(rank);
      continue;
    }
    for (std::uint32_t slice = 0; slice < graph_.slices(); ++slice)
      for (ir::StepId step = 0; step < graph_.steps(rank); ++step)
        if (step_of({rank, step, slice}).deps.empty()) ready({rank, step, slice});
  }
}

void Simulation::run_present() {
  do {
    while (!completed_.empty()) {
      const Task task = completed_.back();
      completed_.pop_back();
      graph_.complete(task, [this](const Task& next) {
        if (!in_order()) ready(next);
      });
      if (in_order()) go_on(task.rank);
    }
    if (!ports_) break;
    granted_.clear();
    ports_->grant(granted_);
    for (const ChannelId channel : granted_) start(channel);
  } while (!completed_.empty());
  network_.settle(now_);
}

void Simulation::take_events() {
  ended_flows_.clear();
  if (network_.next_end() == now_) network_.end_flows(now_, ended_flows_);
  const std::size_t messages = messages_.size();
  for (const std::uint32_t name : ended_flows_)
    name < messages ? left(name) : groups_.flow_ended(static_cast<RunId>(name - messages), now_);
  while (agenda_.next() == now_) {
    const Event event = agenda_.take();
    switch (event.what) {
      case Happening::kWorkDone:
        work_done(static_cast<Rank>(event.subject));
        break;
      case Happening::kDeparts:
        depart(event.subject);
        break;
      case Happening::kLeft:
        left(event.subject);
        break;
      case Happening::kArrives:
        arrive(event.subject);
        break;
      case Happening::kComes:
        groups_.come(event.subject, now_);
        break;
    }
  }
  ended_runs_.clear();
  groups_.end_runs(now_, ended_runs_);
  for (const RunId run : ended_runs_) ended(run);
}

void Simulation::complete(const Task& task, Time since) {
  ++done_;
  completed_.push_back(task);
  if (!job_.options.on_step) return;
  job_.options.on_step({task, to_microseconds(since), to_microseconds(now_)});
}

void Simulation::ready(const Task& task) {
  const ir::Verb verb = step_of(task).verb;
  if (ir::uses_group(verb)) return come(task);
  if (ir::is_local(verb)) return enqueue(task.rank, {.task = task, .duration = duration(task)});
  const MessageId id = job_.traffic.message_of(graph_.number(task.rank, task.step), task.slice);
  MessageState& state = messages_[id];
  if (verb == ir::Verb::kSend) {
    state.send_is_ready = true;
    offer(message(id).channel);
  } else {
    state.receive_is_ready = true;
    if (state.has_arrived) receive(id);
  }
}

// --- the order of steps ---

void Simulation::go_on(Rank rank) {
  for (const Task* next = itineraries_.next(rank); next != nullptr && may_begin(*next);
       next = itineraries_.next(rank)) {
    itineraries_.advance(rank);
    ready(*next);
  }
}

bool Simulation::may_begin(const Task& task) const {
  if (graph_.waits_for(task) > 0) return false;
  const ir::Verb verb = step_of(task).verb;
  constexpr auto kInFlight = static_cast<std::uint32_t>(lower::kTransfersInFlight);
  if (ir::is_local(verb) || task.slice < kInFlight) return true;
  if (ir::uses_group(verb))
    return groups_.is_complete(run_of({task.rank, task.step, task.slice - kInFlight}));
  const MessageState& before = messages_[job_.traffic.message_of(
      graph_.number(task.rank, task.step), task.slice - kInFlight)];
  return verb == ir::Verb::kSend ? before.has_left : before.is_received;
}

// --- messages ---

/// Starts the channel's next message if nothing is in its way.
void Simulation::offer(ChannelId id) {
  ChannelState& channel = channels_[id];
  const Channel& lane = job_.traffic.channels()[id];
  const std::uint32_t depth = job_.costs.fifo_depth;
  if (channel.is_busy || channel.waits || channel.next == lane.end) return;
  if (!messages_[channel.next].send_is_ready) return;
  if (depth != 0 && channel.in_flight == depth) return;
  if (!ports_) return start(id);
  channel.waits = true;
  ports_->wait({.channel = id, .pair = lane.pair, .turn = message(channel.next).turn});
}

void Simulation::start(ChannelId id) {
  ChannelState& channel = channels_[id];
  const MessageId next = channel.next++;
  channel.is_busy = true;
  channel.waits = false;
  ++channel.in_flight;
  if (!message_start_.empty()) message_start_[next] = now_;
  const Pair& pair = job_.traffic.pair_of(message(next));
  const Time sending = duration(pair.source, pair.costs.send_us, pair.costs.send_ps_per_byte, next);
  if (sending > 0) return enqueue(pair.source, {Work::Kind::kSend, {}, next, sending});
  if (job_.costs.message_us == 0) return depart(next);
  agenda_.enter(free_to_send(pair.source), {Happening::kDeparts, next});
}

/// Its sender has done its work for the message, and may begin with the next one while this flows.
void Simulation::prepared(MessageId id) {
  if (ports_) return depart(id);
  const ChannelId channel = message(id).channel;
  ChannelState& state = channels_[channel];
  state.is_busy = false;
  if (state.is_flowing) {
    state.prepared.push(id);
  } else {
    state.is_flowing = true;
    depart(id);
  }
  offer(channel);
}

void Simulation::depart(MessageId id) {
  const Channel& channel = job_.traffic.channel_of(message(id));
  const Rank source = job_.traffic.pair_of(message(id)).source;
  const std::uint64_t bytes = bytes_of(id);
  bytes_sent_[static_cast<std::size_t>(source)] += bytes;
  if (bytes != 0 && !channel.path.empty()) return network_.start(channel.path, bytes, id, now_);
  // Where it was its sender's work to copy it, nothing is left to do.
  if (job_.traffic.pair_of(message(id)).costs.send_ps_per_byte > 0) return left(id);
  const Time copy = from_picoseconds(job_.costs.copy_ps_per_byte * static_cast<double>(bytes) *
                                     worker(source).slowdown);
  agenda_.enter(now_ + copy, {Happening::kLeft, id});
}

void Simulation::left(MessageId id) {
  const Message& sent = message(id);
  messages_[id].has_left = true;
  agenda_.enter(now_ + job_.traffic.channel_of(sent).latency, {Happening::kArrives, id});
  complete(job_.traffic.send_of(sent), message_start_.empty() ? 0 : message_start_[id]);
  if (ports_) return;
  ChannelState& channel = channels_[sent.channel];
  if (!std::exchange(channel.is_flowing, false)) {
    channel.is_busy = false;
    return offer(sent.channel);
  }
  if (channel.prepared.empty()) return;
  channel.is_flowing = true;
  const MessageId next = channel.prepared.front();
  channel.prepared.pop();
  depart(next);
}

void Simulation::arrive(MessageId id) {
  const ChannelId channel = message(id).channel;
  messages_[id].has_arrived = true;
  if (ports_) {
    ports_->close(job_.traffic.channels()[channel].pair);
    channels_[channel].is_busy = false;
    offer(channel);
  }
  if (messages_[id].receive_is_ready) receive(id);
}

/// The message has arrived and may be put where it belongs.
void Simulation::receive(MessageId id) {
  const Pair& pair = job_.traffic.pair_of(message(id));
  const Time receiving =
      duration(pair.destination, pair.costs.receive_us, pair.costs.receive_ps_per_byte, id);
  if (receiving == 0) return received(id);
  enqueue(pair.destination, {Work::Kind::kReceive, {}, id, receiving});
}

void Simulation::received(MessageId id) {
  const Task task = job_.traffic.receive_of(message(id));
  messages_[id].is_received = true;
  complete(task, message_start_.empty() ? 0 : message_start_[id]);
  --channels_[message(id).channel].in_flight;
  if (job_.costs.fifo_depth != 0) offer(message(id).channel);
}

std::uint64_t Simulation::bytes_of(MessageId id) const {
  const Task task = job_.traffic.send_of(message(id));
  return bytes_of(task.rank, step_of(task).src, task.slice);
}

std::uint64_t Simulation::bytes_of(Rank rank, const ir::ChunkSet& chunks,
                                   std::uint32_t slice) const {
  const std::uint64_t bytes = job_.volumes.bytes(rank, chunks, slice);
  if (chunks.format == ir::kPlain) return bytes;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * job_.costs.formats.share);
}

// --- operations of groups ---

void Simulation::come(const Task& task) {
  const ir::ChunkSet& sent = step_of(task).src;
  if (sent.count > 0)
    bytes_sent_[static_cast<std::size_t>(task.rank)] += bytes_of(task.rank, sent, task.slice);
  const RunId run = run_of(task);
  if (job_.costs.message_us == 0) return groups_.come(run, now_);
  agenda_.enter(free_to_send(task.rank), {Happening::kComes, run});
}

void Simulation::ended(RunId run) {
  for (const Part& part : job_.groups.operation(run).parts)
    complete({part.rank, part.step, job_.groups.slice(run)}, groups_.start(run));
}

// --- a rank's own work ---

Time Simulation::free_to_send(Rank rank) {
  Worker& sender = worker(rank);
  sender.free_to_send = std::max(now_, sender.free_to_send) +
                        from_microseconds(job_.costs.message_us * sender.slowdown);
  return sender.free_to_send;
}

void Simulation::enqueue(Rank rank, const Work& work) {
  worker(rank).waiting.push(work);
  if (!worker(rank).work) work_on(rank);
}

/// The next thing of a rank that is free.
void Simulation::work_on(Rank rank) {
  Worker& worker = this->worker(rank);
  while (!worker.work && !worker.waiting.empty()) {
    const Work& next = worker.waiting.front();
    if (next.duration > 0 && !take_cpu(rank)) return;
    worker.work = next;
    worker.since = now_;
    worker.waiting.pop();
    if (worker.work->duration > 0)
      return agenda_.enter(now_ + worker.work->duration,
                           {Happening::kWorkDone, static_cast<std::uint32_t>(rank)});
    finish(*std::exchange(worker.work, std::nullopt), now_);
  }
}

void Simulation::finish(const Work& work, Time since) {
  switch (work.kind) {
    case Work::Kind::kStep:
      return complete(work.task, since);
    case Work::Kind::kSend:
      return prepared(work.message);
    case Work::Kind::kReceive:
      return received(work.message);
  }
}

void Simulation::work_done(Rank rank) {
  Worker& free = worker(rank);
  free_cpu(rank);
  finish(*std::exchange(free.work, std::nullopt), free.since);
  work_on(rank);
}

bool Simulation::take_cpu(Rank rank) {
  if (cpus_.empty()) return true;
  Cpus& cpus =
      cpus_[static_cast<std::size_t>(job_.costs.cpu_groups[static_cast<std::size_t>(rank)])];
  Worker& worker = this->worker(rank);
  if (cpus.free > 0) {
    --cpus.free;
    return true;
  }
  if (!std::exchange(worker.waits_for_cpu, true)) cpus.waiting.push(rank);
  return false;
}

void Simulation::free_cpu(Rank rank) {
  if (cpus_.empty()) return;
  Cpus& cpus =
      cpus_[static_cast<std::size_t>(job_.costs.cpu_groups[static_cast<std::size_t>(rank)])];
  ++cpus.free;
  if (cpus.waiting.empty()) return;
  const Rank next = cpus.waiting.front();
  cpus.waiting.pop();
  worker(next).waits_for_cpu = false;
  work_on(next);
}

namespace {

/// Of a rank's own step, per plain byte of what it writes.
double ps_per_byte(const ir::Step& step, const Costs& costs) {
  const bool from_plain = step.src.format == ir::kPlain, to_plain = step.dst.format == ir::kPlain;
  const double decode = from_plain ? 0 : costs.formats.decode_ps_per_byte;
  if (step.verb == ir::Verb::kReduce) return costs.reduce_ps_per_byte + decode;
  if (from_plain && to_plain) return costs.copy_ps_per_byte;
  if (from_plain) return costs.formats.encode_ps_per_byte;
  return to_plain ? decode : costs.copy_ps_per_byte * costs.formats.share;
}

}  // namespace

Time Simulation::duration(const Task& task) const {
  const ir::Step& step = step_of(task);
  const Costs& costs = job_.costs;
  const double per_byte = ps_per_byte(step, costs);
  double picoseconds = costs.step_us * kPicosecondsPerMicrosecond;
  if (per_byte != 0)
    picoseconds +=
        per_byte * static_cast<double>(job_.volumes.bytes(task.rank, step.dst, task.slice));
  return from_picoseconds(picoseconds * workers_[static_cast<std::size_t>(task.rank)].slowdown);
}

Time Simulation::duration(Rank rank, double us, double ps_per_byte, MessageId message) const {
  if (us == 0 && ps_per_byte == 0) return 0;
  const double picoseconds =
      us * kPicosecondsPerMicrosecond + ps_per_byte * static_cast<double>(bytes_of(message));
  return from_picoseconds(picoseconds * workers_[static_cast<std::size_t>(rank)].slowdown);
}

// --- the end ---

Status Simulation::report_progress() {
  constexpr std::uint64_t kEvery = 1U << 16U;
  if (!job_.options.on_progress || done_ - reported_ < kEvery) return ok_status();
  reported_ = done_;
  if (job_.options.on_progress(done_, graph_.tasks())) return ok_status();
  return make_error(Code::kAborted, "the simulation was stopped after {} of {} tasks", done_,
                    graph_.tasks());
}

Error Simulation::stuck() const {
  for (ChannelId id = 0; id < channels_.size(); ++id) {
    const ChannelState& channel = channels_[id];
    if (channel.next == job_.traffic.channels()[id].end) continue;
    if (!messages_[channel.next].send_is_ready) continue;
    const Task send = job_.traffic.send_of(message(channel.next));
    return make_error(Code::kInvalidArgument,
                      "{}: waits for ever, as {} messages before it are not received; a FIFO depth "
                      "above {} was expected",
                      describe(job_.schedule, send.rank, send.step), channel.in_flight,
                      job_.costs.fifo_depth);
  }
  return make_error(Code::kInvalidArgument,
                    "{}: {} of {} steps wait for each other for ever; a schedule that ir::verify "
                    "accepts was expected",
                    job_.schedule.algorithm, graph_.tasks() - done_, graph_.tasks());
}

}  // namespace tutti::sim
