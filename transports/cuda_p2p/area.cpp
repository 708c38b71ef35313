#include "transports/cuda_p2p/area.hpp"

#include <bit>

#include "src/base/result.hpp"

namespace tutti::cuda_p2p {

using Reach = cuda::VmmAllocation::Reach;

Result<std::shared_ptr<const Area>> Area::create(const cuda::SharedDriver& driver,
                                                 const cuda::DeviceFacts& device,
                                                 std::size_t bytes) {
  if (device.fabric_handles || device.posix_fd_handles) return of_handles(driver, device, bytes);
  // A handle is good for the whole block of the device's memory that an allocation lies in; blocks
  // are of 2 MiB, and allocations of whole ones share none.
  constexpr std::size_t kBlock = std::size_t{2} << 20;
  const std::size_t whole_blocks = (bytes + kBlock - 1) / kBlock * kBlock;
  TUTTI_ASSIGN(cuda::DeviceMemory memory,
               cuda::DeviceMemory::allocate(driver, device.ordinal, whole_blocks));
  TUTTI_ASSIGN(const cuda::abi::IpcHandle handle, driver->ipc_handle(memory.data()));
  std::shared_ptr<Area> area(new Area(driver, std::move(memory), MemoryKind::kIpc));
  area->handle_ = std::bit_cast<HandleBytes>(handle);
  return std::shared_ptr<const Area>(std::move(area));
}

Result<std::shared_ptr<const Area>> Area::of_handles(const cuda::SharedDriver& driver,
                                                     const cuda::DeviceFacts& device,
                                                     std::size_t bytes) {
  const auto create = [&](Reach reach) {
    return cuda::VmmAllocation::create(driver, device.ordinal, bytes, reach);
  };
  TUTTI_ASSIGN(auto memory, create(device.fabric_handles ? Reach::kFabric : Reach::kHost));
  if (memory.reach() == Reach::kFabric) {
    if (const auto handle = memory.export_fabric()) {
      std::shared_ptr<Area> area(new Area(driver, std::move(memory), MemoryKind::kFabric));
      area->handle_ = std::bit_cast<HandleBytes>(*handle);
      return std::shared_ptr<const Area>(std::move(area));
    }
    // Made for the fabric and not to be exported: where its daemon (IMEX) is not set up for this
    // user, say. Anew, for this host.
    TUTTI_ASSIGN(memory, create(Reach::kHost));
  }
  return std::shared_ptr<const Area>(new Area(driver, std::move(memory), MemoryKind::kDescriptor));
}

Result<Fd> Area::export_fd() const {
  if (kind_ != MemoryKind::kDescriptor) return Fd();
  return std::get<cuda::VmmAllocation>(memory_).export_fd();
}

std::byte* Area::data() const {
  return static_cast<std::byte*>(
      std::visit([](const auto& memory) { return memory.data(); }, memory_));
}

std::size_t Area::bytes() const {
  return std::visit([](const auto& memory) { return memory.bytes(); }, memory_);
}

Status Area::let_reach(int device) const {
  if (const auto* const by_handle = std::get_if<cuda::VmmAllocation>(&memory_))
    return by_handle->grant(device);
  // For all that cuMemAlloc gave on the area's device, and for good: the program may count on it.
  return driver_->enable_peer_access(device, std::get<cuda::DeviceMemory>(memory_).device());
}

}  // namespace tutti::cuda_p2p
