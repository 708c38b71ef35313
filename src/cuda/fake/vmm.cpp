// Memory by handles: created, imported, mapped into reserved addresses.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr auto kAllTypes =
    static_cast<unsigned>(HandleType::kPosixFd) | static_cast<unsigned>(HandleType::kFabric);

bool is_whole(std::size_t bytes) { return bytes != 0 && bytes % kGranularity == 0; }

Return check(const AllocationProperties& properties) {
  if (!state().initialised) return Return::kNotInitialized;
  const auto types = static_cast<unsigned>(properties.handle_types);
  if (properties.type != AllocationType::kPinned || (types & ~kAllTypes) != 0)
    return Return::kInvalidValue;
  if (properties.location.type != LocationType::kDevice) return Return::kNotSupported;
  if (properties.location.id < 0 ||
      properties.location.id >= static_cast<int>(state().devices.size()))
    return Return::kInvalidDevice;
  const bool fabric = (types & static_cast<unsigned>(HandleType::kFabric)) != 0;
  return fabric && setting("FAKE_CUDA_FABRIC", 0) == 0 ? Return::kNotSupported : Return::kSuccess;
}

AllocationHandle keep(const Allocation& allocation) {
  static AllocationHandle handles = 0;
  state().allocations.emplace(++handles, allocation);
  return handles;
}

/// Closes the memory of a handle that nobody needs any more.
void close_if_unused(AllocationHandle handle) {
  const auto found = state().allocations.find(handle);
  if (found->second.references > 0 || found->second.mappings > 0) return;
  ::close(found->second.fd);
  state().allocations.erase(found);
}

Allocation* find(AllocationHandle handle) {
  const auto found = state().allocations.find(handle);
  if (found == state().allocations.end() || found->second.references == 0) return nullptr;
  return &found->second;
}

/// Takes over `fd`, which must be memory that cuMemCreate of some process made.
Return import(AllocationHandle* handle, int fd, HandleType type) {
  char link[64];
  char name[256] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int device = -1;
  struct stat info{};
  if (::readlink(link, name, sizeof name - 1) < 0 ||
      std::sscanf(name, "/memfd:fake_cuda_handle.%d", &device) != 1 || ::fstat(fd, &info) != 0) {
    ::close(fd);
    return Return::kInvalidValue;
  }
  *handle = keep({.fd = fd,
                  .bytes = static_cast<std::size_t>(info.st_size),
                  .device = device,
                  .handle_types = static_cast<unsigned>(type),
                  .references = 1});
  return Return::kSuccess;
}

/// The mappings that make up [address, address + bytes); empty where they do not.
std::vector<Address> mappings_of(Address address, std::size_t bytes) {
  std::vector<Address> found;
  const Address end = address + bytes;
  for (Address at = address; at < end;) {
    const auto range = state().ranges.find(at);
    if (range == state().ranges.end() || range->second.kind != Kind::kMapped) return {};
    found.push_back(at);
    at += range->second.bytes;
    if (at > end) return {};
  }
  return found;
}

/// Whether [address, address + bytes) is of one reservation.
bool is_reserved(Address address, std::size_t bytes) {
  auto after = state().reservations.upper_bound(address);
  if (after == state().reservations.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

/// Takes one mapping away, and the memory with the last of them and of the references.
void unmap_allocation(AllocationHandle handle) {
  --state().allocations.at(handle).mappings;
  close_if_unused(handle);
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuMemGetAllocationGranularity(std::size_t* bytes,
                                                      const AllocationProperties* properties,
                                                      Granularity option) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  (void)option;  // both are the same
  FAKE_CUDA_TRY(check(*properties));
  *bytes = kGranularity;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemCreate(AllocationHandle* handle, std::size_t bytes,
                                    const AllocationProperties* properties,
                                    unsigned long long flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  FAKE_CUDA_TRY(check(*properties));
  if (flags != 0 || !is_whole(bytes)) return Return::kInvalidValue;
  const int device = properties->location.id;
  char name[64];
  std::snprintf(name, sizeof name, "fake_cuda_handle.%d", device);
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    if (fd >= 0) ::close(fd);
    return Return::kOutOfMemory;
  }
  *handle = keep({.fd = fd,
                  .bytes = bytes,
                  .device = device,
                  .handle_types = static_cast<unsigned>(properties->handle_types),
                  .references = 1,
                  .rdma = properties->gpu_direct_rdma != 0});
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemRelease(AllocationHandle handle) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  Allocation* const allocation = find(handle);
  if (allocation == nullptr) return Return::kInvalidValue;
  --allocation->references;
  close_if_unused(handle);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  const auto* const range = range_of(reinterpret_cast<Address>(address));
  if (range == nullptr || range->second.kind != Kind::kMapped) return Return::kInvalidValue;
  *handle = range->second.handle;
  ++state().allocations.at(*handle).references;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemExportToShareableHandle(void* shareable, AllocationHandle handle,
                                                     HandleType type, unsigned long long flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  const Allocation* const allocation = find(handle);
  if (allocation == nullptr || flags != 0 ||
      (allocation->handle_types & static_cast<unsigned>(type)) == 0)
    return Return::kInvalidValue;
  if (type == HandleType::kFabric) {
    FabricHandle fabric{};
    std::snprintf(reinterpret_cast<char*>(fabric.data), sizeof fabric.data, "%d %d", ::getpid(),
                  allocation->fd);
    std::memcpy(shareable, &fabric, sizeof fabric);
    return Return::kSuccess;
  }
  const int fd = ::fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return Return::kUnknown;
  std::memcpy(shareable, &fd, sizeof fd);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemImportFromShareableHandle(AllocationHandle* handle, void* shareable,
                                                       HandleType type) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  if (!state().initialised) return Return::kNotInitialized;
  int fd = -1;
  if (type == HandleType::kPosixFd) {
    fd = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)), F_DUPFD_CLOEXEC, 0);
  } else if (type == HandleType::kFabric) {
    if (setting("FAKE_CUDA_FABRIC", 0) == 0) return Return::kNotSupported;
    FabricHandle fabric{};
    std::memcpy(&fabric, shareable, sizeof fabric - 1);
    int pid = 0;
    int number = 0;
    if (std::sscanf(reinterpret_cast<const char*>(fabric.data), "%d %d", &pid, &number) != 2)
      return Return::kInvalidValue;
    fd = open_of_process(pid, number);
  }
  return fd < 0 ? Return::kInvalidValue : import(handle, fd, type);
}

