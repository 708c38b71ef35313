#include "src/lower/replay_memory.hpp"

#include "src/ir/blocks.hpp"
#include "src/lower/places.hpp"

namespace tutti::lower {

ReplayMemory::ReplayMemory(const Lowered& lowered, std::uint32_t slices)
    : lowered_(lowered), slices_(slices), ranks_(lowered.programs.size()) {
  for (Rank rank = 0; rank < lowered.request.ranks; ++rank) {
    const Program& program = lowered.programs[rank];
    RankMemory& memory = ranks_[rank];
    memory.scratch_begin =
        (std::size_t{input_chunks(rank)} + output_chunks(rank)) * std::size_t{slices};
    memory.slots_begin =
        memory.scratch_begin + std::size_t{program.scratch_pieces} * program.scratch_depth;
    memory.shared.resize(std::size_t{program.slot_pieces} * 2 * lowered.slot_depth);
    memory.cells.resize(memory.slots_begin + memory.shared.size());
  }
}

std::uint32_t ReplayMemory::input_chunks(Rank rank) const {
  return static_cast<std::uint32_t>(ir::block_counts(lowered_.request, rank).input) *
         lowered_.chunks_per_block;
}
std::uint32_t ReplayMemory::output_chunks(Rank rank) const {
  return static_cast<std::uint32_t>(ir::block_counts(lowered_.request, rank).output) *
         lowered_.chunks_per_block;
}

std::size_t ReplayMemory::user_index(Rank rank, ProgramMemory memory, std::uint32_t chunk,
                                     std::uint64_t slice) const {
  const PlaceKey key = place_of(lowered_.request, lowered_.chunks_per_block, rank, memory, chunk);
  const std::size_t place =
      key.memory == ProgramMemory::kInput ? key.piece : std::size_t{input_chunks(rank)} + key.piece;
  return place * slices_ + slice;
}

/// One of the staging regions serves different slots at different times: cells are told apart by
/// position.
std::size_t ReplayMemory::slot_index(const Operand& operand, std::uint32_t piece,
                                     std::uint64_t slice, std::uint32_t call) const {
  const std::size_t depth = lowered_.slot_depth;
  const Program& owner = lowered_.programs[operand.owner];
  const std::size_t position = owner.slots[operand.index].first_piece + piece;
  return ranks_[operand.owner].slots_begin + position * 2 * depth + (call % 2) * depth +
         slice % depth;
}

std::size_t ReplayMemory::index(Rank rank, const Operand& operand, std::uint32_t piece,
                                std::uint64_t slice, std::uint32_t call) const {
  switch (operand.memory) {
    case ProgramMemory::kSlot:
      return slot_index(operand, piece, slice, call);
    case ProgramMemory::kScratch: {
      const std::size_t depth = lowered_.programs[rank].scratch_depth;
      return ranks_[rank].scratch_begin + piece * depth + slice % depth;
    }
    default:
      return user_index(rank, operand.memory, piece, slice);
  }
}

Value ReplayMemory::input(Rank rank, std::uint32_t chunk, std::uint64_t slice,
                          std::uint32_t call) const {
  Value value;
  value.call = call;
  value.slice = static_cast<std::uint32_t>(slice);
  value.origin = origin(rank, chunk);
  value.contributors = ir::RankSets::only(rank);
  value.defined = true;
  value.raw = true;
  if (!lowered_.formats.empty()) value.recipe = ir::recipe_of_input(rank, chunk);
  return value;
}

std::uint64_t ReplayMemory::origin(Rank rank, std::uint32_t chunk) const {
  return reduces(lowered_.request.collective) ? chunk
                                              : (static_cast<std::uint64_t>(rank) << 32 | chunk);
}

std::uint64_t ReplayMemory::promised(Rank rank, std::uint32_t chunk) const {
  const std::uint32_t per_block = lowered_.chunks_per_block;
  const auto block = static_cast<Rank>(chunk / per_block);
  const std::uint32_t within = chunk % per_block;
  const std::uint32_t mine = static_cast<std::uint32_t>(rank) * per_block + within;
  switch (lowered_.request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return origin(0, chunk);
    case Collective::kReduceScatter:
      return origin(0, mine);
    case Collective::kBroadcast:
      return origin(lowered_.request.root, chunk);
    case Collective::kScatter:
      return origin(lowered_.request.root, mine);
    case Collective::kAllGather:
    case Collective::kGather:
      return origin(block, within);
    case Collective::kAllToAll:
      return origin(block, mine);
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return 0;
}

}  // namespace tutti::lower
