// Memory that processes share, on the driver in memory. A child is this program once more, since a
// process with threads cannot be forked for long: with CHILD in its environment, it does the part
// of that name before main, and ends.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::cuda {
namespace {

using testing::HasSubstr;

/// Writes `value` to the first word of device memory.
bool put(const FakeClient& fake, void* to, std::uint32_t value) {
  return fake->copy_async(to, &value, sizeof value, nullptr) && fake->synchronize(nullptr);
}

/// The first word of device memory; 0 where it cannot be read.
std::uint32_t get(const FakeClient& fake, const void* from) {
  std::uint32_t value = 0;
  const bool copied =
      fake->copy_async(&value, from, sizeof value, nullptr) && fake->synchronize(nullptr);
  return copied ? value : 0;
}

class Sharing : public testing::Test {
 protected:
  FakeClient fake{FAKE_CUDA};
  ContextScope scope = *fake->make_current(0);
};

/// Runs the part `name` in a child, with `shared` in its environment; `fd` is open there as
/// descriptor 3. Its libcuda.so.1 is the driver in memory. Returns its status, 0 if all went well.
int run_child(const std::string& name, const std::string& shared, int fd) {
  const std::string file = FAKE_CUDA;
  const std::string settings[] = {"CHILD=" + name,
                                  "SHARED=" + shared,
                                  "FAKE_CUDA_DEVICES=3",
                                  "FAKE_CUDA_FABRIC=1",
                                  "FAKE_CUDA_FAIL=cuMemAlloc_v2:2:2",
                                  "LD_LIBRARY_PATH=" + file.substr(0, file.rfind('/'))};
  std::vector<char*> environment;
  for (const std::string& setting : settings)
    environment.push_back(const_cast<char*>(setting.c_str()));
  environment.push_back(nullptr);
  char* arguments[] = {environment.front(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    if (fd >= 0) ::dup2(fd, 3);
    ::execve("/proc/self/exe", arguments, environment.data());
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

/// Finds 41 in the memory that the parent shares, and writes 42.
bool answers(const FakeClient& fake, void* memory) {
  return get(fake, memory) == 41 && put(fake, memory, 42);
}

bool imports_a_descriptor(const FakeClient& fake) {
  const auto memory = VmmAllocation::import(fake.shared(), 0, 3, std::size_t{2} << 20);
  return memory && answers(fake, memory->data());
}

bool imports_from_the_fabric(const FakeClient& fake) {
  const auto memory = VmmAllocation::import(fake.shared(), 0, handle_of_parent<abi::FabricHandle>(),
                                            std::size_t{2} << 20);
  return memory && answers(fake, memory->data());
}

bool opens_an_ipc_handle(const FakeClient& fake) {
  const auto handle = handle_of_parent<abi::IpcHandle>();
  const auto memory = IpcMemory::open(fake.shared(), 0, handle);
  const auto again = IpcMemory::open(fake.shared(), 0, handle);
  return memory && again && again->address() == memory->address() && fake.live("imports") == 1 &&
         answers(fake, memory->data());
}

bool opens_the_driver_by_its_name() {
  const auto driver = Driver::open();
  if (!driver || (*driver)->device_count() != 3) return false;
  const bool first = DeviceMemory::allocate(*driver, 2, 8).ok();
  const auto second = DeviceMemory::allocate(*driver, 2, 8);  // which it is told to fail
  return first && !second && second.error().code == Code::kUnavailable;
}

bool do_part(const std::string& name) {
  if (name == "opens the driver by its name") return opens_the_driver_by_its_name();
  const FakeClient fake(FAKE_CUDA);
  const auto scope = fake->make_current(0);
  if (name == "imports a descriptor") return imports_a_descriptor(fake);
  if (name == "imports from the fabric") return imports_from_the_fabric(fake);
  return name == "opens an ipc handle" && opens_an_ipc_handle(fake);
}

[[maybe_unused]] const bool kIsChild = [] {
  const char* const part = std::getenv("CHILD");  // NOLINT(concurrency-mt-unsafe)
  if (part != nullptr) ::_exit(do_part(part) ? 0 : 1);
  return false;
}();

TEST_F(Sharing, OfHandlesGoesByFileDescriptor) {
  const auto memory = VmmAllocation::create(fake.shared(), 0, 100);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(memory->bytes(), std::size_t{2} << 20);
  EXPECT_EQ(memory->reach(), VmmAllocation::Reach::kHost);
  ASSERT_TRUE(put(fake, memory->data(), 41));
  const auto fd = memory->export_fd();
  ASSERT_TRUE(fd) << fd.error().what;
  EXPECT_EQ(run_child("imports a descriptor", "", fd->get()), 0);
  EXPECT_EQ(get(fake, memory->data()), 42U);
}

TEST_F(Sharing, OfWhatTheProgramMappedGoesByItsAddress) {
  const auto memory = VmmAllocation::create(fake.shared(), 0, 100);
  ASSERT_TRUE(put(fake, memory->data(), 41));
  const long handles = fake.live("handles");
  const auto fd = fake->export_mapping(static_cast<const std::byte*>(memory->data()) + 99);
  ASSERT_TRUE(fd) << fd.error().what;
  EXPECT_EQ(fake.live("handles"), handles);
  EXPECT_EQ(run_child("imports a descriptor", "", fd->get()), 0);
  EXPECT_EQ(get(fake, memory->data()), 42U);

  const auto other = DeviceMemory::allocate(fake.shared(), 0, 100);
  const auto refused = fake->export_mapping(other->data());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("cuMemRetainAllocationHandle of 0x"));
}

TEST_F(Sharing, OfAllocationsGoesByIpc) {
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 100);
  ASSERT_TRUE(put(fake, memory->data(), 41));
  const auto handle = fake->ipc_handle(static_cast<const std::byte*>(memory->data()) + 50);
  ASSERT_TRUE(handle) << handle.error().what;
  EXPECT_EQ(run_child("opens an ipc handle", hexadecimal(&*handle, sizeof *handle), -1), 0);
  EXPECT_EQ(get(fake, memory->data()), 42U);
}

/// Adds 1 to the first word, as another device's driver would.
bool count_up(const Fd& dma_buf) {
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, dma_buf.get(), 0);
  if (mapped == MAP_FAILED) return false;
  ++*static_cast<std::uint32_t*>(mapped);
  return ::munmap(mapped, 4096) == 0;
}

TEST_F(Sharing, WithOtherDevicesGoesByDmaBuf) {
  const auto plain = DeviceMemory::allocate(fake.shared(), 0, 4096);
  const auto by_handle = VmmAllocation::create(fake.shared(), 0, 4096);
  for (void* const memory : {plain->data(), by_handle->data()}) {
    ASSERT_TRUE(put(fake, memory, 41));
    const auto fd = fake->dma_buf({static_cast<const std::byte*>(memory), 4096});
    ASSERT_TRUE(fd) << fd.error().what;
    EXPECT_TRUE(count_up(*fd));
    EXPECT_EQ(get(fake, memory), 42U);
  }
  std::vector<std::byte> host(8192);
  const auto refused = fake->dma_buf(host);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("cuMemGetHandleForAddressRange of 8192 bytes at 0x"));

