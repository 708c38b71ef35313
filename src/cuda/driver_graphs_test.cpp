// Capture of streams into graphs, on the driver in memory.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/cuda/fake/client.hpp"

namespace tutti::cuda {
namespace {

using abi::Return;
using testing::ElementsAre;
using testing::HasSubstr;

class Graphs : public testing::Test {
 protected:
  OwnedStream stream() { return *OwnedStream::create(fake.shared(), 0); }
  abi::GraphExec instantiated(abi::Graph graph) {
    abi::GraphExec exec = nullptr;
    EXPECT_EQ(fake.instantiate(&exec, graph), Return::kSuccess);
    return exec;
  }
  /// Waits until what the thread of host functions was given so far is over.
  void drain_host_functions() {
    const auto on = stream();
    EXPECT_TRUE(fake->host_function(on.get(), [](void*) {}, nullptr).ok());
    EXPECT_TRUE(fake->synchronize(on.get()).ok());
  }
  FakeClient fake{FAKE_CUDA};
  ContextScope scope = *fake->make_current(0);
  OwnedStream origin = stream();
};

TEST_F(Graphs, ReplayWhatWasCapturedInItsOrder) {
  std::atomic<int> calls = 0;
  const auto count = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
  const auto memory = DeviceMemory::allocate(fake.shared(), 0, 8);
  std::array<char, 8> from{'a'};
  std::array<char, 8> to{};
  std::vector<std::uint32_t> words(2);
  const auto pinned =
      HostRegistration::create(fake.shared(), 0, std::as_writable_bytes(std::span(words)));

  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  EXPECT_TRUE(fake->copy_async(memory->data(), from.data(), 8, origin.get()).ok());
  EXPECT_TRUE(fake->write_value(origin.get(), words.data(), 4).ok());
  EXPECT_TRUE(fake->wait_value(origin.get(), words.data(), 4).ok());
  EXPECT_TRUE(fake->host_function(origin.get(), count, &calls).ok());
  EXPECT_TRUE(fake->copy_async(to.data(), memory->data(), 8, origin.get()).ok());
  abi::Graph graph = nullptr;
  ASSERT_EQ(fake.end_capture(origin.get(), &graph), Return::kSuccess);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(to[0], '\0');

  const abi::GraphExec exec = instantiated(graph);
  EXPECT_EQ(fake.destroy(graph), Return::kSuccess);
  for (const char letter : {'b', 'c'}) {
    from[0] = letter;
    EXPECT_EQ(fake.launch(exec, origin.get()), Return::kSuccess);
    EXPECT_TRUE(fake->synchronize(origin.get()).ok());
    EXPECT_EQ(to[0], letter);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(fake.destroy(exec), Return::kSuccess);
}

TEST_F(Graphs, TakeInStreamsThatAreForkedAndJoined) {
  const auto branch = stream();
  const auto fork = Event::create(fake.shared(), 0);
  const auto join = Event::create(fake.shared(), 0);
  std::atomic<int> calls = 0;
  const auto count = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };

  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  EXPECT_TRUE(fork->record(origin.get()).ok());
  EXPECT_EQ(fake->capture_status(branch.get())->kind, CaptureKind::kNone);
  EXPECT_TRUE(fork->hold(branch.get()).ok());
  EXPECT_EQ(fake->capture_status(branch.get())->id, fake->capture_status(origin.get())->id);
  EXPECT_TRUE(fake->host_function(branch.get(), count, &calls).ok());
  EXPECT_TRUE(join->record(branch.get()).ok());
  EXPECT_TRUE(join->hold(origin.get()).ok());
  abi::Graph graph = nullptr;
  ASSERT_EQ(fake.end_capture(origin.get(), &graph), Return::kSuccess);
  EXPECT_EQ(fake->capture_status(branch.get())->kind, CaptureKind::kNone);

  const abi::GraphExec exec = instantiated(graph);
  EXPECT_EQ(fake.launch(exec, branch.get()), Return::kSuccess);
  EXPECT_TRUE(fake->synchronize(branch.get()).ok());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(fake.destroy(exec), Return::kSuccess);
  EXPECT_EQ(fake.destroy(graph), Return::kSuccess);
}

TEST_F(Graphs, AreNotMadeWhereABranchIsNotJoined) {
  const auto branch = stream();
  const auto fork = Event::create(fake.shared(), 0);
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  EXPECT_TRUE(fork->record(origin.get()).ok());
  EXPECT_TRUE(fork->hold(branch.get()).ok());
  EXPECT_TRUE(fake->host_function(branch.get(), [](void*) {}, nullptr).ok());
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(Graphs, AreToldWhileTheyAreCaptured) {
  EXPECT_EQ(fake->capture_status(origin.get())->kind, CaptureKind::kNone);
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  const auto state = fake->capture_status(origin.get());
  EXPECT_EQ(state->kind, CaptureKind::kActive);
  EXPECT_NE(state->id, 0U);
  EXPECT_EQ(fake->capture_status(nullptr)->kind, CaptureKind::kNone);
  abi::Graph graph = nullptr;
  ASSERT_EQ(fake.end_capture(origin.get(), &graph), Return::kSuccess);
  EXPECT_EQ(graph, state->graph);
  EXPECT_EQ(fake.destroy(graph), Return::kSuccess);
}

TEST_F(Graphs, AreInvalidatedByACallThatWaits) {
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  const Status status = fake->synchronize(origin.get());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"));
  EXPECT_EQ(fake->capture_status(origin.get())->kind, CaptureKind::kInvalidated);
  EXPECT_FALSE(fake->host_function(origin.get(), [](void*) {}, nullptr));
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(fake->capture_status(origin.get())->kind, CaptureKind::kNone);
}

TEST_F(Graphs, ForbidAllocationsUnlessTheThreadIsRelaxed) {
  abi::Graph graph = nullptr;
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  {
    const auto relaxed = RelaxedCapture::begin(*fake);
    ASSERT_TRUE(relaxed);
    EXPECT_TRUE(DeviceMemory::allocate(fake.shared(), 0, 8).ok());
  }
  EXPECT_EQ(fake->capture_status(origin.get())->kind, CaptureKind::kActive);
  EXPECT_FALSE(DeviceMemory::allocate(fake.shared(), 0, 8));
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);

  ASSERT_EQ(fake.begin_capture(origin.get(), abi::CaptureMode::kThreadLocal), Return::kSuccess);
  std::thread([&] { EXPECT_TRUE(DeviceMemory::allocate(fake.shared(), 0, 8).ok()); }).join();
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kSuccess);
  EXPECT_EQ(fake.destroy(graph), Return::kSuccess);
}

TEST_F(Graphs, DoNotDependOnWorkThatWasNotCaptured) {
  const auto event = Event::create(fake.shared(), 0);
  EXPECT_TRUE(event->record(origin.get()).ok());
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  const Status status = event->hold(origin.get());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("STREAM_CAPTURE_ISOLATION (905)"));
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);
}

