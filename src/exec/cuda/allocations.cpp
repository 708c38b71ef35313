#include "src/exec/cuda/allocations.hpp"

#include <utility>

#include "src/base/result.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::DeviceFacts;
using tutti::cuda::DeviceMemory;
using tutti::cuda::VmmAllocation;

Result<Allocations::Memory> Allocations::make(std::size_t bytes) const {
  TUTTI_ASSIGN(const int device, driver_->current_device());
  TUTTI_ASSIGN(const DeviceFacts facts, driver_->device(device));
  if (!facts.memory_handles) {
    TUTTI_ASSIGN(DeviceMemory plain, DeviceMemory::allocate(driver_, device, bytes));
    return Memory(std::move(plain));
  }
  TUTTI_ASSIGN(VmmAllocation shared,
               VmmAllocation::create(driver_, device, bytes, VmmAllocation::Reach::kFabric));
  return Memory(std::move(shared));
}

Result<void*> Allocations::allocate(std::size_t bytes) {
  TUTTI_ASSIGN(Memory memory, make(bytes));
  void* const data = std::visit([](const auto& it) { return it.data(); }, memory);
  const std::scoped_lock lock(mutex_);
  live_.emplace(data, std::move(memory));
  return data;
}

Status Allocations::free(void* data) {
  std::map<void*, Memory>::node_type freed;  // outside the lock: it may take long
  const std::scoped_lock lock(mutex_);
  freed = live_.extract(data);
  if (!freed.empty()) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{} is not memory that ncclMemAlloc returned, or was freed before", data);
}

}  // namespace tutti::exec::cuda
