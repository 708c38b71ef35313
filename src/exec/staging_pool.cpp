#include "src/exec/staging_pool.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti::exec {

StagingPool::Lease::~Lease() {
  {
    const std::scoped_lock lock(pool_.mutex_);
    std::erase(pool_.holders_, this);
  }
  if (region_ != nullptr) (void)pool_.heap_->free(region_);
}

Result<std::byte*> StagingPool::Lease::enter() {
  State idle = State::kIdle;
  if (state_.compare_exchange_strong(idle, State::kBusy, std::memory_order_acquire)) return region_;
  {
    const std::scoped_lock lock(pool_.mutex_);
    // With a region of its own it is here because another had seized that, and left it.
    if (region_ != nullptr || take_from_another()) {
      state_.store(State::kBusy, std::memory_order_relaxed);
      return region_;
    }
  }
  TUTTI_ASSIGN(const std::span<std::byte> memory, pool_.heap_->allocate(bytes_));
  map_pages(memory);
  const std::scoped_lock lock(pool_.mutex_);
  region_ = memory.data();
  state_.store(State::kBusy, std::memory_order_relaxed);
  pool_.holders_.push_back(this);
  return region_;
}

void StagingPool::Lease::leave(std::span<const std::uint64_t> left_at) {
  for (Reader& reader : readers_) reader.left_at = left_at[reader.rank];
  state_.store(State::kIdle, std::memory_order_release);
}

void StagingPool::Lease::close() {
  std::byte* resting = nullptr;
  {
    const std::scoped_lock lock(pool_.mutex_);
    std::erase(pool_.holders_, this);
    if (seize_if_resting()) resting = std::exchange(region_, nullptr);
  }
  if (resting != nullptr) (void)pool_.heap_->free(resting);
}

/// With the pool's lock.
bool StagingPool::Lease::take_from_another() {
  for (Lease*& holder : pool_.holders_) {
    if (holder->communicator_ == communicator_ || holder->bytes_ != bytes_) continue;
    if (!holder->seize_if_resting()) continue;
    region_ = std::exchange(holder->region_, nullptr);
    holder->state_.store(State::kEmpty, std::memory_order_relaxed);
    holder = this;
    return true;
  }
  return false;
}

/// With the pool's lock: makes it kBusy where the region rests.
bool StagingPool::Lease::seize_if_resting() {
  State idle = State::kIdle;
  if (!state_.compare_exchange_strong(idle, State::kBusy, std::memory_order_acquire)) return false;
  const bool rests = std::ranges::all_of(readers_, [](const Reader& reader) {
    return reader.progress->load(std::memory_order_acquire) >= reader.left_at;
  });
  if (!rests) state_.store(State::kIdle, std::memory_order_release);
  return rests;
}

}  // namespace tutti::exec
