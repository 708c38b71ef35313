// Opening, devices, contexts and memory, on the driver in memory.
#include "src/cuda/driver.hpp"

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DriverOnFake : public testing::Test {
 protected:
  FakeClient fake{FAKE_CUDA};
};

TEST(DriverOpen, IsUnsupportedWhereThereIsNoLibrary) {
  const auto driver = Driver::open("libno-such-cuda.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, Code::kUnsupported);
  EXPECT_THAT(driver.error().what, HasSubstr("libno-such-cuda.so.1"));
}

TEST(DriverOpen, IsUnsupportedWhereTheLibraryIsAnother) {
  const auto driver = Driver::open("libc.so.6");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, Code::kUnsupported);
  EXPECT_THAT(driver.error().what, HasSubstr("lacks the entry point cuInit"));
}

TEST_F(DriverOnFake, IsUnavailableWhereItDoesNotStartAndSaysWhatToDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"cuInit:1:100", "CUDA_ERROR_NO_DEVICE (100), no device is detected; no GPU is visible"},
      {"cuInit:1:803", "reload the module or reboot"},
      {"cuInit:1:802", "nvidia-fabricmanager"},
      {"cuInit:1:34", "LD_LIBRARY_PATH"},
      {"cuInit:1:999", "the driver may be too old"},
      {"cuDriverGetVersion:1", "cuDriverGetVersion failed: CUDA_ERROR_UNKNOWN (999)"},
      {"cuDeviceGetCount:1", "cuDeviceGetCount failed: CUDA_ERROR_UNKNOWN (999)"}};
  for (const auto& [list, text] : cases) {
    fake.fail(list);
    const auto driver = Driver::open(FAKE_CUDA);
    fake.fail("");
    ASSERT_FALSE(driver) << list;
    EXPECT_EQ(driver.error().code, Code::kUnavailable);
    EXPECT_THAT(driver.error().what, HasSubstr(text));
  }
}

TEST_F(DriverOnFake, TellsTheVersion) { EXPECT_EQ(fake->version(), 13000); }

TEST_F(DriverOnFake, DescribesEachDevice) {
  ASSERT_EQ(fake->device_count(), 2);
  for (int device = 0; device < 2; ++device) {
    const auto facts = fake->device(device);
    ASSERT_TRUE(facts) << facts.error().what;
    EXPECT_EQ(facts->ordinal, device);
    EXPECT_EQ(facts->name, "Fake GPU");
    EXPECT_EQ(facts->bus_id, device == 0 ? "0000:a0:00.0" : "0000:a1:00.0");
    EXPECT_EQ(facts->uuid, std::string(30, 'f').replace(0, 30, "fafafafafafafafafafafafafafafa") +
                               (device == 0 ? "00" : "01"));
    EXPECT_EQ(facts->compute_major, 9);
    EXPECT_EQ(facts->compute_minor, 0);
    EXPECT_EQ(facts->multiprocessors, 16);
    EXPECT_TRUE(facts->stream_values && facts->memory_handles && facts->posix_fd_handles);
    EXPECT_TRUE(facts->host_register && facts->registered_at_host_address);
    EXPECT_TRUE(facts->cooperative_launch);
    EXPECT_FALSE(facts->fabric_handles || facts->pageable_access);
    EXPECT_TRUE(facts->dma_buf && facts->rdma_of_handles);
    EXPECT_FALSE(facts->orders_rdma_writes);
  }
}

TEST_F(DriverOnFake, RefusesADeviceThatIsNotThere) {
  const auto facts = fake->device(2);
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Code::kInvalidArgument);
  EXPECT_EQ(facts.error().what, "there is no CUDA device 2: this process sees 2");
  EXPECT_FALSE(fake->make_current(-1));
}

TEST_F(DriverOnFake, MakesDeviceZeroCurrentWhereNoneIs) {
  std::thread([&] {  // has no context yet
    abi::Context context = nullptr;
    fake->functions().context_current(&context);
    EXPECT_EQ(context, nullptr);
    EXPECT_EQ(*fake->current_device(), 0);
    fake->functions().context_current(&context);
    EXPECT_NE(context, nullptr);
  })
      .join();
}

TEST_F(DriverOnFake, RestoresTheContextThatWasCurrent) {
  std::thread([&] {
    const auto outer = fake->make_current(1);
    EXPECT_EQ(*fake->current_device(), 1);
    {
      const auto inner = fake->make_current(0);
      EXPECT_EQ(*fake->current_device(), 0);
      const auto same = fake->make_current(0);
      EXPECT_EQ(*fake->current_device(), 0);
    }
    EXPECT_EQ(*fake->current_device(), 1);
  }).join();
}

