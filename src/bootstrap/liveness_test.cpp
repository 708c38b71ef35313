// Who is taken for dead when processes, and with them their service threads, stand still.
#include <array>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/bootstrap/rendezvous.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Two ranks, each of a process of its own as far as the group can tell; the first has the hub.
class TwoProcesses : public testing::Test {
 protected:
  static constexpr Nanos kLiveness = 400ms, kTooLong = 1s;

  void meet(Nanos liveness) {
    for (auto& service : services_) service = *Service::create();
    RootOptions root;
    root.address = *parse_address("127.0.0.1:0");
    root.liveness = liveness;
    const auto id = serve_root(services_[0], root);
    ASSERT_TRUE(id) << id.error().what;
    JoinOptions options;
    options.liveness = liveness;
    std::array<std::future<Result<std::unique_ptr<Bootstrap>>>, 2> joining;
    for (Rank r = 0; r < 2; ++r)
      joining[r] = std::async(std::launch::async, [&, r] {
        return join(services_[r], *id, r, 2, options, Deadline::after(10s));
      });
    for (Rank r = 0; r < 2; ++r) {
      auto joined = joining[r].get();
      ASSERT_TRUE(joined) << joined.error().what;
      ranks_[r] = *std::move(joined);
      ranks_[r]->on_failure([this, r](const Error& error) {
        const std::lock_guard lock(mutex_);
        failures_[r].push_back(error);
        changed_.notify_all();
      });
    }
  }
  void TearDown() override {
    for (auto& rank : ranks_)
      if (rank) rank->on_failure(nullptr);
  }

  /// The process of a rank stands still until this is over.
  void stop(Rank rank, std::shared_future<void> over) {
    std::promise<void> stopped;
    services_[rank]->post([&stopped, over = std::move(over)] {
      stopped.set_value();
      over.wait();
    });
    stopped.get_future().wait();
  }
  Error first_failure(Rank rank) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !failures_[rank].empty(); });
    return failures_[rank].front();
  }
  std::size_t failures(Rank rank) {
    const std::lock_guard lock(mutex_);
    return failures_[rank].size();
  }

  std::array<std::shared_ptr<Service>, 2> services_;
  std::array<std::unique_ptr<Bootstrap>, 2> ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<Error>, 2> failures_;
};

TEST_F(TwoProcesses, ThatWereStoppedTogetherGoOn) {
  ASSERT_NO_FATAL_FAILURE(meet(kLiveness));
  std::promise<void> over;
  const auto until = over.get_future().share();
  stop(0, until);
  stop(1, until);
  std::this_thread::sleep_for(kTooLong);
  over.set_value();
  for (int round = 0; round < 3; ++round) {
    auto mate =
        std::async(std::launch::async, [&] { return barrier(*ranks_[1], Deadline::after(10s)); });
    EXPECT_TRUE(barrier(*ranks_[0], Deadline::after(10s)));
    EXPECT_TRUE(mate.get());
    std::this_thread::sleep_for(kLiveness / 2);
  }
  EXPECT_EQ(failures(0) + failures(1), 0);
}

TEST_F(TwoProcesses, ARankThatStoodStillTooLongHearsThatItWasTakenForDead) {
  ASSERT_NO_FATAL_FAILURE(meet(kLiveness));
  std::promise<void> over;
  stop(1, over.get_future().share());
  EXPECT_EQ(first_failure(0).peer, 1);
  over.set_value();
  const Error own = first_failure(1);
  EXPECT_EQ(own.peer, 1);
  EXPECT_THAT(own.what, HasSubstr("silent for 0.4 s"));
  const auto gather = ranks_[1]->all_gather({}, Deadline::after(10s));
  ASSERT_FALSE(gather);
  EXPECT_EQ(gather.error().peer, 1);
  EXPECT_EQ(failures(1), 1) << "and nobody else died";
}

TEST_F(TwoProcesses, ThatOfTheHubEndsAfterTheOthersKnowThatItLeft) {
  ASSERT_NO_FATAL_FAILURE(meet(15s));
  // Its thread is late twice: before the goodbye is sent, and before the hub gets to hear it.
  std::promise<void> first, second;
  stop(0, first.get_future().share());
  auto leaving = std::async(std::launch::async, [&] { ranks_[0].reset(); });
  EXPECT_EQ(leaving.wait_for(1500ms), std::future_status::timeout);
  services_[0]->post([over = second.get_future().share()] { over.wait(); });
  first.set_value();
  EXPECT_EQ(leaving.wait_for(300ms), std::future_status::timeout);
  second.set_value();
  leaving.get();
  services_[0].reset();
  const auto gather = ranks_[1]->all_gather({}, Deadline::after(10s));
  ASSERT_FALSE(gather);
  EXPECT_THAT(gather.error().what, HasSubstr("has left and ended"));
  EXPECT_EQ(failures(1), 0);
}

}  // namespace
}  // namespace tutti
