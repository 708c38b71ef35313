// A collective as a stream of chunks, as one worker sees it.
//
// All workers take part in every chunk, because that is what frees the slots (slot_mark.hpp). What
// differs is who has values for a chunk, and who wants those of the result:
//
//   collective       blocks   values from        wanted by        values sent, received by a worker
//   all-reduce       1        all                all              C, C
//   reduce           1        all                root             C, C if it is the root
//   broadcast        1        root               all others       C if it is the root, else C
//   reduce-scatter   n        all                block's owner    n * C, C
//   all-gather       n        block's owner      all others       C, (n - 1) * C
//
// C is the number of chunks of a block: its bytes by 1408, rounded up, where floats that are added
// have the bytes of the integers that they travel as. Each member sends one packet for each chunk
// of each block, and gets one. Those that the table does not count have no values and 64 bytes.
//
// Float sums begin with min(S, chunks of all blocks) chunks without values, S being the slots of
// the session. Chunk i of the operation carries the exponent of its values' chunk i.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/switch/exponents.hpp"
#include "src/switch/packet.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::in_network {

struct Operation {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< unused where nothing is reduced
  /// Sums of floats: of the integers that they travel as (exponents.hpp): 32, 16 or 8.
  unsigned bits = 32;
  float factor = 1;        ///< the same: of this member's values
  std::uint64_t call = 0;  ///< a hash of what else members must agree about
  Rank root = 0;           ///< of kReduce and kBroadcast
  std::size_t count = 0;   ///< elements of a block
  /// What this member contributes, if it does: one block, n blocks for kReduceScatter. It must
  /// not change until the operation ends.
  const std::byte* input = nullptr;
  /// Where this member wants the result, if it does: one block, n blocks for kAllGather. May be
  /// `input` for kAllReduce, kReduce and kBroadcast: a result is written where the contribution is
  /// no longer needed. But then an operation that fails or is not finite has spoiled its input.
  std::byte* output = nullptr;
};

/// kUnsupported, with the reason, for what switches do not do for so many members: integers have
/// sum, min and max, float32, float16 and bfloat16 have sum; every type can be moved.
Status supported(const Operation& operation, unsigned members);

/// Who a worker is among all members of the job, also those of other leaves of a tree.
struct Member {
  unsigned number = 0;
  unsigned of = 1;  ///< at most kMostMembers
};

/// The chunks of one operation for one member. Value.
class OperationChunks {
 public:
  OperationChunks() = default;
  /// `operation` is supported(). `sequence` counts the session's operations.
  OperationChunks(const Operation& operation, const Member& member, std::uint32_t slots,
                  std::uint64_t sequence);

  /// What one chunk is to this member.
  struct Piece {
    std::uint16_t count = 0;           ///< lanes; 0 where only exponents travel
    std::size_t bytes = 0;             ///< in memory
    const std::byte* input = nullptr;  ///< null: contributes no values
    std::byte* output = nullptr;       ///< null: does not want them
  };
  /// Chunk `index` of size().
  [[nodiscard]] Piece piece(std::uint64_t index) const;
  /// Chunks, those without values included.
  [[nodiscard]] std::uint64_t size() const { return leading_ + values_; }
  /// Chunks that carry exponents alone.
  [[nodiscard]] std::uint64_t leading() const { return leading_; }

  [[nodiscard]] bool is_scaled() const { return is_scaled_; }
  /// What sums of floats travel as.
  [[nodiscard]] float factor() const { return operation_.factor; }
  [[nodiscard]] Fixed fixed() const { return {.members = member_.of, .bits = operation_.bits}; }
  /// The exponent code that chunk `index` carries.
  [[nodiscard]] Exponent exponent_carried(std::uint64_t index) const;

  [[nodiscard]] Lanes lanes() const { return lanes_; }
  [[nodiscard]] DataType type() const { return operation_.type; }
  [[nodiscard]] std::uint32_t call() const { return call_; }
  /// Copies this member's own part to its output, where no result will bring it.
  void copy_own() const;

 private:
  [[nodiscard]] bool owns(std::uint64_t block) const;
  [[nodiscard]] Piece values_of(std::uint64_t index) const;

  Operation operation_;
  Member member_;
  Lanes lanes_ = Lanes::kWords;
  std::uint32_t call_ = 0;
  std::uint64_t leading_ = 0;
  std::uint64_t values_ = 0;  ///< chunks that carry values
  std::uint64_t chunks_per_block_ = 1;
  std::size_t block_bytes_ = 0;
  std::size_t chunk_bytes_ = 0;  ///< of a full chunk, in memory
  bool is_scaled_ = false;
};

}  // namespace tutti::in_network
