// Simulates algorithms at several sizes and compares each with the lower bound.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/codec/compression.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"
#include "src/lower/slices.hpp"
#include "src/sim/routed_fabric.hpp"
#include "src/sim/simulate.hpp"
#include "tools/sim/bound.hpp"
#include "tools/sim/machine.hpp"
#include "tutti/error.hpp"

namespace tutti::simtool {

/// The only algorithm that is made for a topology, and not in algorithms::all().
inline constexpr std::string_view kForest = "forest";

/// A size is one of floats.
inline constexpr std::size_t kElementBytes = 4;

/// How data travels, and what that costs.
struct Compressed {
  /// Of plain values of so many bytes, at the rates of this machine.
  [[nodiscard]] sim::FormatCosts costs_for(std::size_t element_bytes) const;

  codec::Compression compression;
  sim::FormatCosts costs;  ///< of float
  lower::SlotUnit unit;
};
Result<Compressed> compressed_as(std::string_view text);

/// What is simulated on a machine.
struct Plan {
  ir::Request request;
  std::vector<std::string> algorithms;  ///< in the order of the results
  std::vector<std::size_t> sizes;       ///< bytes of the call, ascending
  sim::Costs costs;
  std::optional<std::size_t> slice_bytes;  ///< unset: slice_for()
  std::optional<Compressed> compressed;    ///< unset: data travels plain
  /// The forest was planned before the links of Costs::slow_links became slow.
  bool is_stale = false;
};

/// A schedule, and the ways of those lanes for which it was planned to take one.
struct Routed {
  ir::Schedule schedule;
  std::vector<sim::LanePath> paths;
  std::optional<ir::CompressedMessages> compressed = {};  ///< by compressed()
};

/// One algorithm at one size.
struct Point {
  std::size_t bytes = 0;  ///< whole elements, the same number for each rank
  std::string algorithm;
  sim::Outcome outcome;
  /// None of compressed calls, which may beat them, nor of plain hosts.
  std::optional<LowerBound> bound;
  /// Bound over time; 0 without one.
  [[nodiscard]] double efficiency() const;
};

/// With more ranks, the forest takes minutes, and runs only when it is named.
inline constexpr std::int32_t kMostForestRanks = 64;

/// The names that `--algo` takes for this request: every algorithm that supports it, also those for
/// which the network adds where it has trees for them, and the forest on a topology.
std::vector<std::string> algorithms_for(const Machine& machine, const ir::Request& request);

/// The forest's all-gather on up to 32 ranks has direct hops first (topo::forest::GrowOptions) and
/// two lanes for longer ways (algorithms/forest.hpp) where that takes 0.5 % less time for 16 MB.
/// kInvalidArgument suggests the nearest name, or says that the algorithm cannot do what is asked.
Result<Routed> schedule_for(const std::string& algorithm, const Machine& machine,
                            const ir::Request& request);
/// The same with its data compressed, as a call would be: between hosts alone, where all ranks get
/// the same bits then. kUnsupported where they do not even with all of it compressed.
Result<Routed> compressed(Routed routed);

/// Elements of a block for a call of about `bytes`: rounded down, but at least one.
sim::Amount amount_for(const ir::Request& request, std::size_t bytes);

/// Bytes of a slice where none are asked for. Trees of the forest stream, so they are cut in up to
/// 512 slices, fewer where that would be more than about 8 million tasks; none is shorter than 4
/// KiB, or 64 bytes where a message has no cost of its own. Other algorithms move whole chunks, as
/// in their papers.
std::size_t slice_for(const ir::Schedule& schedule, const sim::Amount& amount,
                      const sim::Costs& costs);

/// Told now and then how much is done, 0 to 1, and of what.
using Progress = std::function<void(double share, const std::string& what)>;

/// Told of each point as soon as it is known; an error ends the run.
using OnPoint = std::function<Status(const Point&)>;

/// In the order of sizes, then algorithms. kInternal where a simulated time beats the bound.
Result<std::vector<Point>> run(const Plan& plan, Machine& machine, const Progress& progress = {},
                               const OnPoint& on_point = {});

/// One simulation with all its steps.
struct Traced {
  ir::Schedule schedule;
  Point point;
  std::vector<sim::StepTime> steps;
};
/// Of the first algorithm at the first size of the plan.
Result<Traced> trace(const Plan& plan, Machine& machine);

}  // namespace tutti::simtool
