#include "src/base/process_memory.hpp"

#include <array>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {
namespace {

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uint64_t>(data); }

TEST(ProcessMemory, OfThisProcessIsReadWhereItLies) {
  const std::array<int, 3> theirs{1, 2, 3};
  std::array<int, 3> mine{};
  const Status read = read_process_memory(getpid(), address_of(theirs.data()),
                                          std::as_writable_bytes(std::span(mine)));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(mine, theirs);
}

TEST(ProcessMemory, ThatIsNotMappedIsAnErrorAndNoFault) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(munmap(static_cast<std::byte*>(memory) + page, page), 0);
  std::array<std::byte, 64> mine{};
  const Status across =
      read_process_memory(getpid(), address_of(memory) + page - 32, std::span(mine));
  ASSERT_FALSE(across);
  EXPECT_EQ(across.error().code, Code::kInvalidArgument) << across.error().what;
  EXPECT_NE(across.error().what.find("32 bytes"), std::string::npos) << across.error().what;
  munmap(memory, page);
}

TEST(ProcessMemory, OfAProcessThatIsGoneIsAFailedPeer) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  std::array<std::byte, 8> mine{};
  const Status read = read_process_memory(child, address_of(mine.data()), std::span(mine));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kPeerFailed) << read.error().what;
}

}  // namespace
}  // namespace tutti
