#include "tests/lowering/program_mutants.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "src/ir/request.hpp"

namespace tutti::lower {
namespace {

class Mutator {
 public:
  Mutator(Lowered& lowered, std::mt19937_64& random) : lowered_(lowered), random_(random) {
    rank_ = static_cast<Rank>(below(lowered.programs.size()));
    if (!ops().empty()) at_ = static_cast<std::uint32_t>(below(ops().size()));
  }

  bool apply(Mutation mutation) {
    if (mutation == Mutation::kRaw) return raw();
    if (mutation == Mutation::kSlotDepth) return lowered_.slot_depth-- > 1 && uses_slots();
    if (mutation == Mutation::kProtocol) return protocol();
    if (mutation == Mutation::kScratchDepth) return program().scratch_depth-- > 1;
    if (mutation == Mutation::kSlotLayout) return slot_layout();
    if (ops().empty()) return false;
    const bool applied = apply_to_op(mutation);
    renumber();
    return applied;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  std::uint32_t pick(std::size_t limit) { return static_cast<std::uint32_t>(below(limit)); }
  Program& program() { return lowered_.programs[rank_]; }
  std::vector<Op>& ops() { return program().ops; }
  Op& op() { return ops()[at_]; }
  [[nodiscard]] std::size_t ranks() const { return lowered_.programs.size(); }

  bool apply_to_op(Mutation mutation) {
    switch (mutation) {
      case Mutation::kDropOp:
        return drop_op();
      case Mutation::kDuplicateOp:
        return duplicate_op();
      case Mutation::kSwapOps:
        return swap_ops();
      case Mutation::kStage:
        return stage();
      case Mutation::kDropWait:
        return erase_one(op().waits);
      case Mutation::kWaitRank:
        return wait([&](Wait& wait) { wait.rank = static_cast<Rank>(below(ranks())); });
      case Mutation::kWaitOp:
        return wait([&](Wait& wait) { wait.op = near(wait.op); });
      case Mutation::kWaitSlice:
        return wait([&](Wait& wait) { wait.slice_delta += below(2) == 0 ? 1 : -1; });
      case Mutation::kDropTransferWait:
        return erase_one(op().transfers);
      case Mutation::kTransferWait:
        return transfer_wait();
      case Mutation::kUnpublish:
        return std::exchange(op().published, false);
      case Mutation::kCompletes:
        op().completes = !op().completes;
        return true;
      case Mutation::kFormats:
        return formats();
      case Mutation::kGroup:
        return op().kind == OpKind::kGroup && group_part();
      case Mutation::kPeer:
        return transfer([&](Op& op) { op.peer = static_cast<Rank>(below(ranks())); });
      case Mutation::kLane:
        return transfer([&](Op& op) { op.lane = static_cast<Lane>(below(3)); });
      case Mutation::kLength:
        if (op().like.empty()) return false;
        op().like[below(op().like.size())] = pick(ranks() * lowered_.chunks_per_block);
        return true;
      default:
        return apply_to_operand(mutation);
    }
  }

  bool apply_to_operand(Mutation mutation) {
    auto& sources = op().sources;
    auto& destinations = op().destinations;
    switch (mutation) {
      case Mutation::kSourcePiece:
        return !sources.empty() && piece(sources[below(sources.size())]);
      case Mutation::kDestinationPiece:
        return !destinations.empty() && piece(destinations[below(destinations.size())]);
      case Mutation::kSlotIndex:
        return operand([&](Operand& operand) {
          if (operand.memory == ProgramMemory::kSlot)
            operand.index = pick(lowered_.programs[operand.owner].slots.size());
        });
      case Mutation::kOwner:
        return operand([&](Operand& operand) {
          if (operand.owner != kNoRank) operand.owner = static_cast<Rank>(below(ranks()));
        });
      case Mutation::kFormat:
        return operand([&](Operand& operand) {
          operand.format = static_cast<ir::FormatId>(below(lowered_.formats.size() + 2));
        });
      case Mutation::kMemory:
        return operand([&](Operand& operand) { memory(operand); });
      case Mutation::kDropSource:
        return sources.size() > 1 && erase_one(sources);
      case Mutation::kSwapSources:
        if (sources.size() < 2) return false;
        std::swap(sources[below(sources.size())], sources[below(sources.size())]);
        return true;
      case Mutation::kDropDestination:
        return destinations.size() > 1 && erase_one(destinations);
      default:
        return false;
    }
  }

  template <class Vector>
  bool erase_one(Vector& list) {
    if (list.empty()) return false;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(below(list.size())));
    return true;
  }
  template <class Change>
  bool wait(Change change) {
    if (op().waits.empty()) return false;
    change(op().waits[below(op().waits.size())]);
    return true;
  }
  template <class Change>
  bool transfer(Change change) {
    if (op().peer == kNoRank) return false;
    change(op());
    return true;
  }
  template <class Change>
  bool operand(Change change) {
    auto& sources = op().sources;
    auto& destinations = op().destinations;
    const std::size_t number = below(sources.size() + destinations.size());
    change(number < sources.size() ? sources[number] : destinations[number - sources.size()]);
    return true;
  }

