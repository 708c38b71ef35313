#include "src/exec/launch.hpp"

#include "src/exec/load_times.hpp"

namespace tutti::exec {

void Launch::tell_time() {
  const Nanos since = all_there_ ? Nanos(Clock::now() - *all_there_) : Nanos(0);
  const Nanos time = writing_ + since;
  if (time <= Nanos(0)) return;
  StoreChoice& choice = *plan_->store_choice();
  choice.end(time);
  if (const auto advice = choice.advice())
    team_.own_block().progress.load_times.store(pack_load_times(args_->call_hash, *advice),
                                                std::memory_order_relaxed);
  if (protocol() != lower::ProgramProtocol::kDirect)
    team_.set_streams_to_peers(choice.best().peers);
}

void Launch::take_advice(StoreChoice& choice) {
  const Progress& reader = team_.member(*plan_->first_reader()).block->progress;
  const auto times =
      unpack_load_times(args_->call_hash, reader.load_times.load(std::memory_order_relaxed));
  if (times) choice.take_advice(*times);
}

void Launch::combine(std::span<const std::byte* const> sources, std::uint64_t scaled,
                     std::span<const Destination> destinations, std::size_t bytes,
                     bool completes) const {
  if (sources.size() == 1 && scaled == 0) return copy_bytes(sources[0], destinations, bytes);
  reduce(reduction(completes), sources, scaled, destinations, bytes / plan_->element_bytes());
}

Reduction Launch::reduction(bool completes) const {
  Reduction reduction = args_->reduction;
  if (completes && reduction.op == ReduceOp::kAvg)
    reduction.divisor = plan_->lowered().request.ranks;
  return reduction;
}

}  // namespace tutti::exec
