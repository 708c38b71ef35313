// Memory that processes share, on the driver in memory. A child is this program once more, since a
// process with threads cannot be forked for long; it runs one of the tests called DISABLED_Child.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::cuda {
namespace {

using testing::HasSubstr;

class Sharing : public testing::Test {
 protected:
  /// Writes `value` to the first word of device memory at `to`, or reads it.
  void put(void* to, std::uint32_t value) const {
    EXPECT_TRUE(fake->copy_async(to, &value, sizeof value, nullptr).ok());
    EXPECT_TRUE(fake->synchronize(nullptr).ok());
  }
  [[nodiscard]] std::uint32_t get(const void* from) const {
    std::uint32_t value = 0;
    EXPECT_TRUE(fake->copy_async(&value, from, sizeof value, nullptr).ok());
    EXPECT_TRUE(fake->synchronize(nullptr).ok());
    return value;
  }
  FakeClient fake{FAKE_CUDA};
  ContextScope scope = *fake->make_current(0);
};

/// Runs the test `name` of this program in a child, with `what` in its environment; `fd` is open
/// there as descriptor 3. Its libcuda.so.1 is the driver in memory.
int run_child(const std::string& name, const std::string& what, int fd) {
  const std::string filter = "--gtest_filter=*.DISABLED_" + name;
  const std::string shared = "SHARED=" + what;
  const std::string devices = "FAKE_CUDA_DEVICES=3";
  const std::string fabric = "FAKE_CUDA_FABRIC=1";
  const std::string failing = "FAKE_CUDA_FAIL=cuMemAlloc_v2:2:2";
  const std::string file = FAKE_CUDA;
  const std::string libraries = "LD_LIBRARY_PATH=" + file.substr(0, file.rfind('/'));
  std::vector<const char*> arguments = {"child", filter.c_str(), "--gtest_also_run_disabled_tests",
                                        nullptr};
  std::vector<const char*> environment = {shared.c_str(),  devices.c_str(),   fabric.c_str(),
                                          failing.c_str(), libraries.c_str(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    if (fd >= 0) ::dup2(fd, 3);
    ::execve("/proc/self/exe", const_cast<char**>(arguments.data()),
             const_cast<char**>(environment.data()));
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

std::string hexadecimal(const void* data, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i)
    text += fmt::format("{:02x}", static_cast<const unsigned char*>(data)[i]);
  return text;
}

template <class Handle>
Handle handle_of_parent() {
  const std::string text = std::getenv("SHARED");  // NOLINT(concurrency-mt-unsafe)
  Handle handle{};
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<unsigned char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  std::memcpy(&handle, bytes.data(), std::min(sizeof handle, bytes.size()));
  return handle;
}

TEST_F(Sharing, OfHandlesGoesByFileDescriptor) {
  const auto memory = VmmAllocation::create(fake.shared(), 0, 100);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(memory->bytes(), std::size_t{2} << 20);
  EXPECT_EQ(memory->reach(), VmmAllocation::Reach::kHost);
  put(memory->data(), 41);
  const auto fd = memory->export_fd();
  ASSERT_TRUE(fd) << fd.error().what;
  EXPECT_EQ(run_child("ChildImportsADescriptor", "", fd->get()), 0);
  EXPECT_EQ(get(memory->data()), 42U);
}

TEST_F(Sharing, DISABLED_ChildImportsADescriptor) {
  const auto memory = VmmAllocation::import(fake.shared(), 0, 3, std::size_t{2} << 20);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(get(memory->data()), 41U);
  put(memory->data(), 42);
}

TEST_F(Sharing, OfWhatTheProgramMappedGoesByItsAddress) {
  const auto memory = VmmAllocation::create(fake.shared(), 0, 100);
  put(memory->data(), 41);
  const long handles = fake.live("handles");
  const auto fd = fake->export_mapping(static_cast<const std::byte*>(memory->data()) + 99);
  ASSERT_TRUE(fd) << fd.error().what;
  EXPECT_EQ(fake.live("handles"), handles);
  EXPECT_EQ(run_child("ChildImportsADescriptor", "", fd->get()), 0);
  EXPECT_EQ(get(memory->data()), 42U);

  const auto other = DeviceMemory::allocate(fake.shared(), 0, 100);
  const auto refused = fake->export_mapping(other->data());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("cuMemRetainAllocationHandle of 0x"));
}

TEST_F(Sharing, OfAllocationsGoesByIpc) {
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 100);
  put(memory->data(), 41);
  const auto handle = fake->ipc_handle(static_cast<const std::byte*>(memory->data()) + 50);
  ASSERT_TRUE(handle) << handle.error().what;
  EXPECT_EQ(run_child("ChildOpensAnIpcHandle", hexadecimal(&*handle, sizeof *handle), -1), 0);
  EXPECT_EQ(get(memory->data()), 42U);
}

TEST_F(Sharing, DISABLED_ChildOpensAnIpcHandle) {
  const auto handle = handle_of_parent<abi::IpcHandle>();
  const auto memory = IpcMemory::open(fake.shared(), 0, handle);
  ASSERT_TRUE(memory) << memory.error().what;
  const auto again = IpcMemory::open(fake.shared(), 0, handle);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->address(), memory->address());
  EXPECT_EQ(fake.live("imports"), 1);
  EXPECT_EQ(get(memory->data()), 41U);
  put(memory->data(), 42);
}

