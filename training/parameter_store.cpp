#include "training/parameter_store.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "training/numbers.hpp"
#include "training/outcome.hpp"
#include "training/typed_calls.hpp"

namespace tutti::training {

ParameterStore::ParameterStore(const Plan& plan, Comm& gathers, Comm* secondary, StepGuard& guard,
                               Stream stream)
    : plan_(plan),
      gathers_(&gathers),
      secondary_(secondary),
      guard_(&guard),
      stream_(std::move(stream)) {}

Result<ParameterStore> ParameterStore::create(const Plan& plan, Comm& gathers, Comm* secondary,
                                              StepGuard& guard) {
  TRAINING_ASSIGN(Stream stream, Stream::create());
  ParameterStore store(plan, gathers, secondary, guard, std::move(stream));
  const FlatLayout& layout = *plan.layout();
  std::size_t elements = 0;
  for (GroupId group = 0; group < layout.groups().size(); ++group) {
    store.begins_.push_back(elements);
    elements += plan.parameters_are_whole() ? layout.padded(group) : layout.shard_elements(group);
  }
  TRAINING_ASSIGN(store.parameters_,
                  Slab::allocate(gathers, elements * bytes_of(plan.options().compute)));
  if (!plan.parameters_are_whole()) TRAINING_TRY(store.make_windows());
  if (secondary != nullptr) TRAINING_TRY(store.make_secondary());
  if (plan.weights().is_plain()) return store;
  for (GroupId group = 0; group < layout.groups().size(); ++group) {
    TRAINING_ASSIGN(Compression made, Compression::create(plan.weights().text().c_str()));
    store.compressions_.push_back(std::move(made));
  }
  return store;
}

double ParameterStore::coding_seconds() const {
  double seconds = 0;
  for (const Compression& each : compressions_) seconds += each.busy_seconds();
  return seconds;
}

const Compression* ParameterStore::compression(GroupId group) {
  if (compressions_.empty()) return nullptr;
  (void)compressions_[group].set_call_number(static_cast<std::uint64_t>(steps_));
  return &compressions_[group];
}

Status ParameterStore::make_windows() {
  const std::size_t element = bytes_of(plan_.options().compute);
  const auto make = [&](std::size_t elements) -> Result<Window> {
    TRAINING_ASSIGN(Slab memory, Slab::allocate(*gathers_, elements * element));
    TRAINING_ASSIGN(Stream stream, Stream::create());
    return Window{std::move(memory), std::move(stream), std::nullopt};
  };
  for (int i = 0; i < plan_.parameter_windows(); ++i) {
    TRAINING_ASSIGN(Window window, make(plan_.window_elements()));
    windows_.push_back(std::move(window));
  }
  for (GroupId unit = 0; unit < plan_.layout()->groups().size(); ++unit) {
    kept_.emplace_back();
    if (!plan_.keeps_whole(unit)) continue;
    TRAINING_ASSIGN(kept_.back(), make(plan_.layout()->padded(unit)));
  }
  return ok_status();
}

Status ParameterStore::make_secondary() {
  std::size_t elements = 0;
  for (GroupId unit = 0; unit < plan_.layout()->groups().size(); ++unit) {
    secondary_begins_.push_back(elements);
    if (plan_.keeps_whole(unit)) continue;
    elements += plan_.layout()->padded(unit) / static_cast<std::size_t>(secondary_->size());
  }
  has_secondary_.assign(secondary_begins_.size(), false);
  TRAINING_ASSIGN(secondary_shards_,
                  Slab::allocate(*secondary_, elements * bytes_of(plan_.options().compute)));
  return ok_status();
}

std::size_t ParameterStore::window_bytes() const {
  std::size_t bytes = secondary_shards_.data().size();
  for (const Window& window : windows_) bytes += window.memory.data().size();
  for (const auto& window : kept_) bytes += window ? window->memory.data().size() : 0;
  return bytes;
}

/// Elements [begin, begin + count).
std::span<std::byte> ParameterStore::part(std::span<std::byte> of, std::size_t begin,
                                          std::size_t count) const {
  const std::size_t element = bytes_of(plan_.options().compute);
  return of.subspan(begin * element, count * element);
}

std::span<std::byte> ParameterStore::own(GroupId group) const {
  const std::size_t elements = plan_.layout()->shard_elements(group);
  const std::size_t skipped =
      plan_.parameters_are_whole() ? static_cast<std::size_t>(gathers_->rank()) * elements : 0;
  return part(parameters_.data(), begins_[group] + skipped, elements);
}

std::span<std::byte> ParameterStore::whole(GroupId group) const {
  return part(parameters_.data(), begins_[group], plan_.layout()->padded(group));
}

Status ParameterStore::publish(GroupId group) {
  if (!plan_.parameters_are_whole() || gathers_->size() == 1) return ok_status();
  guard_->note(Operation::kGather, group);
  return guard_->check(all_gather(*gathers_, plan_.options().compute, own(group), whole(group),
                                  stream_, compression(group)));
}

Status ParameterStore::settle() {
  TRAINING_TRY(guard_->wait(stream_));
  const auto forget = [this](Window& window) -> Status {
    TRAINING_TRY(await(window));
    window.unit.reset();
    window.is_used = false;
    return ok_status();
  };
  for (Window& window : windows_) TRAINING_TRY(forget(window));
  for (auto& window : kept_)
    if (window) TRAINING_TRY(forget(*window));
  has_secondary_.assign(has_secondary_.size(), false);
  return ok_status();
}

// ---- Units

/// The window that has this unit.
ParameterStore::Window* ParameterStore::holder(GroupId unit) {
  if (kept_[unit]) return kept_[unit]->unit ? &*kept_[unit] : nullptr;
  const auto found = std::ranges::find(windows_, std::optional(unit), &Window::unit);
  return found == windows_.end() ? nullptr : &*found;
}

/// A window for a unit that none has: one that is free. Else one that was gathered ahead, though it
/// was not used since.
ParameterStore::Window* ParameterStore::room_for(GroupId unit) {
  if (Window* const free = free_window(unit)) return free;
  const auto unused = std::ranges::find(windows_, false, &Window::is_used);
  return unused == windows_.end() ? nullptr : &*unused;
}

Status ParameterStore::await(Window& window) {
  if (!window.is_pending) return ok_status();
  window.is_pending = false;
  return guard_->wait(window.stream);
}

Status ParameterStore::gather(Window& window, GroupId unit) {
  TRAINING_TRY(await(window));
  window.unit = unit;
  window.is_pending = true;
  const std::span<std::byte> into = part(window.memory.data(), 0, plan_.layout()->padded(unit));
  if (!has_secondary_.empty() && has_secondary_[unit]) {
    guard_->note(Operation::kGatherSecondary, unit);
    return guard_->check(all_gather(*secondary_, plan_.options().compute, secondary_part(unit),
                                    into, window.stream));
  }
  guard_->note(Operation::kGather, unit);
  return guard_->check(all_gather(*gathers_, plan_.options().compute, own(unit), into,
                                  window.stream, compression(unit)));
}

/// That of a kept unit, unless it has the unit; or any that is free.
ParameterStore::Window* ParameterStore::free_window(GroupId unit) {
  if (kept_[unit]) return kept_[unit]->unit ? nullptr : &*kept_[unit];
  const auto free = std::ranges::find(windows_, std::optional<GroupId>(), &Window::unit);
  return free == windows_.end() ? nullptr : &*free;
}

/// Those that follow `unit` in this pass, as far as windows are free and as many bytes as the plan
/// says, or one.
Status ParameterStore::gather_ahead(GroupId unit, Pass pass) {
  const auto units = static_cast<GroupId>(kept_.size());
  const std::optional<std::size_t> most = plan_.options().prefetch_bytes;
  std::size_t ahead = 0;
  for (GroupId step = 1; step < units; ++step) {
    if (pass == Pass::kForward ? unit + step >= units : step > unit) return ok_status();
    const GroupId next = pass == Pass::kForward ? unit + step : unit - step;
    ahead += plan_.layout()->padded(next) * bytes_of(plan_.options().compute);
    if (most ? ahead > *most : step > 1) return ok_status();
    if (holder(next) != nullptr) continue;
    Window* const free = free_window(next);
    if (free == nullptr) return ok_status();
    TRAINING_TRY(gather(*free, next));
  }
  return ok_status();
}

bool ParameterStore::is_in_use() const { return std::ranges::any_of(windows_, &Window::is_used); }

Result<std::span<std::byte>> ParameterStore::use(GroupId unit, Pass pass) {
  if (plan_.parameters_are_whole()) return std::span<std::byte>();
  Window* window = holder(unit);
  if (window == nullptr) {
    window = room_for(unit);
    if (window == nullptr) {
      std::vector<std::string> names;
      for (const Window& taken : windows_)
        names.push_back(fmt::format("'{}'", plan_.layout()->groups()[*taken.unit].name));
      return failure(Code::kInvalidUsage,
                     "unit '{}' has no window to be gathered to, since {} are in use: release one, "
                     "or give more prefetch bytes, which make more windows than {}",
                     plan_.layout()->groups()[unit].name, fmt::join(names, ", "), windows_.size());
    }
    TRAINING_TRY(gather(*window, unit));
  }
  window->is_used = true;
  TRAINING_TRY(gather_ahead(unit, pass));
  TRAINING_TRY(await(*window));
  return part(window->memory.data(), 0, plan_.layout()->padded(unit));
}

Status ParameterStore::release(GroupId unit, Pass pass) {
  if (plan_.parameters_are_whole()) return ok_status();
  Window* const window = holder(unit);
  if (window == nullptr || !window->is_used) return ok_status();
  if (kept_[unit]) {
    const bool ends = pass == Pass::kBackward && !plan_.keeps_whole_for_step(unit);
    if (!ends) return ok_status();
  } else if (pass == Pass::kForward && secondary_ != nullptr && !has_secondary_[unit]) {
    keep_secondary(*window, unit);
  }
  window->is_used = false;
  window->unit.reset();
  return ok_status();
}

std::span<std::byte> ParameterStore::secondary_part(GroupId unit) const {
  return part(secondary_shards_.data(), secondary_begins_[unit],
              plan_.layout()->padded(unit) / static_cast<std::size_t>(secondary_->size()));
}

void ParameterStore::keep_secondary(const Window& window, GroupId unit) {
  const std::span<std::byte> into = secondary_part(unit);
  std::ranges::copy(window.memory.data().subspan(
                        static_cast<std::size_t>(secondary_->rank()) * into.size(), into.size()),
                    into.begin());
  has_secondary_[unit] = true;
}

std::span<std::byte> ParameterStore::parameter(ParameterId id) const {
  const FlatLayout& layout = *plan_.layout();
  const GroupId group = layout.group_of(id);
  const auto in = [&](std::span<std::byte> buffer) {
    return part(buffer, layout.offset_of(id), layout.table().elements(id));
  };
  if (plan_.parameters_are_whole()) return in(whole(group));
  if (kept_[group])
    return kept_[group]->is_used ? in(kept_[group]->memory.data()) : std::span<std::byte>();
  const auto found = std::ranges::find(windows_, std::optional(group), &Window::unit);
  if (found == windows_.end() || !found->is_used) return {};
  return in(found->memory.data());
}

}  // namespace tutti::training
