#include "src/exec/cuda/slot_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr std::size_t kGateBytes = 128;  // a line of its own
constexpr std::size_t kLeastBytes = 64 << 10;

}  // namespace

Slot::~Slot() {
  registration_.reset();
  if (!whole_.empty()) (void)heap_->free(whole_.data());
}

Result<std::unique_ptr<Slot>> SlotPool::take(int device, std::size_t bytes) {
  // Beside a capture: what is asked and pinned here is no part of the graph.
  TUTTI_ASSIGN(const auto relaxed, tutti::cuda::RelaxedCapture::begin(*driver_));
  std::vector<std::unique_ptr<Slot>> unpinned;  // outside the lock: that may take long
  std::unique_ptr<Slot> slot;
  {
    const std::scoped_lock lock(mutex_);
    collect_idle();
    give_up_too_much();
    if (out_ == 0 && resting_.empty()) unpinned = std::move(given_up_);
    slot = find(bytes);
    ++out_;
  }
  if (slot) return slot;
  auto made = make(device, bytes);
  if (!made) {
    const std::scoped_lock lock(mutex_);
    --out_;
  }
  return made;
}

/// Under the lock: the smallest idle slot that has room and is not far too large; null: none.
std::unique_ptr<Slot> SlotPool::find(std::size_t bytes) {
  const auto room = [](const auto& slot) { return slot->memory().size(); };
  const auto best = std::ranges::lower_bound(idle_, bytes, {}, room);
  if (best == idle_.end() || room(*best) / 4 > std::max(bytes, kLeastBytes)) return nullptr;
  std::unique_ptr<Slot> slot = std::move(*best);
  idle_.erase(best);
  std::atomic_ref(*slot->gate_).store(0, std::memory_order_relaxed);
  return slot;
}

Result<std::unique_ptr<Slot>> SlotPool::make(int device, std::size_t bytes) {
  std::unique_ptr<Slot> slot(new Slot);
  slot->heap_ = heap_;
  TUTTI_ASSIGN(slot->whole_,
               heap_->allocate(kGateBytes + std::bit_ceil(std::max(bytes, kLeastBytes))));
  TUTTI_ASSIGN(auto registration,
               tutti::cuda::HostRegistration::create(driver_, device, slot->whole_));
  slot->gate_address_ = reinterpret_cast<const void*>(registration.device_address());
  slot->registration_ = std::move(registration);
  slot->memory_ = slot->whole_.subspan(kGateBytes);
  slot->gate_ = reinterpret_cast<std::uint32_t*>(slot->whole_.data());
  return slot;
}

void SlotPool::give_back(std::vector<std::unique_ptr<Slot>> slots, tutti::cuda::Event last_use,
                         bool unused) {
  const std::scoped_lock lock(mutex_);
  out_ -= slots.size();
  resting_.push_back({std::move(slots), std::move(last_use), unused});
}

/// Under the lock: moves the slots that no stream uses any more to idle_, smallest first.
void SlotPool::collect_idle() {
  std::erase_if(resting_, [this](Resting& resting) {
    if (!resting.unused) {
      const auto done = resting.last_use.done();
      if (!done || !*done) return false;  // in a broken context they stay for good
    }
    for (auto& slot : resting.slots) idle_.push_back(std::move(slot));
    return true;
  });
  std::ranges::sort(idle_, {}, [](const auto& slot) { return slot->memory().size(); });
}

/// Under the lock: of idle slots, those that peers do not see any more (SharedHeap::detach), and
/// the largest of too much.
void SlotPool::give_up_too_much() {
  std::size_t held = 0;
  for (auto& slot : idle_) {
    const std::span<std::byte> whole = slot->whole_;
    held += whole.size();
    if (held > most_idle_bytes_ || !heap_->is_shared(whole.data(), whole.size()))
      given_up_.push_back(std::move(slot));
  }
  std::erase(idle_, nullptr);
}

}  // namespace tutti::exec::cuda
