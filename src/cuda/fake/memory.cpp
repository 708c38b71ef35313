// Memory: allocations, registrations, queries. Each allocation is a memfd, so that IPC can share
// it.
#include <cstdio>
#include <cstring>
#include <iterator>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kFresh = 0xa5;  // what uninitialised memory holds
constexpr int kNoDevice = -2;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Return allocate(Address* address, std::size_t bytes, Kind kind) {
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  FAKE_CUDA_TRY(forbid_beside_capture());
  if (bytes == 0 || address == nullptr) return Return::kInvalidValue;
  const auto total = static_cast<std::size_t>(setting("FAKE_CUDA_MEMORY", 1L << 34));
  if (bytes > total - context->used_bytes) return Return::kOutOfMemory;
  const int fd = ::memfd_create("fake_cuda", MFD_CLOEXEC);
  if (fd < 0) return Return::kOutOfMemory;
  void* data = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(whole_pages(bytes))) == 0)
    data = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    ::close(fd);
    return Return::kOutOfMemory;
  }
  std::memset(data, kFresh, whole_pages(bytes));
  context->used_bytes += bytes;
  *address = reinterpret_cast<Address>(data);
  Range& range = state().ranges[*address];
  range = {.kind = kind, .bytes = bytes, .device = context->device, .fd = fd};
  guard(*address, range);
  return Return::kSuccess;
}

void unmap(Address address, const Range& range) {
  ::munmap(reinterpret_cast<void*>(address), whole_pages(range.bytes));
  if (range.fd >= 0) ::close(range.fd);
}

Return find_own(Address address, Kind kind) {
  const auto found = state().ranges.find(address);
  const bool is_it = found != state().ranges.end() && found->second.kind == kind;
  return is_it ? Return::kSuccess : Return::kInvalidValue;
}

/// The reservation that holds `address`, or else the range; nothing where there is neither.
std::pair<Address, std::size_t> reserved_around(Address address) {
  const auto after = state().reservations.upper_bound(address);
  if (after != state().reservations.begin()) {
    const auto [start, bytes] = *std::prev(after);
    if (address < start + bytes) return {start, bytes};
  }
  const auto* const range = range_of(address);
  if (range == nullptr) return {0, 0};
  return {range->first, range->second.bytes};
}

}  // namespace

int open_of_process(int pid, int number) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
}

std::pair<const Address, Range>* range_of(Address address) {
  auto& ranges = state().ranges;
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return nullptr;
  auto& found = *--after;
  return address < found.first + found.second.bytes ? &found : nullptr;
}

bool is_pageable(Address address, std::size_t bytes) {
  const auto next = state().ranges.lower_bound(address);
  if (range_of(address) != nullptr ||
      (next != state().ranges.end() && next->first < address + bytes))
    return false;
  const Address first = address / kPage * kPage;
  const std::size_t length = whole_pages(address + bytes - first);
  std::vector<unsigned char> resident(length / kPage);
  return ::mincore(reinterpret_cast<void*>(first), length, resident.data()) == 0;
}

bool is_known(Address address, std::size_t bytes) {
  const Address end = address + bytes;
  if (end < address) return false;
  while (address < end) {
    const auto* const range = range_of(address);
    if (range == nullptr || !range->second.accessible) return false;
    address = range->first + range->second.bytes;
    if (address < end && range->second.kind != Kind::kMapped) return false;
  }
  return true;
}

void forget_memory_of(const CUctx_st& context) {
  std::erase_if(state().ranges, [&](const auto& entry) {
    const auto& [address, range] = entry;
    if (range.device != context.device || range.kind == Kind::kMapped) return false;
    if (range.kind != Kind::kPinned) unmap(address, range);
    return true;
  });
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuMemAlloc_v2(Address* address, std::size_t bytes) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  return allocate(address, bytes, Kind::kDevice);
}

FAKE_CUDA_EXPORT Return cuMemAllocManaged(Address* address, std::size_t bytes, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  if (flags != 1 && flags != 2) return Return::kInvalidValue;
  const std::scoped_lock lock(state().mutex);
  return allocate(address, bytes, Kind::kManaged);
}

