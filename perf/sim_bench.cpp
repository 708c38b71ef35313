// How fast the simulator is: tasks a second, and what a large job takes.
//
//   perf/sim_bench [RANKS] [ALGORITHM] [PORTS] [SLICE_BYTES]
//
// Simulates an all-reduce of 64 MiB on a switch (default: ring, 1024 ranks, any number of ports, no
// slices) and prints the CPU time it took to generate the schedule, and to simulate it.
#include <cstdlib>
#include <ctime>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>

#include "algorithms/algorithms.hpp"
#include "src/sim/simulate.hpp"

namespace {

using namespace tutti;

/// Seconds that this process has computed.
double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

Result<ir::Schedule> generate(std::string_view name, std::int32_t ranks) {
  for (const ir::Algorithm& algorithm : algorithms::all())
    if (algorithm.name == name)
      return algorithm.generate({Collective::kAllReduce, ranks, 0, false});
  return Error{Code::kInvalidArgument, fmt::format("no algorithm is called {}", name)};
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int which, unsigned long otherwise) {
    return argc > which ? std::strtoul(argv[which], nullptr, 10) : otherwise;
  };
  const auto ranks = static_cast<std::int32_t>(number(1, 1024));
  const std::string_view name = argc > 2 ? argv[2] : "ring";

  const double start = now();
  const auto schedule = generate(name, ranks);
  if (!schedule) {
    fmt::print(stderr, "{}\n", schedule.error().what);
    return 1;
  }
  const double generated = now();
  const double schedule_gigabytes = peak_gigabytes();
  sim::UniformSwitch fabric({.ranks = ranks});
  const sim::Costs costs = {.reduce_ps_per_byte = 10,
                            .ports = static_cast<std::uint32_t>(number(3, 0))};
  const auto outcome = sim::simulate(*schedule, {std::size_t{16} << 20U, 4}, fabric, costs,
                                     {.slice_bytes = number(4, 0)});
  if (!outcome) {
    fmt::print(stderr, "{}\n", outcome.error().what);
    return 1;
  }
  const double simulated = now() - generated;
  fmt::print(
      "{} of {} ranks: {} tasks, {} messages, {:.1f} us of virtual time\n"
      "generated in {:.2f} s ({:.2f} GB), simulated in {:.2f} s ({:.2f} GB at most): "
      "{:.2f} million tasks a second\n",
      name, ranks, outcome->tasks, outcome->messages, outcome->time_us, generated - start,
      schedule_gigabytes, simulated, peak_gigabytes(),
      static_cast<double>(outcome->tasks) / simulated / 1e6);
  return 0;
}
