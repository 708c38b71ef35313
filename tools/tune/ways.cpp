#include "tools/tune/ways.hpp"

#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/exec/layout.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/lower.hpp"

namespace tutti::tune {
namespace {

/// As the library finds out: the ranks do nothing to each other's buffers but load from inputs.
bool kernel_can_read(const ir::Algorithm& algorithm, const ir::Request& request,
                     const lower::Placement& placement) {
  const lower::LowerOptions options{.protocol = lower::ProgramProtocol::kDirect,
                                    .stores_to_peers = false};
  const auto schedule = algorithm.generate(request);
  if (!schedule || !lower::can_lower(*schedule, placement, options)) return false;
  const auto proof = ir::verify(*schedule);
  if (!proof) return false;
  const auto lowered = lower::lower(*schedule, *proof, placement, options);
  return lowered && !lower::needs_mapped_buffers(*lowered);
}

}  // namespace

Status check_names(std::span<const std::string> algorithms) {
  std::vector<std::string> known;
  for (const ir::Algorithm& algorithm : algorithms::all()) known.emplace_back(algorithm.name);
  for (const std::string& name : algorithms) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string guess = nearest(name, known);
    return make_error(
        Code::kInvalidArgument, "--algo: there is no '{}'{}", name,
        guess.empty() ? "; see `tutti algo list`" : fmt::format("; did you mean '{}'?", guess));
  }
  return ok_status();
}

std::vector<Way> ways_of(Collective collective, const std::vector<int>& host, bool large,
                         std::span<const std::string> algorithms) {
  const lower::Placement placement{{host.begin(), host.end()}};
  const ir::Request request{.collective = collective,
                            .ranks = static_cast<std::int32_t>(host.size()),
                            .layout = ir::Layout::of_hosts(placement.host)};
  std::vector<Way> ways;
  for (const ir::Algorithm& algorithm : algorithms::all()) {
    const bool named = std::ranges::find(algorithms, algorithm.name) != algorithms.end();
    const bool wanted = named || (algorithms.empty() && !algorithm.only_by_name);
    if (!wanted || algorithm.lossy || !algorithm.supports(request)) continue;
    ways.push_back({std::string(algorithm.name), false});
    if (large && placement.all_mapped() && kernel_can_read(algorithm, request, placement))
      ways.push_back({std::string(algorithm.name), true});
  }
  return ways;
}

bool is_large(std::size_t input_bytes) { return input_bytes > exec::kPacketBytes; }

}  // namespace tutti::tune