FAKE_CUDA_EXPORT Return cuMemFree_v2(Address address) {
  FAKE_CUDA_TRY(enter(__func__));
  CUctx_st* context = nullptr;
  std::vector<Done> pending;
  {
    const std::scoped_lock lock(state().mutex);
    FAKE_CUDA_TRY(current_context(context));
    FAKE_CUDA_TRY(forbid_beside_capture());
    if (address == 0) return Return::kSuccess;
    if (find_own(address, Kind::kManaged) != Return::kSuccess)
      FAKE_CUDA_TRY(find_own(address, Kind::kDevice));
    context = state().devices[state().ranges[address].device].get();
    pending = pending_of(*context);
  }
  for (const Done& done : pending) await(done);
  const std::scoped_lock lock(state().mutex);
  const auto found = state().ranges.find(address);
  if (found == state().ranges.end()) return Return::kInvalidValue;  // freed twice at once
  context->used_bytes -= found->second.bytes;
  unmap(address, found->second);
  state().ranges.erase(found);
  return context->broken;
}

FAKE_CUDA_EXPORT Return cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  *total = static_cast<std::size_t>(setting("FAKE_CUDA_MEMORY", 1L << 34));
  *free = *total - context->used_bytes;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemGetAddressRange_v2(Address* base, std::size_t* bytes,
                                                Address address) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  const auto* const range = range_of(address);
  if (range == nullptr || range->second.kind == Kind::kPinned) return Return::kNotFound;
  if (base != nullptr) *base = range->first;
  if (bytes != nullptr) *bytes = range->second.bytes;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  FAKE_CUDA_TRY(forbid_beside_capture());
  const auto address = reinterpret_cast<Address>(memory);
  if (memory == nullptr || bytes == 0 || address + bytes < address || flags > 15)
    return Return::kInvalidValue;
  const auto next = state().ranges.lower_bound(address);
  if (range_of(address) != nullptr ||
      (next != state().ranges.end() && next->first < address + bytes))
    return Return::kHostMemoryAlreadyRegistered;
  if (!is_pageable(address, bytes)) return Return::kInvalidValue;
  state().ranges[address] = {.kind = Kind::kPinned, .bytes = bytes, .device = context->device};
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemHostUnregister(void* memory) {
  FAKE_CUDA_TRY(enter(__func__));
  const auto address = reinterpret_cast<Address>(memory);
  std::vector<Done> pending;
  {
    const std::scoped_lock lock(state().mutex);
    CUctx_st* context = nullptr;
    FAKE_CUDA_TRY(current_context(context));
    FAKE_CUDA_TRY(forbid_beside_capture());
    if (find_own(address, Kind::kPinned) != Return::kSuccess)
      return Return::kHostMemoryNotRegistered;
    pending = pending_of(*context);
  }
  for (const Done& done : pending) await(done);
  const std::scoped_lock lock(state().mutex);
  return state().ranges.erase(address) == 1 ? Return::kSuccess : Return::kHostMemoryNotRegistered;
}

