// Schedules in which the network adds and copies: their proof, text, expansion and embedding.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/compress.hpp"
#include "src/ir/embed.hpp"
#include "src/ir/expand.hpp"
#include "src/ir/group_operations.hpp"
#include "src/ir/sample_schedules.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"

namespace tutti::ir {
namespace {

using samples::by_the_network;
using samples::in_two_levels;
using samples::on_two_trees;
using testing::HasSubstr;

constexpr Request kSumOfThree{Collective::kAllReduce, 3, 0, false};

/// Every sample of up to nine ranks.
std::vector<Schedule> grouped_samples() {
  std::vector<Schedule> schedules;
  for (const bool in_place : {false, true}) {
    for (std::int32_t ranks = 2; ranks <= 9; ++ranks) {
      for (const Collective collective : samples::kGroupCollectives)
        for (const std::uint32_t per_block : {1U, 3U})
          schedules.push_back(by_the_network(
              {collective, ranks, rooted(collective) ? ranks - 1 : 0, in_place}, per_block));
      schedules.push_back(on_two_trees(ranks, in_place));
      if (ranks >= 4 && ranks % 2 == 0) schedules.push_back(in_two_levels(ranks, in_place));
    }
  }
  return schedules;
}

Step& group_step(Schedule& schedule, Rank rank, std::size_t nth = 0) {
  for (Step& step : schedule.programs[static_cast<std::size_t>(rank)].steps)
    if (uses_group(step.verb) && nth-- == 0) return step;
  return schedule.programs.front().steps.front();
}
std::vector<Step>& group_steps(Schedule& schedule, Rank rank) {
  return schedule.programs[static_cast<std::size_t>(rank)].steps;
}

void expect_refused(const Schedule& schedule, std::initializer_list<std::string_view> words,
                    const VerifyOptions& options = {}) {
  const Result<Proof> proof = verify(schedule, options);
  ASSERT_FALSE(proof) << "the defect went unnoticed in\n" << print(schedule);
  EXPECT_EQ(proof.error().code, Code::kInvalidArgument);
  for (const std::string_view word : words)
    EXPECT_THAT(proof.error().what, HasSubstr(std::string(word)));
}

TEST(Groups, AreProved) {
  for (const Schedule& schedule : grouped_samples()) {
    const Result<Proof> proof = verify(schedule);
    ASSERT_TRUE(proof) << proof.error().what << "\n" << print(schedule);
  }
}

TEST(Groups, CostOneRoundAndEachByteOnce) {
  for (const std::int32_t ranks : {2, 8, 64}) {
    const Result<Proof> proof = verify(by_the_network({Collective::kAllReduce, ranks}, 4));
    ASSERT_TRUE(proof) << proof.error().what;
    EXPECT_EQ(proof->rounds, 1U);
    EXPECT_EQ(proof->max_chunks_sent, 4U);
  }
  const Result<Proof> levels = verify(in_two_levels(6, false));
  ASSERT_TRUE(levels) << levels.error().what;
  EXPECT_EQ(levels->rounds, 3U);
  EXPECT_EQ(levels->max_chunks_sent, 4U);
}

TEST(Groups, TellWhereSumsAreComplete) {
  const Result<Proof> proof = verify(in_two_levels(4, true));
  ASSERT_TRUE(proof) << proof.error().what;
  for (const auto& steps : proof->completes)
    EXPECT_EQ(steps, (std::vector<bool>{false, true, false}));
}

TEST(Groups, SurviveTheTextForm) {
  for (const Schedule& schedule : grouped_samples()) {
    const Result<Schedule> again = parse(print(schedule));
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(*again, schedule);
  }
}

TEST(Groups, ReadAsTheyAreMeant) {
  const std::string text = print(in_two_levels(4, false));
  EXPECT_THAT(text, HasSubstr("lanes 1\ngroup 0..1\ngroup 0 2\ngroup 1 3\ngroup 2..3\n"));
  EXPECT_THAT(text, HasSubstr("0: group_reduce in[0..1] into out[0] over 0\n"
                              "1: group_reduce out[0] into out[0] over 1 after 0\n"
                              "2: multicast out[0] into out[0..1] over 0 after 1\n"));
  EXPECT_THAT(print(by_the_network({Collective::kBroadcast, 2, 1, false}, 1)),
              HasSubstr("0: multicast into out[0] over 0\n"));
}

TEST(Groups, AreRefusedInTextThatIsWrong) {
  const std::string good = print(by_the_network(kSumOfThree, 1));
  const auto expect_parse_error = [&](std::string_view what, std::string_view with,
                                      std::string_view words) {
    std::string text = good;
    text.replace(text.find(what), what.size(), with);
    const Result<Schedule> schedule = parse(text);
    ASSERT_FALSE(schedule) << text;
    EXPECT_THAT(schedule.error().what, HasSubstr(std::string(words)));
  };
  expect_parse_error("group 0..2", "group 0..3", "a rank below 3 or a range such as 2..5");
  expect_parse_error("group 0..2", "group 0..1 0..1", "each rank once at most");
  expect_parse_error("group 0..2", "group", "a rank below 3");
  expect_parse_error("over 0", "over 1", "a group from 0 to 0");
  expect_parse_error("over 0", "to 1", "`over`");
  expect_parse_error("into out[0] over", "into over", "chunks below");
}

TEST(Groups, BecomeMessagesThatDoTheSame) {
  for (const Schedule& schedule : grouped_samples()) {
    const Result<Schedule> expanded = expand_groups(schedule);
    ASSERT_TRUE(expanded) << expanded.error().what;
    EXPECT_TRUE(expanded->groups.empty());
    const Result<Proof> proof = verify(*expanded);
    ASSERT_TRUE(proof) << proof.error().what << "\n" << print(schedule) << print(*expanded);
  }
}

TEST(Groups, KeepTheirPlaceInCompressedSchedules) {
  for (const Schedule& schedule : grouped_samples()) {
    const Schedule compressed = compress(schedule, CompressedMessages::kAll);
    EXPECT_EQ(compressed.groups, schedule.groups);
    const Result<Proof> proof = verify(compressed);
    ASSERT_TRUE(proof) << proof.error().what << "\n" << print(compressed);
    EXPECT_EQ(proof->lossy_steps, 0U);
    EXPECT_EQ(proof->same_bits, true);
  }
}

TEST(Groups, AreEmbeddedWithTheirMembers) {
  Builder whole({Collective::kAllReduce, 5}, "part", 2);
  // Ranks 1, 3 and 4 add up their chunk 1; that is no all-reduce, but its text shows the mapping.
  const auto chunk = [](Space space) {
    return [space](Rank, std::uint32_t) { return Region{{space, 1, 1, 1}}; };
  };
  const Part part{{1, 3, 4}, chunk(Space::kInput), chunk(Space::kOutput)};
  const Status done = embed(by_the_network(kSumOfThree, 1), part, whole);
  ASSERT_TRUE(done) << done.error().what;
  const Schedule schedule = std::move(whole).finish();
  EXPECT_EQ(schedule.groups, (std::vector<Group>{{{1, 3, 4}}}));
  EXPECT_EQ(print_action(schedule.programs[3].steps[0]), "group_reduce in[1] into out[1] over 0");
}

TEST(Groups, AreNotEmbeddedWhereTheirDataIsScattered) {
  Builder whole({Collective::kAllReduce, 3}, "part", 4);
  const auto chunks = [](Space space) {
    return [space](Rank, std::uint32_t) { return Region{{space, 0, 2, 1}, {space, 3, 1, 1}}; };
  };
  const Part part{{0, 1, 2}, chunks(Space::kInput), chunks(Space::kOutput)};
  const Status done = embed(by_the_network(kSumOfThree, 1), part, whole);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kUnsupported);
}

// --- what is wrong, and how it is told

TEST(Groups, NeedAllMembersInEachOperation) {
  Schedule schedule = on_two_trees(3, false);
  group_steps(schedule, 2).pop_back();
  expect_refused(schedule, {"rank 0 step 3", "this is operation 2 of its group",
                            "rank 2 takes part in only 1"});
}

TEST(Groups, NeedEachMemberOnce) {
  Schedule schedule = by_the_network(kSumOfThree, 1);
  Step again = group_step(schedule, 1);
  again.deps = {0};
  group_steps(schedule, 1).push_back(again);
  expect_refused(schedule, {"rank 1 step 1", "rank 0 takes part in only 1"});
}

TEST(Groups, AddEachRankOnce) {
  // Rank 0's contribution comes to the second operation through the first one's sum.
  Schedule schedule = by_the_network({Collective::kAllReduce, 3}, 1);
  for (Rank rank = 0; rank < 3; ++rank) {
    Step again = group_step(schedule, rank);
    again.src = out(0);
    again.deps = {0};
    group_steps(schedule, rank).push_back(again);
  }
  expect_refused(schedule, {"ranks that have not contributed yet were expected"});
}

TEST(Groups, DeadlockIfMembersTakeThemInDifferentOrders) {
  Schedule schedule = on_two_trees(3, false);
  std::swap(group_steps(schedule, 1)[0], group_steps(schedule, 1)[1]);
  expect_refused(schedule, {"deadlock", "over 0 waits for rank 1 to take part",
                            "over 1 waits for rank 0 to take part"});
}

TEST(Groups, AreAtMostAsManyAsTheNetworkHasTrees) {
  expect_refused(on_two_trees(3, false), {"2 groups need as many trees", "at most 1"},
                 {.trees = 1});
  EXPECT_TRUE(verify(on_two_trees(3, false), {.trees = 2}));
}

TEST(Groups, HaveTheirRanksInAnyOrder) {
  Schedule schedule = by_the_network({Collective::kReduceScatter, 3}, 2);
  schedule.groups[0].ranks = {2, 0, 1};
  expect_refused(schedule, {"rank 0 out[0] ends with chunk 2 of ranks 0, 1, 2"});  // rank 1's part
  schedule = by_the_network({Collective::kAllReduce, 3}, 2);
  schedule.groups[0].ranks = {2, 0, 1};
  EXPECT_TRUE(verify(schedule));
  const Result<Schedule> again = parse(print(schedule));
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(*again, schedule);
}

TEST(Groups, HaveAtLeastTwoDifferentRanks) {
  for (const std::vector<Rank>& ranks :
       {std::vector<Rank>{}, {1}, {0, 0, 1}, {1, 0, 1}, {0, 3}, {-1, 0}}) {
    Schedule schedule = by_the_network(kSumOfThree, 1);
    schedule.groups[0].ranks = ranks;
    expect_refused(schedule, {"group 0: at least two different ranks below 3"});
  }
}

TEST(Groups, AreEnteredByMembersAlone) {
  Schedule schedule = by_the_network(kSumOfThree, 1);
  schedule.groups[0].ranks = {0, 1};
  expect_refused(schedule, {"rank 2 step 0", "rank 2 is no member of group 0"});
  group_step(schedule, 2).group = 1;
  expect_refused(schedule, {"a group below 1 was expected, found 1"});
}

TEST(Groups, LeaveOutNoContribution) {
  Schedule schedule = by_the_network(kSumOfThree, 1);
  schedule.groups[0].ranks = {0, 1};
  group_steps(schedule, 2).clear();
  expect_refused(schedule, {"rank 0 out[0] ends with chunk 0 of ranks 0, 1", "of all ranks"});
}

TEST(Groups, DeliverToAllOrOneOrEqualParts) {
  Schedule schedule = by_the_network(kSumOfThree, 2);
  group_step(schedule, 1).dst = {};
  expect_refused(schedule, {"of the 3 members, 2 get all 2 sums and 1 get none"});
  schedule = by_the_network({Collective::kReduceScatter, 3}, 1);
  group_step(schedule, 1).dst = {};
  expect_refused(schedule, {"all, one or equal parts were expected"});
}

TEST(Groups, DoTheSameOnAllMembers) {
  Schedule schedule = by_the_network(kSumOfThree, 1);
  group_step(schedule, 1).verb = Verb::kMulticast;
  expect_refused(schedule, {"rank 1 step 0", "a group_reduce was expected, as in rank 0 step 0"});
  schedule = by_the_network(kSumOfThree, 2);
  group_step(schedule, 2).src.count = 1;
  expect_refused(schedule, {"rank 2 step 0", "2 chunks were expected as source"});
  schedule = by_the_network(kSumOfThree, 2);
  group_step(schedule, 2).src = in(1, 1);
  group_step(schedule, 2).dst = out(1, 1);
  for (const Rank rank : {0, 1}) {
    group_step(schedule, rank).src = in(0);
    group_step(schedule, rank).dst = out(0);
  }
  expect_refused(schedule, {"rank 2 step 0", "has the size of chunk 1 of a block"});
}

TEST(Groups, SendFromOneMemberOrAll) {
  Schedule schedule = by_the_network({Collective::kAllGather, 3}, 1);
  group_step(schedule, 1).src = {};
  expect_refused(schedule, {"2 of 3 members send; one or all were expected"});
  schedule = by_the_network({Collective::kBroadcast, 3}, 1);
  group_step(schedule, 0).src = {};
  expect_refused(schedule, {"0 of 3 members send"});
  schedule = by_the_network({Collective::kBroadcast, 3}, 1);
  for (const Rank rank : {1, 2}) group_step(schedule, rank).dst = {};
  expect_refused(schedule, {"another member was expected to receive it"});
}

TEST(Groups, WriteWhatTheyReadInItsOwnPlaceAlone) {
  Schedule schedule = by_the_network({Collective::kAllGather, 3, 0, true}, 1);
  ASSERT_TRUE(verify(schedule));
  group_step(schedule, 0).src = out(1);  // what comes there is from rank 1
  expect_refused(schedule, {"rank 0 step 0", "reads and writes the memory of out[1]"});
}

/// One member of a group has its values in the format "wire".
Schedule with_a_format(const Request& request) {
  Schedule schedule = by_the_network(request, 1);
  schedule.formats = {"wire"};
  for (Program& program : schedule.programs) program.scratch = {0};
  group_step(schedule, 1).src = {Space::kScratch, 0, 1, 1, 1};
  return schedule;
}

TEST(Groups, ConvertNoFormats) {
  expect_refused(with_a_format({Collective::kAllGather, 3}),
                 {"rank 1 step 0", "the network converts nothing"});
}

TEST(Groups, AddNoFormattedValues) {
  expect_refused(with_a_format(kSumOfThree),
                 {"rank 1 step 0", "lets the network add formatted values"});
}

TEST(Groups, AreUsedByGroupStepsAlone) {
  Schedule schedule = samples::direct(kSumOfThree, 1);
  schedule.groups = {{{0, 1, 2}}};
  group_steps(schedule, 0)[0].group = 0;
  expect_refused(schedule, {"no group was expected"});
  schedule = by_the_network(kSumOfThree, 1);
  group_step(schedule, 0).lane = 1;
  expect_refused(schedule, {"no peer and lane 0 were expected"});
}

}  // namespace
}  // namespace tutti::ir
