#include "src/exchange/out_of_place.hpp"

#include "src/base/result.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

/// The chunks of a rank that its input and its output share in place.
struct Shared {
  std::uint32_t input = 0;   ///< number of the first one in the input
  std::uint32_t output = 0;  ///< and in the output
  std::uint32_t count = 0;   ///< 0: the buffers do not overlap
};

Shared shared_by(const ir::Schedule& schedule, Rank rank) {
  const ir::Aliasing alias = ir::aliasing(schedule.request, rank);
  const auto chunk = [&](std::int32_t block) {
    return static_cast<std::uint32_t>(block) * schedule.chunks_per_block;
  };
  if (!alias.exists) return {};
  return {chunk(alias.input_block), chunk(alias.output_block), chunk(alias.blocks)};
}

/// Names in the output what `set` names of the shared chunks.
Status move_to_output(ir::ChunkSet& set, const Shared& shared) {
  if (set.space != ir::Space::kInput || set.count == 0) return ok_status();
  const std::uint32_t last = set.at(set.count - 1), end = shared.input + shared.count;
  if (last < shared.input || set.first >= end) return ok_status();
  if (set.first < shared.input || last >= end)
    return make_error(Code::kUnsupported,
                      "{} spans chunks that overlap the output in place and others that do not: "
                      "only calls in place can run it; split the step",
                      ir::print(set));
  set.space = ir::Space::kOutput;
  set.first += shared.output - shared.input;  // modulo 2^32 where it is less
  return ok_status();
}

Status rewrite(ir::Program& program, const Shared& shared) {
  for (ir::Step& step : program.steps) {
    TUTTI_TRY(move_to_output(step.src, shared));
    TUTTI_TRY(move_to_output(step.dst, shared));
    for (ir::StepId& dep : step.deps) ++dep;
    if (step.deps.empty()) step.deps.push_back(0);
  }
  ir::Step copy;
  copy.src = {ir::Space::kInput, shared.input, shared.count};
  copy.dst = {ir::Space::kOutput, shared.output, shared.count};
  program.steps.insert(program.steps.begin(), std::move(copy));
  return ok_status();
}

}  // namespace

Result<ir::Schedule> out_of_place(const ir::Schedule& in_place) {
  ir::Schedule schedule = in_place;
  schedule.request.in_place = false;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const Shared shared = shared_by(in_place, rank);
    if (shared.count == 0) continue;
    const Status rewritten = rewrite(schedule.programs[static_cast<std::size_t>(rank)], shared);
    if (!rewritten)
      return make_error(rewritten.error().code, "rank {}: {}", rank, rewritten.error().what);
  }
  TUTTI_TRY(ir::verify(schedule));
  return schedule;
}

}  // namespace tutti::exchange
