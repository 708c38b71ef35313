// Streams, events, words in memory, host functions and kernels, on the driver in memory.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Pinned words that streams wait for and write, all 0 at first.
class Words {
 public:
  explicit Words(const FakeClient& fake)
      : words_(64), pinned_(*HostRegistration::create(fake.shared(), 0, bytes())) {}
  std::uint32_t* at(std::size_t index) { return &words_[index]; }
  std::uint32_t load(std::size_t index) {
    return std::atomic_ref(words_[index]).load(std::memory_order_acquire);
  }
  void store(std::size_t index, std::uint32_t value) {
    std::atomic_ref(words_[index]).store(value, std::memory_order_release);
  }

 private:
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)); }
  std::vector<std::uint32_t> words_;
  HostRegistration pinned_;
};

/// What host functions wrote down, in order.
struct Diary {
  std::mutex mutex;
  std::vector<int> entries;
};
struct Note {
  Diary* diary;
  int entry;
  static void write(void* user) {
    const auto* const note = static_cast<const Note*>(user);
    const std::scoped_lock lock(note->diary->mutex);
    note->diary->entries.push_back(note->entry);
  }
};

class Streams : public testing::Test {
 protected:
  OwnedStream stream() { return *OwnedStream::create(fake.shared(), 0); }
  FakeClient fake{FAKE_CUDA};
  ContextScope scope = *fake->make_current(0);
  Words words{fake};
  Diary diary;
  Note one{&diary, 1}, two{&diary, 2}, three{&diary, 3};
};

TEST_F(Streams, CopyFromHostToDeviceToHost) {
  const auto on = stream();
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 1000);
  const auto other = DeviceMemory::allocate(fake.shared(), 1, 1000);
  const std::string from(1000, 'x');
  std::string to(1000, 'y');
  EXPECT_TRUE(fake->copy_async(memory->data(), from.data(), 1000, on.get()).ok());
  EXPECT_TRUE(fake->copy_on_device_async(other->data(), memory->data(), 1000, on.get()).ok());
  EXPECT_TRUE(fake->fill_async(other->data(), std::byte{'z'}, 10, on.get()).ok());
  EXPECT_TRUE(fake->copy_async(to.data(), other->data(), 1000, on.get()).ok());
  EXPECT_TRUE(fake->synchronize(on.get()).ok());
  EXPECT_EQ(to, std::string(10, 'z') + std::string(990, 'x'));
  EXPECT_TRUE(*fake->idle(on.get()));
}

TEST_F(Streams, RefuseACopyFromNowhere) {
  const auto on = stream();
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 1000);
  const auto* const nowhere = reinterpret_cast<const void*>(0x1000);
  const Status status = fake->copy_async(memory->data(), nowhere, 1000, on.get());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kDevice);
  EXPECT_THAT(status.error().what, HasSubstr("cuMemcpyAsync of 1000 bytes from 0x1000 to 0x"));
  EXPECT_THAT(status.error().what, HasSubstr("CUDA_ERROR_INVALID_VALUE (1), invalid argument"));
  EXPECT_FALSE(fake->copy_async(memory->data(), memory->data(), 1001, on.get()));
}

TEST_F(Streams, RunInTheOrderOfSubmission) {
  const auto on = stream();
  EXPECT_TRUE(fake->wait_value(on.get(), words.at(0), 1).ok());
  EXPECT_TRUE(fake->host_function(on.get(), Note::write, &one).ok());
  EXPECT_TRUE(fake->write_value(on.get(), words.at(1), 7).ok());
  EXPECT_TRUE(fake->host_function(on.get(), Note::write, &two).ok());
  EXPECT_FALSE(*fake->idle(on.get()));
  EXPECT_EQ(words.load(1), 0U);
  words.store(0, 1);
  EXPECT_TRUE(fake->synchronize(on.get()).ok());
  EXPECT_EQ(words.load(1), 7U);
  EXPECT_THAT(diary.entries, ElementsAre(1, 2));
}