  // --- ops ---

  /// Every mention of an op of this rank follows it.
  template <class Renamed>
  void rename_ops(Renamed renamed) {
    for (Program& program : lowered_.programs)
      for (Op& op : program.ops)
        for (Wait& wait : op.waits)
          if (wait.rank == rank_) wait.op = renamed(wait.op);
    for (Op& op : ops())
      for (TransferWait& wait : op.transfers) wait.op = renamed(wait.op);
  }

  /// Ordinals, the last stage and what is published follow the ops that are there.
  void renumber() {
    for (Program& program : lowered_.programs) {
      program.published_ops = program.last_stage = 0;
      for (Op& op : program.ops) {
        op.ordinal = op.published ? program.published_ops++ : 0;
        program.last_stage = std::max(program.last_stage, op.stage);
      }
    }
  }

  /// Who waited for the op waits for the one before it that is published, or for nothing.
  bool drop_op() {
    const std::uint32_t gone = at_;
    const bool published = op().published;
    ops().erase(ops().begin() + gone);
    for (Op& op : ops())
      std::erase_if(op.transfers, [&](const TransferWait& wait) { return wait.op == gone; });
    const bool inherit = published && gone > 0 && below(2) == 0;
    for (Program& program : lowered_.programs)
      for (Op& op : program.ops)
        std::erase_if(op.waits, [&](const Wait& wait) {
          return wait.rank == rank_ && wait.op == gone && !inherit;
        });
    rename_ops([&](std::uint32_t op) { return op >= gone && op > 0 ? op - 1 : op; });
    if (inherit) ops()[gone - 1].published = true;
    return true;
  }

  bool duplicate_op() {
    const std::uint32_t id = at_;
    const bool first = below(2) == 0;  // waits go to the first or to the second
    Op copy = op();
    ops().insert(ops().begin() + id, std::move(copy));
    rename_ops([&](std::uint32_t op) { return op > id || (op == id && !first) ? op + 1 : op; });
    return true;
  }

  bool swap_ops() {
    if (at_ + 1 == ops().size()) return false;
    const std::uint32_t id = at_;
    std::swap(ops()[id], ops()[id + 1]);
    if (below(2) == 0)
      rename_ops([&](std::uint32_t op) { return op == id ? id + 1 : op == id + 1 ? id : op; });
    else
      std::swap(ops()[id].published, ops()[id + 1].published);
    return true;
  }

  /// All that the program keeps in one format, it keeps in another or plain: it stays consistent.
  bool formats() {
    if (lowered_.formats.empty()) return false;
    const auto from = static_cast<ir::FormatId>(1 + below(lowered_.formats.size()));
    const auto to = static_cast<ir::FormatId>(below(lowered_.formats.size() + 1));
    for (Program& program : lowered_.programs)
      for (Op& op : program.ops)
        for (auto* operands : {&op.sources, &op.destinations})
          for (Operand& operand : *operands)
            if (operand.format == from) operand.format = to;
    return true;
  }

  bool stage() {
    if (below(2) == 0)
      ++op().stage;
    else if (op().stage-- == 0)
      return false;
    return true;
  }

  std::uint32_t near(std::uint32_t op) {
    if (below(3) == 0) return pick(ops().size());
    return below(2) == 0 ? op + 1 : op - std::min<std::uint32_t>(op, 1);
  }

  bool transfer_wait() {
    if (op().transfers.empty()) return false;
    TransferWait& wait = op().transfers[below(op().transfers.size())];
    if (below(2) == 0)
      wait.op = near(wait.op);
    else
      wait.slice_delta += below(2) == 0 ? 1 : -1;
    return true;
  }

