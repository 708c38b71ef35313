#include "src/exec/cuda/slot_pool.hpp"

#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::ContextScope;
using tutti::cuda::Event;
using tutti::cuda::FakeClient;
using tutti::cuda::OwnedStream;

constexpr std::size_t kBytes = 64 << 10;

/// A pool that keeps no idle slot.
class Pool : public testing::Test {
 protected:
  std::unique_ptr<Slot> take(std::size_t bytes) {
    auto slot = pool.take(0, bytes);
    EXPECT_TRUE(slot) << slot.error().what;
    return slot ? *std::move(slot) : nullptr;
  }
  void give_back(std::unique_ptr<Slot> slot) {
    std::vector<std::unique_ptr<Slot>> slots;
    slots.push_back(std::move(slot));
    pool.give_back(std::move(slots), *Event::create(fake.shared(), 0), true);
  }

  FakeClient fake{FAKE_CUDA};
  ContextScope scope = *fake->make_current(0);
  SlotPool pool{fake.shared(), *SharedHeap::create(64 << 20), 0};
};

// Unpinning waits for the stream, and the stream for a gate that only the caller would open.
TEST_F(Pool, NothingIsUnpinnedWhileAStreamWaitsAtAGate) {
  const OwnedStream stream = *OwnedStream::create(fake.shared(), 0);
  auto waiting = take(kBytes);
  ASSERT_TRUE(fake->wait_value(stream.get(), waiting->gate(), 1));
  give_back(take(kBytes));
  const long before = fake.calls("cuMemHostUnregister");
  auto next = std::async(std::launch::async, [this] {
    const ContextScope current = *fake->make_current(0);
    return take(kBytes);
  });
  const auto state = next.wait_for(std::chrono::seconds(10));
  waiting->open_gate();
  EXPECT_EQ(state, std::future_status::ready) << "take() waited for a stream";
  give_back(next.get());
  EXPECT_EQ(fake.calls("cuMemHostUnregister"), before);

  ASSERT_TRUE(fake->synchronize(stream.get()));
  give_back(std::move(waiting));
  give_back(take(kBytes));
  EXPECT_GT(fake.calls("cuMemHostUnregister"), before) << "nothing is given up any more";
}

}  // namespace
}  // namespace tutti::exec::cuda
