// The flag protocol of the device interpreter, explored: every order of the steps of 2 and 3 ranks,
// and of their stores' arrival in memory, over sequences of calls that reuse all that calls leave
// behind.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/protocol.hpp"

namespace tutti::model {
namespace {

using testing::HasSubstr;

constexpr Call kPacketsAll = {ImageProtocol::kPackets, Pattern::kAll, 0, false};
constexpr Call kStagedAll = {ImageProtocol::kStaged, Pattern::kAll, 0, false};

constexpr Call from(ImageProtocol protocol, int root, bool stores = false) {
  return {protocol, Pattern::kFromRoot, root, stores};
}
constexpr Call to(ImageProtocol protocol, int root, bool stores = false) {
  return {protocol, Pattern::kToRoot, root, stores};
}

/// One protocol's calls over so many ranks: between all, from and to each root.
std::vector<Call> calls_of(ImageProtocol protocol, int ranks) {
  std::vector<Call> calls;
  for (const bool stores : {false, true}) {
    if (stores && protocol != ImageProtocol::kDirect) break;
    calls.push_back({protocol, Pattern::kAll, 0, stores});
    for (int root = 0; root < ranks; ++root) {
      calls.push_back(from(protocol, root, stores));
      if (ranks > 2) calls.push_back(to(protocol, root, stores));  // of two: from the other
    }
  }
  return calls;
}

/// f(sequence) for all sequences of `length` of these calls.
template <class F>
void for_sequences(const std::vector<Call>& calls, std::size_t length, const F& f) {
  std::vector<std::size_t> digits(length, 0);
  for (;;) {
    std::vector<Call> sequence;
    for (const std::size_t digit : digits) sequence.push_back(calls[digit]);
    f(sequence);
    std::size_t at = 0;
    while (at < length && ++digits[at] == calls.size()) digits[at++] = 0;
    if (at == length) return;
  }
}

/// Adds up what a test explores, and says it at its end.
class Total {
 public:
  explicit Total(std::string what) : what_(std::move(what)) {}
  ~Total() {
    std::printf("explored %llu states of %llu jobs: %s\n", states_, jobs_, what_.c_str());
  }
  Total(const Total&) = delete;
  Total& operator=(const Total&) = delete;

  void expect_right(const Job& job, Reduction reduction = Reduction::kPartialOrder) {
    const Exploration result = explore(system_of(job), reduction);
    states_ += result.states;
    ++jobs_;
    EXPECT_EQ(result.mistake, "") << fmt::format("{}", fmt::join(result.steps, "\n"));
  }