  ::setenv("FAKE_CUDA_DMA_BUF", "0", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_FALSE(fake->device(0)->dma_buf);
  EXPECT_FALSE(fake->dma_buf({static_cast<const std::byte*>(plain->data()), 4096}));
  ::unsetenv("FAKE_CUDA_DMA_BUF");  // NOLINT(concurrency-mt-unsafe)
}

TEST_F(Sharing, ReachesTheFabricWhereThereIsOne) {
  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(fake->device(0)->fabric_handles);
  const auto memory = VmmAllocation::create(fake.shared(), 0, 100, VmmAllocation::Reach::kFabric);
  ASSERT_TRUE(memory) << memory.error().what;
  EXPECT_EQ(memory->reach(), VmmAllocation::Reach::kFabric);
  EXPECT_EQ(memory->export_fd().error().code, Code::kUnsupported);
  ASSERT_TRUE(put(fake, memory->data(), 41));
  const auto handle = memory->export_fabric();
  ASSERT_TRUE(handle) << handle.error().what;
  EXPECT_EQ(run_child("imports from the fabric", hexadecimal(&*handle, sizeof *handle), -1), 0);
  EXPECT_EQ(get(fake, memory->data()), 42U);
  ::unsetenv("FAKE_CUDA_FABRIC");  // NOLINT(concurrency-mt-unsafe)
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
  EXPECT_EQ(run_child("opens the driver by its name", "", -1), 0);
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
