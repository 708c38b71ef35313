#include "training/fully_sharded.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "training/outcome.hpp"

namespace tutti::training {

FullySharded::FullySharded(std::shared_ptr<const FlatLayout> layout, Comm& gathers,
                           Comm& reductions, Slab parameters, Slab gradients)
    : layout_(std::move(layout)),
      gathers_(gathers),
      reductions_(reductions),
      rank_(gathers.rank()),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)) {
  std::size_t begin = 0;
  for (GroupId unit = 0; unit < layout_->groups().size(); ++unit) {
    shard_begins_.push_back(begin);
    begin += layout_->shard_elements(unit);
  }
}

Result<std::vector<FullySharded::Window>> FullySharded::make_windows(const Comm& comm, int count,
                                                                     std::size_t elements) {
  if (count < 1)
    return failure(Code::kInvalidArgument, "{} windows: a unit that is used needs one", count);
  std::vector<Window> windows;
  for (int i = 0; i < count; ++i) {
    TRAINING_ASSIGN(Slab memory, Slab::allocate(comm, elements));
    TRAINING_ASSIGN(Stream stream, Stream::create());
    windows.push_back({std::move(memory), std::move(stream), std::nullopt});
  }
  return windows;
}

Result<std::unique_ptr<FullySharded>> FullySharded::create(std::shared_ptr<const FlatLayout> layout,
                                                           Comm& gathers, Comm& reductions,
                                                           const FullyShardedOptions& options) {
  if (layout->shards() != gathers.size() || layout->shards() != reductions.size() ||
      gathers.rank() != reductions.rank())
    return failure(Code::kInvalidArgument, "a layout of {} shards over {} and {} ranks",
                   layout->shards(), gathers.size(), reductions.size());
  TRAINING_ASSIGN(Slab parameters, Slab::allocate(gathers, layout->all_of_a_shard()));
  TRAINING_ASSIGN(Slab gradients, Slab::allocate(reductions, layout->all_of_a_shard()));
  std::unique_ptr<FullySharded> made(new FullySharded(std::move(layout), gathers, reductions,
                                                      std::move(parameters), std::move(gradients)));
  const std::size_t largest = made->layout_->largest();
  TRAINING_ASSIGN(made->windows_, make_windows(gathers, options.parameter_windows, largest));
  TRAINING_ASSIGN(made->gradient_windows_,
                  make_windows(reductions, options.gradient_windows, largest));
  return made;
}

std::span<float> FullySharded::part_of(const Slab& shards, GroupId unit) const {
  return shards.data().subspan(shard_begins_[unit], layout_->shard_elements(unit));
}

FullySharded::Window* FullySharded::find(std::vector<Window>& windows,
                                         std::optional<GroupId> unit) {
  const auto found = std::ranges::find(windows, unit, &Window::unit);
  return found == windows.end() ? nullptr : &*found;
}

const FullySharded::Window* FullySharded::holder(const std::vector<Window>& windows,
                                                 GroupId unit) const {
  const auto found = std::ranges::find(windows, std::optional(unit), &Window::unit);
  return found == windows.end() ? nullptr : &*found;
}

std::string FullySharded::units_in(const std::vector<Window>& windows) const {
  std::vector<std::string> names;
  for (const Window& window : windows)
    if (window.unit) names.push_back(fmt::format("'{}'", layout_->groups()[*window.unit].name));
  return fmt::format("{}", fmt::join(names, ", "));
}

void FullySharded::clear() { std::ranges::fill(gradients_.data(), 0.0F); }

// ---- Parameters

Status FullySharded::gather(Window& window, GroupId unit) {
  TRAINING_TRY(gathers_.all_gather<float>(
      shard(unit), window.memory.data().first(layout_->padded(unit)), &window.stream));
  window.unit = unit;
  window.is_pending = true;
  return ok_status();
}

Status FullySharded::prefetch(GroupId unit) {
  if (find(windows_, unit) != nullptr) return ok_status();
  Window* const free = find(windows_, std::nullopt);
  return free == nullptr ? ok_status() : gather(*free, unit);
}

