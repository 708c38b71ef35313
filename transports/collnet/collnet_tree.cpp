#include "transports/collnet/collnet_tree.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::collnet {
namespace {

void done(Transfer& transfer) {
  transfer.state.store(Transfer::State::kDone, std::memory_order_release);
}

bool is_sum(TreeForm form) { return form <= TreeForm::kSumInParts; }

}  // namespace

void CollnetTree::post(const TreePart& part, Transfer& transfer) {
  const bool takes = does(part.form) && (!is_sum(part.form) || adds(part.type, part.op));
  if (!takes)
    break_off(make_error(Code::kUnsupported, "{} was asked for what it does not do",
                         options_.group->plugin().who));
  if (!health_ || part.bytes == 0) return done(transfer);
  transfer.state.store(Transfer::State::kPending, std::memory_order_relaxed);
  posted_.push_back({Steps(part, options_.limits), &transfer, 0});
  ++parts_;
  progress();
}

void CollnetTree::cancel() { break_off(make_error(Code::kAborted, "the call was cancelled")); }

bool CollnetTree::progress() {
  if (!health_) return false;
  if (Status tested = test(); !tested) {
    break_off(std::move(tested).error());
    return true;
  }
  bool moved = deliver();
  while (prepare()) moved = true;
  auto issued = issue();
  if (!issued) {
    break_off(std::move(issued).error());
    return true;
  }
  moved |= *issued;
  if (!moved) check_watch();
  return moved;
}

/// Everything that is with the plugin: only this moves data.
Status CollnetTree::test() {
  for (std::uint64_t number = delivered_; number < issued_; ++number) {
    plugin::Request& request = *slot(number).request;
    if (request.is_over()) continue;
    TUTTI_TRY(request.test());
  }
  return ok_status();
}

/// Results are copied out in order.
bool CollnetTree::deliver() {
  bool any = false;
  while (delivered_ < issued_ && slot(delivered_).request->is_over()) {
    Slot& first = slot(delivered_);
    Posted& posted = *first.posted;
    const auto result =
        options_.memory.receive(delivered_ % kSlots, posted.steps.received_bytes(first.step));
    posted.steps.deliver(first.step, result.bytes);
    first = {};
    ++delivered_;
    any = true;
    if (--posted.unfinished > 0 || posted.steps.has_next()) continue;
    done(*posted.transfer);  // the oldest, since steps are in order
    posted_.pop_front();
  }
  return any;
}

/// Copies the data of one more step into its slot.
bool CollnetTree::prepare() {
  if (prepared_ - delivered_ == kSlots) return false;
  const auto next =
      std::ranges::find_if(posted_, [](const Posted& each) { return each.steps.has_next(); });
  if (next == posted_.end()) return false;
  Slot& free = slot(prepared_);
  free = {&*next, next->steps.take(), std::nullopt};
  const auto send = options_.memory.send(prepared_ % kSlots, next->steps.sent_bytes(free.step));
  next->steps.fill(free.step, send.bytes);
  ++next->unfinished;
  ++prepared_;
  return true;
}

/// Gives the plugin what is prepared, as far as it takes it.
Result<bool> CollnetTree::issue() {
  bool any = false;
  for (; issued_ < prepared_; ++issued_) {
    Slot& next = slot(issued_);
    TUTTI_ASSIGN(next.request, ask(next, issued_ % kSlots));
    if (!next.request) break;
    any = true;
  }
  return any;
}

Result<std::optional<plugin::Request>> CollnetTree::ask(const Slot& slot, std::size_t number) {
  const Steps& steps = slot.posted->steps;
  const auto send = options_.memory.send(number, steps.sent_bytes(slot.step));
  const auto receive = options_.memory.receive(number, steps.received_bytes(slot.step));
  plugin::CollNetGroup& group = *options_.group;
  switch (slot.step.kind) {
    case Step::Kind::kAllReduce:
      return group.all_reduce(send, receive, steps.reduction());
    case Step::Kind::kReduceScatter:
      return group.reduce_scatter(send, receive, slot.step.window, steps.reduction());
    case Step::Kind::kAllGather:
      break;
  }
  return group.all_gather(send, receive, slot.step.window);
}

void CollnetTree::check_watch() {
  constexpr Nanos kEvery = std::chrono::milliseconds(2);
  const TimePoint now = Clock::now();
  if (now - watched_ < kEvery) return;
  watched_ = now;
  if (options_.watch.is_broken())
    break_off(make_error(Code::kUnavailable,
                         "another member of a group of {} has given up, or has left",
                         options_.group->plugin().who));
}

void CollnetTree::break_off(Error why) {
  if (!health_) return;
  health_ = std::move(why);
  options_.watch.close();  // so the other members learn of it
  slots_ = {};             // requests under way keep the group and its memory
  for (const Posted& posted : std::exchange(posted_, {})) done(*posted.transfer);
}

CollnetTree::~CollnetTree() {
  log_info(Subsystem::kNet, "", "{}: {} operations in {} steps", options_.group->plugin().who,
           parts_, delivered_);
}

}  // namespace tutti::collnet
