// What happens when calls of the driver fail, each of them in turn.
#include <array>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::cuda {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Waits at its end for all work, whatever fails: so memory outlives the work that uses it.
struct Drain {
  const FakeClient& fake;
  abi::Stream stream;
  ~Drain() {
    for (int tries = 0; tries < 2; ++tries) fake->functions().stream_synchronize(stream);
  }
};

/// Everything once. Its first error, if any; what it made is gone when it returns.
Status use_all(const FakeClient& fake) {
  const SharedDriver& driver = fake.shared();
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(0));
  TUTTI_ASSIGN(const int current, driver->current_device());
  TUTTI_CHECK(current == 0, "device {}", current);
  TUTTI_TRY(driver->device(0));
  TUTTI_TRY(driver->can_access_peer(0, 1));
  TUTTI_TRY(driver->enable_peer_access(0, 1));
  TUTTI_TRY(driver->memory_info(0));
  TUTTI_ASSIGN(const OwnedStream stream, OwnedStream::create(driver, 0));
  TUTTI_ASSIGN(const Event event, Event::create(driver, 0));
  TUTTI_ASSIGN(const DeviceMemory memory, DeviceMemory::allocate(driver, 0, 256));
  std::vector<std::byte> pages(256);
  TUTTI_ASSIGN(const HostRegistration pinned, HostRegistration::create(driver, 0, pages));
  TUTTI_ASSIGN(const VmmAllocation shared, VmmAllocation::create(driver, 0, 256));
  TUTTI_ASSIGN(const Fd fd, shared.export_fd());
  TUTTI_ASSIGN(const VmmAllocation imported,
               VmmAllocation::import(driver, 0, fd.get(), shared.bytes()));
  TUTTI_TRY(driver->export_mapping(shared.data()));
  TUTTI_TRY(driver->dma_buf({static_cast<const std::byte*>(memory.data()), 4096}));
  TUTTI_TRY(driver->pointer(memory.data()));
  TUTTI_TRY(driver->ipc_handle(memory.data()));
  const std::array<std::byte, 1> image{};
  TUTTI_ASSIGN(const Module module, Module::load(driver, 0, image));
  TUTTI_ASSIGN(const abi::Function function, module.function("nothing"));
  TUTTI_TRY(driver->allow_shared_bytes(function, 1));
  TUTTI_TRY(driver->blocks_per_multiprocessor(function, {}));
  const Drain drain{fake, stream.get()};
  TUTTI_TRY(driver->launch(function, {}, stream.get(), {}));
  TUTTI_TRY(driver->launch(function, {.cooperative = true}, stream.get(), {}));
  TUTTI_TRY(driver->fill_async(memory.data(), std::byte{1}, 256, stream.get()));
  TUTTI_TRY(driver->copy_async(pages.data(), memory.data(), 4, stream.get()));
  TUTTI_TRY(driver->copy_on_device_async(shared.data(), memory.data(), 4, stream.get()));
  TUTTI_TRY(driver->write_value(stream.get(), pages.data(), 1));
  TUTTI_TRY(driver->wait_value(stream.get(), pages.data(), 1));
  const std::array operations{Driver::wait_operation(pages.data(), 1)};
  TUTTI_TRY(driver->batch(stream.get(), operations));
  TUTTI_TRY(driver->host_function(stream.get(), [](void*) {}, nullptr));
  TUTTI_TRY(event.record(stream.get()));
  TUTTI_TRY(event.hold(stream.get()));
  TUTTI_TRY(driver->capture_status(stream.get()));
  TUTTI_TRY(driver->device_of(stream.get()));
  TUTTI_TRY(event.done());
  TUTTI_TRY(event.synchronize());
  TUTTI_TRY(driver->idle(stream.get()));
  TUTTI_TRY(driver->synchronize(stream.get()));
  return ok_status();
}

/// The same on a thread of its own, which has no context yet.
Status use_all_anew(const FakeClient& fake) {
  Status status;
  std::thread([&] { status = use_all(fake); }).join();
  return status;
}

class Faults : public testing::Test {
 protected:
  Faults() {
    fake.register_kernel("nothing", [](unsigned, unsigned, void**) {});
  }
  FakeClient fake{FAKE_CUDA};
};

