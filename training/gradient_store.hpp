// Where a rank keeps its gradients, and how they reach the ranks that take the step. Gradients are
// whole, or in windows from which they go to their owners. It also keeps the sums over all ranks
// and passes of the shards that this rank owns.
//
// A group whose gradients are all ready is sent while the caller goes on. Groups are sent strictly
// in one order, so all ranks make the same calls, in whatever order their gradients come (Li et
// al., PyTorch Distributed, VLDB 2020, section 3.2). The order of buckets is the layout's; units go
// from the last to the first. A group whose turn has not come keeps its window. If all windows are
// taken, one more is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/gradient_wire.hpp"
#include "training/pass.hpp"
#include "training/pass_sums.hpp"
#include "training/plan.hpp"
#include "training/slab.hpp"
#include "training/step_guard.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

/// One rank's store. One thread at a time. Resource.
class GradientStore {
 public:
  /// `rank` is this one's among all; `reductions` are the ranks that share shards, `replicas` those
  /// with the same shard. Both must outlive the store.
  static Result<GradientStore> create(const Plan& plan, Rank rank, Comm& reductions, Comm& replicas,
                                      StepGuard& guard);

  /// See Engine: begin_backward(), gradient(), ready(), ready_without(), end_backward().
  Status begin(bool is_last);
  Result<GradientPlace> place(ParameterId id);
  Status ready(ParameterId id);
  Status ready_without(ParameterId id);
  Status finish();
  /// Parameters that are not ready in this pass.
  [[nodiscard]] std::vector<ParameterId> missing() const;

  /// Whether no step has begun.
  [[nodiscard]] bool is_idle() const { return !is_open_ && pass_ == 0; }
  /// Whether the last pass of a step is over; until clear().
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  /// If is_complete(): the sums over all ranks and passes of this rank's shard of a group.
  [[nodiscard]] std::span<float> sums(GroupId group);
  /// Ends the step. `undone`: nothing came of it.
  Status clear(bool undone);

  [[nodiscard]] GradientWire& wire() { return wire_; }
  [[nodiscard]] const GradientWire& wire() const { return wire_; }
  [[nodiscard]] std::size_t bytes() const { return whole_.data().size() + sums_.bytes(); }
  [[nodiscard]] std::size_t window_bytes() const;

 private:
  struct Window {
    Slab memory;
    Stream stream;
    std::optional<GroupId> group;  ///< the group whose gradients it holds; empty: free
    std::uint64_t sent = 0;        ///< number of its send, counted from 1; 0: not sent yet
  };
  GradientStore(const Plan& plan, Comm& reductions, Comm& replicas, StepGuard& guard,
                GradientWire wire, Stream stream, Stream replica_stream);

  Status make_memory();
  Status add_window();
  [[nodiscard]] GroupId group_at(GroupId place) const;
  Window& window_of(GroupId group);
  [[nodiscard]] bool sends_now() const { return is_last_ || plan_.sends_every_pass(); }
  [[nodiscard]] std::span<std::byte> buffer(GroupId group) const;
  [[nodiscard]] std::span<std::byte> own(GroupId group) const;
  Status check_open(ParameterId id) const;
  Status make_room(GroupId group);
  Window* sent_first();
  Status send(GroupId group, Stream& stream);
  Status send_what_is_ready();
  Status keep(GroupId group);
  Status settle(Window& window);
  void clear_padding();
  [[nodiscard]] Status all_are_ready() const;

  Plan plan_;
  Comm* reductions_;
  Comm* replicas_;
  StepGuard* guard_;
  // Memory comes before the streams that use it, so the streams end first.
  Slab whole_;                       ///< all groups, one after another
  std::vector<std::size_t> begins_;  ///< offset of each group in it, in elements
  PassSums sums_;
  GradientWire wire_;
  Stream stream_, replica_stream_;
  std::vector<Window> windows_;
  std::uint64_t sent_ = 0;

  bool is_open_ = false, is_last_ = false, is_complete_ = false;
  int pass_ = 0;                      ///< index within the step of the current or next pass
  std::vector<bool> is_ready_;        ///< by parameter, in this pass
  std::vector<bool> is_written_;      ///< by parameter: its place holds a gradient
  std::vector<std::size_t> unready_;  ///< by group: number of parameters
  GroupId sent_groups_ = 0;           ///< number sent in this pass
};

}  // namespace tutti::training