 private:
  std::string what_;
  unsigned long long states_ = 0, jobs_ = 0;
};

Job job_of(int ranks, std::vector<Call> calls, bool moves = true) {
  // Two ranks show whether packets are torn; of three they are whole, which leaves fewer states.
  return {.ranks = ranks,
          .calls = std::move(calls),
          .slices = 3,
          .depth = 2,
          .halves = ranks == 2 ? 2 : 1,
          .moves = moves};
}

TEST(TwoRanks, AreRightInThreeCallsOfAnyProtocols) {
  std::vector<Call> calls;
  for (const ImageProtocol protocol :
       {ImageProtocol::kPackets, ImageProtocol::kDirect, ImageProtocol::kStaged})
    for (const Call& call : calls_of(protocol, 2)) calls.push_back(call);
  Total total("2 ranks, 3 calls, every mix of protocols and roots");
  for_sequences(calls, 3, [&](const auto& sequence) { total.expect_right(job_of(2, sequence)); });
}

TEST(TwoRanks, AreRightInFourCallsOfPackets) {
  Total total("2 ranks, 4 calls of packets, every mix of roots");
  for (const bool moves : {false, true})
    for_sequences(calls_of(ImageProtocol::kPackets, 2), 4,
                  [&](const auto& sequence) { total.expect_right(job_of(2, sequence, moves)); });
}

TEST(TwoRanks, AreRightWhereFlagsOfPacketsBeginAnew) {
  Total total("2 ranks, 9 calls with 3 flags");
  for (const bool moves : {false, true})
    for_sequences({from(ImageProtocol::kPackets, 0), from(ImageProtocol::kPackets, 1)}, 9,
                  [&](const auto& sequence) {
                    if (sequence.front().root == 1) return;  // the same with the ranks renamed
                    Job job = job_of(2, sequence, moves);
                    job.flags = 3;
                    job.halves = 1;
                    total.expect_right(job);
                  });
}

TEST(ThreeRanks, AreRightInThreeCallsOfPacketsOrInBuffersOfPeers) {
  Total total("3 ranks, 3 calls of packets or direct, every mix of roots");
  for (const ImageProtocol protocol : {ImageProtocol::kPackets, ImageProtocol::kDirect})
    for_sequences(calls_of(protocol, 3), 3,
                  [&](const auto& sequence) { total.expect_right(job_of(3, sequence)); });
}

TEST(ThreeRanks, AreRightInThreeStagedCalls) {
  Total total("3 ranks, 3 staged calls of 2 slices, from and to roots and between all");
  const std::vector<Call> calls = {kStagedAll, from(ImageProtocol::kStaged, 0),
                                   from(ImageProtocol::kStaged, 1), to(ImageProtocol::kStaged, 0),
                                   to(ImageProtocol::kStaged, 2)};
  for_sequences(calls, 3, [&](const auto& sequence) {
    Job job = job_of(3, sequence);
    job.slices = 2;
    total.expect_right(job);
  });
  total.expect_right(job_of(3, {kStagedAll, kStagedAll, kStagedAll}));
}

TEST(ThreeRanks, AreRightInFourCallsOfPackets) {
  Total total("3 ranks, 4 calls of packets");
  const std::vector<Call> calls = {kPacketsAll, from(ImageProtocol::kPackets, 0),
                                   from(ImageProtocol::kPackets, 1),
                                   to(ImageProtocol::kPackets, 0)};
  for (const bool moves : {false, true})
    for_sequences(calls, 4,
                  [&](const auto& sequence) { total.expect_right(job_of(3, sequence, moves)); });
}

TEST(ThreeRanks, AreRightInThreeCallsOfDifferentProtocols) {
  Total total("3 ranks, 3 calls, mixed protocols");
  std::vector<Call> calls;
  for (const ImageProtocol protocol :
       {ImageProtocol::kPackets, ImageProtocol::kDirect, ImageProtocol::kStaged}) {
    calls.push_back({protocol, Pattern::kAll, 0, false});
    calls.push_back(from(protocol, 0, true));
    calls.push_back(to(protocol, 1));
  }
  for_sequences(calls, 3, [&](const auto& sequence) {
    Job job = job_of(3, sequence);
    job.slices = 2;
    total.expect_right(job);
  });
}

TEST(Reduction, ComesToTheSameAsAllOrders) {
  Total total("2 ranks, 3 calls of one protocol, all orders without reduction");
  for (const ImageProtocol protocol :
       {ImageProtocol::kPackets, ImageProtocol::kDirect, ImageProtocol::kStaged})
    for_sequences(calls_of(protocol, 2), 3, [&](const auto& sequence) {
      total.expect_right(job_of(2, sequence), Reduction::kNone);
    });
}

struct Seeded {
  const char* name;
  Job job;
  const char* mistake;
};

/// Named in failures and listings.
std::ostream& operator<<(std::ostream& out, const Seeded& seeded) { return out << seeded.name; }

constexpr const char* kStuck = "nobody can go on";

std::vector<Seeded> seeded_mistakes() {
  const Call packets = from(ImageProtocol::kPackets, 0), back = from(ImageProtocol::kPackets, 1);
  const Call staged = from(ImageProtocol::kStaged, 0), direct = from(ImageProtocol::kDirect, 0);
  const auto job = [](Mistake mistake, std::vector<Call> calls, int slices = 1, int depth = 1) {
    return Job{.ranks = 2,
               .calls = std::move(calls),
               .slices = slices,
               .depth = depth,
               .mistake = mistake};
  };
  std::vector<Seeded> all = {
      {"PushesUnasked", job(Mistake::kPushesUnasked, {packets, packets, packets}), kStuck},
      {"PollsNoFlag", job(Mistake::kPollsNoFlag, {packets}), "finds 0.0"},
      {"PollsHalfAPacket", job(Mistake::kPollsHalfAPacket, {packets}), "finds 0.0 in half 1"},
      {"OneInbox", job(Mistake::kOneInbox, {packets, packets}), kStuck},
      {"ClearsNoPackets",
       job(Mistake::kClearsNoPackets, {packets, back, back, back, back, back, packets}),
       "finds 1.0"},
      {"ReusesSlotsUnasked", job(Mistake::kReusesSlotsUnasked, {staged, staged, staged}),
       "finds 3.0"},
      {"RefillsUnasked", job(Mistake::kRefillsUnasked, {staged}, 2), "finds 1.1"},
      {"ReadsUnasked", job(Mistake::kReadsUnasked, {staged}), "finds 0.0"},
      {"OneHalfOfSlots", job(Mistake::kOneHalfOfSlots, {staged, staged}), "finds 2.0"},
      {"TellsTooEarly", job(Mistake::kTellsTooEarly, {staged}), "finds 0.0"},
      {"TellsWithoutRelease", job(Mistake::kTellsWithoutRelease, {staged}), "finds 0.0"},
      {"TouchesUnasked", job(Mistake::kTouchesUnasked, {direct}), "finds 0.0"},
      {"LeavesUsers", job(Mistake::kLeavesUsers, {direct}), "finds 15.15"},
      {"TellsOnlyPartners", job(Mistake::kTellsOnlyPartners, {staged, staged}), kStuck},
      {"OneSlotForTwoStages", job(Mistake::kNone, {kStagedAll}, 2), kStuck},
  };
  for (Seeded& seeded : all) {
    if (seeded.job.mistake == Mistake::kClearsNoPackets) seeded.job.flags = 3;
    if (seeded.job.mistake == Mistake::kTellsOnlyPartners) seeded.job.ranks = 3;
  }
  return all;
}

class Mistakes : public testing::TestWithParam<Seeded> {};

TEST_P(Mistakes, AreFoundByTheFewestSteps) {
  const System system = system_of(GetParam().job);
  const Exploration found = explore(system, Reduction::kNone);
  std::printf("explored %llu states until %s shows: %s\n  %s\n",
              static_cast<unsigned long long>(found.states), GetParam().name, found.mistake.c_str(),
              fmt::format("{}", fmt::join(found.steps, "\n  ")).c_str());
  EXPECT_THAT(found.mistake, HasSubstr(GetParam().mistake));
}

TEST_P(Mistakes, AreFoundWithReductionToo) {
  const Exploration found = explore(system_of(GetParam().job), Reduction::kPartialOrder);
  EXPECT_THAT(found.mistake, HasSubstr(GetParam().mistake));
}

INSTANTIATE_TEST_SUITE_P(Seeded, Mistakes, testing::ValuesIn(seeded_mistakes()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::model
