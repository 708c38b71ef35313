// Where the chunks of a call lie in the buffers of its ranks.
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
  /// Elements of one block; with `blocks`, of all of them.
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  /// Null where they have one size; else ir::may_be_uneven().
  std::shared_ptr<const ir::Blocks> blocks = nullptr;

  [[nodiscard]] std::size_t bytes(std::size_t elements) const { return elements * size_of(type); }
};

/// Elements of a rank's buffers; gaps between blocks are not counted.
struct BufferElements {
  std::size_t input = 0, output = 0;
};
BufferElements buffer_elements(const ir::Request& request, const Volume& volume, Rank rank);

/// Value; all in elements. Chunks are those of the lowered program.
class ChunkPlaces {
 public:
  /// As seen by rank `self`.
  ChunkPlaces(const lower::Lowered& lowered, const Volume& volume, Rank self);

  /// Of what is as long as chunk `like` (lower::Op::like).
  [[nodiscard]] std::size_t size(std::uint32_t like) const { return sizes_[like]; }
  [[nodiscard]] std::size_t longest() const { return longest_; }
  /// From the start of this rank's input, or output.
  [[nodiscard]] std::size_t in_input(std::uint32_t chunk) const { return inputs_[chunk]; }
  [[nodiscard]] std::size_t in_output(std::uint32_t chunk) const { return outputs_[chunk]; }
  /// The same for another rank's, of which nobody else knows gaps: as if there were none.
  [[nodiscard]] std::size_t in_packed(ir::Space space, Rank owner, std::uint32_t chunk) const;

  [[nodiscard]] bool uneven() const { return uneven_; }
  /// Stretches of this rank's input, which follow each other without gaps where it is published.
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
  std::vector<std::size_t> sizes_;             // of the chunks of all blocks
  std::vector<std::size_t> packed_;            // where they begin without gaps; empty: inputs_
  std::vector<std::size_t> inputs_, outputs_;  // where this rank's chunks begin
  std::vector<Stretch> stretches_;
};

}  // namespace tutti::exec