TEST_F(DriverOnFake, GivesItsContextsBack) {
  const long before = fake.live("contexts");
  {
    const auto driver = Driver::open(FAKE_CUDA);
    ASSERT_TRUE(driver);
    const auto scope = (*driver)->make_current(1);
    EXPECT_EQ(fake.live("contexts"), before + 1);
  }
  EXPECT_EQ(fake.live("contexts"), before);
}

TEST_F(DriverOnFake, OpensPeerAccessOnceOrMore) {
  EXPECT_TRUE(*fake->can_access_peer(0, 1));
  EXPECT_FALSE(*fake->can_access_peer(1, 1));
  EXPECT_TRUE(fake->enable_peer_access(0, 1).ok());
  EXPECT_TRUE(fake->enable_peer_access(0, 1).ok());
}

TEST_F(DriverOnFake, AllocatesOnTheDeviceThatIsAsked) {
  const auto scope = fake->make_current(0);
  const auto before = fake->memory_info(1);
  auto memory = DeviceMemory::allocate(fake.shared(), 1, 5000);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(memory->bytes(), 5000U);
  EXPECT_EQ(fake->memory_info(1)->free_bytes, before->free_bytes - 5000);
  EXPECT_EQ(fake->memory_info(1)->total_bytes, before->total_bytes);
  const auto facts = fake->pointer(static_cast<std::byte*>(memory->data()) + 4999);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->kind, MemoryKind::kDevice);
  EXPECT_EQ(facts->device, 1);
  EXPECT_EQ(facts->base, memory->address());
  EXPECT_EQ(facts->bytes, 5000U);
  EXPECT_EQ(facts->device_address, memory->address() + 4999);
  EXPECT_NE(facts->context, nullptr);
  EXPECT_TRUE(facts->legacy_ipc);
}

TEST_F(DriverOnFake, MovesWhatItOwns) {
  const long before = fake.live("allocations");
  {
    auto first = DeviceMemory::allocate(fake.shared(), 0, 1);
    auto second = DeviceMemory::allocate(fake.shared(), 0, 2);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(fake.live("allocations"), before + 2);
    *first = *std::move(second);
    EXPECT_EQ(fake.live("allocations"), before + 1);
    EXPECT_EQ(first->bytes(), 2U);
  }
  EXPECT_EQ(fake.live("allocations"), before);
}

TEST_F(DriverOnFake, SaysThatMemoryIsShort) {
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, std::size_t{1} << 50);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::kUnavailable);
  EXPECT_EQ(memory.error().what,
            "cuMemAlloc of 1125899906842624 bytes on device 0 failed: CUDA_ERROR_OUT_OF_MEMORY (2),"
            " out of memory");
}

TEST_F(DriverOnFake, KnowsPageableMemoryFromPinned) {
  std::vector<std::byte> memory(10000);
  EXPECT_EQ(*fake->pointer(memory.data()), PointerFacts{});
  {
    const auto pinned = HostRegistration::create(fake.shared(), 0, memory);
    ASSERT_TRUE(pinned) << pinned.error().what;
    EXPECT_EQ(pinned->memory().data(), memory.data());
    EXPECT_EQ(pinned->device_address(), reinterpret_cast<abi::Address>(memory.data()));
    const auto facts = fake->pointer(&memory[7]);
    EXPECT_EQ(facts->kind, MemoryKind::kPinnedHost);
    EXPECT_EQ(facts->base, reinterpret_cast<abi::Address>(memory.data()));
    EXPECT_EQ(facts->bytes, memory.size());
    EXPECT_FALSE(facts->legacy_ipc);

    const auto again = HostRegistration::create(fake.shared(), 0, std::span(memory).subspan(5000));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::kDevice);
    EXPECT_THAT(again.error().what, AllOf(HasSubstr("cuMemHostRegister of 5000 bytes at 0x"),
                                          HasSubstr("HOST_MEMORY_ALREADY_REGISTERED (712)")));
  }
  EXPECT_EQ(*fake->pointer(memory.data()), PointerFacts{});
}

TEST_F(DriverOnFake, KnowsManagedMemory) {
  const auto scope = fake->make_current(0);
  abi::Address address = 0;
  ASSERT_EQ(fake.allocate_managed(&address, 100), abi::Return::kSuccess);
  const auto facts = fake->pointer(reinterpret_cast<void*>(address));
  EXPECT_EQ(facts->kind, MemoryKind::kManaged);
  EXPECT_FALSE(facts->legacy_ipc);
  EXPECT_EQ(fake->functions().memory_free(address), abi::Return::kSuccess);
}

TEST_F(DriverOnFake, FreesOnlyWhatWasAllocated) {
  const auto scope = fake->make_current(0);
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 100);
  ASSERT_TRUE(memory);
  const abi::Functions& cuda = fake->functions();
  EXPECT_EQ(cuda.memory_free(memory->address() + 8), abi::Return::kInvalidValue);
  int local = 0;
  EXPECT_EQ(cuda.memory_free(reinterpret_cast<abi::Address>(&local)), abi::Return::kInvalidValue);
}