TEST_F(Streams, WaitForAWordThatIsGreaterInACircle) {
  const auto on = stream();
  words.store(0, 3);  // after a wrap, greater than what is waited for
  EXPECT_TRUE(fake->wait_value(on.get(), words.at(0), 0xfffffff0U).ok());
  EXPECT_TRUE(fake->synchronize(on.get()).ok());
}

TEST_F(Streams, WaitForEachOther) {
  const auto first = stream();
  const auto second = stream();
  EXPECT_TRUE(fake->wait_value(first.get(), words.at(0), 1).ok());
  EXPECT_TRUE(fake->write_value(first.get(), words.at(1), 1).ok());
  EXPECT_TRUE(fake->write_value(second.get(), words.at(0), 1).ok());
  EXPECT_TRUE(fake->wait_value(second.get(), words.at(1), 1).ok());
  EXPECT_TRUE(fake->synchronize(first.get()).ok());
  EXPECT_TRUE(fake->synchronize(second.get()).ok());
}

TEST_F(Streams, RunABatchInOrder) {
  const auto on = stream();
  const abi::BatchOperation operations[] = {Driver::write_operation(words.at(0), 5),
                                            Driver::wait_operation(words.at(1), 1),
                                            Driver::write_operation(words.at(0), 6)};
  EXPECT_TRUE(fake->batch(on.get(), operations).ok());
  while (words.load(0) != 5) std::this_thread::yield();
  EXPECT_FALSE(*fake->idle(on.get()));
  words.store(1, 1);
  EXPECT_TRUE(fake->synchronize(on.get()).ok());
  EXPECT_EQ(words.load(0), 6U);
  const std::vector<abi::BatchOperation> many(256, operations[0]);
  const Status status = fake->batch(on.get(), many);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "256 operations in one batch: at most 255 fit");
}

TEST_F(Streams, WaitOnlyForWordsThatDevicesSee) {
  const auto on = stream();
  alignas(4) std::uint32_t local = 0;
  const Status status = fake->wait_value(on.get(), &local, 1);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("cuStreamWaitValue32 of the word at 0x"));
  const auto* const odd = reinterpret_cast<const std::byte*>(words.at(0)) + 1;
  EXPECT_FALSE(fake->write_value(on.get(), odd, 1));
}

TEST_F(Streams, HoldBackWhatFollowsAnEvent) {
  const auto first = stream();
  const auto second = stream();
  const auto event = Event::create(fake.shared(), 0);
  EXPECT_TRUE(*event->done());
  EXPECT_TRUE(event->hold(second.get()).ok());  // never recorded: nothing to wait for
  EXPECT_TRUE(fake->wait_value(first.get(), words.at(0), 1).ok());
  EXPECT_TRUE(fake->host_function(first.get(), Note::write, &one).ok());
  EXPECT_TRUE(event->record(first.get()).ok());
  EXPECT_TRUE(event->hold(second.get()).ok());
  EXPECT_TRUE(fake->host_function(second.get(), Note::write, &two).ok());
  EXPECT_FALSE(*event->done());
  EXPECT_FALSE(*fake->idle(second.get()));
  words.store(0, 1);
  EXPECT_TRUE(event->synchronize().ok());
  EXPECT_TRUE(*event->done());
  EXPECT_TRUE(fake->synchronize(second.get()).ok());
  EXPECT_THAT(diary.entries, ElementsAre(1, 2));
}

TEST_F(Streams, OfTheLegacyKindWaitForBlockingStreamsAndTheyForIt) {
  abi::Stream blocking = nullptr;
  ASSERT_EQ(fake->functions().stream_create(&blocking, 0, 0), abi::Return::kSuccess);
  EXPECT_TRUE(fake->wait_value(blocking, words.at(0), 1).ok());
  EXPECT_TRUE(fake->host_function(blocking, Note::write, &one).ok());
  EXPECT_TRUE(fake->host_function(nullptr, Note::write, &two).ok());
  EXPECT_TRUE(fake->host_function(blocking, Note::write, &three).ok());
  const auto free = stream();
  EXPECT_TRUE(fake->write_value(free.get(), words.at(1), 1).ok());
  while (words.load(1) == 0) std::this_thread::yield();  // it waits for none of them
  words.store(0, 1);
  EXPECT_TRUE(fake->synchronize(blocking).ok());
  EXPECT_THAT(diary.entries, ElementsAre(1, 2, 3));
  EXPECT_EQ(fake->functions().stream_destroy(blocking), abi::Return::kSuccess);
}

