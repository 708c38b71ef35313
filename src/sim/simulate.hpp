// Runs a schedule on a fabric in virtual time, to find how long it would take.
//
// The model:
//   - A step may run once its `deps` are complete. The steps of a rank have no other order, unless
//     SimulateOptions::rounds asks for the executor's.
//   - A message starts once its send may run, the previous message of its lane has left, and its
//     channel has room (Costs::fifo_depth). It then costs its rank `message_us` and flows at its
//     max-min fair rate (src/sim/fair_shares.hpp). It arrives when its last byte has left and the
//     latency of its path has passed. The send is complete when the last byte has left. The receive
//     is complete when the message has arrived and its own deps are complete. A message that is
//     alone takes alpha + bytes * beta, as in the papers.
//   - Messages of a lane are sent in the order of their rounds (src/sim/rounds.hpp), and within a
//     round in program order. With slices, slice k+1 is one round behind slice k.
//   - With Costs::ports, messages also hold ports (src/sim/ports.hpp), and the next message of a
//     lane starts only when the previous one has arrived: rounds do not overlap. The k-port model
//     has no operations of groups.
//   - An operation of a group (src/ir/schedule.hpp) runs on a tree of the network (Fabric::trees).
//     It begins when all members have come to it, which costs each of them `message_us`: so a late
//     rank holds up all, and what waits for them. Then it streams: the senders' links up to the
//     root carry the source's bytes, and at the same time the receivers' links down from it carry
//     the destination's, each link once whatever the number of ranks behind it. All links of one
//     direction run at one rate, which is at most the tree's. The operation is complete, for all
//     members together, when the latency of the way up and down has passed after the last byte. An
//     all-reduce of S bytes takes S/B plus that latency. Where the members' data differ (the parts
//     of a reduce_scatter, what all send in an all_gather), each flows on its own.
//   - The data of a group's operations flows one operation after another, in the order of their
//     rounds, and within a round in program order. Only so many operations of a tree are under way
//     at a time, latency included (one for streaming aggregation): so slices pay the latency each.
//   - A rank does its copies, reductions and codings one at a time, in the order in which they
//     become able to run. If messages cost it work (Fabric::costs), that work is in the same queue:
//     for sending, before the message departs and while the previous one flows; for receiving,
//     after the message has arrived. Ranks that share CPUs (Costs::cpu_groups) take turns, one
//     piece of work at a time. A message between ranks in the same memory is a copy that takes no
//     turn, unless its bytes are work of its sender.
//
// This models time only: no data moves, and the schedule is not proved (src/ir/verify.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/task_graph.hpp"
#include "src/sim/volumes.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// A rank whose own work (software cost of messages, copies, reductions) takes `factor` times as
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

/// Of values in a format. Bytes are those of plain values.
struct FormatCosts {
  /// From what a value takes, in bits and in picoseconds, where plain ones have `element_bytes`.
  static FormatCosts of_values(double bits, double encode_ps, double decode_ps,
                               std::size_t element_bytes) {
    const auto bytes = static_cast<double>(element_bytes);
    return {bits / (8 * bytes), encode_ps / bytes, decode_ps / bytes};
  }

  double share = 0.5;  ///< bytes of a formatted value, per plain one (float as bfloat16: 0.5)
  double encode_ps_per_byte = 0;
  double decode_ps_per_byte = 0;  ///< also of a reduction that takes a formatted source
};

