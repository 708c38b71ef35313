#include "tools/sim/limit.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <unistd.h>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"

namespace tutti::simtool {
namespace {

/// Schedules of so many ranks take a few megabytes at most, whatever the algorithm.
constexpr std::int32_t kFewRanks = 256;
/// Bytes of a step with its dependencies, and what a simulation adds to it for each slice. Together
/// 130 were measured with ring and 300 with pairwise, of 512 and 1024 ranks.
constexpr double kStepBytes = 200, kTaskBytes = 60;

/// Bytes that this process may take: of the machine, or of the container that it is in.
double memory_of_machine() {
  const double machine =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t kLongest = 64;
  const auto limit = read_file("/sys/fs/cgroup/memory.max", kLongest);
  const double container = limit ? std::strtod(limit->c_str(), nullptr) : 0;  // 0 of "max"
  return container > 0 ? std::min(machine, container) : machine;
}

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  double value = bytes / 1e6;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

Status check_memory(double bytes, std::string_view what, std::string_view remedy) {
  const double there = memory_of_machine();
  if (bytes <= there) return ok_status();
  return make_error(Code::kUnavailable, "{} would take about {} of memory, but there are {}: {}",
                    what, bytes_text(bytes), bytes_text(there), remedy);
}

/// The part of a grid in which no dimension is longer than `longest`.
ir::Layout corner_of(const ir::Layout& layout, std::int32_t longest) {
  ir::Layout corner;
  for (const std::int32_t extent : layout.extents)
    corner.extents.push_back(std::min(extent, longest));
  for (std::int32_t cell : layout.cells) {
    std::int32_t at = 0, stride = 1;
    bool inside = true;
    for (std::size_t d = 0; d < layout.extents.size(); ++d) {
      const std::int32_t coordinate = cell % layout.extents[d];
      cell /= layout.extents[d];
      inside = inside && coordinate < corner.extents[d];
      at += coordinate * stride;
      stride *= corner.extents[d];
    }
    if (inside) corner.cells.push_back(at);
  }
  return corner;
}

/// The same request of fewer ranks: about `ranks` of them, or less.
ir::Request with_ranks(ir::Request request, std::int32_t ranks) {
  request.root = 0;
  if (request.layout.empty()) {
    request.ranks = ranks;
    return request;
  }
  std::int32_t longest = std::ranges::max(request.layout.extents);
  while (request.ranks > ranks && longest > 1) {
    longest = (longest + 1) / 2;
    request.layout = corner_of(request.layout, longest);
    request.ranks = static_cast<std::int32_t>(request.layout.cells.size());
  }
  return request;
}

struct Sample {
  double ranks = 0;
  double steps = 0;
};

/// Of a group of about so many ranks that the algorithm supports.
Sample sample(const ir::Algorithm& algorithm, const ir::Request& request, std::int32_t ranks) {
  for (; ranks >= 2; ranks /= 2) {
    const ir::Request small = with_ranks(request, ranks);
    if (!algorithm.supports(small)) continue;
    const auto schedule = algorithm.generate(small);
    if (!schedule) continue;
    Sample counted{static_cast<double>(small.ranks), 0};
    for (const ir::Program& program : schedule->programs)
      counted.steps += static_cast<double>(program.steps.size());
    return counted;
  }
  return {};
}

}  // namespace

double estimated_steps(const ir::Algorithm& algorithm, const ir::Request& request) {
  const Sample large = sample(algorithm, request, std::min(request.ranks, kFewRanks));
  if (large.ranks >= request.ranks || large.steps == 0) return large.steps;
  const Sample small = sample(algorithm, request, static_cast<std::int32_t>(large.ranks) / 2);
  const bool grows = small.steps > 0 && small.ranks < large.ranks;
  const double power =
      grows ? std::log(large.steps / small.steps) / std::log(large.ranks / small.ranks) : 1;
  return large.steps * std::pow(request.ranks / large.ranks, std::clamp(power, 1.0, 3.0));
}

Status check_memory_to_generate(const ir::Algorithm& algorithm, const ir::Request& request) {
  if (request.ranks <= kFewRanks) return ok_status();
  const double steps = estimated_steps(algorithm, request);
  return check_memory(steps * (kStepBytes + kTaskBytes),
                      fmt::format("{} of {} ranks has about {:.2g} steps and", algorithm.name,
                                  request.ranks, steps),
                      "take fewer ranks, or an algorithm of fewer steps (--algo)");
}

Status check_memory_to_simulate(const ir::Schedule& schedule, const sim::Amount& amount,
                                std::size_t slice_bytes) {
  if (slice_bytes == 0) return ok_status();
  double steps = 0;
  for (const ir::Program& program : schedule.programs)
    steps += static_cast<double>(program.steps.size());
  const double chunk = static_cast<double>(amount.count) *
                       static_cast<double>(amount.element_bytes) / schedule.chunks_per_block;
  const double slices = std::ceil(chunk / static_cast<double>(slice_bytes));
  return check_memory(steps * slices * kTaskBytes,
                      fmt::format("{} in {:.0f} slices has {:.2g} steps and", schedule.algorithm,
                                  slices, steps * slices),
                      "take larger slices");
}

}  // namespace tutti::simtool
