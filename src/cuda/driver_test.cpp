#include "src/cuda/driver.hpp"

#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::cuda {
namespace {

TEST(Driver, CopiesThroughADevice) {
  auto driver = Driver::open(FAKE_CUDA);
  ASSERT_TRUE(driver) << driver.error().what;
  auto scope = (*driver)->make_current(0);
  ASSERT_TRUE(scope) << scope.error().what;
  auto stream = OwnedStream::create(*driver, 0);
  ASSERT_TRUE(stream) << stream.error().what;
  auto memory = DeviceMemory::allocate(*driver, 0, 1000);
  ASSERT_TRUE(memory) << memory.error().what;
  std::vector<std::byte> words(4096);
  auto pinned = HostRegistration::create(*driver, 0, words);
  ASSERT_TRUE(pinned);
  std::string from(1000, 'x');
  std::string to(1000, 'y');
  static int called = 0;
  EXPECT_TRUE((*driver)->wait_value(stream->get(), words.data(), 3).ok());
  EXPECT_TRUE((*driver)->host_function(stream->get(), [](void*) { ++called; }, nullptr).ok());
  EXPECT_FALSE(*(*driver)->idle(stream->get()));
  auto* word = reinterpret_cast<std::uint32_t*>(words.data());
  __atomic_store_n(word, 3, __ATOMIC_RELEASE);
  EXPECT_TRUE((*driver)->copy_async(memory->data(), from.data(), 1000, stream->get()).ok());
  EXPECT_TRUE((*driver)->copy_async(to.data(), memory->data(), 1000, stream->get()).ok());
  EXPECT_TRUE((*driver)->synchronize(stream->get()).ok());
  EXPECT_EQ(called, 1);
  EXPECT_EQ(from, to);
}

}  // namespace
}  // namespace tutti::cuda
