#include "src/cost/proposals.hpp"

#include <algorithm>

#include "src/cost/predict.hpp"
#include "src/cost/tuning.hpp"

namespace tutti {
namespace {

/// A prediction is not so exact that less would count; where several are as fast, the rules' stays.
constexpr double kClearly = 0.9;

/// The largest call of its class, no larger than what is simulated.
std::uint64_t judged_bytes(std::uint64_t bytes) {
  return std::min(std::uint64_t{1} << size_class(std::min(bytes, Proposals::kMostBytes)),
                  Proposals::kMostBytes);
}

}  // namespace

std::optional<double> Proposals::predicted(const ir::Algorithm& algorithm, const ProposedCall& call,
                                           const lower::Placement& placement) const {
  const auto schedule = algorithm.generate(call.request);
  if (!schedule) return std::nullopt;
  const std::uint64_t block = std::max<std::uint64_t>(1, judged_bytes(call.bytes) / call.blocks);
  const auto outcome = predict(*schedule, {static_cast<std::size_t>(block), 1}, placement,
                               calibration_, {.staging_bytes = staging_bytes_});
  if (!outcome) return std::nullopt;
  return outcome->time_us;
}

std::optional<Proposal> Proposals::find(const ir::Algorithm& ruled, const ProposedCall& call,
                                        std::span<const ir::Algorithm* const> candidates,
                                        const lower::Placement& placement) const {
  const auto ruled_us = predicted(ruled, call, placement);
  if (!ruled_us) return std::nullopt;
  std::optional<Proposal> best;
  for (const ir::Algorithm* const candidate : candidates) {
    if (candidate == &ruled) continue;
    const auto us = predicted(*candidate, call, placement);
    if (us && *us < kClearly * *ruled_us && (!best || *us < best->us))
      best = Proposal{candidate, *us, *ruled_us};
  }
  return best;
}

std::optional<Proposal> Proposals::faster_than(const ir::Algorithm& ruled, const ProposedCall& call,
                                               std::span<const ir::Algorithm* const> candidates,
                                               const lower::Placement& placement) {
  if (call.request.ranks > kMostRanks || call.bytes == 0) return std::nullopt;
  const Key key{call.request.collective, call.request.root,
                size_class(std::min(call.bytes, kMostBytes)), &ruled};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_[key] = find(ruled, call, candidates, placement);
}

}  // namespace tutti
