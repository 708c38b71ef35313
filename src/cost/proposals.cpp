#include "src/cost/proposals.hpp"

#include <algorithm>
#include <utility>

#include "src/cost/predict.hpp"
#include "src/cost/tuning.hpp"

namespace tutti {

std::optional<double> Proposals::simulated(const ir::Schedule& schedule, double block,
                                           const lower::Placement& placement) const {
  const sim::Amount amount{static_cast<std::size_t>(std::max(1.0, block)), 1};
  const auto outcome = predict(schedule, amount, placement, calibration_,
                               {.staging_bytes = staging_bytes_, .most_tasks = kMostTasks});
  if (!outcome) return std::nullopt;
  return outcome->time_us;
}

/// Of the call with the largest input of its class.
std::optional<double> Proposals::predicted(const ir::Algorithm& algorithm, const ProposedCall& call,
                                           const lower::Placement& placement) const {
  const auto schedule = algorithm.generate(call.request);
  if (!schedule) return std::nullopt;
  const auto input = static_cast<double>(call.largest_input);
  const auto largest = static_cast<double>(std::uint64_t{1} << size_class(call.largest_input));
  const double block = static_cast<double>(call.block_bytes) * (largest / input);
  const auto most = static_cast<double>(kMostBytes / call.blocks);
  const auto us = simulated(*schedule, std::min(block, most), placement);
  if (!us || block <= most) return us;
  const auto half_us = simulated(*schedule, most / 2, placement);
  if (!half_us) return std::nullopt;
  return *us + std::max(0.0, *us - *half_us) * (block - most) / (most / 2);
}

std::vector<Proposal> Proposals::find(const ir::Algorithm& ruled, const ProposedCall& call,
                                      std::span<const ir::Algorithm* const> candidates,
                                      const lower::Placement& placement) const {
  std::vector<Proposal> faster;
  const auto ruled_us = predicted(ruled, call, placement);
  if (!ruled_us) return faster;
  for (const ir::Algorithm* const candidate : candidates) {
    if (candidate == &ruled) continue;
    const auto us = predicted(*candidate, call, placement);
    if (us && *us < kClearly * *ruled_us) faster.push_back({candidate, *us, *ruled_us});
  }
  std::ranges::sort(faster, {}, [](const Proposal& it) {  // the same order on all ranks
    return std::pair(it.us, it.algorithm->name);
  });
  return faster;
}

const std::vector<Proposal>& Proposals::faster_than(
    const ir::Algorithm& ruled, const ProposedCall& call,
    std::span<const ir::Algorithm* const> candidates, const lower::Placement& placement) {
  static const std::vector<Proposal> kNone;
  if (call.request.ranks > kMostRanks || call.largest_input == 0) return kNone;
  const Key key{call.request.collective, call.request.root, size_class(call.largest_input), &ruled};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_[key] = find(ruled, call, candidates, placement);
}

}  // namespace tutti