TEST_F(Graphs, KeepTheirEventsFromBeingAsked) {
  const auto event = Event::create(fake.shared(), 0);
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  EXPECT_TRUE(event->record(origin.get()).ok());
  EXPECT_THAT(event->done().error().what, HasSubstr("CUDA_ERROR_CAPTURED_EVENT (907)"));
  EXPECT_THAT(event->synchronize().error().what, HasSubstr("cuEventSynchronize failed"));
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);
}

TEST_F(Graphs, ForbidTheLegacyStreamBesideABlockingOne) {
  abi::Stream blocking = nullptr;
  ASSERT_EQ(fake->functions().stream_create(&blocking, 0, 0), Return::kSuccess);
  ASSERT_EQ(fake.begin_capture(blocking, abi::CaptureMode::kRelaxed), Return::kSuccess);
  EXPECT_FALSE(fake->capture_status(nullptr));
  EXPECT_EQ(fake->capture_status(blocking)->kind, CaptureKind::kActive);
  const Status status = fake->host_function(nullptr, [](void*) {}, nullptr);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("STREAM_CAPTURE_IMPLICIT (906)"));
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(blocking, &graph), Return::kStreamCaptureInvalidated);
  EXPECT_EQ(fake->functions().stream_destroy(blocking), Return::kSuccess);
  EXPECT_EQ(fake.begin_capture(nullptr), Return::kStreamCaptureUnsupported);
}

