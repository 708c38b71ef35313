// Which schedules fit which protocol: can_lower() of lower.hpp.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "src/lower/lower.hpp"
#include "src/lower/movers.hpp"

namespace tutti::lower {
namespace {

/// Whether a rank adds up in scratch what it goes on with itself, instead of sending it: that would
/// have to lie somewhere, and programs of one round have no scratch.
bool goes_on_with_sums(const ir::Program& program) {
  std::vector<bool> is_sum(program.scratch.size(), false);
  for (const ir::Step& step : program.steps) {
    const bool is_local = step.verb == ir::Verb::kCopy || step.verb == ir::Verb::kReduce;
    if (is_local && step.src.space == ir::Space::kScratch)
      for (std::uint32_t i = 0; i < step.src.count; ++i)
        if (is_sum[step.src.at(i)]) return true;
    if (step.verb == ir::Verb::kReduce && step.dst.space == ir::Space::kScratch)
      for (std::uint32_t i = 0; i < step.dst.count; ++i) is_sum[step.dst.at(i)] = true;
  }
  return false;
}

bool can_publish(const ir::Schedule& schedule, const Placement& placement) {
  if (!placement.all_mapped() || !schedule.formats.empty()) return false;
  if (std::ranges::any_of(schedule.programs, goes_on_with_sums)) return false;
  // More sources than one op adds up at once: in place, a copy of the own input would be needed.
  const ir::Request& request = schedule.request;
  if (request.in_place && reduces(request.collective) &&
      static_cast<std::size_t>(request.ranks) > kMaxSources)
    return false;
  for (const ir::Program& program : schedule.programs) {
    bool sends_over = false;
    for (const ir::Step& step : program.steps) {
      if (step.verb == ir::Verb::kRecv) sends_over = true;
      if (step.verb != ir::Verb::kSend) continue;
      if (sends_over || step.src.space != ir::Space::kInput) return false;
    }
  }
  return true;
}

/// x with x * a = gcd(a, b) modulo b, from 0 to b - 1, by Euclid's extended algorithm.
std::int64_t inverse(std::int64_t a, std::int64_t b) {
  std::int64_t x = 1, next_x = 0;
  for (std::int64_t rest = a, next = b; next != 0;) {
    const std::int64_t times = rest / next;
    rest = std::exchange(next, rest - times * next);
    x = std::exchange(next_x, x - times * next_x);
  }
  return (x % b + b) % b;
}

/// Whether two arithmetic progressions meet, in a time that does not depend on their lengths.
bool overlap(const ir::ChunkSet& a, const ir::ChunkSet& b) {
  if (a.space != b.space || a.count == 0 || b.count == 0) return false;
  const std::int64_t from = std::max(a.first, b.first);
  const std::int64_t to = std::min(a.at(a.count - 1), b.at(b.count - 1));
  if (from > to) return false;
  const std::int64_t step = a.stride, other = b.stride;
  const std::int64_t common = std::gcd(step, other);
  const std::int64_t apart = std::int64_t{b.first} - a.first;
  if (apart % common != 0) return false;
  const std::int64_t period = other / common;  // in steps of a
  const std::int64_t steps =
      ((apart / common % period) * inverse(step / common % period, period) % period + period) %
      period;
  const std::int64_t first_met = a.first + steps * step;  // and every step * period from there
  if (first_met >= from) return first_met <= to;
  const std::int64_t gap = from - first_met;
  return first_met + (gap + step * period - 1) / (step * period) * (step * period) <= to;
}

/// Whether every message from scratch is what one pass makes: a set put together from parts would
/// have to lie somewhere first, and there are neither slots nor scratch.
bool sends_no_parts(const ir::Program& program) {
  const auto makes_part_of = [](const ir::Step& step, const ir::ChunkSet& sent) {
    return uses_dst(step.verb) && step.dst != sent && overlap(step.dst, sent);
  };
  return std::ranges::none_of(program.steps, [&](const ir::Step& send) {
    return send.verb == ir::Verb::kSend && send.src.space == ir::Space::kScratch &&
           std::ranges::any_of(program.steps,
                               [&](const ir::Step& step) { return makes_part_of(step, send.src); });
  });
}

bool can_go_direct(const ir::Schedule& schedule, const Placement& placement,
                   const LowerOptions& options) {
  const ir::Request& request = schedule.request;
  if (!placement.all_mapped() || !schedule.formats.empty()) return false;
  if (reduces(request.collective) && static_cast<std::size_t>(request.ranks) > kMaxSources)
    return false;
  return std::ranges::none_of(schedule.programs, goes_on_with_sums) &&
         settle_movers(schedule, options).has_value() &&
         std::ranges::all_of(schedule.programs, sends_no_parts);
}

}  // namespace

bool can_lower(const ir::Schedule& schedule, const Placement& placement,
               const LowerOptions& options) {
  if (!schedule.groups.empty() && one_round(options.protocol)) return false;
  switch (options.protocol) {
    case ProgramProtocol::kStaged:
      return true;
    case ProgramProtocol::kPublished:
      return can_publish(schedule, placement);
    case ProgramProtocol::kDirect:
      return !(options.scales_input && reduces(schedule.request.collective)) &&
             can_go_direct(schedule, placement, options);
  }
  return false;
}

}  // namespace tutti::lower
