// Where the chunks of a call lie in the ranks' buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/ir/blocks.hpp"
#include "src/lower/program.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

/// How much a call moves.
struct Volume {
  /// Elements of one block; with `blocks`, of all blocks together.
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  /// Null if all blocks have one size; else for collectives that ir::may_be_uneven().
  std::shared_ptr<const ir::Blocks> blocks = nullptr;

  [[nodiscard]] std::size_t bytes(std::size_t elements) const { return elements * size_of(type); }
};

/// Elements of a rank's buffers, without gaps between blocks.
struct BufferElements {
  std::size_t input = 0, output = 0;
};
BufferElements buffer_elements(const ir::Request& request, const Volume& volume, Rank rank);

/// Value. All numbers are in elements. Chunks are those of the lowered program.
class ChunkPlaces {
 public:
  /// As rank `self` sees it.
  ChunkPlaces(const lower::Lowered& lowered, const Volume& volume, Rank self);

  /// Length of whatever is as long as chunk `like` (lower::Op::like).
  [[nodiscard]] std::size_t size(std::uint32_t like) const { return sizes_[like]; }
  [[nodiscard]] std::size_t longest() const { return longest_; }
  /// Offset from the start of this rank's input, or output.
  [[nodiscard]] std::size_t in_input(std::uint32_t chunk) const { return inputs_[chunk]; }
  [[nodiscard]] std::size_t in_output(std::uint32_t chunk) const { return outputs_[chunk]; }
  /// The same in the buffer of rank `owner`. Other ranks do not know its gaps, so it counts as
  /// packed.
  [[nodiscard]] std::size_t in_packed(ir::Space space, Rank owner, std::uint32_t chunk) const;

  [[nodiscard]] bool uneven() const { return uneven_; }
  /// Pieces of this rank's input. Published copies of them follow each other without gaps.
  struct Stretch {
    std::size_t from = 0, to = 0, size = 0;
  };
  [[nodiscard]] const std::vector<Stretch>& input_stretches() const { return stretches_; }

 private:
  void place_even(const Volume& volume);
  void place_uneven(const Volume& volume, Rank self);

  ir::Request request_;
  std::uint32_t chunks_per_block_;
  bool uneven_;
  std::size_t longest_ = 0;
  std::vector<std::size_t> sizes_;             // lengths of the chunks of all blocks
  std::vector<std::size_t> packed_;            // their offsets without gaps; empty: as inputs_
  std::vector<std::size_t> inputs_, outputs_;  // offsets of this rank's chunks
  std::vector<Stretch> stretches_;
};

}  // namespace tutti::exec
