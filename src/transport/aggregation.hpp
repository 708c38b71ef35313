// Reduction in the network, as a rank sees it. Interfaces only.
//
// A tree of the network joins the ranks of a group (src/ir/schedule.hpp), its members. All take
// part in each operation: the k-th part that each member posts belongs to the k-th operation. The
// network adds in any order.
//
// An operation is a range of bytes. A member contributes some of it and gets some of it. In a sum
// all members contribute all of it; in a multicast each byte has one sender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// What an operation does.
enum class TreeForm : std::uint8_t {
  kSumToAll,
  kSumToOne,    ///< only `root` gets it
  kSumInParts,  ///< each member gets its part: they follow each other by place
  kFromOne,     ///< a multicast of `root`'s data
  kFromAll,     ///< of all members' data, which follow each other by place
};

/// A member's part in an operation. The memory is the caller's until the transfer is done. A result
/// may replace the very bytes that it comes from.
struct TreePart {
  TreeForm form = TreeForm::kSumToAll;
  std::size_t root = 0;  ///< place in the group, if the form names one
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  /// Of the integers that the values of sums of floats travel as. 32, which is as good as floats,
  /// or fewer, not below the tree's least_bits().
  unsigned bits = 32;
  float factor = 1;        ///< of this member's values, in sums of floats with fewer than 32 bits
  std::uint64_t call = 0;  ///< a hash of the call: members that make different ones must not add up
  std::size_t bytes = 0;   ///< of the operation; the same on all members
  std::size_t first_sent = 0;      ///< where in the operation the sources begin
  std::size_t first_received = 0;  ///< and the destinations
  /// One after the other in the operation. The spans themselves are read while posting alone. Where
  /// all members contribute, and where each gets a part, all come in equally many pieces of it.
  std::span<const std::span<const std::byte>> sources = {};
  std::span<const std::span<std::byte>> destinations = {};
};

/// One rank's end of a tree. Resource. Used by one thread at a time.
///
/// A tree that breaks stays broken: it completes what is posted, now and later, without a promise
/// about the results. It takes no part in later operations, and the other members' ends, which miss
/// it there, break as well. So no member waits for the network. Members tell each other afterwards
/// (src/comm) and call again without it.
class AggregationTree {
 public:
  virtual ~AggregationTree() = default;

  /// Never blocks. `transfer` is the caller's, as for Connection::send. It never fails.
  virtual void post(const TreePart& part, Transfer& transfer) = 0;
  /// Afterwards nothing touches what is posted, and the tree is broken.
  virtual void cancel() = 0;
  /// Moves data as far as it can without waiting. Returns whether anything moved.
  virtual bool progress() = 0;
  /// As Connection::poll_fd() and wants_write().
  [[nodiscard]] virtual int poll_fd() const = 0;
  [[nodiscard]] virtual bool wants_write() const = 0;
  /// Whether it adds this with this operator.
  [[nodiscard]] virtual bool adds(DataType type, ReduceOp op) const = 0;
  /// The fewest TreePart::bits: 32, 16 or 8.
  [[nodiscard]] virtual unsigned least_bits() const { return 32; }
  /// Whether it takes operations of this form; others break it.
  [[nodiscard]] virtual bool does(TreeForm /*form*/) const { return true; }
  /// Ok, or why it is broken.
  [[nodiscard]] virtual Status health() const = 0;
  /// A member, by its place, whose part the network waits for; none if it does not know.
  [[nodiscard]] virtual std::optional<std::size_t> awaited() const { return std::nullopt; }
  /// Whether an operation since the last call had no result although the tree is sound, since it
  /// adds no such values: NaN, for instance. The same on all members.
  virtual bool take_unsummed() { return false; }
};

struct TreesRequest {
  std::vector<std::vector<Rank>> groups;  ///< at least one
  Rank rank = 0;
  std::int32_t ranks = 1;
  std::uint64_t communicator = 0;
  std::span<const std::byte> key;  ///< 32 secret bytes that all ranks share
  /// The control plane's all-gather: every rank gets the bytes of every rank.
  std::function<Result<std::vector<Blob>>(std::span<const std::byte>)> all_gather;
  Deadline deadline;
};

/// What makes trees: a switch, or a plugin of NCCL. One per process. Thread-safe.
class Aggregation {
 public:
  virtual ~Aggregation() = default;
  /// For logs: "switch 10.0.0.9:7000".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Whether join() may succeed again after trees broke.
  [[nodiscard]] virtual bool comes_back() const { return false; }
  /// Whether it may succeed now. Does not wait; may say no for a while after it could say yes.
  virtual bool may_be_back() { return false; }
  /// Collective over the ranks, whose requests are the same but for `rank`. A tree for each group
  /// that this rank is a member of, and null for the others. kUnavailable or kUnsupported, perhaps
  /// on some ranks alone, where there is none; other errors if the control plane fails.
  virtual Result<std::vector<std::unique_ptr<AggregationTree>>> join(
      const TreesRequest& request) = 0;
};

}  // namespace tutti