TEST_F(Faults, NameTheOperationTheErrorAndItsWords) {
  // What is done, and the beginning of what is said when that call fails.
  const std::pair<const char*, const char*> cases[] = {
      {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain of device 0 failed: "},
      {"cuCtxGetCurrent", "cuCtxGetCurrent failed: "},
      {"cuCtxSetCurrent", "cuCtxSetCurrent to device 0 failed: "},
      {"cuCtxGetDevice", "cuCtxGetDevice failed: "},
      {"cuDeviceGet", "cuDeviceGet of device 0 failed: "},
      {"cuDeviceGetName", "cuDeviceGetName of device 0 failed: "},
      {"cuDeviceGetPCIBusId", "cuDeviceGetPCIBusId of device 0 failed: "},
      {"cuDeviceGetUuid_v2", "cuDeviceGetUuid of device 0 failed: "},
      {"cuDeviceCanAccessPeer", "cuDeviceCanAccessPeer of device 0 to device 1 failed: "},
      {"cuCtxEnablePeerAccess", "cuCtxEnablePeerAccess of device 0 to device 1 failed: "},
      {"cuMemGetInfo_v2", "cuMemGetInfo of device 0 failed: "},
      {"cuStreamCreateWithPriority", "cuStreamCreateWithPriority on device 0 failed: "},
      {"cuEventCreate", "cuEventCreate on device 0 failed: "},
      {"cuMemAlloc_v2", "cuMemAlloc of 256 bytes on device 0 failed: "},
      {"cuMemHostRegister_v2", "cuMemHostRegister of 256 bytes at 0x"},
      {"cuMemHostGetDevicePointer_v2", "cuMemHostGetDevicePointer of 0x"},
      {"cuMemGetAllocationGranularity", "cuMemGetAllocationGranularity of device 0 failed: "},
      {"cuMemCreate", "cuMemCreate of 2097152 bytes on device 0 failed: "},
      {"cuMemAddressReserve", "cuMemAddressReserve of 2097152 bytes failed: "},
      {"cuMemMap", "cuMemMap of 2097152 bytes at 0x"},
      {"cuMemSetAccess", "cuMemSetAccess of 2097152 bytes at 0x"},
      {"cuMemExportToShareableHandle",
       "cuMemExportToShareableHandle of 2097152 bytes as a file descriptor failed: "},
      {"cuMemImportFromShareableHandle",
       "cuMemImportFromShareableHandle of 2097152 bytes on device 0 failed: "},
      {"cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle of 0x"},
      {"cuPointerGetAttributes", "cuPointerGetAttributes of 0x"},
      {"cuMemGetAddressRange_v2", "cuMemGetAddressRange of 0x"},
      {"cuMemGetHandleForAddressRange", "cuMemGetHandleForAddressRange of 4096 bytes at 0x"},
      {"cuIpcGetMemHandle", "cuIpcGetMemHandle of 0x"},
      {"cuModuleLoadData", "cuModuleLoadData of 1 bytes on device 0 failed: "},
      {"cuModuleGetFunction", "cuModuleGetFunction of 'nothing' failed: "},
      {"cuFuncSetAttribute", "cuFuncSetAttribute of 1 bytes of shared memory failed: "},
      {"cuOccupancyMaxActiveBlocksPerMultiprocessor",
       "cuOccupancyMaxActiveBlocksPerMultiprocessor of 1 threads and 0 bytes failed: "},
      {"cuLaunchKernel", "cuLaunchKernel of 1 blocks of 1 threads failed: "},
      {"cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel of 1 blocks of 1 threads failed: "},
      {"cuMemsetD8Async", "cuMemsetD8Async of 256 bytes at 0x"},
      {"cuMemcpyAsync", "cuMemcpyAsync of 4 bytes from 0x"},
      {"cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync of 4 bytes from 0x"},
      {"cuStreamWriteValue32_v2", "cuStreamWriteValue32 of 1 to the word at 0x"},
      {"cuStreamWaitValue32_v2", "cuStreamWaitValue32 of the word at 0x"},
      {"cuStreamBatchMemOp_v2", "cuStreamBatchMemOp of 1 operations failed: "},
      {"cuLaunchHostFunc", "cuLaunchHostFunc failed: "},
      {"cuEventRecord", "cuEventRecord failed: "},
      {"cuStreamWaitEvent", "cuStreamWaitEvent failed: "},
      {"cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo failed: "},
      {"cuStreamGetCtx", "cuStreamGetCtx failed: "},
      {"cuEventQuery", "cuEventQuery failed: "},
      {"cuEventSynchronize", "cuEventSynchronize failed: "},
      {"cuStreamQuery", "cuStreamQuery failed: "},
      {"cuStreamSynchronize", "cuStreamSynchronize failed: "}};
  for (const auto& [entry_point, beginning] : cases) {
    const FakeClient fresh(FAKE_CUDA);  // without contexts
    fresh.fail(std::string(entry_point) + ":1");
    const Status status = use_all_anew(fresh);
    fresh.fail("");
    ASSERT_FALSE(status) << entry_point << " is not called";
    EXPECT_EQ(status.error().code, Code::kDevice);
    EXPECT_THAT(status.error().what, StartsWith(beginning));
    EXPECT_THAT(status.error().what, HasSubstr(" failed: CUDA_ERROR_UNKNOWN (999), unknown error"));
  }
}

TEST_F(Faults, OfWhatTheDeviceCannotDoAreUnsupported) {
  fake.fail("cuMemAlloc_v2:1:801");
  const Status status = use_all_anew(fake);
  fake.fail("");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
}

TEST_F(Faults, LeaveNothingBehindWhicheverCallFails) {
  const auto live = [&] { return fake.live("*") - fake.live("contexts"); };
  fake.fail("");
  const long at_first = live();
  const Status status = use_all_anew(FakeClient(FAKE_CUDA));
  ASSERT_TRUE(status) << status.error().what;
  const long calls = fake.calls("*");
  ASSERT_EQ(live(), at_first);
  long failed = 0;
  for (long call = 1; call <= calls; ++call) {
    const FakeClient fresh(FAKE_CUDA);  // whose contexts take along what was not given back
    const long before = live();
    fresh.fail("*:" + std::to_string(call));
    const Status one = use_all_anew(fresh);
    fresh.fail("");
    if (one) continue;  // a call that gives back failed, or one whose error does not matter
    ++failed;
    EXPECT_THAT(one.error().what, HasSubstr("CUDA_ERROR_UNKNOWN (999)"));
    EXPECT_EQ(live(), before) << "after call " << call << ": " << one.error().what;
  }
  EXPECT_GT(failed, calls / 3);
}

}  // namespace
}  // namespace tutti::cuda