FAKE_CUDA_EXPORT Return cuMemHostGetDevicePointer_v2(Address* address, void* memory,
                                                     unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  const auto* const range = range_of(reinterpret_cast<Address>(memory));
  if (flags != 0 || range == nullptr || range->second.kind != Kind::kPinned)
    return Return::kInvalidValue;
  *address = reinterpret_cast<Address>(memory);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuPointerGetAttributes(unsigned count, PointerAttribute* attributes,
                                               void** values, Address address) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  if (!state().initialised) return Return::kNotInitialized;
  const auto* const entry = range_of(address);
  const Range* const range = entry == nullptr ? nullptr : &entry->second;
  const bool pinned = range != nullptr && range->kind == Kind::kPinned;
  const auto put = [](void* value, auto what) { std::memcpy(value, &what, sizeof what); };
  for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case PointerAttribute::kContext: {
        const bool has_one = range != nullptr && range->kind != Kind::kMapped;
        put(values[i], has_one ? state().devices[range->device].get() : nullptr);
        break;
      }
      case PointerAttribute::kMemoryType:
        put(values[i], range == nullptr ? MemoryType::kNone
                       : pinned         ? MemoryType::kHost
                                        : MemoryType::kDevice);
        break;
      case PointerAttribute::kDeviceAddress:
        put(values[i], range == nullptr ? 0 : address);
        break;
      case PointerAttribute::kHostAddress: {
        const bool has_one = pinned || (range != nullptr && range->kind == Kind::kManaged);
        put(values[i], has_one ? address : 0);
        break;
      }
      case PointerAttribute::kIsManaged:
        put(values[i], static_cast<int>(range != nullptr && range->kind == Kind::kManaged));
        break;
      case PointerAttribute::kDeviceOrdinal:
        put(values[i], range == nullptr ? kNoDevice : range->device);
        break;
      case PointerAttribute::kIsLegacyIpcCapable:
        put(values[i], static_cast<int>(range != nullptr && range->kind == Kind::kDevice));
        break;
      case PointerAttribute::kRangeStart:
        put(values[i], reserved_around(address).first);
        break;
      case PointerAttribute::kRangeBytes:
        put(values[i], reserved_around(address).second);
        break;
      case PointerAttribute::kMapped:
        put(values[i], static_cast<int>(range != nullptr));
        break;
      default:
        return Return::kInvalidValue;
    }
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  const auto* const range = range_of(address);
  if (range == nullptr || range->second.kind != Kind::kDevice) return Return::kInvalidValue;
  std::memset(handle, 0, sizeof *handle);
  std::snprintf(handle->reserved, sizeof handle->reserved, "%d %d %zu", ::getpid(),
                range->second.fd, range->second.bytes);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  FAKE_CUDA_TRY(forbid_beside_capture());
  int pid = 0;
  int number = 0;
  std::size_t bytes = 0;
  handle.reserved[sizeof handle.reserved - 1] = '\0';
  if (flags != kIpcLazyEnablePeerAccess ||
      std::sscanf(handle.reserved, "%d %d %zu", &pid, &number, &bytes) != 3)
    return Return::kInvalidValue;
  if (pid == ::getpid()) return Return::kInvalidContext;
  for (auto& [opened, range] : state().ranges)
    if (range.kind == Kind::kImported && range.origin == handle.reserved) {
      ++range.opened;
      *address = opened;
      return Return::kSuccess;
    }
  const int fd = open_of_process(pid, number);
  if (fd < 0) return Return::kInvalidValue;
  void* const data = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    ::close(fd);
    return Return::kMapFailed;
  }
  *address = reinterpret_cast<Address>(data);
  Range& range = state().ranges[*address];
  range = {.kind = Kind::kImported,
           .bytes = bytes,
           .device = context->device,
           .fd = fd,
           .origin = handle.reserved};
  guard(*address, range);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuIpcCloseMemHandle(Address address) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  FAKE_CUDA_TRY(forbid_beside_capture());
  FAKE_CUDA_TRY(find_own(address, Kind::kImported));
  Range& range = state().ranges[address];
  if (--range.opened > 0) return Return::kSuccess;
  unmap(address, range);
  state().ranges.erase(address);
  return Return::kSuccess;
}

// Whole allocations alone: the descriptor of a part would have to begin with it.
FAKE_CUDA_EXPORT Return cuMemGetHandleForAddressRange(void* handle, Address address,
                                                      std::size_t bytes, RangeHandleType type,
                                                      unsigned long long flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (setting("FAKE_CUDA_DMA_BUF", 1) == 0) return Return::kNotSupported;
  const auto* const range = range_of(address);
  if (type != RangeHandleType::kDmaBufFd || flags != 0 || range == nullptr ||
      address != range->first || bytes == 0 || bytes % kPage != 0 ||
      bytes > whole_pages(range->second.bytes))
    return Return::kInvalidValue;
  int fd = range->second.kind == Kind::kDevice ? range->second.fd : -1;
  if (range->second.kind == Kind::kMapped) {
    const Allocation& allocation = state().allocations.at(range->second.handle);
    if (allocation.rdma) fd = allocation.fd;
  }
  const int copy = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return Return::kNotSupported;
  std::memcpy(handle, &copy, sizeof copy);
  return Return::kSuccess;
}
