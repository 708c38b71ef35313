#include "transports/collnet/group_setup.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "src/base/own_thread.hpp"
#include "src/base/result.hpp"

namespace tutti::collnet {
namespace {

using SharedGroup = std::shared_ptr<plugin::CollNetGroup>;

/// Shared by a rank and the thread that waits in its plugin.
struct Attempt {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<Result<SharedGroup>> outcome;
};

/// Whether the attempt ends within `patience`.
bool ends_within(Attempt& attempt, Nanos patience) {
  std::unique_lock lock(attempt.mutex);
  return attempt.ended.wait_for(lock, patience, [&] { return attempt.outcome.has_value(); });
}

/// What the group does of what trees are asked for.
Result<TreeAbilities> abilities_of(const plugin::CollNetGroup& group) {
  TreeAbilities abilities;
  for (int number = 0; number < kDataTypes; ++number)
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      const auto type = static_cast<DataType>(number);
      TUTTI_ASSIGN(const bool supported, group.supports({type, op}));
      if (supported) abilities.add(type, op);
    }
  for (const TreeForm form : {TreeForm::kSumToAll, TreeForm::kSumToOne, TreeForm::kSumInParts})
    abilities.add(form);
  if (group.gathers()) abilities.add(TreeForm::kFromAll);
  return abilities;
}

}  // namespace

Result<GroupSetup> GroupSetup::listen(const SharedPlugin& plugin, int device,
                                      const InterfaceChoice& interfaces, std::size_t group,
                                      std::size_t place) {
  GroupSetup setup;
  setup.group_ = group;
  setup.place_ = place;
  TUTTI_ASSIGN(setup.listener_, plugin->listen(device));
  setup.seat_.handle = setup.listener_->address();
  if (place != 0) return setup;
  TUTTI_ASSIGN(const SocketAddress address, choose_address(interfaces));
  TUTTI_ASSIGN(setup.watch_listener_, listen_on(address));
  TUTTI_ASSIGN(setup.seat_.watch, local_address(setup.watch_listener_.get()));
  return setup;
}

Status GroupSetup::watch(const WatchSecret& secret, const std::vector<Seat>& members,
                         Deadline deadline) {
  members_ = members.size();
  if (place_ == 0) {
    TUTTI_ASSIGN(watch_, meet_others(watch_listener_.get(), secret, members_, deadline));
  } else {
    TUTTI_ASSIGN(watch_, meet_first(members.front().watch, secret, place_, deadline));
  }
  watch_listener_.reset();
  return ok_status();
}

Status GroupSetup::connect(const SharedPlugin& plugin, const std::vector<Seat>& members,
                           Deadline deadline) {
  std::vector<plugin::Handle> handles;
  for (const Seat& member : members) handles.push_back(member.handle);
  const auto attempt = std::make_shared<Attempt>();
  TUTTI_ASSIGN(std::thread waiting,
               start_own_thread("a thread for the plugin",
                                [attempt, plugin, listener = listener_,
                                 handles = std::move(handles), place = static_cast<int>(place_)] {
                                  auto outcome = plugin->connect(*listener, handles, place);
                                  const std::scoped_lock lock(attempt->mutex);
                                  attempt->outcome = std::move(outcome);
                                  attempt->ended.notify_one();
                                }));
  constexpr Nanos kLookAgain = std::chrono::milliseconds(10);
  while (!ends_within(*attempt, kLookAgain)) {
    const bool alone = watch_.is_broken();
    if (!alone && !deadline.passed()) continue;
    waiting.detach();
    if (!alone) return make_error(Code::kUnavailable, "{} does not connect in time", plugin->who());
    return make_error(Code::kPeerFailed, "another member of the group has given up");
  }
  waiting.join();
  listener_.reset();
  TUTTI_ASSIGN(plugin_group_, *std::move(attempt->outcome));
  return ok_status();
}

Result<Terms> GroupSetup::prepare() {
  TUTTI_ASSIGN(memory_, BounceMemory::create(*plugin_group_));
  Terms terms;
  TUTTI_ASSIGN(terms.abilities, abilities_of(*plugin_group_));
  terms.most_bytes = std::min(plugin_group_->most_bytes(), plugin_group_->most_elements());
  if (terms.most_bytes < kLeastStepBytes)
    return make_error(Code::kUnsupported, "{} takes {} bytes at once, which is too little",
                      plugin_group_->plugin().who, terms.most_bytes);
  terms.scatters = plugin_group_->scatters();
  return terms;
}

std::unique_ptr<AggregationTree> GroupSetup::finish(const Terms& terms) {
  return std::make_unique<CollnetTree>(CollnetTreeOptions{
      .group = std::move(plugin_group_),
      .memory = *std::move(memory_),
      .watch = std::move(watch_),
      .abilities = terms.abilities,
      .limits = {.members = members_,
                 .place = place_,
                 .most_bytes = std::min<std::size_t>(terms.most_bytes, kSlotBytes),
                 .scatters = terms.scatters}});
}

}  // namespace tutti::collnet