  bool group_part() {
    const auto nudge = [&](std::uint32_t& number) {
      number += below(2) == 0 ? 1 : -1;
      return true;
    };
    switch (below(8)) {
      case 6:
        op().root = static_cast<std::uint32_t>(below(ranks()));
        return true;
      case 0:
        op().group = static_cast<ir::GroupId>(below(lowered_.groups.size()));
        return true;
      case 1:
        op().form = static_cast<ir::GroupForm>(below(ir::kGroupForms));
        return true;
      case 2:
        return nudge(op().first_sent);
      case 3:
        return nudge(op().first_received);
      case 4:
        return nudge(op().positions);
      case 5: {
        if (op().destinations.empty()) return false;
        Operand& to = op().destinations[0];
        const std::size_t gone = below(to.pieces.size());
        to.pieces.erase(to.pieces.begin() + static_cast<std::ptrdiff_t>(gone));
        op().like_received.erase(op().like_received.begin() + static_cast<std::ptrdiff_t>(gone));
        if (to.pieces.empty()) op().destinations.clear();
        return true;
      }
      default:
        if (op().like_received.empty()) return false;
        op().like_received[below(op().like_received.size())] =
            pick(ranks() * lowered_.chunks_per_block);
        return true;
    }
  }

  // --- operands ---

  [[nodiscard]] std::uint32_t pieces_of(const Operand& operand) const {
    const auto blocks = [&](std::int32_t count) {
      return static_cast<std::uint32_t>(count) * lowered_.chunks_per_block;
    };
    const Program& mine = lowered_.programs[rank_];
    switch (operand.memory) {
      case ProgramMemory::kInput:
        return blocks(ir::block_counts(lowered_.request, rank_).input);
      case ProgramMemory::kOutput:
        return blocks(ir::block_counts(lowered_.request, rank_).output);
      case ProgramMemory::kScratch:
        return mine.scratch_pieces;
      case ProgramMemory::kSlot: {
        const auto& slots = lowered_.programs[operand.owner].slots;
        return operand.index < slots.size() ? slots[operand.index].pieces : 0;
      }
      case ProgramMemory::kPublished:
        return blocks(ir::block_counts(lowered_.request, operand.owner).input);
      case ProgramMemory::kPeerOutput:
        return blocks(ir::block_counts(lowered_.request, operand.owner).output);
    }
    return 0;
  }

  /// Another piece of the same memory, often one of the same length.
  bool piece(Operand& operand) {
    const std::uint32_t pieces = pieces_of(operand);
    if (pieces == 0) return false;
    std::uint32_t& piece = operand.pieces[below(operand.pieces.size())];
    const std::uint32_t same = (piece + lowered_.chunks_per_block) % pieces;
    piece = below(2) == 0 ? same : pick(pieces);
    return true;
  }

  void memory(Operand& operand) {
    operand.memory = static_cast<ProgramMemory>(below(6));
    const bool owned = operand.memory == ProgramMemory::kSlot ||
                       operand.memory == ProgramMemory::kPublished ||
                       operand.memory == ProgramMemory::kPeerOutput;
    if (owned && operand.owner == kNoRank) operand.owner = static_cast<Rank>(below(ranks()));
    if (!owned) operand.owner = kNoRank;
    const std::uint32_t pieces = pieces_of(operand);
    if (pieces == 0 || below(2) == 0) return;
    for (std::uint32_t& piece : operand.pieces) piece %= pieces;
  }

  // --- the whole ---

  [[nodiscard]] bool uses_slots() const { return lowered_.max_slot_pieces > 0; }

  bool slot_layout() {
    auto& slots = program().slots;
    if (slots.size() < 2) return false;
    Slot& slot = slots[below(slots.size())];
    slot.first_piece = slots[below(slots.size())].first_piece;
    if (slot.first_piece + slot.pieces > program().slot_pieces) return false;
    return true;
  }

  bool protocol() {
    const ProgramProtocol before = lowered_.protocol;
    lowered_.protocol = static_cast<ProgramProtocol>(below(3));
    return lowered_.protocol != before;
  }

