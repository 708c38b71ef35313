// One rank's end of a tree that is a group of a CollNet plugin.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "src/base/clock.hpp"
#include "src/plugin/collnet_plugin.hpp"
#include "src/transport/aggregation.hpp"
#include "src/transport/tree_abilities.hpp"
#include "transports/collnet/bounce_memory.hpp"
#include "transports/collnet/collnet_steps.hpp"
#include "transports/collnet/member_watch.hpp"

namespace tutti::collnet {

struct CollnetTreeOptions {
  std::shared_ptr<plugin::CollNetGroup> group;
  BounceMemory memory;
  MemberWatch watch;
  TreeAbilities abilities;  ///< as all ranks agreed
  StepLimits limits;
};

/// See AggregationTree. Parts are done one after the other, in steps; up to kSlots steps are under
/// way if the plugin takes as many. A step that the plugin has no room for is tried again by the
/// next progress(). Nothing moves but there, and no descriptor tells that there is something to do.
///
/// An error of the plugin breaks the tree, and so does a member that gives up. What the plugin has
/// under way then stays with it, and so do the group and its memory, for good: a request cannot be
/// cancelled. Resource.
class CollnetTree final : public AggregationTree {
 public:
  explicit CollnetTree(CollnetTreeOptions options) : options_(std::move(options)) {}
  ~CollnetTree() override;

  void post(const TreePart& part, Transfer& transfer) override;
  void cancel() override;
  bool progress() override;
  [[nodiscard]] int poll_fd() const override { return -1; }
  [[nodiscard]] bool wants_write() const override { return false; }
  [[nodiscard]] bool adds(DataType type, ReduceOp op) const override {
    return options_.abilities.adds(type, op);
  }
  [[nodiscard]] bool does(TreeForm form) const override { return options_.abilities.does(form); }
  [[nodiscard]] Status health() const override { return health_; }

 private:
  struct Posted {
    Steps steps;
    Transfer* transfer = nullptr;
    std::size_t unfinished = 0;  ///< steps that are prepared or under way
  };
  /// A step from when its data is copied to the slot until its result is copied out.
  struct Slot {
    Posted* posted = nullptr;
    Step step;
    std::optional<plugin::Request> request;  ///< nothing: not taken by the plugin yet
  };

  Status test();
  bool deliver();
  bool prepare();
  Result<bool> issue();
  Result<std::optional<plugin::Request>> ask(const Slot& slot, std::size_t number);
  [[nodiscard]] Slot& slot(std::size_t number) { return slots_[number % kSlots]; }
  void check_watch();
  void break_off(Error why);

  CollnetTreeOptions options_;
  std::deque<Posted> posted_;
  /// Steps are numbered. Those from delivered_ to issued_ are with the plugin, those up to
  /// prepared_ are about to be.
  std::array<Slot, kSlots> slots_;
  std::uint64_t delivered_ = 0, issued_ = 0, prepared_ = 0;
  Status health_ = ok_status();
  TimePoint watched_;
  std::uint64_t parts_ = 0;
};

}  // namespace tutti::collnet
