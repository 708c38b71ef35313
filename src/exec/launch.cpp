#include "src/exec/launch.hpp"

namespace tutti::exec {

void Launch::tell_time() {
  const Nanos since = all_there_ ? Nanos(Clock::now() - *all_there_) : Nanos(0);
  const Nanos time = writing_ + since;
  if (time <= Nanos(0)) return;
  plan_->store_choice()->end(time);
  if (protocol() != lower::ProgramProtocol::kDirect)
    team_.set_streams_to_peers(plan_->store_choice()->best().peers);
}

void Launch::combine(std::span<const std::byte* const> sources, std::uint64_t scaled,
                     std::span<const Destination> destinations, std::size_t bytes,
                     bool completes) const {
  if (sources.size() == 1 && scaled == 0) return copy_bytes(sources[0], destinations, bytes);
  Reduction reduction = args_->reduction;
  if (completes && reduction.op == ReduceOp::kAvg)
    reduction.divisor = plan_->lowered().request.ranks;
  reduce(reduction, sources, scaled, destinations, bytes / plan_->element_bytes());
}

}  // namespace tutti::exec
