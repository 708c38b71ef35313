// Host memory that GPUs copy to and from, and that peers on the same host map: what steps of calls
// on GPU buffers pass through.
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

/// Memory for one step at a time, and the gate behind which a stream waits for the host's work on
/// it. Resource.
class Slot {
 public:
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  /// In a shared heap, so that other ranks of the host read it where it lies.
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  /// Where the device sees memory().
  [[nodiscard]] std::byte* device_memory() const {
    return reinterpret_cast<std::byte*>(registration_->device_address()) +
           (memory_.data() - registration_->memory().data());
  }
  /// The gate as GPUs address it: 32 bits, 1 where it is open. The stream that passes it closes it.
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
class SlotPool {
 public:
  SlotPool(tutti::cuda::SharedDriver driver, std::shared_ptr<SharedHeap> heap)
      : driver_(std::move(driver)), heap_(std::move(heap)) {}

  /// A slot of at least `bytes`, its gate closed, that no stream uses any more; visible to all
  /// devices, `device` one of them. kUnavailable when memory is short.
  Result<std::unique_ptr<Slot>> take(int device, std::size_t bytes);
  /// `last_use` was recorded behind the last command on the slots, unless `unused`: no stream uses
  /// them any more. Makes no call of CUDA, so that it may be called from where that is forbidden.
  void give_back(std::vector<std::unique_ptr<Slot>> slots, tutti::cuda::Event last_use,
                 bool unused);

 private:
  /// Slots that have their last use in common.
  struct Resting {
    std::vector<std::unique_ptr<Slot>> slots;
    tutti::cuda::Event last_use;
    bool unused = false;
  };
  Result<std::unique_ptr<Slot>> make(int device, std::size_t bytes);
  void collect_idle();
  std::vector<std::unique_ptr<Slot>> trim();

  const tutti::cuda::SharedDriver driver_;
  const std::shared_ptr<SharedHeap> heap_;
  std::mutex mutex_;
  std::vector<Resting> resting_;
  std::vector<std::unique_ptr<Slot>> idle_;
};

}  // namespace tutti::exec::cuda
