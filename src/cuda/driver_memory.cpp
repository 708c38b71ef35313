// What the driver says of memory.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "src/cuda/driver.hpp"

namespace tutti::cuda {

using abi::PointerAttribute;

Result<PointerFacts> Driver::pointer(const void* address) const {
  abi::MemoryType type{};
  int managed = 0;
  int mapped = 0;
  int device = -1;
  int legacy_ipc = 0;
  PointerFacts facts;
  std::pair<PointerAttribute, void*> asked[] = {
      {PointerAttribute::kMemoryType, &type},
      {PointerAttribute::kIsManaged, &managed},
      {PointerAttribute::kDeviceOrdinal, &device},
      {PointerAttribute::kMapped, &mapped},
      {PointerAttribute::kContext, &facts.context},
      {PointerAttribute::kDeviceAddress, &facts.device_address},
      {PointerAttribute::kRangeStart, &facts.base},
      {PointerAttribute::kRangeBytes, &facts.bytes},
      {PointerAttribute::kIsLegacyIpcCapable, &legacy_ipc},
  };
  constexpr std::size_t kAsked = std::size(asked);
  std::array<PointerAttribute, kAsked> attributes{};
  std::array<void*, kAsked> values{};
  for (std::size_t i = 0; i < kAsked; ++i) std::tie(attributes[i], values[i]) = asked[i];
  TUTTI_TRY(check(functions_.pointer_attributes(kAsked, attributes.data(), values.data(),
                                                reinterpret_cast<abi::Address>(address)),
                  "cuPointerGetAttributes of {}", fmt::ptr(address)));

  if (type != abi::MemoryType::kHost && type != abi::MemoryType::kDevice) return PointerFacts{};
  facts.kind = managed != 0                       ? MemoryKind::kManaged
               : type == abi::MemoryType::kDevice ? MemoryKind::kDevice
                                                  : MemoryKind::kPinnedHost;
  facts.device = device;
  facts.legacy_ipc = legacy_ipc != 0;
  facts.mapped = mapped != 0;
  // The attributes tell the range of reserved addresses, in which several mappings may lie.
  if (facts.kind == MemoryKind::kDevice && facts.mapped)
    TUTTI_TRY(check(
        functions_.memory_range(&facts.base, &facts.bytes, reinterpret_cast<abi::Address>(address)),
        "cuMemGetAddressRange of {}", fmt::ptr(address)));
  return facts;
}

Result<MemoryInfo> Driver::memory_info(int device) const {
  TUTTI_ASSIGN(const ContextScope scope, make_current(device));
  MemoryInfo info;
  TUTTI_TRY(check(functions_.memory_info(&info.free_bytes, &info.total_bytes),
                  "cuMemGetInfo of device {}", device));
  return info;
}

Result<abi::IpcHandle> Driver::ipc_handle(const void* address) const {
  abi::IpcHandle handle{};
  TUTTI_TRY(check(functions_.ipc_handle(&handle, reinterpret_cast<abi::Address>(address)),
                  "cuIpcGetMemHandle of {}", fmt::ptr(address)));
  return handle;
}

Result<Fd> Driver::dma_buf(std::span<const std::byte> memory) const {
  if (functions_.range_handle == nullptr)
    return lacks("cuMemGetHandleForAddressRange", "CUDA 11.7");
  int fd = -1;
  TUTTI_TRY(check(functions_.range_handle(&fd, reinterpret_cast<abi::Address>(memory.data()),
                                          memory.size(), abi::RangeHandleType::kDmaBufFd, 0),
                  "cuMemGetHandleForAddressRange of {} bytes at {}", memory.size(),
                  fmt::ptr(memory.data())));
  return Fd(fd);
}

}  // namespace tutti::cuda