using DriverOnFakeDeathTest = DriverOnFake;
TEST_F(DriverOnFakeDeathTest, EndsAProgramThatTouchesDeviceMemoryThatIsGuarded) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        ::setenv("FAKE_CUDA_GUARD", "1", 1);  // NOLINT(concurrency-mt-unsafe)
        const auto memory = DeviceMemory::allocate(fake.shared(), 0, 100);
        *static_cast<volatile char*>(memory->data()) = 1;
      },
      "");
}

TEST_F(DriverOnFake, WantsAContextForWhatNeedsOne) {
  std::thread([&] {
    abi::Address address = 0;
    EXPECT_EQ(fake->functions().memory_allocate(&address, 8), abi::Return::kInvalidContext);
    EXPECT_EQ(fake->functions().stream_synchronize(nullptr), abi::Return::kInvalidContext);
  }).join();
}

TEST(OldDriver, SaysWhatItLacksAndWhichReleaseHasIt) {
  ::setenv("FAKE_CUDA_VERSION", "10010", 1);  // NOLINT(concurrency-mt-unsafe)
  const FakeClient old(FAKE_CUDA_OLD);
  ::unsetenv("FAKE_CUDA_VERSION");  // NOLINT(concurrency-mt-unsafe)
  const auto scope = old->make_current(0);
  const auto facts = old->device(0);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_FALSE(facts->stream_values || facts->memory_handles || facts->posix_fd_handles);
  EXPECT_EQ(facts->uuid.size(), 32U);

  const auto made = VmmAllocation::create(old.shared(), 0, 100);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().what,
            "the CUDA driver lacks cuMemCreate: it is of CUDA 10.1, and CUDA 10.2 has it; install "
            "a newer driver");
  int word = 0;
  const abi::BatchOperation operations[] = {Driver::wait_operation(&word, 1)};
  static bool destroyed = false;
  const auto destroy = [](void*) { destroyed = true; };
  const std::pair<Status, const char*> refused[] = {
      {old->wait_value(nullptr, &word, 1),
       "lacks cuStreamWaitValue32_v2: it is of CUDA 10.1, and "
       "CUDA 11.7 has it"},
      {old->write_value(nullptr, &word, 1), "lacks cuStreamWriteValue32_v2"},
      {old->batch(nullptr, operations), "lacks cuStreamBatchMemOp_v2"},
      {old->give_to_graph(nullptr, destroy, nullptr),
       "lacks cuUserObjectCreate: it is of CUDA "
       "10.1, and CUDA 11.3 has it"}};
  for (const auto& [status, text] : refused) {
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, Code::kUnsupported);
    EXPECT_THAT(status.error().what, HasSubstr(text));
  }
  EXPECT_TRUE(destroyed);
  const auto fd = VmmAllocation::import(old.shared(), 0, 0, 100);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, Code::kUnsupported);
}

TEST(OldDriver, TellsThatAStreamIsUnderCaptureButNotWhichOne) {
  const FakeClient old(FAKE_CUDA_OLD);
  const auto scope = old->make_current(0);
  const auto stream = OwnedStream::create(old.shared(), 0);
  EXPECT_EQ(old->capture_status(stream->get())->kind, CaptureKind::kNone);
  ASSERT_EQ(old.begin_capture(stream->get()), abi::Return::kSuccess);
  const auto active = old->capture_status(stream->get());
  ASSERT_FALSE(active);
  EXPECT_THAT(active.error().what, HasSubstr("lacks cuStreamGetCaptureInfo_v2"));
  EXPECT_FALSE(old->synchronize(stream->get()));
  EXPECT_EQ(old->capture_status(stream->get())->kind, CaptureKind::kInvalidated);
}

TEST_F(DriverOnFake, RefusesToExportWhatIsNotDeviceMemory) {
  const auto scope = fake->make_current(0);
  int local = 0;
  const auto handle = fake->ipc_handle(&local);
  ASSERT_FALSE(handle);
  EXPECT_THAT(handle.error().what, HasSubstr("cuIpcGetMemHandle of 0x"));
}

TEST_F(DriverOnFake, DoesNotOpenItsOwnExport) {
  const auto scope = fake->make_current(0);
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 100);
  const auto handle = fake->ipc_handle(memory->data());
  ASSERT_TRUE(handle) << handle.error().what;
  const auto opened = IpcMemory::open(fake.shared(), 0, *handle);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().what, HasSubstr("CUDA_ERROR_INVALID_CONTEXT (201)"));
}

}  // namespace
}  // namespace tutti::cuda