TEST_F(Graphs, AreEndedByTheStreamAndThreadThatBegan) {
  const auto branch = stream();
  const auto fork = Event::create(fake.shared(), 0);
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kIllegalState);
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  EXPECT_EQ(fake.begin_capture(origin.get()), Return::kIllegalState);
  EXPECT_TRUE(fork->record(origin.get()).ok());
  EXPECT_TRUE(fork->hold(branch.get()).ok());
  EXPECT_EQ(fake.end_capture(branch.get(), &graph), Return::kStreamCaptureUnmatched);
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  std::thread([&] {
    const auto current = fake->make_current(0);
    EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);
}

TEST_F(Graphs, EndWithTheStreamThatBegan) {
  const long before = fake.live("graphs");
  {
    const auto gone = stream();
    ASSERT_EQ(fake.begin_capture(gone.get()), Return::kSuccess);
    EXPECT_EQ(fake.live("graphs"), before + 1);
  }
  EXPECT_EQ(fake.live("graphs"), before);
  EXPECT_TRUE(fake->host_function(nullptr, [](void*) {}, nullptr).ok());
  EXPECT_TRUE(fake->synchronize(nullptr).ok());
}

TEST_F(Graphs, DoNotMerge) {
  const auto other = stream();
  const auto event = Event::create(fake.shared(), 0);
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  ASSERT_EQ(fake.begin_capture(other.get()), Return::kSuccess);
  EXPECT_TRUE(event->record(origin.get()).ok());
  EXPECT_THAT(event->hold(other.get()).error().what, HasSubstr("STREAM_CAPTURE_MERGE (902)"));
  abi::Graph graph = nullptr;
  EXPECT_EQ(fake.end_capture(origin.get(), &graph), Return::kStreamCaptureInvalidated);
  EXPECT_EQ(fake.end_capture(other.get(), &graph), Return::kStreamCaptureInvalidated);
}

TEST_F(Graphs, KeepWhatTheyAreGivenUntilTheLastOfThemIsGone) {
  std::atomic<bool> destroyed = false;
  const auto destroy = [](void* user) { *static_cast<std::atomic<bool>*>(user) = true; };
  ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
  const auto state = fake->capture_status(origin.get());
  EXPECT_TRUE(fake->give_to_graph(state->graph, destroy, &destroyed).ok());
  abi::Graph graph = nullptr;
  ASSERT_EQ(fake.end_capture(origin.get(), &graph), Return::kSuccess);
  const abi::GraphExec exec = instantiated(graph);
  EXPECT_EQ(fake.destroy(graph), Return::kSuccess);
  drain_host_functions();
  EXPECT_FALSE(destroyed);
  EXPECT_EQ(fake.live("user objects"), 1);
  EXPECT_EQ(fake.destroy(exec), Return::kSuccess);
  drain_host_functions();
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(fake.live("user objects"), 0);
}

TEST_F(Graphs, DestroyWhatTheyCouldNotBeGiven) {
  for (const char* const entry : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    std::atomic<bool> destroyed = false;
    const auto destroy = [](void* user) { *static_cast<std::atomic<bool>*>(user) = true; };
    ASSERT_EQ(fake.begin_capture(origin.get()), Return::kSuccess);
    const auto state = fake->capture_status(origin.get());
    fake.fail(std::string(entry) + ":1");
    const Status status = fake->give_to_graph(state->graph, destroy, &destroyed);
    fake.fail("");
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().what, HasSubstr(std::string(entry) + " failed: CUDA_ERROR_UNKNOWN"));
    abi::Graph graph = nullptr;
    ASSERT_EQ(fake.end_capture(origin.get(), &graph), Return::kSuccess);
    EXPECT_EQ(fake.destroy(graph), Return::kSuccess);
    drain_host_functions();
    EXPECT_TRUE(destroyed) << entry;
    EXPECT_EQ(fake.live("user objects"), 0);
  }
}

}  // namespace
}  // namespace tutti::cuda
