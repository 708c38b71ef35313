// Where a rank has its gradients, and how they get to those who step: whole, or in windows out of
// which they go to the ranks that own them; sums over all ranks and passes of what it owns.
//
// Groups whose gradients are all ready are sent beside the caller, strictly in one order, so that
// all ranks make the same calls whatever the order in which their gradients come (Li et al.,
// PyTorch Distributed, VLDB 2020, section 3.2): buckets as the layout has them, units from the last
// to the first. A group whose turn has not come keeps its window; where all are taken, there is one
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/pass.hpp"
#include "training/pass_sums.hpp"
#include "training/plan.hpp"
#include "training/slab.hpp"
#include "training/step_guard.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

/// One rank's. One thread at a time. Resource.
class GradientStore {
 public:
  /// `reductions` are the ranks that share shards, `replicas` those that have the same shard. They
  /// outlive it.
  static Result<GradientStore> create(const Plan& plan, Comm& reductions, Comm& replicas,
                                      StepGuard& guard);

  /// See Engine: begin_backward(), gradient(), ready(), ready_without(), end_backward().
  Status begin(bool is_last);
  Result<GradientPlace> place(ParameterId id);
  Status ready(ParameterId id);
  Status ready_without(ParameterId id);
  Status finish();
  /// Parameters that are not ready in this pass.
  [[nodiscard]] std::vector<ParameterId> missing() const;

  /// No step has begun.
  [[nodiscard]] bool is_idle() const { return !is_open_ && pass_ == 0; }
  /// Whether the last pass of a step is over, until clear().
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  /// Then: the sums over all ranks and passes of this rank's shard of a group.
  [[nodiscard]] std::span<float> sums(GroupId group);
  /// The step is over.
  void clear();

  [[nodiscard]] std::size_t bytes() const { return whole_.data().size() + sums_.bytes(); }
  [[nodiscard]] std::size_t window_bytes() const;

 private:
  struct Window {
    Slab memory;
    Stream stream;
    std::optional<GroupId> group;  ///< whose gradients it has; none: free
    std::uint64_t sent = 0;        ///< they are on their way: the how many-th that were; 0: not yet
  };
  GradientStore(const Plan& plan, Comm& reductions, Comm& replicas, StepGuard& guard, Stream stream,
                Stream replica_stream);

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
  [[nodiscard]] Status all_are_ready() const;

  Plan plan_;
  Comm* reductions_;
  Comm* replicas_;
  StepGuard* guard_;
  // Memory before the streams that use it, which end first.
  Slab whole_;                       ///< all groups, one after the other
  std::vector<std::size_t> begins_;  ///< of each in that, in elements
  PassSums sums_;
  Stream stream_, replica_stream_;
  std::vector<Window> windows_;
  std::uint64_t sent_ = 0;

  bool is_open_ = false, is_last_ = false, is_complete_ = false;
  int pass_ = 0;                      ///< of the step: the one that is open, or comes next
  std::vector<bool> is_ready_;        ///< by parameter, in this pass
  std::vector<bool> is_written_;      ///< by parameter: its place has a gradient
  std::vector<std::size_t> unready_;  ///< by group: parameters
  GroupId sent_groups_ = 0;           ///< in this pass
};

}  // namespace tutti::training
