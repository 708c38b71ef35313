#include "src/comm/plan_cache.hpp"

#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/ir/verify.hpp"

namespace tutti {
namespace {

/// Whether reading peers' buffers through the kernel beats staging (perf/, 2 to 8 ranks on 2 CPUs).
/// For large outputs the kernel's copy fills the cache with what does not fit it; several readers
/// of the same pages get in each other's way, and so do many of different ones; short reads are
/// all overhead; the root of a broadcast, which could do half of the work, does nothing; and the
/// root of a gather would copy alone, which it does no faster than it receives.
bool kernel_reads_pay(const ir::Request& request, std::size_t output_bytes) {
  constexpr std::size_t kKiB = 1024;
  const auto ranks = static_cast<std::size_t>(request.ranks);
  if (request.collective == Collective::kGather || ranks > 4) return false;
  if (request.collective == Collective::kAllToAll)
    return output_bytes >= ranks * 32 * kKiB && output_bytes <= 16 * 1024 * kKiB;
  const std::size_t readers = request.collective == Collective::kScatter ? 1 : ranks - 1;
  if (readers > 1) return output_bytes <= 128 * kKiB;
  const bool idle_root = request.collective == Collective::kBroadcast;
  return output_bytes <= (idle_root ? 512 * kKiB : 16 * 1024 * kKiB);
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
  TUTTI_ASSIGN(Programs programs, programs_for(choice, request, scales_input, largest));
  if (in_place) {
    request.in_place = true;
    bound.copies_input = true;
    // A lone rank in place would have nothing to do, and so nothing would scale its input.
    const bool nothing_would_scale = scales_input && team_.size() == 1;
    if (choice.algorithm->supports(request) && !nothing_would_scale) {
      TUTTI_ASSIGN(Programs in_place_programs,
                   in_place_variants(programs, choice, request, scales_input));
      if (in_place_programs.otherwise) {
        programs = std::move(in_place_programs);
        bound.copies_input = false;
      }
    }
  }
  const Codec* codec = choice.algorithm->lossy ? &bfloat16_codec() : nullptr;
  const auto bind = [&](LoweredPointer program) {
    return exec::Plan::bind(std::move(program), team_, call.count, call.type, codec);
  };
  bound.declines_direct = programs.declines_direct;
  if (programs.direct) {
    TUTTI_ASSIGN(bound.direct, bind(std::move(programs.direct)));
  }
  TUTTI_ASSIGN(bound.plan, bind(std::move(programs.otherwise)));
  log_info(Subsystem::kTuning, fmt::format("[rank {}/{}]", team_.rank(), team_.size()),
           "{} of {} x {}: {} ({}), {} slices of at most {} bytes{}", name_of(call.collective),
           call.count, name_of(call.type), choice.algorithm->name, choice.reason,
           bound.plan->slices(), bound.plan->stride(),
           bound.copies_input ? ", input copied because it is in place" : "");
  return bound;
}

/// Small inputs are published; larger ones are reached where they lie if all are mapped, or if the
/// kernel can read them and that pays; what remains is staged.
Result<PlanCache::Programs> PlanCache::programs_for(const Choice& choice,
                                                    const ir::Request& request, bool scales_input,
                                                    const exec::LargestBuffers& largest) {
  using lower::Protocol;
  const auto program = [&](const ir::Algorithm* algorithm, Protocol protocol,
                           bool stores_to_peers = true) {
    return lowered(
        *algorithm, request,
        {.protocol = protocol, .scales_input = scales_input, .stores_to_peers = stores_to_peers});
  };
  Programs programs;
  if (largest.input <= exec::kPacketBytes) {
    TUTTI_ASSIGN(programs.otherwise, program(choice.algorithm, Protocol::kPublished));
    if (programs.otherwise) return programs;
  }
  TUTTI_ASSIGN(programs.direct, program(choice.mapped, Protocol::kDirect));
  if (team_.reads_inputs() && kernel_reads_pay(request, largest.output)) {
    TUTTI_ASSIGN(LoweredPointer loads, program(choice.algorithm, Protocol::kDirect, false));
    if (loads && !lower::needs_mapped_buffers(*loads)) {
      const bool one_serves_all = programs.direct && *loads == *programs.direct;
      if (one_serves_all) programs.direct = nullptr;
      programs.otherwise = std::move(loads);
      return programs;
    }
  }
  TUTTI_ASSIGN(programs.otherwise, program(choice.algorithm, Protocol::kStaged));
  return programs;
}

/// What a rank in place can run beside ranks that run `programs`; nothing where they would not
/// understand each other.
Result<PlanCache::Programs> PlanCache::in_place_variants(const Programs& programs,
                                                         const Choice& choice,
                                                         const ir::Request& request,
                                                         bool scales_input) {
  const auto variant = [&](const LoweredPointer& program, const ir::Algorithm* algorithm,
                           bool stores_to_peers) -> Result<LoweredPointer> {
    if (!program) return LoweredPointer();
    TUTTI_ASSIGN(LoweredPointer in_place, lowered(*algorithm, request,
                                                  {.protocol = program->protocol,
                                                   .scales_input = scales_input,
                                                   .stores_to_peers = stores_to_peers}));
    const bool fits = in_place && lower::interoperable(*program, *in_place);
    return fits ? in_place : LoweredPointer();
  };
  const bool loads_alone = programs.otherwise->protocol == lower::Protocol::kDirect;
  Programs variants;
  TUTTI_ASSIGN(variants.direct, variant(programs.direct, choice.mapped, true));
  TUTTI_ASSIGN(variants.otherwise, variant(programs.otherwise, choice.algorithm, !loads_alone));
  if (programs.direct && !variants.direct) {  // the others ask whether all can run it
    variants.direct = programs.direct;
    variants.declines_direct = true;
  }
  return variants;
}

/// Null: does not fit the protocol.
Result<PlanCache::LoweredPointer> PlanCache::lowered(const ir::Algorithm& algorithm,
                                                     const ir::Request& request,
                                                     const lower::LowerOptions& options) {
  const ProgramLibrary::Key key{algorithm.name,          request.collective,    request.root,
                                request.in_place,        options.scales_input,  options.protocol,
                                options.stores_to_peers, team_.placement().host};
  if (const auto known = lowered_.find(key); known != lowered_.end()) return known->second;
  TUTTI_ASSIGN(LoweredPointer program,
               library_.get(key, [&] { return lower_anew(algorithm, request, options); }));
  lowered_[key] = program;
  return program;
}

Result<PlanCache::LoweredPointer> PlanCache::lower_anew(const ir::Algorithm& algorithm,
                                                        const ir::Request& request,
                                                        const lower::LowerOptions& options) const {
  TUTTI_ASSIGN(const ir::Schedule schedule, algorithm.generate(request));
  if (!lower::can_lower(schedule, team_.placement(), options)) return LoweredPointer();
  TUTTI_ASSIGN(const ir::Proof proof, ir::verify(schedule));
  auto program = lower::lower(schedule, proof, team_.placement(), options);
  if (program) return std::make_shared<const lower::Lowered>(*std::move(program));
  if (options.protocol == lower::Protocol::kStaged) return std::move(program).error();
  log_warn(fmt::format("[rank {}/{}]", team_.rank(), team_.size()),
           "{} is staged: a defect of its {} program was found: {}", algorithm.name,
           name_of(options.protocol), program.error().what);
  return LoweredPointer();
}

}  // namespace tutti
