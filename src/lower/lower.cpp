#include "src/lower/lower.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/ir/group_operations.hpp"
#include "src/lower/check.hpp"
#include "src/lower/draft.hpp"
#include "src/lower/link.hpp"
#include "src/lower/movers.hpp"
#include "src/lower/sent.hpp"

namespace tutti::lower {
namespace {

/// See runs_ahead().
constexpr std::size_t kFewRanks = 4;

std::string describe(const Operand& operand) {
  std::string text(name_of(operand.memory));
  if (operand.memory == ProgramMemory::kSlot)
    text += fmt::format(" {}.{}", operand.owner, operand.index);
  if (is_peers_buffer(operand.memory)) text += fmt::format(" {}", operand.owner);
  return text + fmt::format("[{}]", fmt::join(operand.pieces, ","));
}

}  // namespace

bool needs_mapped_buffers(const Lowered& lowered) {
  if (lowered.protocol != ProgramProtocol::kDirect) return false;
  const auto copies = [](const Op& op) {
    const bool reads_peer = std::ranges::any_of(op.sources, [](const Operand& source) {
      return source.memory == ProgramMemory::kPublished;
    });
    const bool writes_peer = std::ranges::any_of(op.destinations, [](const Operand& destination) {
      return destination.memory == ProgramMemory::kPeerOutput;
    });
    return !writes_peer && (!reads_peer || op.sources.size() + op.destinations.size() == 2);
  };
  return !std::ranges::all_of(lowered.programs, [&](const Program& program) {
    return std::ranges::all_of(program.ops, copies);
  });
}

bool only_messages(const Lowered& lowered) {
  const auto is_buffer = [](const Operand& operand) {
    return (operand.memory == ProgramMemory::kInput || operand.memory == ProgramMemory::kOutput) &&
           operand.format == ir::kPlain;
  };
  return std::ranges::all_of(lowered.programs, [&](const Program& program) {
    return std::ranges::all_of(program.ops, [&](const Op& op) {
      return is_transfer(op.kind) && op.kind != OpKind::kGroup &&
             std::ranges::all_of(op.sources, is_buffer) &&
             std::ranges::all_of(op.destinations, is_buffer);
    });
  });
}

bool runs_ahead(const Lowered& lowered) {
  const auto has_slot = [](const std::vector<Operand>& operands) {
    return std::ranges::any_of(
        operands, [](const Operand& operand) { return operand.memory == ProgramMemory::kSlot; });
  };
  const auto fills = [&](const Op& op) { return has_slot(op.destinations); };
  const auto reads = [&](const Op& op) { return has_slot(op.sources); };
  const auto is_message = [](const Op& op) { return is_transfer(op.kind); };
  const auto passes_on = [&](const Program& program) {
    return std::ranges::any_of(program.ops, is_message) ||
           (std::ranges::any_of(program.ops, fills) && std::ranges::any_of(program.ops, reads));
  };
  return lowered.request.collective == Collective::kBroadcast && lowered.max_slot_pieces > 0 &&
         lowered.programs.size() <= kFewRanks && std::ranges::none_of(lowered.programs, passes_on);
}

Result<Lowered> lower(const ir::Schedule& schedule, const ir::Proof& proof,
                      const Placement& placement, const LowerOptions& options) {
  TUTTI_CHECK(placement.host.size() == static_cast<std::size_t>(schedule.request.ranks),
              "hosts={} ranks={}", placement.host.size(), schedule.request.ranks);
  if (!can_lower(schedule, placement, options))
    return make_error(Code::kUnsupported, "{} over {} ranks does not fit the {} protocol",
                      schedule.algorithm, schedule.request.ranks, name_of(options.protocol));
  TUTTI_ASSIGN(const ir::GroupOperations operations,
               ir::group_operations(schedule, ir::Membership(schedule)));
  const bool direct = options.protocol == ProgramProtocol::kDirect;
  const Messages messages =
      direct ? *settle_movers(schedule, options) : messages_of(schedule);  // can_lower() has looked
  const auto lowered_with = [&](Receives receives) -> Result<Lowered> {
    std::vector<Draft> drafts;
    for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
      drafts.push_back(draft_rank(schedule, proof, placement, options, messages, operations, rank));
    Lowered lowered = link(schedule, options, std::move(drafts), receives);
    lowered.groups = schedule.groups;
    lowered.sent = sent_chunks(schedule, placement);
    lowered.lossy_steps = proof.lossy_steps;
    lowered.same_bits = proof.same_bits.value_or(true);
    CheckOptions checks;
    checks.scales_input = options.scales_input;
    if (!proof.recipes.empty()) checks.recipes = &proof.recipes;
    TUTTI_TRY(check(lowered, placement, checks));
    return lowered;
  };
  auto lowered = lowered_with(Receives::kEarly);
  if (lowered || one_round(options.protocol) || placement.all_mapped()) return lowered;
  // Streams that wait for each other may allow no early receives.
  return lowered_with(Receives::kWithTheirSends);
}

std::string describe(const Lowered& lowered, Rank rank, std::uint32_t op_id) {
  const Op& op = lowered.programs[rank].ops[op_id];
  std::vector<std::string> sources, destinations;
  for (const Operand& operand : op.sources) sources.push_back(describe(operand));
  for (const Operand& operand : op.destinations) destinations.push_back(describe(operand));
  std::string text =
      fmt::format("rank {} op {} (stage {}): {} {} <- {}", rank, op_id, op.stage, name_of(op.kind),
                  fmt::join(destinations, ", "), fmt::join(sources, " + "));
  if (op.kind == OpKind::kGroup) text += fmt::format(" {} over {}", name_of(op.form), op.group);
  if (op.peer != kNoRank) text += fmt::format(" peer {} lane {}", op.peer, op.lane);
  return text;
}

}  // namespace tutti::lower
