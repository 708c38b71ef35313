// Slots of host memory that GPUs copy to and from, and that peers on the same host map. Calls on
// GPU buffers that are staged on the host use them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "src/base/shared_heap.hpp"
#include "src/cuda/driver.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

/// Memory for one step at a time, and a gate at which a stream waits for the host's work on it.
/// Resource.
class Slot {
 public:
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  /// In a shared heap, so that other ranks of the host can read it without a copy.
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  /// Where the device sees memory().
  [[nodiscard]] std::byte* device_memory() const {
    return reinterpret_cast<std::byte*>(registration_->device_address()) +
           (memory_.data() - registration_->memory().data());
  }
  /// The gate as GPUs address it: 32 bits, 1 if open. The stream that passes the gate closes it.
  [[nodiscard]] const void* gate() const { return gate_address_; }
  void open_gate() { std::atomic_ref(*gate_).store(1, std::memory_order_release); }
  [[nodiscard]] bool gate_is_open() const {
    return std::atomic_ref(*gate_).load(std::memory_order_acquire) != 0;
  }

 private:
  friend class SlotPool;
  Slot() = default;

  std::shared_ptr<SharedHeap> heap_;
  std::span<std::byte> whole_;
  std::span<std::byte> memory_;
  std::uint32_t* gate_ = nullptr;
  const void* gate_address_ = nullptr;
  std::optional<tutti::cuda::HostRegistration> registration_;
};

/// The slots of a process. Thread-safe.
///
/// To unpin a slot waits for all streams of the context, so also for those that wait at the gate of
/// another slot. A caller of take() who waited there might be the one by whose next call a peer
/// opens that gate. So nothing is unpinned while any slot is out.
class SlotPool {
 public:
  /// What idle slots may hold before the largest of them are given up.
  static constexpr std::size_t kMostIdleBytes = 256 << 20;

  SlotPool(tutti::cuda::SharedDriver driver, std::shared_ptr<SharedHeap> heap,
           std::size_t most_idle_bytes = kMostIdleBytes)
      : driver_(std::move(driver)), heap_(std::move(heap)), most_idle_bytes_(most_idle_bytes) {}

  /// A slot of at least `bytes` with a closed gate that no stream uses. All devices see it;
  /// `device` is one of them. kUnavailable when memory is short.
  Result<std::unique_ptr<Slot>> take(int device, std::size_t bytes);
  /// `last_use` was recorded behind the last command that uses the slots. `unused`: no stream uses
  /// them any more, and `last_use` does not matter. Makes no call of CUDA, so host functions of a
  /// stream may call it.
  void give_back(std::vector<std::unique_ptr<Slot>> slots, tutti::cuda::Event last_use,
                 bool unused);

 private:
  /// Slots that share a last use.
  struct Resting {
    std::vector<std::unique_ptr<Slot>> slots;
    tutti::cuda::Event last_use;
    bool unused = false;
  };
  Result<std::unique_ptr<Slot>> make(int device, std::size_t bytes);
  std::unique_ptr<Slot> find(std::size_t bytes);
  void collect_idle();
  void give_up_too_much();

  const tutti::cuda::SharedDriver driver_;
  const std::shared_ptr<SharedHeap> heap_;
  const std::size_t most_idle_bytes_;
  std::mutex mutex_;
  std::size_t out_ = 0;  ///< slots that were taken, and are not given back
  std::vector<Resting> resting_;
  std::vector<std::unique_ptr<Slot>> idle_;
  std::vector<std::unique_ptr<Slot>> given_up_;  ///< to be unpinned
};

}  // namespace tutti::exec::cuda
