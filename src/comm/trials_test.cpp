// Two ranks whose teams are of one process, each with its trials, driven by hand.
#include "src/comm/trials.hpp"

#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/shared_heap.hpp"
#include "src/exec/local_board.hpp"
#include "src/exec/staging_pool.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

const CallClass kClass{Collective::kAllToAll, 18};
const Arrangement kTwo{2, 1, 2};
const std::vector<Way> kWays = {{"direct", false}, {"direct", true}};
constexpr int kCallsOfACourse = 48;

class TrialsOfTwo : public ::testing::Test {
 protected:
  TrialsOfTwo() {
    auto heap = SharedHeap::create();
    EXPECT_TRUE(heap);
    staging_ = std::make_unique<exec::StagingPool>(*std::move(heap));
    for (Rank rank = 0; rank < 2; ++rank) {
      auto made = exec::Team::create(rank, 2, *staging_, board_, {});
      EXPECT_TRUE(made);
      teams_[rank] = *std::move(made);
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(
          teams_[rank]->add_local(1 - rank, teams_[1 - rank]->block_offset(), board_, "peer"));
      teams_[rank]->set_placement({{0, 0}});
      trials_[rank] =
          std::make_unique<Trials>(*teams_[rank], true, kTwo, MeasuredTable(), stores_[rank]);
    }
  }

  /// One call of `rank`; what it runs.
  std::size_t call(Rank rank, const CallClass& of = kClass, bool counts = true) {
    const Trials::Turn turn = trials_[rank]->turn(of, kWays);
    EXPECT_TRUE(turn.on_trial);
    trials_[rank]->begin();
    trials_[rank]->end(counts);
    return turn.way;
  }
  void make_course(Rank rank, const CallClass& of = kClass, bool counts = true) {
    for (int i = 0; i < kCallsOfACourse; ++i) call(rank, of, counts);
  }
  /// What the gathers would do.
  void tell() {
    Call gathers[2] = {trials_[0]->gather(), trials_[1]->gather()};
    for (Rank rank = 0; rank < 2; ++rank) {
      told_[rank] = static_cast<TrialTimes*>(gathers[rank].recv);
      for (Rank peer = 0; peer < 2; ++peer)
        std::memcpy(told_[rank] + peer, gathers[peer].send, sizeof(TrialTimes));
    }
  }
  /// All tries of a way by `rank`, as all are told.
  void set_times(Rank rank, std::size_t way, std::uint64_t begin, std::uint64_t nanos) {
    for (TrialTimes* const told : told_) {
      std::uint64_t at = begin;
      for (Try& times : told[rank].tries[way]) {
        times = {at, at + nanos};
        at += 2 * nanos;
      }
    }
  }
  /// The same for both ranks.
  void set_times(std::size_t way, std::uint64_t nanos) {
    for (Rank rank = 0; rank < 2; ++rank) set_times(rank, way, 1000, nanos);
  }
  void expect_verdicts(const Way* expected) {
    for (Rank rank = 0; rank < 2; ++rank) {
      const Status decided = trials_[rank]->decide();
      ASSERT_TRUE(decided) << decided.error().what;
      EXPECT_FALSE(trials_[rank]->due());
      const std::optional<Way> verdict = trials_[rank]->verdict(kClass);
      ASSERT_EQ(verdict.has_value(), expected != nullptr);
      if (expected != nullptr) {
        EXPECT_EQ(*verdict, *expected);
      }
    }
  }

  exec::LocalBoard board_;
  std::unique_ptr<exec::StagingPool> staging_;
  std::unique_ptr<exec::Team> teams_[2];
  MeasuredStore stores_[2] = {{"", ""}, {"", ""}};
  std::unique_ptr<Trials> trials_[2];
  TrialTimes* told_[2] = {};
};

/// The same on two hosts, whose clocks have nothing to do with each other.
class TrialsBetweenHosts : public TrialsOfTwo {
 protected:
  TrialsBetweenHosts() {
    for (const auto& team : teams_) team->set_placement({{0, 1}});
    for (Rank rank = 0; rank < 2; ++rank) make_course(rank);
    tell();
  }
};

TEST_F(TrialsOfTwo, TakeTurnsAtTheWays) {
  std::vector<std::size_t> ways;
  for (int i = 0; i < kCallsOfACourse; ++i) ways.push_back(call(0));
  std::vector<std::size_t> expected;
  for (std::size_t turn = 0; turn < 8; ++turn) expected.insert(expected.end(), 6, turn % 2);
  EXPECT_EQ(ways, expected);
  EXPECT_TRUE(trials_[0]->due());
}

TEST_F(TrialsOfTwo, ComeToTheSameVerdict) {
  make_course(0);
  make_course(1);
  tell();
  set_times(0, 500);
  set_times(1, 400);
  expect_verdicts(&kWays[1]);
  MeasuredRange stored = verdict_on(kClass, kTwo, kWays[1]);
  stored.nanos = 400;
  stored.next_nanos = 500;
  ASSERT_EQ(stores_[0].table().ranges().size(), 1U);
  stored.measured_s = stores_[0].table().ranges()[0].measured_s;
  EXPECT_EQ(stores_[0].table().ranges()[0], stored);
  for (Rank rank = 0; rank < 2; ++rank) {
    const Trials::Turn turn = trials_[rank]->turn(kClass, kWays);
    EXPECT_EQ(turn.way, 1U);
    EXPECT_FALSE(turn.on_trial);
    const std::vector<Way> turned = {kWays[1], kWays[0]};
    EXPECT_EQ(trials_[rank]->turn(kClass, turned).way, 0U) << "a verdict names a way, not a place";
  }
}

