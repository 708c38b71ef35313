#include "training/gradient_store.hpp"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "training/numbers.hpp"
#include "training/outcome.hpp"

namespace tutti::training {

GradientStore::GradientStore(const Plan& plan, Comm& reductions, Comm& replicas, StepGuard& guard,
                             GradientWire wire, Stream stream, Stream replica_stream)
    : plan_(plan),
      reductions_(&reductions),
      replicas_(&replicas),
      guard_(&guard),
      wire_(std::move(wire)),
      stream_(std::move(stream)),
      replica_stream_(std::move(replica_stream)),
      is_ready_(plan.layout()->table().size()),
      is_written_(plan.layout()->table().size()) {}

Result<GradientStore> GradientStore::create(const Plan& plan, Rank rank, Comm& reductions,
                                            Comm& replicas, StepGuard& guard) {
  TRAINING_ASSIGN(GradientWire wire, GradientWire::create(plan, rank, reductions, replicas, guard));
  TRAINING_ASSIGN(Stream stream, Stream::create());
  TRAINING_ASSIGN(Stream replica_stream, Stream::create());
  GradientStore store(plan, reductions, replicas, guard, std::move(wire), std::move(stream),
                      std::move(replica_stream));
  TRAINING_TRY(store.make_memory());
  return store;
}

Status GradientStore::make_memory() {
  const FlatLayout& layout = *plan_.layout();
  const std::size_t element = bytes_of(plan_.options().reduce);
  if (plan_.gradients_are_whole()) {
    std::size_t elements = 0;
    for (GroupId group = 0; group < layout.groups().size(); ++group) {
      begins_.push_back(elements);
      elements += layout.padded(group);
    }
    TRAINING_ASSIGN(whole_, Slab::allocate(*reductions_, elements * element));
  }
  for (int i = 0; i < plan_.gradient_windows(); ++i) TRAINING_TRY(add_window());
  if (!plan_.keeps_sums()) return ok_status();
  TRAINING_ASSIGN(sums_, PassSums::create(layout, plan_.sum_levels(), plan_.options().deterministic,
                                          *replicas_));
  return ok_status();
}

Status GradientStore::add_window() {
  const std::size_t element = bytes_of(plan_.options().reduce);
  TRAINING_ASSIGN(Slab memory, Slab::allocate(*reductions_, plan_.layout()->largest() * element));
  TRAINING_ASSIGN(Stream stream, Stream::create());
  windows_.push_back({std::move(memory), std::move(stream), std::nullopt});
  return ok_status();
}

std::size_t GradientStore::window_bytes() const {
  std::size_t bytes = 0;
  for (const Window& window : windows_) bytes += window.memory.data().size();
  return bytes;
}

/// All gradients of a group, padding included: whole, or in the window that has them.
std::span<std::byte> GradientStore::buffer(GroupId group) const {
  const std::size_t element = bytes_of(plan_.options().reduce);
  const std::size_t bytes = plan_.layout()->padded(group) * element;
  if (plan_.gradients_are_whole()) return whole_.data().subspan(begins_[group] * element, bytes);
  const auto found = std::ranges::find(windows_, std::optional(group), &Window::group);
  return found->memory.data().first(bytes);
}

/// This rank's part of that.
std::span<std::byte> GradientStore::own(GroupId group) const {
  const std::span<std::byte> all = buffer(group);
  const std::size_t part = all.size() / static_cast<std::size_t>(reductions_->size());
  return all.subspan(static_cast<std::size_t>(reductions_->rank()) * part, part);
}

// ---- A pass

Status GradientStore::begin(bool is_last) {
  if (is_open_)
    return failure(Code::kInvalidUsage,
                   "a backward pass begins before end_backward() ended the one before it");
  if (is_complete_)
    return failure(Code::kInvalidUsage,
                   "the gradients of this step are complete: step() comes before the next pass");
  const int passes = plan_.options().passes;
  if (plan_.options().deterministic && is_last != (pass_ + 1 == passes))
    return failure(Code::kInvalidUsage,
                   "pass {} of a step is said to be {}, and the plan has {} passes for each step",
                   pass_ + 1, is_last ? "its last" : "not its last", passes);
  is_open_ = true;
  is_last_ = is_last;
  sent_groups_ = 0;
  guard_->note(Operation::kPass);
  is_ready_.assign(is_ready_.size(), false);
  if (plan_.sends_every_pass()) is_written_.assign(is_written_.size(), false);
  unready_.clear();
  for (const Group& group : plan_.layout()->groups()) unready_.push_back(group.parameters.size());
  return ok_status();
}

Status GradientStore::check_open(ParameterId id) const {
  const std::string& name = plan_.layout()->table()[id].name;
  if (!is_open_)
    return failure(Code::kInvalidUsage,
                   "the gradient of '{}' comes outside of begin_backward() and end_backward()",
                   name);
  if (is_ready_[id])
    return failure(
        Code::kInvalidUsage,
        "the gradient of '{}' is ready for the second time in one backward pass: where a "
        "parameter is used more than once, say so when its gradients are all added up",
        name);
  return ok_status();
}

/// Of the gradients that are on their way, those that were sent before all others.
GradientStore::Window* GradientStore::sent_first() {
  Window* first = nullptr;
  for (Window& window : windows_)
    if (window.sent != 0 && (first == nullptr || window.sent < first->sent)) first = &window;
  return first;
}

/// The group that is sent when so many were.
GroupId GradientStore::group_at(GroupId place) const {
  const auto groups = static_cast<GroupId>(unready_.size());
  return plan_.parameters_are_whole() ? place : groups - 1 - place;
}

GradientStore::Window& GradientStore::window_of(GroupId group) {
  return *std::ranges::find(windows_, std::optional(group), &Window::group);
}

/// Gives a group a window in this pass, which may be another's until its gradients have arrived.
Status GradientStore::make_room(GroupId group) {
  const auto same = std::ranges::find(windows_, std::optional(group), &Window::group);
  if (same != windows_.end() && same->sent == 0) return ok_status();
  if (same != windows_.end()) TRAINING_TRY(settle(*same));  // of a pass before
  const auto free = std::ranges::find(windows_, std::optional<GroupId>(), &Window::group);
  Window* window = free == windows_.end() ? sent_first() : &*free;
  if (window == nullptr) {  // all wait for gradients, or for their turn
    TRAINING_TRY(add_window());
    window = &windows_.back();
  }
  TRAINING_TRY(settle(*window));
  window->group = group;
  const std::size_t element = bytes_of(plan_.options().reduce);
  const std::span<std::byte> all = buffer(group);
  std::ranges::fill(all.subspan(plan_.layout()->elements(group) * element), std::byte{0});
  return ok_status();
}

Result<GradientPlace> GradientStore::place(ParameterId id) {
  TRAINING_TRY(check_open(id));
  const FlatLayout& layout = *plan_.layout();
  const GroupId group = layout.group_of(id);
  if (!plan_.gradients_are_whole()) TRAINING_TRY(make_room(group));
  const std::size_t element = bytes_of(plan_.options().reduce);
  const bool adds = is_written_[id];
  is_written_[id] = true;
  return GradientPlace{
      buffer(group).subspan(layout.offset_of(id) * element, layout.table().elements(id) * element),
      adds};
}

Status GradientStore::ready(ParameterId id) {
  TRAINING_TRY(check_open(id));
  const GroupId group = plan_.layout()->group_of(id);
  if (!is_written_[id])
    return failure(Code::kInvalidUsage,
                   "the gradient of '{}' is ready, and was never written: ask where it goes first",
                   plan_.layout()->table()[id].name);
  is_ready_[id] = true;
  --unready_[group];
  return sends_now() ? send_what_is_ready() : ok_status();
}

Status GradientStore::ready_without(ParameterId id) {
  TRAINING_ASSIGN(const GradientPlace into, place(id));
  if (!into.adds) std::ranges::fill(into.data, std::byte{0});
  return ready(id);
}

Status GradientStore::send_what_is_ready() {
  for (; sent_groups_ < unready_.size(); ++sent_groups_) {
    const GroupId group = group_at(sent_groups_);
    if (unready_[group] != 0) return ok_status();
    if (plan_.gradients_are_whole()) {
      TRAINING_TRY(send(group, stream_));
      continue;
    }
    Window& window = window_of(group);
    TRAINING_TRY(send(group, window.stream));
    window.sent = ++sent_;
  }
  return ok_status();
}

/// Its sums over the ranks arrive in own().
Status GradientStore::send(GroupId group, Stream& stream) {
  if (reductions_->size() > 1 || replicas_->size() > 1) guard_->note(Operation::kReduce, group);
  return wire_.send(group, buffer(group), own(group), stream);
}

/// Adds what has arrived to the passes before.
Status GradientStore::keep(GroupId group) {
  if (!plan_.keeps_sums()) return ok_status();
  sums_.add(group, plan_.sends_every_pass() ? pass_ : 0, plan_.options().reduce, own(group));
  if (!is_last_ || !plan_.replicas_add_last()) return ok_status();
  return wire_.add_replicas(group, sums_.total(group), replica_stream_);
}

/// Waits for what was sent, and keeps what came.
Status GradientStore::settle(Window& window) {
  if (window.sent == 0) return ok_status();
  TRAINING_TRY(guard_->wait(window.stream));
  TRAINING_TRY(keep(*window.group));
  window.sent = 0;
  window.group.reset();
  return ok_status();
}

std::vector<ParameterId> GradientStore::missing() const {
  std::vector<ParameterId> missing;
  for (ParameterId id = 0; id < is_ready_.size(); ++id)
    if (!is_ready_[id]) missing.push_back(id);
  return missing;
}

Status GradientStore::all_are_ready() const {
  const auto without = missing();
  if (without.empty()) return ok_status();
  constexpr std::size_t kMostShown = 8;
  std::vector<std::string> names;
  for (const ParameterId id : std::span(without).first(std::min(without.size(), kMostShown)))
    names.push_back(plan_.layout()->table()[id].name);
  return failure(Code::kInvalidUsage,
                 "{} parameters of {} got no gradient in this backward pass: {}{}. Use them in the "
                 "loss, freeze them, or say that they are ready without one",
                 without.size(), is_ready_.size(), fmt::join(names, ", "),
                 without.size() > kMostShown ? " ..." : "");
}

Status GradientStore::finish() {
  if (!is_open_) return failure(Code::kInvalidUsage, "end_backward() without begin_backward()");
  TRAINING_TRY(all_are_ready());
  if (plan_.gradients_are_whole() && sends_now()) {
    TRAINING_TRY(guard_->wait(stream_));
    TRAINING_TRY(wire_.finish());
    for (GroupId group = 0; group < unready_.size(); ++group) TRAINING_TRY(keep(group));
  }
  while (Window* const sent = sent_first()) TRAINING_TRY(settle(*sent));
  if (is_last_ && plan_.replicas_add_last()) TRAINING_TRY(guard_->wait(replica_stream_));
  is_open_ = false;
  is_complete_ = is_last_;
  ++pass_;
  if (is_complete_ && plan_.keeps_sums()) sums_.close(plan_.sends_every_pass() ? pass_ : 1);
  return ok_status();
}

std::span<float> GradientStore::sums(GroupId group) {
  if (plan_.keeps_sums()) return sums_.total(group);
  return as_floats(own(group));
}

Status GradientStore::clear(bool undone) {
  is_complete_ = false;
  pass_ = 0;
  is_written_.assign(is_written_.size(), false);
  if (undone && plan_.gradients_are_whole()) clear_padding();
  return wire_.end_step(undone);
}

/// A block of a format that is no number may have reached into it.
void GradientStore::clear_padding() {
  const std::size_t element = bytes_of(plan_.options().reduce);
  for (GroupId group = 0; group < begins_.size(); ++group)
    std::ranges::fill(buffer(group).subspan(plan_.layout()->elements(group) * element),
                      std::byte{0});
}

}  // namespace tutti::training
