// Runs a schedule on a fabric in virtual time: what would it take there?
//
// The model:
//   - A step may run once its `deps` are complete; the steps of a rank need no other order, unless
//     SimulateOptions::rounds asks for that of the executor.
//   - A message starts once its send may run, the message before it on its lane has left, and its
//     channel has room (Costs::fifo_depth). It then costs its rank `message_us`, flows at the
//     max-min fair rate of all flows on its links (src/sim/fair_shares.hpp), and arrives the
//     latency of its path after its last byte has left. The send is complete when the last byte has
//     left; the receive when the message has arrived and its own deps are complete. Alone, a
//     message takes alpha + bytes * beta, as in the papers.
//   - Messages of a lane go in the order of their rounds (src/sim/rounds.hpp), those of a round in
//     the order of the programs; with slices, slice k+1 is one round behind slice k.
//   - With Costs::ports, messages also hold ports (src/sim/ports.hpp), and the next message of a
//     lane starts only when the one before has arrived: rounds do not overlap.
//   - A rank does its copies, reductions and codings one after another, in the order in which they
//     may run, and among them its work for messages where the fabric has such (Fabric::costs): to
//     send before the message departs, and while the one before it flows; to receive after it has
//     arrived. Ranks that share CPUs (Costs::cpu_groups) take turns at them, work by work. A
//     message between ranks in the same memory is a copy that takes no turn, unless its bytes are
//     work of its sender.
//
// It is a model of time alone: no data moves, and the schedule is not proved (src/ir/verify.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/task_graph.hpp"
#include "src/sim/volumes.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// A rank whose own work (messages' software cost, copies, reductions) takes `factor` times as
/// long.
struct SlowRank {
  Rank rank = 0;
  double factor = 1;
};
/// A link whose bandwidth is divided by `factor`.
struct SlowLink {
  LinkId link = 0;
  double factor = 1;
};

/// What things cost beyond the links. Everything is free by default. 1 picosecond per byte is 1
/// microsecond per megabyte (1e6 bytes).
struct Costs {
  double message_us = 0;          ///< work of a rank to send a message; one after another
  double step_us = 0;             ///< of a copy, reduction or coding, however short
  double copy_ps_per_byte = 0;    ///< copy, encode, decode
  double reduce_ps_per_byte = 0;  ///< reduction; the papers' gamma
  /// Other ranks that a rank sends to, and receives from, at a time; 0: any number.
  std::uint32_t ports = 0;
  /// Messages of a (source, destination, lane) that may have started and not been received; 0: any
  /// number.
  std::uint32_t fifo_depth = 0;
  /// Bytes that a message of encoded data has for one byte of plain data (bfloat16 of float: 0.5).
  double encoded_share = 0.5;
  /// Groups of ranks that share CPUs, by rank; empty: every rank has one of its own.
  std::vector<std::int32_t> cpu_groups = {};
  std::uint32_t cpus = 1;  ///< of each group
  std::vector<SlowRank> slow_ranks = {};
  std::vector<SlowLink> slow_links = {};
};

/// When a step of a rank ran; one of several slices. A send or receive runs from the start of its
/// message.
struct StepTime {
  Task task;
  double start_us = 0;
  double end_us = 0;
};

struct SimulateOptions {
  /// Chunks are cut in slices of that many bytes, and all steps run on one slice while the next is
  /// on the way; 0: no slices.
  std::size_t slice_bytes = 0;
  /// ir::Proof::round, for ranks that go through their steps as the executor does: in iteration t,
  /// in the order of its program, each step of round r on slice t - r. A rank posts sends and
  /// receives and goes on, but at a step that needs what has not come yet it waits, also where
  /// later ones could run; and at a send or receive until that of lower::kTransfersInFlight slices
  /// before is complete. A receive is posted a round ahead. Empty: any order.
  std::vector<std::vector<std::uint32_t>> rounds = {};
  /// Called as each step ends.
  std::function<void(const StepTime&)> on_step = {};
  /// Called now and then with how many of all tasks are done; false ends the simulation (kAborted).
  std::function<bool(std::uint64_t done, std::uint64_t all)> on_progress = {};
};

struct LinkUse {
  std::uint64_t bytes = 0;
  double busy_us = 0;      ///< time during which at least one message was on it
  double utilisation = 0;  ///< bytes carried, of those it could have carried in all the time
};

struct Outcome {
  double time_us = 0;  ///< until the last step of the last rank ended
  /// GB/s by nccl-tests' definitions, as `tutti bench` prints them; 0 when the time is 0.
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
  std::uint64_t tasks = 0;  ///< steps times slices
  std::uint64_t messages = 0;
  std::uint64_t most_bytes_sent = 0;  ///< by a rank
  std::vector<LinkUse> links;         ///< in the order of Fabric::links()
  std::optional<LinkId> bottleneck;   ///< the link with the highest utilisation, if any was used
};

/// The schedule must be well-formed: made by an algorithm, or proved by ir::verify. Its rank r is
/// rank r of the fabric. kInvalidArgument: costs that are negative or not finite, a fabric with
/// fewer ranks, two ranks that nothing joins, a send without receive, rounds of other steps, steps
/// that wait for each other for ever (fifo_depth too small), more than 11 days of virtual time.
Result<Outcome> simulate(const ir::Schedule& schedule, const Amount& amount, Fabric& fabric,
                         const Costs& costs = {}, const SimulateOptions& options = {});

/// The size by which algorithm bandwidth is counted: of the vector, or of all blocks where buffers
/// are split by rank. Bytes.
double size_of_call(const ir::Request& request, const Amount& amount);
/// Factor from algorithm to bus bandwidth: 2(n-1)/n, (n-1)/n or 1.
double bus_factor(const ir::Request& request);

}  // namespace tutti::sim
