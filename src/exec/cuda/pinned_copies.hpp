// Ordinary memory of the host for kernels, which do not reach it: they work on pinned copies.
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

/// Of the buffers of one call. Used by one thread, with its device current. Resource: the copies
/// stay until the kernels are through with them, which its end does not wait for.
class PinnedCopies {
 public:
  static Result<std::unique_ptr<PinnedCopies>> create(tutti::cuda::SharedDriver driver, int device,
                                                      std::shared_ptr<SlotPool> pool);
  ~PinnedCopies();
  PinnedCopies(const PinnedCopies&) = delete;
  PinnedCopies& operator=(const PinnedCopies&) = delete;

  /// Where the device finds a copy of these bytes of a caller's buffer; `bytes`: of it all.
  Result<std::byte*> of_input(std::span<const CopyRange> ranges, std::size_t bytes);
  /// Where the device may put them, so that copy_out() finds them.
  Result<std::byte*> of_output(std::span<const CopyRange> ranges, std::size_t bytes);
  /// What uses the copies is enqueued on `stream`.
  Status mark(tutti::cuda::abi::Stream stream);
  /// Until that is over.
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
