#include "src/comm/plan_cache.hpp"

#include <optional>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/lower.hpp"

namespace tutti {
namespace {

/// The largest output for which reading peers' buffers beats two copies of which the second
/// streams, where the kernel reads (perf/, 2 to 8 ranks on 2 CPUs). Beyond it the kernel's copy
/// fills the cache with output that does not fit it; readers of the same pages get in each other's
/// way; and the root of a gather would copy alone, which it does no faster than it receives.
std::size_t direct_limit(const ir::Request& request) {
  const bool own_share =
      request.collective == Collective::kAllToAll || request.collective == Collective::kScatter;
  const int readers = own_share ? 1 : request.ranks - 1;
  if (request.collective == Collective::kGather || readers > 3) return 0;
  return readers > 1 ? std::size_t{1} << 20 : std::size_t{16} << 20;
}

}  // namespace

Result<BoundPlan*> PlanCache::get(const Call& call, bool in_place) {
  const Key key{call.collective, call.type, in_place, call.op == ReduceOp::kPreMulSum,
                call.root,       call.count};
  if (!recent_.empty() && recent_.front().key == key) return &recent_.front().bound;
  if (const auto found = plans_.find(key); found != plans_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return &recent_.front().bound;
  }
  TUTTI_ASSIGN(BoundPlan bound, make(call, in_place));
  if (recent_.size() >= kMostPlans) {
    plans_.erase(recent_.back().key);
    recent_.pop_back();
  }
  recent_.push_front({key, std::move(bound)});
  plans_[key] = recent_.begin();
  return &recent_.front().bound;
}

Result<Choice> PlanCache::choose(const Call& call) const {
  Situation situation;
  situation.request = {call.collective, team_.size(), rooted(call.collective) ? call.root : 0,
                       false};
  situation.block_bytes = call.count * size_of(call.type);
  situation.type = call.type;
  return tuner_.choose(situation, team_.placement());
}

Result<BoundPlan> PlanCache::make(const Call& call, bool in_place) {
  TUTTI_ASSIGN(const Choice choice, choose(call));
  ir::Request request{call.collective, team_.size(), rooted(call.collective) ? call.root : 0,
                      false};
  const bool scales_input = call.op == ReduceOp::kPreMulSum && reduces(call.collective);
  const exec::LargestBuffers largest = exec::largest_buffers(request, call.count, call.type);

  BoundPlan bound;
  TUTTI_ASSIGN(auto program, lowered(*choice.algorithm, request, scales_input, largest));
  if (in_place) {
    request.in_place = true;
    bound.copies_input = true;
    // A lone rank in place would have nothing to do, and so nothing would scale its input.
    const bool nothing_would_scale = scales_input && team_.size() == 1;
    if (choice.algorithm->supports(request) && !nothing_would_scale) {
      TUTTI_ASSIGN(auto in_place_program,
                   lowered(*choice.algorithm, request, scales_input, largest));
      if (lower::interoperable(*program, *in_place_program)) {
        program = std::move(in_place_program);
        bound.copies_input = false;
      }
    }
  }
  const Codec* codec = choice.algorithm->lossy ? &bfloat16_codec() : nullptr;
  TUTTI_ASSIGN(bound.plan,
               exec::Plan::bind(std::move(program), team_, call.count, call.type, codec));
  log_info(Subsystem::kTuning, fmt::format("[rank {}/{}]", team_.rank(), team_.size()),
           "{} of {} x {}: {} ({}), {} slices of at most {} bytes{}", name_of(call.collective),
           call.count, name_of(call.type), choice.algorithm->name, choice.reason,
           bound.plan->slices(), bound.plan->stride(),
           bound.copies_input ? ", input copied because it is in place" : "");
  return bound;
}

Result<std::shared_ptr<const lower::Lowered>> PlanCache::lowered(
    const ir::Algorithm& algorithm, const ir::Request& request, bool scales_input,
    const exec::LargestBuffers& largest) {
  const ScheduleKey schedule_key{algorithm.name, request.collective, request.root,
                                 request.in_place};
  std::optional<ir::Schedule> schedule;  // generated only when something is not known yet
  auto abilities = abilities_.find(schedule_key);
  if (abilities == abilities_.end()) {
    TUTTI_ASSIGN(schedule, algorithm.generate(request));
    const lower::Placement& placement = team_.placement();
    const Abilities found{lower::can_publish(*schedule, placement),
                          lower::can_read_directly(*schedule, placement)};
    abilities = abilities_.emplace(schedule_key, found).first;
  }
  lower::LowerOptions options;
  options.scales_input = scales_input;
  options.protocol = protocol_for(abilities->second, request, largest);
  const LoweredKey key{schedule_key, scales_input, options.protocol};
  if (const auto known = lowered_.find(key); known != lowered_.end()) return known->second;
  if (!schedule) {
    TUTTI_ASSIGN(schedule, algorithm.generate(request));
  }
  TUTTI_ASSIGN(const ir::Proof proof, ir::verify(*schedule));
  TUTTI_ASSIGN(lower::Lowered result, lower::lower(*schedule, proof, team_.placement(), options));
  auto shared = std::make_shared<const lower::Lowered>(std::move(result));
  lowered_[key] = shared;
  return std::shared_ptr<const lower::Lowered>(shared);
}

lower::Protocol PlanCache::protocol_for(Abilities abilities, const ir::Request& request,
                                        const exec::LargestBuffers& largest) const {
  if (abilities.publishes && largest.input <= exec::kPacketBytes)
    return lower::Protocol::kPublished;
  if (abilities.reads_directly && team_.reads_inputs() && largest.output <= direct_limit(request))
    return lower::Protocol::kDirect;
  return lower::Protocol::kStaged;
}

}  // namespace tutti