/// Costs besides the links. All are zero by default. 1 picosecond per byte is 1 microsecond per
/// megabyte (1e6 bytes).
struct Costs {
  double message_us = 0;          ///< rank's work to send a message; one at a time
  double step_us = 0;             ///< fixed cost of a copy or reduction
  double copy_ps_per_byte = 0;    ///< copy without a conversion
  double reduce_ps_per_byte = 0;  ///< reduction; the papers' gamma
  /// Ranks that a rank can send to, or receive from, at once; 0: any number.
  std::uint32_t ports = 0;
  /// Most messages of a (source, destination, lane) that have started and not been received; 0: any
  /// number.
  std::uint32_t fifo_depth = 0;
  FormatCosts formats = {};
  /// The group of each rank; ranks of a group share CPUs. Empty: every rank has its own CPU.
  std::vector<std::int32_t> cpu_groups = {};
  std::uint32_t cpus = 1;  ///< per group
  std::vector<SlowRank> slow_ranks = {};
  std::vector<SlowLink> slow_links = {};
};

/// When a step of a rank ran on one slice. A send or receive runs from the start of its message, a
/// group step while its operation does.
struct StepTime {
  Task task;
  double start_us = 0;
  double end_us = 0;
};

struct SimulateOptions {
  /// Slice length in bytes: all steps run on one slice while the next is under way. 0: no slices.
  std::size_t slice_bytes = 0;
  /// ir::Proof::round, to run steps in the executor's order. In iteration t a rank goes through its
  /// program in order, and runs each step of round r on slice t - r. It posts sends and receives
  /// and continues. It waits at a step whose inputs are missing, even if later steps could run. At
  /// a send or receive it waits until the one of lower::kTransfersInFlight slices before is
  /// complete. A receive is posted one round ahead. Empty: any order.
  std::vector<std::vector<std::uint32_t>> rounds = {};
  /// Called when a step ends.
  std::function<void(const StepTime&)> on_step = {};
  /// Called now and then with the number of finished tasks and of all tasks. Returning false ends
  /// the simulation (kAborted).
  std::function<bool(std::uint64_t done, std::uint64_t all)> on_progress = {};
};

struct LinkUse {
  std::uint64_t bytes = 0;
  double busy_us = 0;  ///< time during which it carried at least one message
  double utilisation =
      0;  ///< bytes carried, as a share of what it could have carried in the whole time
};

/// Of a group of the schedule.
struct GroupUse {
  std::string tree;              ///< its name
  std::uint64_t operations = 0;  ///< on all slices
  double busy_us = 0;            ///< time during which at least one was under way
  /// Bytes added, as a share of what the tree's rate allows in the whole time; 0 without a rate.
  double utilisation = 0;
};

struct Outcome {
  double time_us = 0;  ///< until the last step of the last rank ended
  /// GB/s by nccl-tests' definitions, as `tutti bench` prints them; 0 if the time is 0.
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
  std::uint64_t tasks = 0;  ///< steps times slices
  std::uint64_t messages = 0;
  std::uint64_t operations = 0;       ///< of groups, on all slices
  std::uint64_t most_bytes_sent = 0;  ///< by any rank, also to the network
  std::vector<LinkUse> links;         ///< in the order of Fabric::links()
  std::optional<LinkId>
      bottleneck;  ///< the link with the highest utilisation; empty if no link was used
  std::vector<GroupUse> groups;  ///< in the order of Schedule::groups
};

/// The schedule must be well-formed: made by an algorithm or proved by ir::verify. Its rank r is
/// rank r of the fabric. kInvalidArgument: negative or infinite costs, a fabric with fewer ranks,
/// two ranks that nothing connects, a send without a receive, rounds that do not fit the steps,
/// steps that wait for each other forever (fifo_depth too small), ports and groups together, more
/// than 11 days of virtual time. kUnsupported: the fabric has no trees for the groups.
Result<Outcome> simulate(const ir::Schedule& schedule, const Amount& amount, Fabric& fabric,
                         const Costs& costs = {}, const SimulateOptions& options = {});

/// The size in bytes that algorithm bandwidth refers to: the vector, or all blocks if buffers are
/// split by rank.
double size_of_call(const ir::Request& request, const Amount& amount);
/// Factor from algorithm to bus bandwidth: 2(n-1)/n, (n-1)/n or 1.
double bus_factor(const ir::Request& request);

}  // namespace tutti::sim
