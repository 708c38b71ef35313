// How one rank comes into its group of a CollNet plugin, step by step. Between the steps, all ranks
// tell each other how far they got: a plugin's connect() waits for all members with no deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/plugin/collnet_plugin.hpp"
#include "src/transport/aggregation.hpp"
#include "src/wire/net.hpp"
#include "transports/collnet/bounce_memory.hpp"
#include "transports/collnet/collnet_tree.hpp"
#include "transports/collnet/join_message.hpp"
#include "transports/collnet/member_watch.hpp"

namespace tutti::collnet {

using SharedPlugin = std::shared_ptr<const plugin::CollNetPlugin>;

/// One rank's place in a group, until there is a tree. Resource.
class GroupSetup {
 public:
  /// Listens for the plugin, and as the first member for the others' watches. `group` is the number
  /// in `request.groups`, and `place` this rank's in it.
  static Result<GroupSetup> listen(const SharedPlugin& plugin, int device,
                                   const InterfaceChoice& interfaces, std::size_t group,
                                   std::size_t place);

  [[nodiscard]] std::size_t group() const { return group_; }
  [[nodiscard]] std::size_t place() const { return place_; }
  [[nodiscard]] const Seat& seat() const { return seat_; }

  /// Connects the members' watches.
  Status watch(const WatchSecret& secret, const std::vector<Seat>& members, Deadline deadline);
  /// The plugin's connect(), on a thread of its own. At the deadline, and if another member gives
  /// up (kPeerFailed), the thread is left alone with the plugin.
  Status connect(const SharedPlugin& plugin, const std::vector<Seat>& members, Deadline deadline);
  /// So the other members learn that this one does not go on.
  void give_up() { watch_.close(); }

  /// What the group can do, and its memory. After connect().
  Result<Terms> prepare();
  /// After all ranks have agreed on `terms`.
  std::unique_ptr<AggregationTree> finish(const Terms& terms);

 private:
  GroupSetup() = default;

  std::size_t group_ = 0, place_ = 0, members_ = 0;
  Seat seat_;
  Fd watch_listener_;
  std::shared_ptr<plugin::CollNetListener> listener_;
  MemberWatch watch_;
  std::shared_ptr<plugin::CollNetGroup> plugin_group_;
  std::optional<BounceMemory> memory_;
};

}  // namespace tutti::collnet