TEST_F(Sharing, ReachesTheFabricWhereThereIsOne) {
  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(fake->device(0)->fabric_handles);
  const auto memory = VmmAllocation::create(fake.shared(), 0, 100, VmmAllocation::Reach::kFabric);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(memory->reach(), VmmAllocation::Reach::kFabric);
  EXPECT_EQ(memory->export_fd().error().code, Code::kUnsupported);
  put(memory->data(), 41);
  const auto handle = memory->export_fabric();
  ASSERT_TRUE(handle) << handle.error().what;
  EXPECT_EQ(run_child("ChildImportsFromTheFabric", hexadecimal(&*handle, sizeof *handle), -1), 0);
  EXPECT_EQ(get(memory->data()), 42U);
  ::unsetenv("FAKE_CUDA_FABRIC");  // NOLINT(concurrency-mt-unsafe)
}

TEST_F(Sharing, DISABLED_ChildImportsFromTheFabric) {
  const auto memory = VmmAllocation::import(fake.shared(), 0, handle_of_parent<abi::FabricHandle>(),
                                            std::size_t{2} << 20);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(get(memory->data()), 41U);
  put(memory->data(), 42);
}

TEST_F(Sharing, FallsBackToTheHostWhereTheFabricIsAbsentOrRefuses) {
  const auto absent = VmmAllocation::create(fake.shared(), 0, 100, VmmAllocation::Reach::kFabric);
  ASSERT_TRUE(absent) << absent.error().what;
  EXPECT_EQ(absent->reach(), VmmAllocation::Reach::kHost);
  EXPECT_EQ(absent->export_fabric().error().code, Code::kUnsupported);

  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  fake.fail("cuMemCreate:1:800");
  const auto refused = VmmAllocation::create(fake.shared(), 0, 100, VmmAllocation::Reach::kFabric);
  fake.fail("");
  ::unsetenv("FAKE_CUDA_FABRIC");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_TRUE(refused) << refused.error().what;
  EXPECT_EQ(refused->reach(), VmmAllocation::Reach::kHost);
}

TEST(AnyProgram, RunsOnTheDriverInMemoryThatItFindsFirst) {
  EXPECT_EQ(run_child("ChildOpensTheDriverByItsName", "", -1), 0);
}

TEST(AnyProgram, DISABLED_ChildOpensTheDriverByItsName) {
  const auto driver = Driver::open();
  ASSERT_TRUE(driver) << driver.error().what;
  EXPECT_EQ((*driver)->device_count(), 3);
  EXPECT_TRUE(DeviceMemory::allocate(*driver, 2, 8).ok());
  const auto second = DeviceMemory::allocate(*driver, 2, 8);  // which it is told to fail
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
}

TEST_F(Sharing, RefusesADescriptorOfAnotherKind) {
  const int fd = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  const auto memory = VmmAllocation::import(fake.shared(), 0, fd, std::size_t{2} << 20);
  ::close(fd);
  ASSERT_FALSE(memory);
  EXPECT_THAT(memory.error().what,
              HasSubstr("cuMemImportFromShareableHandle of 2097152 bytes on device 0 failed"));
}

TEST_F(Sharing, GivesBackAllThatMappingMade) {
  const long before = fake.live("*");
  {
    const auto memory = VmmAllocation::create(fake.shared(), 0, std::size_t{3} << 20);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->bytes(), std::size_t{4} << 20);
    EXPECT_EQ(fake.live("*"), before + 3);  // a handle, addresses, a mapping
    const auto facts = fake->pointer(memory->data());
    EXPECT_EQ(facts->kind, MemoryKind::kDevice);
    EXPECT_EQ(facts->bytes, memory->bytes());
    EXPECT_EQ(facts->context, nullptr);
    EXPECT_FALSE(facts->legacy_ipc);
    EXPECT_TRUE(memory->grant(1).ok());
    EXPECT_FALSE(memory->grant(7));
  }
  EXPECT_EQ(fake.live("*"), before);
}

TEST_F(Sharing, RefusesToAllocateNothing) {
  const auto memory = VmmAllocation::create(fake.shared(), 0, 0);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace tutti::cuda
