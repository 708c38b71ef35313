// Pinned copies of ordinary host memory, which kernels cannot reach themselves.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/cuda/driver.hpp"
#include "src/exec/cuda/copy_range.hpp"
#include "src/exec/cuda/slot_pool.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

/// The copies for one call. Used by one thread, with its device current. Resource. Its destructor
/// does not wait: the copies stay until the kernels no longer use them.
class PinnedCopies {
 public:
  static Result<std::unique_ptr<PinnedCopies>> create(tutti::cuda::SharedDriver driver, int device,
                                                      std::shared_ptr<SlotPool> pool);
  ~PinnedCopies();
  PinnedCopies(const PinnedCopies&) = delete;
  PinnedCopies& operator=(const PinnedCopies&) = delete;

  /// Copies these bytes of a caller's buffer of `bytes`; returns the copy's address on the device.
  Result<std::byte*> of_input(std::span<const CopyRange> ranges, std::size_t bytes);
  /// Room for these bytes, as the device addresses it; copy_out() copies them to the caller.
  Result<std::byte*> of_output(std::span<const CopyRange> ranges, std::size_t bytes);
  /// To be called when all that uses the copies is enqueued on `stream`.
  Status mark(tutti::cuda::abi::Stream stream);
  /// Waits until that is over.
  [[nodiscard]] Status wait() const { return behind_.synchronize(); }
  void copy_out() const;

 private:
  PinnedCopies(tutti::cuda::SharedDriver driver, int device, std::shared_ptr<SlotPool> pool,
               tutti::cuda::Event behind);
  Result<Slot*> take(std::size_t bytes);

  struct Output {
    std::vector<CopyRange> ranges;
    const std::byte* copy = nullptr;
  };
  const tutti::cuda::SharedDriver driver_;
  const int device_;
  const std::shared_ptr<SlotPool> pool_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Output> outputs_;
  tutti::cuda::Event behind_;
  bool used_ = false;
};

}  // namespace tutti::exec::cuda
