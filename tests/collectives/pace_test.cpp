// Ranks that are late, and those that wait for them.
#include <ctime>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::all_ranks;
using testing::call_of;

/// Processor time of the calling thread.
Nanos processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanos(time.tv_nsec);
}

/// Runs `waiting`, which needs `late`, while another thread lets some time pass before it runs
/// `late`. The thread that waits must not burn that time.
void expect_sleep(const std::function<void()>& waiting, const std::function<void()>& late) {
  const auto delay = std::chrono::milliseconds(kSanitized ? 6000 : 1000);
  std::thread others([&] {
    std::this_thread::sleep_for(delay);
    late();
  });
  const Nanos before = processor_time();
  const TimePoint begin = Clock::now();
  waiting();
  const Nanos used = processor_time() - before;
  EXPECT_GE(Clock::now() - begin, delay / 2);  // it did wait
  EXPECT_LT(used, delay / 4);
  others.join();
}

TEST(Waiting, AThreadThatDrivesSeveralRanksSleepsWhileAllWaitForAnother) {
  auto ranks = all_ranks(3);
  std::vector<float> values(3, 1);
  const auto sum_of = [&](Rank rank) {
    Call call;
    call.send = call.recv = &values[rank];
    call.count = 1;
    return call;
  };
  expect_sleep(
      [&] {
        for (const Rank rank : {0, 1}) {
          const Call call = sum_of(rank);
          ASSERT_TRUE(ranks[rank]->start({&call, 1}));
        }
        GroupMember* const group[] = {ranks[0].get(), ranks[1].get()};
        ASSERT_TRUE(run_group(group));
      },
      [&] { ASSERT_TRUE(ranks[2]->run(sum_of(2))); });
  EXPECT_EQ(values, std::vector<float>(3, 3));
}

TEST(Waiting, ARankSleepsWhileItsMessagesWaitForSeveralPeers) {
  auto ranks = all_ranks(3);
  std::vector<std::int32_t> out(1 << 20, 5), in(7), got_out(1 << 20), got_in(7, 9);
  const auto run = [&](Rank rank, std::vector<Call> calls) {
    ASSERT_TRUE(ranks[rank]->start(calls));
    GroupMember* const self = ranks[rank].get();
    ASSERT_TRUE(run_group({&self, 1}));
  };
  expect_sleep(
      [&] { run(0, {call_of(Collective::kSend, out, 1), call_of(Collective::kRecv, in, 2)}); },
      [&] {
        run(1, {call_of(Collective::kRecv, got_out, 0)});
        run(2, {call_of(Collective::kSend, got_in, 0)});
      });
  EXPECT_EQ(got_out, out);
  EXPECT_EQ(in, got_in);
}

/// One rank of several that make the same broadcasts, each at its own pace.
class Drifter {
 public:
  struct Broadcast {
    Rank root;
    std::size_t count;
  };
  Drifter(Communicator& communicator, const std::vector<Broadcast>& calls)
      : communicator_(communicator), calls_(calls) {}

  [[nodiscard]] bool done() const { return next_ == calls_.size(); }

  /// Starts the next call or moves the started one on.
  void step() {
    const Broadcast& call = calls_[next_];
    const float sent = static_cast<float>(next_ + 1);
    if (!started_) {
      data_.assign(call.count, call.root == communicator_.rank() ? sent : 0);
      const Call calls[] = {call_of(Collective::kBroadcast, data_, call.root)};
      ASSERT_TRUE(communicator_.start(calls));
      started_ = true;
    }
    const auto state = communicator_.poll();
    ASSERT_TRUE(state) << state.error().what;
    if (*state == Communicator::Progress::kPending) return;
    ASSERT_EQ(std::ranges::count(data_, sent), static_cast<std::ptrdiff_t>(call.count))
        << "rank " << communicator_.rank() << ", call " << next_ << ", root " << call.root
        << ": got " << data_.front() << " .. " << data_.back();
    started_ = false;
    ++next_;
  }

 private:
  Communicator& communicator_;
  const std::vector<Broadcast>& calls_;
  std::vector<float> data_;
  std::size_t next_ = 0;
  bool started_ = false;
};

TEST(Collectives, ALateRankGetsWhatWasSentHoweverFarTheOthersAre) {
  for (std::uint32_t seed = 1; seed <= (kSanitized ? 10 : 40); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t limit) { return random() % limit; };
    const std::size_t sizes[] = {1, 40, 300, 2000, 8192};  // inline, in notes, in packets
    std::vector<Drifter::Broadcast> calls;
    while (calls.size() < 200) {  // runs of one root and size, so that ranks can drift apart
      const Drifter::Broadcast call{static_cast<Rank>(below(2)), sizes[below(std::size(sizes))]};
      calls.insert(calls.end(), 1 + below(12), call);
    }
    auto ranks = all_ranks(3);
    std::vector<Drifter> drifters;
    for (const auto& rank : ranks) drifters.emplace_back(*rank, calls);
    const auto all_done = [&] { return std::ranges::all_of(drifters, &Drifter::done); };
    while (!all_done() && !HasFatalFailure()) {
      Drifter& one = drifters[below(4) == 0 ? 2 : below(2)];  // rank 2 sends nothing and is late
      for (std::size_t steps = below(40); steps > 0 && !one.done() && !HasFatalFailure(); --steps)
        one.step();
    }
  }
}

}  // namespace
}  // namespace tutti