TEST_F(TrialsOfTwo, LeaveEverythingAsItIsWhereNothingCounted) {
  for (Rank rank = 0; rank < 2; ++rank) make_course(rank, kClass, /*counts=*/false);
  tell();
  expect_verdicts(nullptr);
  EXPECT_EQ(stores_[0].table().ranges().size(), 0U);
  EXPECT_FALSE(trials_[0]->turn(kClass, kWays).on_trial);
}

TEST_F(TrialsOfTwo, ComeToTheSameVerdictFromAnyNumbers) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  for (Rank rank = 0; rank < 2; ++rank) make_course(rank);
  tell();
  for (TrialTimes* const told : told_)
    for (Rank rank = 0; rank < 2; ++rank)
      for (std::size_t i = 0; i < kMostTries; ++i) {
        told[rank].tries[0][i] = {i % 2 == 0 ? 1 : kHuge, kHuge};
        told[rank].tries[1][i] = {kHuge - i, i};
      }
  expect_verdicts(nullptr);
}

TEST_F(TrialsOfTwo, OfDifferentCallsAreAnErrorThatNamesThePeer) {
  make_course(0);
  make_course(1, {Collective::kAllReduce, 18});
  tell();
  const Status decided = trials_[0]->decide();
  ASSERT_FALSE(decided);
  EXPECT_EQ(decided.error().code, Code::kInvalidUsage);
  EXPECT_EQ(decided.error().peer, 1);
  EXPECT_THAT(decided.error().what, HasSubstr("same calls in the same order"));
}

TEST_F(TrialsOfTwo, AreToldByACallThatNoProgramMakes) {
  make_course(0);
  const Call gather = trials_[0]->gather();
  EXPECT_EQ(gather.collective, Collective::kAllGather);
  EXPECT_EQ(gather.count * size_of(gather.type), sizeof(TrialTimes));
  EXPECT_FALSE(Trials::signature_of_gather(gather) == signature_of(gather));
}

TEST_F(TrialsBetweenHosts, CompareNoTimesOfDifferentClocks) {
  set_times(0, 0, 1000, 500);
  set_times(1, 0, 9'000'000, 600);
  set_times(0, 1, 1000, 400);
  set_times(1, 1, 9'000'000, 500);
  expect_verdicts(&kWays[1]);
}

TEST_F(TrialsBetweenHosts, WantAllRanksToBeFaster) {
  set_times(0, 0, 1000, 500);
  set_times(1, 0, 1000, 600);
  set_times(0, 1, 1000, 100);
  set_times(1, 1, 1000, 590);
  expect_verdicts(&kWays[0]);
}

TEST_F(TrialsBetweenHosts, ComeToTheSameVerdictFromAnyNumbers) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  set_times(0, 500);
  set_times(1, 400);
  for (TrialTimes* const told : told_)
    for (Try& one : told[1].tries[0]) one = {1, kHuge};
  expect_verdicts(&kWays[1]);
}

TEST_F(TrialsOfTwo, AreNotMadeOfWhatIsKnownOrNotToBeMeasured) {
  MeasuredTable known;
  known.add(verdict_on(kClass, kTwo, kWays[1]));
  known.add(verdict_on({Collective::kAllReduce, 18}, {3, 1, 3}, kWays[1]));
  known.add(verdict_on({Collective::kReduce, 18}, kTwo, {"no such", false}));
  Trials knows(*teams_[0], true, kTwo, known, stores_[0]);
  EXPECT_EQ(knows.turn(kClass, kWays).way, 1U);
  EXPECT_FALSE(knows.turn(kClass, kWays).on_trial);
  const Trials::Turn unheard_of = knows.turn({Collective::kReduce, 18}, kWays);
  EXPECT_EQ(unheard_of.way, 0U);
  EXPECT_FALSE(unheard_of.on_trial);
  EXPECT_FALSE(knows.turn({Collective::kReduce, 19}, {kWays.data(), 1}).on_trial);
  EXPECT_FALSE(knows.verdict({Collective::kAllReduce, 18}));
  Trials off(*teams_[0], false, kTwo, known, stores_[0]);
  EXPECT_EQ(off.turn(kClass, kWays).way, 0U);
  EXPECT_FALSE(off.verdict(kClass));
}

TEST_F(TrialsOfTwo, AreNotMadeOfTheLargestInputsWhichRunAsTheLargestTriedDo) {
  constexpr CallClass kLargestTried{Collective::kAllToAll, 24}, kLarger{Collective::kAllToAll, 25},
      kLargest{Collective::kAllToAll, 26};
  Trials trials(*teams_[0], true, kTwo, {}, stores_[0]);
  EXPECT_FALSE(trials.turn(kLarger, kWays).on_trial);
  EXPECT_FALSE(trials.verdict(kLarger));

  MeasuredTable known;
  known.add(verdict_on(kLargestTried, kTwo, kWays[1]));
  Trials knowing(*teams_[0], true, kTwo, known, stores_[0]);
  const Trials::Turn turn = knowing.turn(kLargest, kWays);
  EXPECT_FALSE(turn.on_trial);
  EXPECT_EQ(turn.way, 1U);
}

}  // namespace
}  // namespace tutti
