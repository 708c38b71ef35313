#include "src/exec/cuda/pinned_copies.hpp"

#include <cstring>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::Event;
using tutti::cuda::SharedDriver;

PinnedCopies::PinnedCopies(SharedDriver driver, int device, std::shared_ptr<SlotPool> pool,
                           Event behind)
    : driver_(std::move(driver)),
      device_(device),
      pool_(std::move(pool)),
      behind_(std::move(behind)) {}

PinnedCopies::~PinnedCopies() { pool_->give_back(std::move(slots_), std::move(behind_), !used_); }

Result<std::unique_ptr<PinnedCopies>> PinnedCopies::create(SharedDriver driver, int device,
                                                           std::shared_ptr<SlotPool> pool) {
  TUTTI_ASSIGN(Event behind, Event::create(driver, device));
  return std::unique_ptr<PinnedCopies>(
      new PinnedCopies(std::move(driver), device, std::move(pool), std::move(behind)));
}

Result<Slot*> PinnedCopies::take(std::size_t bytes) {
  TUTTI_ASSIGN(std::unique_ptr<Slot> slot, pool_->take(device_, bytes));
  slots_.push_back(std::move(slot));
  return slots_.back().get();
}

Result<std::byte*> PinnedCopies::of_input(std::span<const CopyRange> ranges, std::size_t bytes) {
  TUTTI_ASSIGN(Slot* const slot, take(bytes));
  for (const CopyRange& range : ranges)
    std::memcpy(slot->memory().data() + range.slot_offset, range.buffer, range.bytes);
  return slot->device_memory();
}

Result<std::byte*> PinnedCopies::of_output(std::span<const CopyRange> ranges, std::size_t bytes) {
  TUTTI_ASSIGN(Slot* const slot, take(bytes));
  outputs_.push_back({{ranges.begin(), ranges.end()}, slot->memory().data()});
  return slot->device_memory();
}

Status PinnedCopies::mark(tutti::cuda::abi::Stream stream) {
  used_ = true;
  return behind_.record(stream);
}

void PinnedCopies::copy_out() const {
  for (const Output& output : outputs_)
    for (const CopyRange& range : output.ranges)
      std::memcpy(range.buffer, output.copy + range.slot_offset, range.bytes);
}

}  // namespace tutti::exec::cuda