Result<std::span<const float>> FullySharded::use(GroupId unit) {
  TRAINING_TRY(prefetch(unit));
  Window* const window = find(windows_, unit);
  if (window == nullptr)
    return failure(
        Code::kInvalidUsage,
        "unit '{}' has no window to be gathered to, since {} are in use: release one, or "
        "give more windows than {}",
        layout_->groups()[unit].name, units_in(windows_), windows_.size());
  if (window->is_pending) TRAINING_TRY(window->stream.synchronize());
  window->is_pending = false;
  window->is_used = true;
  return std::span<const float>(window->memory.data().first(layout_->elements(unit)));
}

Status FullySharded::release(GroupId unit) {
  Window* const window = find(windows_, unit);
  if (window == nullptr) return ok_status();
  if (window->is_pending) TRAINING_TRY(window->stream.synchronize());
  window->is_pending = window->is_used = false;
  window->unit.reset();
  return ok_status();
}

std::span<const float> FullySharded::parameter(ParameterId id) const {
  const Window* const window = holder(windows_, layout_->group_of(id));
  if (window == nullptr || !window->is_used) return {};
  return window->memory.data().subspan(layout_->offset_of(id), layout_->table().elements(id));
}

// ---- Gradients

/// Waits for what was sent, and keeps what came.
Status FullySharded::settle(Window& window) {
  if (!window.is_pending) return ok_status();
  TRAINING_TRY(window.stream.synchronize());
  window.is_pending = false;
  const std::span<float> into = gradient_shard(*window.unit);
  const std::span<float> came =
      window.memory.data().subspan(static_cast<std::size_t>(rank_) * into.size(), into.size());
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += came[i];
  window.unit.reset();
  return ok_status();
}

/// Of the gradients that are on their way, those that were sent before all others.
FullySharded::Window* FullySharded::sent_first() {
  Window* first = nullptr;
  for (Window& window : gradient_windows_)
    if (window.is_pending && (first == nullptr || window.sent < first->sent)) first = &window;
  return first;
}

Result<std::span<float>> FullySharded::begin_gradients(GroupId unit) {
  if (Window* const same = find(gradient_windows_, unit)) {  // of a pass before
    if (same->is_used)
      return failure(Code::kInvalidUsage,
                     "gradients of unit '{}' are begun for the second time before reduce()",
                     layout_->groups()[unit].name);
    TRAINING_TRY(settle(*same));
  }
  Window* window = find(gradient_windows_, std::nullopt);
  if (window == nullptr) {
    Window* const sent = sent_first();
    if (sent == nullptr)
      return failure(
          Code::kInvalidUsage,
          "unit '{}' has no window for its gradients, since those of {} are not complete: "
          "reduce() them, or give more windows than {}",
          layout_->groups()[unit].name, units_in(gradient_windows_), gradient_windows_.size());
    window = sent;
    TRAINING_TRY(settle(*window));
  }
  window->unit = unit;
  window->is_used = true;
  const std::span<float> memory = window->memory.data().first(layout_->padded(unit));
  std::ranges::fill(memory, 0.0F);
  return memory.first(layout_->elements(unit));
}

std::span<float> FullySharded::gradient(ParameterId id) const {
  const Window* const window = holder(gradient_windows_, layout_->group_of(id));
  if (window == nullptr || !window->is_used) return {};
  return window->memory.data().subspan(layout_->offset_of(id), layout_->table().elements(id));
}

Status FullySharded::reduce(GroupId unit) {
  Window* const window = find(gradient_windows_, unit);
  if (window == nullptr || !window->is_used)
    return failure(Code::kInvalidUsage, "unit '{}' has no gradients to reduce: begin_gradients()",
                   layout_->groups()[unit].name);
  const std::span<float> all = window->memory.data().first(layout_->padded(unit));
  const std::size_t part = layout_->shard_elements(unit);
  TRAINING_TRY(reductions_.reduce_scatter<float>(
      all, all.subspan(static_cast<std::size_t>(rank_) * part, part), ReduceOp::kSum,
      &window->stream));
  window->is_used = false;
  window->is_pending = true;
  window->sent = ++sent_;
  return ok_status();
}

Status FullySharded::finish() {
  while (Window* const sent = sent_first()) TRAINING_TRY(settle(*sent));
  return ok_status();
}

}  // namespace tutti::training