FAKE_CUDA_EXPORT Return cuMemAddressReserve(Address* address, std::size_t bytes,
                                            std::size_t alignment, Address wanted,
                                            unsigned long long flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  (void)wanted;  // a hint
  if (!is_whole(bytes) || flags != 0 || (alignment & (alignment - 1)) != 0)
    return Return::kInvalidValue;
  const std::size_t step = std::max(alignment, kGranularity);
  void* const data =
      ::mmap(nullptr, bytes + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return Return::kOutOfMemory;
  const auto start = reinterpret_cast<Address>(data);
  *address = (start + step - 1) / step * step;
  if (*address > start) ::munmap(data, *address - start);
  ::munmap(reinterpret_cast<void*>(*address + bytes), start + step - *address);
  state().reservations.emplace(*address, bytes);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemAddressFree(Address address, std::size_t bytes) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  const auto found = state().reservations.find(address);
  const auto mapped = state().ranges.lower_bound(address);
  if (found == state().reservations.end() || found->second != bytes ||
      (mapped != state().ranges.end() && mapped->first < address + bytes))
    return Return::kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), bytes);
  state().reservations.erase(found);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemMap(Address address, std::size_t bytes, std::size_t offset,
                                 AllocationHandle handle, unsigned long long flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  Allocation* const allocation = find(handle);
  if (allocation == nullptr || flags != 0 || offset != 0 || !is_whole(bytes) ||
      bytes > allocation->bytes || !is_reserved(address, bytes))
    return Return::kInvalidValue;
  const auto next = state().ranges.lower_bound(address);
  if (range_of(address) != nullptr ||
      (next != state().ranges.end() && next->first < address + bytes))
    return Return::kInvalidValue;
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             allocation->fd, 0) == MAP_FAILED)
    return Return::kMapFailed;
  ++allocation->mappings;
  state().ranges[address] = {.kind = Kind::kMapped,
                             .bytes = bytes,
                             .device = allocation->device,
                             .handle = handle,
                             .accessible = false};
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemUnmap(Address address, std::size_t bytes) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  const std::vector<Address> mappings = mappings_of(address, bytes);
  if (mappings.empty()) return Return::kInvalidValue;
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return Return::kUnknown;
  for (const Address mapping : mappings) {
    const auto range = state().ranges.find(mapping);
    unmap_allocation(range->second.handle);
    state().ranges.erase(range);
  }
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuMemSetAccess(Address address, std::size_t bytes,
                                       const AccessDescription* descriptions, std::size_t count) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  const std::vector<Address> mappings = mappings_of(address, bytes);
  if (mappings.empty() || count == 0) return Return::kInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    const Location& location = descriptions[i].location;
    if (location.type != LocationType::kDevice) return Return::kNotSupported;
    if (location.id < 0 || location.id >= static_cast<int>(state().devices.size()))
      return Return::kInvalidDevice;
    if (descriptions[i].flags != AccessFlags::kReadWrite) return Return::kNotSupported;
  }
  ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  for (const Address mapping : mappings) {
    Range& range = state().ranges[mapping];
    range.accessible = true;
    guard(mapping, range);
  }
  return Return::kSuccess;
}
