#include "src/lower/tidy.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "src/lower/places.hpp"

namespace tutti::lower {
namespace {

class CopySkipper {
 public:
  CopySkipper(Draft& draft, const DraftOwner& owner) : draft_(draft), owner_(owner) {}

  void run() {
    for (std::uint32_t id = 0; id < draft_.ops.size(); ++id) {
      DraftOp& saved = draft_.ops[id];
      if (saved.dead || !copies_input_to_scratch(saved.op)) continue;
      const std::vector<std::uint32_t>& pieces = saved.op.destinations[0].pieces;
      const auto reader = only_reader(id, pieces);
      if (!reader || !overwrites_exactly(draft_.ops[*reader].op, saved.op.sources[0])) continue;
      if (!unwritten_between(id, *reader, saved.op.sources[0])) continue;
      for (Operand& source : draft_.ops[*reader].op.sources)
        if (source.memory == ProgramMemory::kScratch && source.pieces == pieces)
          source = saved.op.sources[0];
      saved.dead = true;
    }
  }

 private:
  static bool copies_input_to_scratch(const Op& op) {
    return op.kind == OpKind::kCombine && op.sources.size() == 1 && op.destinations.size() == 1 &&
           op.sources[0].memory == ProgramMemory::kInput &&
           op.destinations[0].memory == ProgramMemory::kScratch &&
           op.destinations[0].format == ir::kPlain;
  }
  /// The only op that touches these scratch pieces apart from their writer `id`, reading them as
  /// one whole operand of a combination.
  std::optional<std::uint32_t> only_reader(std::uint32_t id,
                                           const std::vector<std::uint32_t>& pieces) const {
    std::optional<std::uint32_t> reader;
    for (std::uint32_t other = 0; other < draft_.ops.size(); ++other) {
      const DraftOp& op = draft_.ops[other];
      if (other == id || op.dead) continue;
      if (touches_scratch(op.op.destinations, pieces)) return std::nullopt;
      if (!touches_scratch(op.op.sources, pieces)) continue;
      const bool whole =
          std::any_of(op.op.sources.begin(), op.op.sources.end(), [&](const Operand& source) {
            return source.memory == ProgramMemory::kScratch && source.pieces == pieces;
          });
      if (reader || !whole || op.op.kind != OpKind::kCombine) return std::nullopt;
      reader = other;
    }
    return reader;
  }
  static bool touches_scratch(const std::vector<Operand>& operands,
                              const std::vector<std::uint32_t>& pieces) {
    for (const Operand& operand : operands)
      if (operand.memory == ProgramMemory::kScratch)
        for (const std::uint32_t piece : operand.pieces)
          if (std::find(pieces.begin(), pieces.end(), piece) != pieces.end()) return true;
    return false;
  }
  bool overwrites_exactly(const Op& op, const Operand& input) const {
    if (op.destinations.empty() || op.destinations[0].memory != ProgramMemory::kOutput)
      return false;
    const std::vector<std::uint32_t>& pieces = op.destinations[0].pieces;
    if (pieces.size() != input.pieces.size()) return false;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (place(ProgramMemory::kOutput, pieces[i]) != place(ProgramMemory::kInput, input.pieces[i]))
        return false;
    return true;
  }
  bool unwritten_between(std::uint32_t first, std::uint32_t last, const Operand& input) const {
    for (std::uint32_t id = first + 1; id < last; ++id) {
      if (draft_.ops[id].dead) continue;
      for (const Operand& destination : draft_.ops[id].op.destinations)
        if (is_own(destination.memory))
          for (const std::uint32_t piece : destination.pieces)
            for (const std::uint32_t mine : input.pieces)
              if (place(destination.memory, piece) == place(ProgramMemory::kInput, mine))
                return false;
    }
    return true;
  }
  [[nodiscard]] PlaceKey place(ProgramMemory memory, std::uint32_t piece) const {
    return place_of(owner_.request, owner_.chunks_per_block, owner_.rank, memory, piece);
  }

  Draft& draft_;
  const DraftOwner& owner_;
};

}  // namespace

void skip_copies_of_own_input(Draft& draft, const DraftOwner& owner) {
  CopySkipper(draft, owner).run();
}

void drop_unread_scratch(Draft& draft) {
  for (bool changed = true; changed;) {
    changed = false;
    std::set<std::uint32_t> read;
    for (const DraftOp& op : draft.ops)
      if (!op.dead)
        for (const Operand& source : op.op.sources)
          if (source.memory == ProgramMemory::kScratch)
            read.insert(source.pieces.begin(), source.pieces.end());
    for (DraftOp& op : draft.ops) {
      if (op.dead || is_transfer(op.op.kind)) continue;
      const auto unread = [&](const Operand& destination) {
        return destination.memory == ProgramMemory::kScratch &&
               std::none_of(destination.pieces.begin(), destination.pieces.end(),
                            [&](std::uint32_t piece) { return read.contains(piece); });
      };
      changed |= std::erase_if(op.op.destinations, unread) > 0;
      op.dead |= op.op.destinations.empty();
    }
  }
}

}  // namespace tutti::lower
