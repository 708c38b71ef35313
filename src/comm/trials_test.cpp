// Two ranks whose teams are of one process, each with its trials, driven by hand.
#include "src/comm/trials.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/shared_heap.hpp"
#include "src/exec/local_board.hpp"
#include "src/exec/staging_pool.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

const CallClass kClass{Collective::kAllToAll, 2, 18};
const std::vector<Way> kWays = {{"direct", false}, {"direct", true}};
constexpr int kCallsOfACourse = 36;

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
      trials_[rank] = std::make_unique<Trials>(*teams_[rank], true, known_, stores_[rank]);
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
  exec::TrialTimes& published(Rank rank, int which = 0) {
    return teams_[rank]->own_block().trials[which];
  }
  /// All tries of a way, on both ranks.
  void set_times(std::size_t way, std::uint64_t nanos) {
    for (Rank rank = 0; rank < 2; ++rank) {
      std::uint64_t at = 1000;
      for (exec::TryTimes& times : published(rank).tries[way]) {
        times = {at, at + nanos};
        at += 2 * nanos;
      }
    }
  }
  void expect_verdicts(const Way* expected) {
    for (Rank rank = 0; rank < 2; ++rank) {
      const auto state = trials_[rank]->poll();
      ASSERT_TRUE(state) << state.error().what;
      ASSERT_EQ(*state, exec::Poll::kDone);
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
  TuningStore stores_[2] = {{"", "m"}, {"", "m"}};
  std::vector<Verdict> known_;
  std::unique_ptr<Trials> trials_[2];
};

TEST_F(TrialsOfTwo, TakeTurnsAtTheWays) {
  std::vector<std::size_t> ways;
  for (int i = 0; i < kCallsOfACourse; ++i) ways.push_back(call(0));
  std::vector<std::size_t> expected;
  for (std::size_t turn = 0; turn < 6; ++turn) expected.insert(expected.end(), 6, turn % 2);
  EXPECT_EQ(ways, expected);
  EXPECT_TRUE(trials_[0]->due());
}

TEST_F(TrialsOfTwo, WaitForEachOtherAndComeToTheSameVerdict) {
  make_course(0);
  EXPECT_EQ(*trials_[0]->poll(), exec::Poll::kPending);
  EXPECT_EQ(teams_[0]->waiting_for(), 1);
  make_course(1);
  set_times(0, 500);
  set_times(1, 400);
  expect_verdicts(&kWays[1]);
  EXPECT_EQ(stores_[0].verdicts(2).size(), 1U);
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
  expect_verdicts(nullptr);
  EXPECT_EQ(stores_[0].size(), 0U);
  EXPECT_FALSE(trials_[0]->turn(kClass, kWays).on_trial);
}

TEST_F(TrialsOfTwo, ComeToTheSameVerdictFromAnyNumbers) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  for (Rank rank = 0; rank < 2; ++rank) make_course(rank);
  for (Rank rank = 0; rank < 2; ++rank)
    for (std::size_t i = 0; i < exec::kMostTries; ++i) {
      published(rank).tries[0][i] = {i % 2 == 0 ? 1 : kHuge, kHuge};
      published(rank).tries[1][i] = {kHuge - i, i};
    }
  for (Rank rank = 0; rank < 2; ++rank) EXPECT_TRUE(trials_[rank]->poll());
  EXPECT_FALSE(trials_[0]->verdict(kClass));
  EXPECT_FALSE(trials_[1]->verdict(kClass));
}

TEST_F(TrialsOfTwo, OfDifferentCallsAreAnErrorThatNamesThePeer) {
  make_course(0);
  make_course(1, {Collective::kAllReduce, 2, 18});
  const auto state = trials_[0]->poll();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kInvalidUsage);
  EXPECT_EQ(state.error().peer, 1);
  EXPECT_THAT(state.error().what, HasSubstr("same calls in the same order"));
}

TEST_F(TrialsOfTwo, DoNotWaitForARankThatHasLeft) {
  make_course(0);
  EXPECT_EQ(*trials_[0]->poll(), exec::Poll::kPending);
  EXPECT_TRUE(trials_[0]->check_peers());
  teams_[1]->own_block().progress.left.store(1);
  const Status waits = trials_[0]->check_peers();
  ASSERT_FALSE(waits);
  EXPECT_THAT(waits.error().what, HasSubstr("has left"));
}

TEST_F(TrialsOfTwo, HearOfAnAbort) {
  make_course(0);
  teams_[0]->abort_word().raise(make_error(Code::kAborted, "enough"));
  const auto state = trials_[0]->poll();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().what, "enough");
}

// One rank may be a course ahead: what it publishes then must not hide what it published before.
TEST_F(TrialsOfTwo, OfOneCourseStayWhileTheNextIsPublished) {
  const CallClass next{Collective::kAllReduce, 2, 18};
  for (Rank rank = 0; rank < 2; ++rank) make_course(rank);
  set_times(0, 500);
  set_times(1, 400);
  ASSERT_EQ(*trials_[0]->poll(), exec::Poll::kDone);
  make_course(0, next);
  ASSERT_EQ(*trials_[1]->poll(), exec::Poll::kDone);
  EXPECT_EQ(*trials_[1]->verdict(kClass), kWays[1]);
  EXPECT_EQ(*trials_[0]->poll(), exec::Poll::kPending);
  make_course(1, next);
  EXPECT_EQ(*trials_[0]->poll(), exec::Poll::kDone);
  EXPECT_EQ(*trials_[1]->poll(), exec::Poll::kDone);
}

TEST_F(TrialsOfTwo, AreNotMadeOfWhatIsKnownOrNotToBeMeasured) {
  const std::vector<Verdict> known = {{kClass, kWays[1], 1},
                                      {{Collective::kAllToAll, 3, 18}, kWays[1], 1},
                                      {{Collective::kReduce, 2, 18}, {"no such", false}, 1}};
  Trials knows(*teams_[0], true, known, stores_[0]);
  EXPECT_EQ(knows.turn(kClass, kWays).way, 1U);
  EXPECT_FALSE(knows.turn(kClass, kWays).on_trial);
  const Trials::Turn unheard_of = knows.turn({Collective::kReduce, 2, 18}, kWays);
  EXPECT_EQ(unheard_of.way, 0U);
  EXPECT_FALSE(unheard_of.on_trial);
  EXPECT_FALSE(knows.turn({Collective::kReduce, 2, 19}, {kWays.data(), 1}).on_trial);
  Trials off(*teams_[0], false, known, stores_[0]);
  EXPECT_EQ(off.turn(kClass, kWays).way, 0U);
  EXPECT_FALSE(off.verdict(kClass));
}

TEST_F(TrialsOfTwo, AreNotMadeOfTheLargestInputsWhichRunAsTheLargestTriedDo) {
  constexpr CallClass kLargestTried{Collective::kAllToAll, 2, 24},
      kLarger{Collective::kAllToAll, 2, 25}, kLargest{Collective::kAllToAll, 2, 26};
  Trials trials(*teams_[0], true, {}, stores_[0]);
  EXPECT_FALSE(trials.turn(kLarger, kWays).on_trial);
  EXPECT_FALSE(trials.verdict(kLarger));

  Trials knowing(*teams_[0], true, {{kLargestTried, kWays[1], 0}}, stores_[0]);
  const Trials::Turn turn = knowing.turn(kLargest, kWays);
  EXPECT_FALSE(turn.on_trial);
  EXPECT_EQ(turn.way, 1U);
}

}  // namespace
}  // namespace tutti