  std::uint32_t any() {
    constexpr std::uint32_t kOdd[] = {0,   1,     2,          3,          5,          17,
                                      255, 65536, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    return kOdd[below(std::size(kOdd))];
  }

  bool raw() {
    const std::size_t field = below(ops().empty() ? 10 : 25);
    if (field < 10) return raw_frame(field);
    if (field < 17) return raw_op(field);
    return raw_operand(field);
  }

  bool raw_frame(std::size_t field) {
    switch (field) {
      case 0:
        lowered_.request.root = static_cast<Rank>(any());
        return true;
      case 1:
        lowered_.request.collective = static_cast<Collective>(any());
        return true;
      case 2:
        lowered_.request.ranks = static_cast<std::int32_t>(any());
        return true;
      case 3:
        lowered_.chunks_per_block = any();
        return true;
      case 4:
        lowered_.slot_depth = any();
        return true;
      case 5:
        lowered_.max_slot_pieces = any();
        return true;
      case 6:
        lowered_.protocol = static_cast<ProgramProtocol>(any());
        return true;
      case 7:
        program().scratch_depth = any();
        return true;
      case 8:
        program().scratch_pieces = any();
        return true;
      default:
        return raw_program();
    }
  }
  bool raw_program() {
    switch (below(4)) {
      case 0:
        program().slot_pieces = any();
        return true;
      case 1:
        program().last_stage = any();
        return true;
      case 2:
        program().published_ops = any();
        return true;
      default:
        if (program().slots.empty()) {
          lowered_.programs.pop_back();
          return true;
        }
        Slot& slot = program().slots[below(program().slots.size())];
        (below(2) == 0 ? slot.pieces : slot.first_piece) = any();
        return true;
    }
  }
  bool raw_op(std::size_t field) {
    switch (field) {
      case 10:
        op().kind = static_cast<OpKind>(any());
        return true;
      case 11:
        op().peer = static_cast<Rank>(any());
        return true;
      case 12:
        op().stage = any();
        return true;
      case 13:
        op().ordinal = any();
        return true;
      case 14:
        op().published = !op().published;
        return true;
      case 15:
        op().waits.push_back({static_cast<Rank>(any()), any(), static_cast<std::int32_t>(any())});
        return true;
      default:
        op().transfers.push_back({any(), static_cast<std::int32_t>(any())});
        return true;
    }
  }
  bool raw_operand(std::size_t field) {
    const auto any_piece = [&](std::vector<std::uint32_t>& pieces) {
      if (pieces.empty() || below(4) == 0)
        pieces.push_back(any());
      else if (below(4) == 0)
        pieces.pop_back();
      else
        pieces[below(pieces.size())] = any();
    };
    if (field == 17) any_piece(op().like);
    if (field == 18) op().sources.insert(op().sources.end(), below(80), Operand{});
    if (field == 19) op().destinations.insert(op().destinations.end(), below(8), Operand{});
    if (field == 20 && !erase_one(op().sources)) return erase_one(op().destinations);
    if (field <= 20) return true;
    if (op().sources.empty() && op().destinations.empty()) return false;
    return operand([&](Operand& operand) {
      if (field == 21) operand.memory = static_cast<ProgramMemory>(any());
      if (field == 22) (below(2) == 0 ? operand.index : operand.pieces.at(0)) = any();
      if (field == 23) operand.owner = static_cast<Rank>(any());
      if (field == 24) operand.format = static_cast<ir::FormatId>(any());
    });
  }

  Lowered& lowered_;
  std::mt19937_64& random_;
  Rank rank_ = 0;
  std::uint32_t at_ = 0;
};

}  // namespace

std::string_view name_of(Mutation mutation) {
  constexpr std::string_view kNames[] = {"drop an op",
                                         "duplicate an op",
                                         "swap adjacent ops",
                                         "other stage",
                                         "drop a wait",
                                         "other wait rank",
                                         "other wait op",
                                         "other wait slice",
                                         "drop a transfer wait",
                                         "other transfer wait",
                                         "other source piece",
                                         "other destination piece",
                                         "other slot",
                                         "other owner",
                                         "other format",
                                         "other memory",
                                         "drop a source",
                                         "reorder sources",
                                         "drop a destination",
                                         "other length",
                                         "unpublish",
                                         "toggle completes",
                                         "other formats everywhere",
                                         "other peer",
                                         "other lane",
                                         "less slot depth",
                                         "less scratch depth",
                                         "overlapping slots",
                                         "other protocol",
                                         "other part in a group",
                                         "any field, any value"};
  static_assert(std::size(kNames) == kMutations);
  return kNames[static_cast<std::size_t>(mutation)];
}

std::optional<Lowered> mutate(const Lowered& original, Mutation mutation, std::mt19937_64& random) {
  Lowered mutant = original;
  if (!Mutator(mutant, random).apply(mutation) || mutant == original) return std::nullopt;
  return mutant;
}

}  // namespace tutti::lower