TEST_F(Streams, OfAThreadAreItsOwn) {
  auto* const per_thread = reinterpret_cast<abi::Stream>(abi::kPerThreadStream);
  EXPECT_TRUE(fake->wait_value(per_thread, words.at(0), 1).ok());
  std::thread([&] {
    const auto current = fake->make_current(0);
    EXPECT_TRUE(*fake->idle(per_thread));
  }).join();
  EXPECT_FALSE(*fake->idle(per_thread));
  words.store(0, 1);
  EXPECT_TRUE(fake->synchronize(per_thread).ok());
}

TEST_F(Streams, TellTheirDevice) {
  const auto other = OwnedStream::create(fake.shared(), 1);
  EXPECT_EQ(*fake->device_of(other->get()), 1);
  EXPECT_EQ(*fake->device_of(nullptr), 0);
  EXPECT_EQ(*fake->current_device(), 0);
}

TEST_F(Streams, ShareAChannelAndThenBlockEachOther) {
  // With one channel, the write that would satisfy the wait stands behind it: a deadlock, on
  // hardware as here, until somebody else writes.
  ::setenv("FAKE_CUDA_CHANNELS", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  const FakeClient narrow(FAKE_CUDA);
  const auto on_one = *narrow->make_current(1);  // whose context is made now
  ::unsetenv("FAKE_CUDA_CHANNELS");              // NOLINT(concurrency-mt-unsafe)
  const auto first = OwnedStream::create(narrow.shared(), 1);
  const auto second = OwnedStream::create(narrow.shared(), 1);
  EXPECT_TRUE(fake->wait_value(first->get(), words.at(0), 1).ok());
  EXPECT_TRUE(fake->write_value(second->get(), words.at(0), 1).ok());
  const auto elsewhere = stream();
  EXPECT_TRUE(fake->make_current(0).ok());
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_EQ(words.load(0), 0U);
  EXPECT_FALSE(*fake->idle(second->get()));
  words.store(0, 1);
  EXPECT_TRUE(fake->synchronize(second->get()).ok());
}

TEST_F(Streams, BreakTheContextWhenTheyTouchMemoryThatIsGone) {
  const FakeClient other(FAKE_CUDA);
  {
    const auto on_one = *other->make_current(1);
    const auto on = OwnedStream::create(other.shared(), 1);
    auto memory = VmmAllocation::create(other.shared(), 1, 1);
    ASSERT_TRUE(memory) << memory.error().what;
    EXPECT_TRUE(other->wait_value(on->get(), words.at(0), 1).ok());
    EXPECT_TRUE(other->fill_async(memory->data(), std::byte{1}, 8, on->get()).ok());
    EXPECT_TRUE(other->host_function(on->get(), Note::write, &one).ok());
    ASSERT_EQ(other->functions().memory_unmap(memory->address(), memory->bytes()),
              abi::Return::kSuccess);
    words.store(0, 1);
    const Status status = other->synchronize(on->get());
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().what, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    EXPECT_FALSE(DeviceMemory::allocate(other.shared(), 1, 8));
    EXPECT_THAT(diary.entries, ElementsAre());
  }
}

TEST_F(Streams, LaunchKernelsWithCopiesOfTheirArguments) {
  fake.register_kernel(
      "add",
      [](unsigned blocks, unsigned block, void** arguments) {
        auto* const sums = *static_cast<std::uint32_t**>(arguments[0]);
        sums[block] = blocks * *static_cast<std::uint32_t*>(arguments[1]);
      },
      sizeof(void*), sizeof(std::uint32_t));
  const std::byte image[1] = {};
  const auto module = Module::load(fake.shared(), 0, image);
  ASSERT_TRUE(module) << module.error().what;
  const auto function = module->function("add");
  ASSERT_TRUE(function) << function.error().what;
  EXPECT_TRUE(fake->allow_shared_bytes(*function, 100000).ok());
  EXPECT_EQ(*fake->blocks_per_multiprocessor(*function, {.threads = 1024}), 2);

  const auto on = stream();
  EXPECT_TRUE(fake->wait_value(on.get(), words.at(63), 1).ok());
  std::uint32_t* sums = words.at(0);
  std::uint32_t factor = 10;
  void* arguments[] = {&sums, &factor};
  EXPECT_TRUE(fake->launch(*function, {.blocks = 3, .threads = 32}, on.get(), arguments).ok());
  factor = 100;
  EXPECT_TRUE(
      fake->launch(*function, {.blocks = 2, .cooperative = true}, on.get(), arguments).ok());
  factor = 0;
  words.store(63, 1);
  EXPECT_TRUE(fake->synchronize(on.get()).ok());
  EXPECT_EQ(words.load(0), 200U);
  EXPECT_EQ(words.load(2), 30U);

  const Status large =
      fake->launch(*function, {.blocks = 1000, .cooperative = true}, on.get(), arguments);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().what, HasSubstr("cuLaunchCooperativeKernel of 1000 blocks of 1"));
  const auto unknown = module->function("no_such");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().what, HasSubstr("cuModuleGetFunction of 'no_such' failed: "
                                              "CUDA_ERROR_NOT_FOUND (500)"));
}

