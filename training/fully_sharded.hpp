// Parameters that no rank holds whole: each unit is gathered before it is used and given up after,
// and the sums of its gradients go to the ranks that own them. (ZeRO stage 3, Rajbhandari et al.,
// SC 2020; units as in FSDP, Zhao et al., VLDB 2023.)
//
// A unit is a group of the layout. Between uses a rank has its shard of each: parameters and sums
// of gradients, and the optimizer's state beside. Whole units lie in a fixed number of windows,
// each as long as the largest unit, so that memory is known before training begins:
//
//   floats of a rank = 2 x all shards + (parameter windows + gradient windows) x largest unit
//
// Gathers and reductions run beside the caller, each window on a stream of its own. Every rank has
// to make the same calls in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "training/flat_layout.hpp"
#include "training/slab.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

struct FullyShardedOptions {
  int parameter_windows = 2;  ///< units that may be whole at once: in use, or gathered ahead
  int gradient_windows = 2;   ///< of which gradients are computed, or on their way
};

/// One rank's. One thread at a time; nobody else uses the communicators meanwhile. Resource.
class FullySharded {
 public:
  /// The layout has as many shards as the communicators have ranks. Gathers go over the one,
  /// reductions over the other, so that they do not wait for each other; they may be the same. Both
  /// outlive it.
  static Result<std::unique_ptr<FullySharded>> create(std::shared_ptr<const FlatLayout> layout,
                                                      Comm& gathers, Comm& reductions,
                                                      const FullyShardedOptions& options = {});

  /// This rank's shard of a unit's parameters, padding included. The optimizer changes it while no
  /// window has the unit, not even ahead of time: release() it before.
  [[nodiscard]] std::span<float> shard(GroupId unit) const { return part_of(parameters_, unit); }
  /// The sums over all ranks of the gradients of that shard, over all passes since clear().
  [[nodiscard]] std::span<float> gradient_shard(GroupId unit) const {
    return part_of(gradients_, unit);
  }
  /// After finish() alone: what is on its way would be added later.
  void clear();

  /// Begins to gather a unit that will be used, if a window is free; else does nothing.
  Status prefetch(GroupId unit);
  /// All parameters of a unit, until release(). kInvalidUsage: every window is in use; names units.
  Result<std::span<const float>> use(GroupId unit);
  /// They are not used any more, or not going to be. Waits for a gather that is under way.
  Status release(GroupId unit);
  /// One parameter of a unit that is in use.
  [[nodiscard]] std::span<const float> parameter(ParameterId id) const;

  /// Where gradients of a unit are added up: zeros. Waits for a window that is on its way.
  Result<std::span<float>> begin_gradients(GroupId unit);
  [[nodiscard]] std::span<float> gradient(ParameterId id) const;
  /// They are complete: begins to send them to their owners.
  Status reduce(GroupId unit);
  /// Waits for all that were sent.
  Status finish();

  [[nodiscard]] const FlatLayout& layout() const { return *layout_; }
  /// This rank's among the shards.
  [[nodiscard]] int rank() const { return rank_; }

 private:
  struct Window {
    Slab memory;
    Stream stream;
    std::optional<GroupId> unit;  ///< that it has; none: free
    bool is_used = false;     ///< between use() and release(), or begin_gradients() and reduce()
    bool is_pending = false;  ///< something runs on its stream
    std::uint64_t sent = 0;   ///< gradients: the how many-th they were
  };
  FullySharded(std::shared_ptr<const FlatLayout> layout, Comm& gathers, Comm& reductions,
               Slab parameters, Slab gradients);

  static Result<std::vector<Window>> make_windows(const Comm& comm, int count,
                                                  std::size_t elements);
  static Window* find(std::vector<Window>& windows, std::optional<GroupId> unit);
  [[nodiscard]] std::span<float> part_of(const Slab& shards, GroupId unit) const;
  [[nodiscard]] const Window* holder(const std::vector<Window>& windows, GroupId unit) const;
  Status gather(Window& window, GroupId unit);
  Status settle(Window& window);
  Window* sent_first();
  [[nodiscard]] std::string units_in(const std::vector<Window>& windows) const;

  std::shared_ptr<const FlatLayout> layout_;
  Comm& gathers_;
  Comm& reductions_;
  const int rank_;
  Slab parameters_, gradients_;            ///< shards of all units, one after the other
  std::vector<std::size_t> shard_begins_;  ///< in those
  std::vector<Window> windows_, gradient_windows_;
  std::uint64_t sent_ = 0;  ///< reductions that were begun
};

}  // namespace tutti::training
