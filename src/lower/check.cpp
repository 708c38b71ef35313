#include "src/lower/check.hpp"

#include <set>
#include <vector>

#include "src/base/result.hpp"
#include "src/ir/blocks.hpp"
#include "src/lower/exclusive.hpp"
#include "src/lower/pace.hpp"
#include "src/lower/replay.hpp"
#include "src/lower/well_formed.hpp"

namespace tutti::lower {
namespace {

/// The numbers of slices that speak for all (check.hpp).
std::set<std::uint32_t> telling_slices(const Lowered& lowered) {
  std::set<std::uint32_t> slices{1};
  if (one_round(lowered.protocol)) return slices;  // never sliced
  if (lowered.max_slot_pieces > 0) slices.insert(lowered.slot_depth + 1);
  for (const Program& program : lowered.programs)
    if (program.scratch_pieces > 0) slices.insert(program.scratch_depth + 1);
  return slices;
}

/// There is one for each output chunk.
Status check_recipes(const Lowered& lowered, const std::vector<std::vector<ir::Recipe>>& recipes) {
  bool fit = recipes.size() == lowered.programs.size();
  for (Rank rank = 0; fit && rank < lowered.request.ranks; ++rank) {
    const auto blocks = static_cast<std::size_t>(ir::block_counts(lowered.request, rank).output);
    fit = recipes[rank].size() == blocks * lowered.chunks_per_block;
  }
  if (fit) return ok_status();
  return make_error(Code::kInternal, "{} lowered has other outputs than its schedule",
                    lowered.algorithm);
}

}  // namespace

Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options) {
  TUTTI_TRY(check_form(lowered, placement, options.uneven_blocks));
  if (options.recipes != nullptr) TUTTI_TRY(check_recipes(lowered, *options.recipes));
  TUTTI_TRY(check_exclusive(lowered));
  TUTTI_TRY(check_pace(lowered));
  for (const std::uint32_t slices : telling_slices(lowered))
    TUTTI_TRY(replay(lowered, placement, options, slices));
  return ok_status();
}

}  // namespace tutti::lower
