// From a member's part in an operation of a tree to operations of a CollNet plugin, which are
// small, contiguous and of the plugin's three kinds.
//
//   form           with                        without
//   sum to all     iallreduce
//   sum to one     iallreduce; others drop it
//   sum in parts   ireducescatter              iallreduce, of which each cuts out its part
//   from all       iallgather                  -
//   from one       -
//
// Parts of unequal size are cut out of an all-reduce as well. In an all-gather, shorter blocks are
// padded to the longest one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/plugin/collnet_plugin.hpp"
#include "src/transport/aggregation.hpp"
#include "transports/collnet/pieces.hpp"

namespace tutti::collnet {

/// Of a group: the same on all members but for `place`.
struct StepLimits {
  std::size_t members = 1;
  std::size_t place = 0;
  std::size_t most_bytes = 0;  ///< of a step; at least kLeastStepBytes
  bool scatters = false;       ///< all members' plugins have ireducescatter
};
/// Holds an element of every type.
inline constexpr std::size_t kLeastStepBytes = 64;

/// One operation of the plugin. Value.
struct Step {
  enum class Kind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };
  Kind kind = Kind::kAllReduce;
  /// Of the whole vector. In an all-gather it has all blocks padded to one size.
  plugin::Window window;
};

/// The steps of one part, in the same order on all members. A resource in that it keeps pointers
/// to the caller's memory; it does no input or output.
class Steps {
 public:
  /// `part.form` is not kFromOne.
  Steps(const TreePart& part, const StepLimits& limits);

  [[nodiscard]] const plugin::Reduction& reduction() const { return reduction_; }
  [[nodiscard]] bool has_next() const { return next_ < length_; }
  /// Takes the next one. Only if has_next().
  Step take();

  /// What a step sends and receives here.
  [[nodiscard]] std::size_t sent_bytes(const Step& step) const;
  [[nodiscard]] std::size_t received_bytes(const Step& step) const;
  /// Copies the caller's data to `send`, of sent_bytes().
  void fill(const Step& step, std::span<std::byte> send) const;
  /// Copies results from `received`, of received_bytes(), to where they are wanted.
  void deliver(const Step& step, std::span<const std::byte> received) const;

 private:
  /// This member's stretch of a window.
  struct Stretch {
    std::size_t begin = 0, end = 0;
  };
  [[nodiscard]] Stretch own(const Step& step) const;
  void sum_in_parts(const TreePart& part);
  void from_all(const TreePart& part);
  void put(std::size_t from, std::span<const std::byte> data) const;

  const StepLimits limits_;
  const plugin::Reduction reduction_;
  const Pieces<const std::byte> sources_;
  const Pieces<std::byte> destinations_;
  Step::Kind kind_ = Step::Kind::kAllReduce;
  std::size_t step_bytes_;
  std::size_t length_;               // of the whole vector
  std::size_t block_ = 0;            // of each member, with padding
  std::vector<std::size_t> begins_;  // from all: where each member's block begins, then the end
  std::size_t next_ = 0;
};

}  // namespace tutti::collnet
