// What the simulator expects of algorithms between hosts whose link has latency.
//
//   perf/two_level_times COLLECTIVE HOSTS RANKS_PER_HOST BYTES INNER_US OUTER_US MESSAGE_US PORTS
//   ALGORITHM...
//
// Prints a line for each algorithm: its name and the time in microseconds. BYTES is a block of
// float that each rank has for each other one (or the vector), INNER_US and OUTER_US are latencies,
// and a message costs its sender MESSAGE_US. PORTS: as sim::Costs::ports; 1 keeps rounds apart.
// Bandwidth is that of TwoLevelSwitch, and does not matter for short messages.
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "algorithms/algorithms.hpp"
#include "src/base/result.hpp"
#include "src/sim/simulate.hpp"

namespace {

using namespace tutti;

Result<double> time_us(std::string_view name, const ir::Request& request, std::size_t bytes,
                       const sim::TwoLevelSwitch::Shape& network, const sim::Costs& costs) {
  for (const ir::Algorithm& algorithm : algorithms::all()) {
    if (algorithm.name != name) continue;
    TUTTI_ASSIGN(const ir::Schedule schedule, algorithm.generate(request));
    sim::TwoLevelSwitch fabric(network);
    TUTTI_ASSIGN(const sim::Outcome outcome,
                 sim::simulate(schedule, {bytes / sizeof(float), sizeof(float)}, fabric, costs));
    return outcome.time_us;
  }
  return make_error(Code::kInvalidArgument, "no algorithm is called {}", name);
}

Result<Collective> collective_called(std::string_view name) {
  for (int i = 0; i < kCollectives; ++i)
    if (name_of(static_cast<Collective>(i)) == name) return static_cast<Collective>(i);
  return make_error(Code::kInvalidArgument, "no collective is called {}", name);
}

Status print_times(std::span<char*> words) {
  if (words.size() < 9)
    return make_error(Code::kInvalidArgument, "9 arguments are wanted: see the head of {}",
                      __FILE_NAME__);
  const auto number = [&](std::size_t which) { return std::strtod(words[which], nullptr); };
  const auto hosts = static_cast<std::int32_t>(number(1));
  const auto per_host = static_cast<std::int32_t>(number(2));
  if (hosts < 1 || per_host < 1 || hosts * per_host > 4096)
    return make_error(Code::kInvalidArgument, "{} hosts of {} ranks: 1 to 4096 ranks are simulated",
                      words[1], words[2]);
  TUTTI_ASSIGN(const Collective collective, collective_called(words[0]));
  ir::Request request = {.collective = collective, .ranks = hosts * per_host};
  std::vector<std::int32_t> host_of;
  for (Rank rank = 0; rank < request.ranks; ++rank) host_of.push_back(rank / per_host);
  request.layout = ir::Layout::of_hosts(host_of);
  const sim::TwoLevelSwitch::Shape network = {.nodes = hosts,
                                              .ranks_per_node = per_host,
                                              .inner_latency = number(4),
                                              .outer_latency = number(5)};
  const sim::Costs costs = {.message_us = number(6),
                            .ports = static_cast<std::uint32_t>(number(7))};
  for (const char* name : words.subspan(8)) {
    TUTTI_ASSIGN(const double us,
                 time_us(name, request, static_cast<std::size_t>(number(3)), network, costs));
    fmt::print("{} {:.1f}\n", name, us);
  }
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  const Status printed = print_times(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (printed) return 0;
  fmt::print(stderr, "two_level_times: {}\n", printed.error().what);
  return 1;
}