TEST_F(Streams, RunTheBlocksOfAKernelAtOnce) {
  fake.register_kernel(
      "meet",
      [](unsigned blocks, unsigned, void** arguments) {
        std::atomic_ref met(**static_cast<std::uint32_t**>(arguments[0]));
        ++met;
        while (met < blocks) std::this_thread::yield();
      },
      sizeof(void*));
  const std::byte image[1] = {};
  const auto module = Module::load(fake.shared(), 0, image);
  std::uint32_t* met = words.at(0);
  void* arguments[] = {&met};
  const auto on = stream();
  EXPECT_TRUE(fake->launch(*module->function("meet"), {.blocks = 8}, on.get(), arguments).ok());
  EXPECT_TRUE(fake->synchronize(on.get()).ok());
  EXPECT_EQ(words.load(0), 8U);
}

using StreamsDeathTest = Streams;
TEST_F(StreamsDeathTest, EndAProgramWhoseHostFunctionCallsCuda) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const auto on = stream();
        (void)fake->host_function(
            on.get(),
            [](void* user) { (void)static_cast<FakeClient*>(user)->shared()->current_device(); },
            &fake);
        (void)fake->synchronize(on.get());
      },
      "a host function called cuCtxGetCurrent, and must not call CUDA");
}

TEST_F(Streams, MayBeUsedByManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  std::vector<std::thread> threads;
  std::vector<std::uint32_t> sums(kThreads);
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      const auto current = *fake->make_current(thread % 2);
      const auto on = *OwnedStream::create(fake.shared(), thread % 2);
      const auto event = *Event::create(fake.shared(), thread % 2);
      for (int round = 0; round < kRounds; ++round) {
        const auto memory = *DeviceMemory::allocate(fake.shared(), thread % 2, 4);
        std::uint32_t value = round;
        EXPECT_TRUE(fake->copy_async(memory.data(), &value, 4, on.get()).ok());
        EXPECT_TRUE(event.record(on.get()).ok());
        EXPECT_TRUE(fake->copy_async(&value, memory.data(), 4, on.get()).ok());
        EXPECT_TRUE(event.synchronize().ok());
        EXPECT_TRUE(fake->synchronize(on.get()).ok());
        sums[thread] += value;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, testing::Each(kRounds * (kRounds - 1) / 2));
}

}  // namespace
}  // namespace tutti::cuda
