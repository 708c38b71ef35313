// The memory of all ranks while a lowered program is replayed (replay.hpp): a cell for each piece
// of each slice, and what it holds. Used inside this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/ir/contributions.hpp"
#include "src/ir/recipe.hpp"
#include "src/lower/program.hpp"

namespace tutti::lower {

/// What a piece of memory holds for one slice of one call.
struct Value {
  std::uint32_t call = 0;
  std::uint32_t slice = 0;
  std::uint64_t origin = 0;  ///< chunk; for collectives that do not reduce, rank and chunk
  ir::SetId contributors = 0;
  ir::Recipe recipe = 0;  ///< if the program has formats
  bool defined = false;
  ir::FormatId format = ir::kPlain;
  bool raw = false;  ///< the user's input as it is: kPreMulSum has not scaled it
};

constexpr std::uint32_t kNoOp = ~std::uint32_t{0};

struct Cell {
  Value value;
  std::uint32_t sends = 0;         ///< posted sends that may still read it
  std::uint32_t receiver = kNoOp;  ///< the posted receive that may still write it
};

/// Cells of slots are read by peers: who wrote it when, and who has read it since.
struct Sharing {
  std::uint32_t written = 0;                         ///< the owner's clock
  std::vector<std::pair<Rank, std::uint32_t>> read;  ///< reader, its clock
};

/// Of well-formed programs.
class ReplayMemory {
 public:
  ReplayMemory(const Lowered& lowered, std::uint32_t slices);

  /// Chunks of a rank's buffers.
  [[nodiscard]] std::uint32_t input_chunks(Rank rank) const;
  [[nodiscard]] std::uint32_t output_chunks(Rank rank) const;

  /// The number, among the cells of the rank that owns it, of a piece that `rank` names in a call;
  /// not for kPublished and kPeerOutput.
  [[nodiscard]] std::size_t index(Rank rank, const Operand& operand, std::uint32_t piece,
                                  std::uint64_t slice, std::uint32_t call) const;
  [[nodiscard]] Cell& cell(Rank owner, std::size_t index) { return ranks_[owner].cells[index]; }
  /// Of a cell in a slot.
  [[nodiscard]] Sharing& sharing(Rank owner, std::size_t index) {
    return ranks_[owner].shared[index - ranks_[owner].slots_begin];
  }
  /// A chunk of a rank's input or output, in-place aliases folded together.
  [[nodiscard]] Cell& user(Rank rank, ProgramMemory memory, std::uint32_t chunk,
                           std::uint64_t slice) {
    return cell(rank, user_index(rank, memory, chunk, slice));
  }
  [[nodiscard]] const Cell& user(Rank rank, ProgramMemory memory, std::uint32_t chunk,
                                 std::uint64_t slice) const {
    return ranks_[rank].cells[user_index(rank, memory, chunk, slice)];
  }

  /// What a chunk of a rank's input holds as a call begins.
  [[nodiscard]] Value input(Rank rank, std::uint32_t chunk, std::uint64_t slice,
                            std::uint32_t call) const;
  /// Value::origin of what the collective promises in an output chunk.
  [[nodiscard]] std::uint64_t promised(Rank rank, std::uint32_t chunk) const;

 private:
  struct RankMemory {
    std::vector<Cell> cells;      ///< user memory, then scratch, then slots
    std::vector<Sharing> shared;  ///< of the slots
    std::size_t scratch_begin = 0;
    std::size_t slots_begin = 0;
  };
  [[nodiscard]] std::size_t user_index(Rank rank, ProgramMemory memory, std::uint32_t chunk,
                                       std::uint64_t slice) const;
  [[nodiscard]] std::size_t slot_index(const Operand& operand, std::uint32_t piece,
                                       std::uint64_t slice, std::uint32_t call) const;
  [[nodiscard]] std::uint64_t origin(Rank rank, std::uint32_t chunk) const;

  const Lowered& lowered_;
  const std::uint64_t slices_;
  std::vector<RankMemory> ranks_;
};

}  // namespace tutti::lower
