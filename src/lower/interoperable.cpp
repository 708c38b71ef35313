// What peers see of a program: interoperable() of lower.hpp.
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "src/lower/lower.hpp"

namespace tutti::lower {
namespace {

/// All that other ranks can see of a program: what it publishes when, what it sends and receives,
/// and, in order, what it reads in their inputs and writes in their outputs.
struct OutsideView {
  /// Peers wait for a published op to have filled slots, or to have read theirs.
  struct Publication {
    std::uint32_t stage = 0;
    std::vector<Operand> fills, reads;
    friend bool operator==(const Publication&, const Publication&) = default;
  };
  /// The stage too: it decides how the messages of several ops of one stream interleave.
  struct Transfer {
    OpKind kind = OpKind::kSend;
    std::uint32_t stage = 0;
    ir::FormatId format = ir::kPlain;
    std::vector<std::uint32_t> like;
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };
  std::vector<Publication> publications;
  /// This rank's part of an operation of a group.
  struct GroupPart {
    ir::GroupForm form = ir::GroupForm::kSumToAll;
    std::uint32_t root = 0;
    std::uint32_t stage = 0;
    std::vector<std::uint32_t> like, like_received;
    friend bool operator==(const GroupPart&, const GroupPart&) = default;
  };
  std::map<std::tuple<OpKind, Rank, Lane>, std::vector<Transfer>> transfers;
  std::map<ir::GroupId, std::vector<GroupPart>> group_parts;
  std::vector<Slot> slots;
  std::vector<std::vector<Operand>> remote;  ///< per op that touches any
  std::uint32_t last_stage = 0;
  friend bool operator==(const OutsideView&, const OutsideView&) = default;
};

OutsideView outside_view(const Program& program) {
  OutsideView view;
  view.slots = program.slots;
  // How many iterations a rank has matters where it counts them for others.
  if (program.published_ops > 0) view.last_stage = program.last_stage;
  for (const Op& op : program.ops) {
    if (op.published) {
      OutsideView::Publication publication;
      publication.stage = op.stage;
      for (const Operand& destination : op.destinations)
        if (destination.memory == ProgramMemory::kSlot) publication.fills.push_back(destination);
      for (const Operand& source : op.sources)
        if (source.memory == ProgramMemory::kSlot) publication.reads.push_back(source);
      view.publications.push_back(std::move(publication));
    }
    std::vector<Operand> remote;
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands)
        if (is_peers_buffer(operand.memory)) remote.push_back(operand);
    if (!remote.empty()) view.remote.push_back(std::move(remote));
    if (op.kind == OpKind::kGroup)
      view.group_parts[op.group].push_back({op.form, op.root, op.stage, op.like, op.like_received});
    if (op.peer != kNoRank) {
      const Operand& data = op.kind == OpKind::kSend ? op.sources[0] : op.destinations[0];
      view.transfers[{op.kind, op.peer, op.lane}].push_back(
          {op.kind, op.stage, data.format, op.like});
    }
  }
  return view;
}

}  // namespace

bool interoperable(const Lowered& a, const Lowered& b) {
  if (a.groups != b.groups) return false;
  if (a.protocol != b.protocol || a.chunks_per_block != b.chunks_per_block ||
      a.slot_depth != b.slot_depth || a.programs.size() != b.programs.size())
    return false;
  for (std::size_t rank = 0; rank < a.programs.size(); ++rank)
    if (outside_view(a.programs[rank]) != outside_view(b.programs[rank])) return false;
  return true;
}

}  // namespace tutti::lower
