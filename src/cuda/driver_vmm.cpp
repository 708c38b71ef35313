// Device memory by handles: created or imported, mapped, exported.
#include <cstddef>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/cuda/driver.hpp"

namespace tutti::cuda {
namespace {

using abi::HandleType;
using abi::Return;

constexpr std::string_view kWithHandles = "CUDA 10.2";

abi::AllocationProperties properties_on(int device, HandleType type, bool rdma) {
  abi::AllocationProperties properties{};
  properties.type = abi::AllocationType::kPinned;
  properties.handle_types = type;
  properties.gpu_direct_rdma = rdma ? 1 : 0;
  properties.location = {.type = abi::LocationType::kDevice, .id = device};
  return properties;
}

/// All entry points of this file, or none.
Status check_entry_points(const Driver& driver) {
  const abi::Functions& cuda = driver.functions();
  if (cuda.allocation_create != nullptr && cuda.allocation_retain != nullptr &&
      cuda.allocation_release != nullptr && cuda.allocation_granularity != nullptr &&
      cuda.allocation_export != nullptr && cuda.allocation_import != nullptr &&
      cuda.address_reserve != nullptr && cuda.address_free != nullptr &&
      cuda.memory_map != nullptr && cuda.memory_unmap != nullptr &&
      cuda.memory_set_access != nullptr)
    return ok_status();
  return driver.lacks("cuMemCreate", kWithHandles);
}

Status set_access(const Driver& driver, const VmmRange& range, int device) {
  const abi::AccessDescription access{
      .location = {.type = abi::LocationType::kDevice, .id = device},
      .flags = abi::AccessFlags::kReadWrite};
  return driver.check(driver.functions().memory_set_access(range.address, range.bytes, &access, 1),
                      "cuMemSetAccess of {} bytes at {:#x} for device {}", range.bytes,
                      range.address, device);
}

Result<std::size_t> rounded_up(const Driver& driver, int device,
                               const abi::AllocationProperties& properties, std::size_t bytes) {
  std::size_t granularity = 0;
  TUTTI_TRY(driver.check(driver.functions().allocation_granularity(&granularity, &properties,
                                                                   abi::Granularity::kMinimum),
                         "cuMemGetAllocationGranularity of device {}", device));
  if (bytes == 0 || granularity == 0 || bytes > SIZE_MAX - granularity)
    return make_error(Code::kInvalidArgument, "{} bytes cannot be allocated on device {}", bytes,
                      device);
  return (bytes + granularity - 1) / granularity * granularity;
}

/// Fills handle, type and bytes of `range`.
Status create_handle(const Driver& driver, VmmRange& range, std::size_t bytes, HandleType type,
                     bool rdma) {
  const auto properties = properties_on(range.device, type, rdma);
  TUTTI_ASSIGN(range.bytes, rounded_up(driver, range.device, properties, bytes));
  range.handle_type = type;
  return driver.check(
      driver.functions().allocation_create(&range.handle, range.bytes, &properties, 0),
      "cuMemCreate of {} bytes on device {}{}", range.bytes, range.device,
      type == HandleType::kFabric ? " for the fabric" : "");
}

/// Maps what the handle of `range` stands for. Gives back what it made where it fails.
Status map(const Driver& driver, VmmRange& range) {
  const abi::Functions& cuda = driver.functions();
  TUTTI_TRY(driver.check(cuda.address_reserve(&range.address, range.bytes, 0, 0, 0),
                         "cuMemAddressReserve of {} bytes", range.bytes));
  Status mapped = driver.check(cuda.memory_map(range.address, range.bytes, 0, range.handle, 0),
                               "cuMemMap of {} bytes at {:#x}", range.bytes, range.address);
  if (mapped) {
    mapped = set_access(driver, range, range.device);
    if (!mapped) cuda.memory_unmap(range.address, range.bytes);
  }
  if (!mapped) cuda.address_free(range.address, range.bytes);
  return mapped;
}

/// Takes over the handle of `range`: on failure it is released.
Result<Owned<VmmRange>> mapped(SharedDriver driver, VmmRange range) {
  const Driver& cuda = *driver;
  if (Status done = map(cuda, range); !done) {
    cuda.functions().allocation_release(range.handle);
    return std::move(done).error();
  }
  return Owned<VmmRange>(std::move(driver), range);
}

Result<Owned<VmmRange>> imported(SharedDriver driver, VmmRange range, void* shareable) {
  const Driver& cuda = *driver;
  TUTTI_TRY(check_entry_points(cuda));
  TUTTI_ASSIGN(const ContextScope scope, cuda.make_current(range.device));
  TUTTI_TRY(cuda.check(
      cuda.functions().allocation_import(&range.handle, shareable, range.handle_type),
      "cuMemImportFromShareableHandle of {} bytes on device {}", range.bytes, range.device));
  return mapped(std::move(driver), range);
}

}  // namespace

void give_back(const Driver& driver, const VmmRange& range) {
  const abi::Functions& cuda = driver.functions();
  const auto logged = [](const Status& given) {
    if (!given) log_warn("cuda", "{}", given.error().what);
  };
  logged(driver.check(cuda.memory_unmap(range.address, range.bytes),
                      "cuMemUnmap of {} bytes at {:#x}", range.bytes, range.address));
  logged(driver.check(cuda.address_free(range.address, range.bytes),
                      "cuMemAddressFree of {} bytes at {:#x}", range.bytes, range.address));
  logged(driver.check(cuda.allocation_release(range.handle), "cuMemRelease of {} bytes at {:#x}",
                      range.bytes, range.address));
}

Result<VmmAllocation> VmmAllocation::create(SharedDriver driver, int device, std::size_t bytes,
                                            Reach reach) {
  const Driver& cuda = *driver;
  TUTTI_TRY(check_entry_points(cuda));
  TUTTI_ASSIGN(const ContextScope scope, cuda.make_current(device));
  VmmRange range{};
  range.device = device;
  TUTTI_ASSIGN(const DeviceFacts facts, cuda.device(device));
  // Offered and refused all the same: where the fabric's daemon (IMEX) does not run, say.
  const bool created =
      reach == Reach::kFabric && facts.fabric_handles &&
      create_handle(cuda, range, bytes, HandleType::kFabric, facts.rdma_of_handles);
  if (!created)
    TUTTI_TRY(create_handle(cuda, range, bytes, HandleType::kPosixFd, facts.rdma_of_handles));
  TUTTI_ASSIGN(Owned<VmmRange> owned, mapped(std::move(driver), range));
  return VmmAllocation(std::move(owned));
}

Result<VmmAllocation> VmmAllocation::import(SharedDriver driver, int device, int fd,
                                            std::size_t bytes) {
  VmmRange range{};
  range.device = device;
  range.handle_type = HandleType::kPosixFd;
  range.bytes = bytes;
  // The driver takes the number of the descriptor in the place of a pointer.
  auto* const shareable = abi::pointer_to(static_cast<abi::Address>(fd));
  TUTTI_ASSIGN(Owned<VmmRange> owned, imported(std::move(driver), range, shareable));
  return VmmAllocation(std::move(owned));
}

Result<VmmAllocation> VmmAllocation::import(SharedDriver driver, int device,
                                            const abi::FabricHandle& handle, std::size_t bytes) {
  VmmRange range{};
  range.device = device;
  range.handle_type = HandleType::kFabric;
  range.bytes = bytes;
  abi::FabricHandle copy = handle;
  TUTTI_ASSIGN(Owned<VmmRange> owned, imported(std::move(driver), range, &copy));
  return VmmAllocation(std::move(owned));
}

Result<Fd> VmmAllocation::export_fd() const {
  const Driver& driver = owned_.driver();
  if (reach() != Reach::kHost)
    return make_error(Code::kUnsupported, "memory for the fabric has no file descriptor");
  int fd = -1;
  TUTTI_TRY(driver.check(
      driver.functions().allocation_export(&fd, owned_.handle().handle, HandleType::kPosixFd, 0),
      "cuMemExportToShareableHandle of {} bytes as a file descriptor", bytes()));
  return Fd(fd);
}

Result<abi::FabricHandle> VmmAllocation::export_fabric() const {
  const Driver& driver = owned_.driver();
  if (reach() != Reach::kFabric)
    return make_error(Code::kUnsupported, "this memory was not made for the fabric");
  abi::FabricHandle handle{};
  TUTTI_TRY(driver.check(
      driver.functions().allocation_export(&handle, owned_.handle().handle, HandleType::kFabric, 0),
      "cuMemExportToShareableHandle of {} bytes for the fabric", bytes()));
  return handle;
}

Result<Fd> Driver::export_mapping(const void* address) const {
  TUTTI_TRY(check_entry_points(*this));
  abi::AllocationHandle handle = 0;
  TUTTI_TRY(check(functions_.allocation_retain(&handle, const_cast<void*>(address)),
                  "cuMemRetainAllocationHandle of {}", fmt::ptr(address)));
  int fd = -1;
  const Return exported = functions_.allocation_export(&fd, handle, HandleType::kPosixFd, 0);
  functions_.allocation_release(handle);
  TUTTI_TRY(check(exported, "cuMemExportToShareableHandle of {}", fmt::ptr(address)));
  return Fd(fd);
}

Status VmmAllocation::grant(int device) const {
  return set_access(owned_.driver(), owned_.handle(), device);
}

}  // namespace tutti::cuda
