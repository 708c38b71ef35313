#include "src/ir/verify.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/sample_schedules.hpp"

namespace tutti::ir {
namespace {

using samples::direct;
using samples::ring_all_reduce;
using testing::HasSubstr;

constexpr Request kAllReduceOfThree{Collective::kAllReduce, 3, 0, false};
constexpr Request kAllReduceInPlace{Collective::kAllReduce, 3, 0, true};
constexpr Request kAllGather{Collective::kAllGather, 3, 0, false};

/// direct(kAllReduceOfThree, 1) has for rank 0:
///   0 send in[0] to 1; 1 send in[0] to 2; 2 copy in[0] into out[0];
///   3 recv tmp[0] from 1; 4 reduce tmp[0] into out[0]; 5 recv tmp[1]; 6 reduce tmp[1] into out[0]
std::vector<Step>& steps_of(Schedule& schedule, Rank rank) {
  return schedule.programs[static_cast<std::size_t>(rank)].steps;
}

void expect_rejected(const Schedule& schedule, std::initializer_list<std::string_view> words,
                     const VerifyOptions& options = {}) {
  const Result<Proof> proof = verify(schedule, options);
  ASSERT_FALSE(proof) << "the defect went unnoticed";
  EXPECT_EQ(proof.error().code, Code::kInvalidArgument);
  for (const std::string_view word : words)
    EXPECT_THAT(proof.error().what, HasSubstr(std::string(word)));
}

/// Removes a step and the dependencies on it; later ones move up.
void drop(Schedule& schedule, Rank rank, StepId victim) {
  auto& program = steps_of(schedule, rank);
  program.erase(program.begin() + victim);
  for (Step& step : program) {
    std::erase(step.deps, victim);
    for (StepId& dep : step.deps) dep -= dep > victim ? 1 : 0;
  }
}

TEST(Verifier, ProvesADirectScheduleOfEveryCollective) {
  for (const Collective collective : samples::kGlobalCollectives) {
    for (std::int32_t ranks = 1; ranks <= 5; ++ranks) {
      for (const bool in_place : {false, true}) {
        for (const bool formatted : {false, true}) {
          if (in_place && collective == Collective::kAllToAll) continue;
          const Request request{collective, ranks, rooted(collective) ? ranks - 1 : 0, in_place};
          for (const std::uint32_t per_block : {1U, 3U}) {
            const Result<Proof> proof = verify(direct(request, per_block, formatted));
            ASSERT_TRUE(proof) << name_of(collective) << " n=" << ranks << ": "
                               << proof.error().what;
            EXPECT_EQ(proof->rounds, ranks == 1 ? 0U : 1U);
          }
        }
      }
    }
  }
}

TEST(Verifier, ProvesTheRingAndCountsItsRoundsAndChunks) {
  for (const std::int32_t ranks : {1, 2, 3, 8, 33}) {
    for (const bool in_place : {false, true}) {
      const Schedule schedule = ring_all_reduce(ranks, in_place);
      const Result<Proof> proof = verify(schedule);
      ASSERT_TRUE(proof) << proof.error().what;
      const auto expected = 2 * static_cast<std::uint32_t>(ranks - 1);
      EXPECT_EQ(proof->rounds, expected);
      EXPECT_EQ(proof->max_chunks_sent, expected);
      std::uint64_t steps = 0;
      for (const Program& program : schedule.programs) steps += program.steps.size();
      EXPECT_EQ(proof->steps, steps);
    }
  }
}

TEST(Verifier, ProvesARingOf128) { EXPECT_TRUE(verify(ring_all_reduce(128, false))); }

TEST(Verifier, MarksTheReductionThatCompletesTheSum) {
  const Result<Proof> proof = verify(direct(kAllReduceOfThree, 1));
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->completes[0],
            (std::vector<bool>{false, false, false, false, false, false, true}));
  const Result<Proof> ring = verify(ring_all_reduce(5, false));
  ASSERT_TRUE(ring);
  for (const auto& completes : ring->completes)
    EXPECT_EQ(std::count(completes.begin(), completes.end(), true), 1);
}

TEST(Verifier, CountsRoundsAlongDependenciesAndMessages) {
  const Result<Proof> proof = verify(direct(kAllReduceOfThree, 1));
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->round[0], (std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1, 1}));
}

TEST(Verifier, DescribesAStepInOneLine) {
  Schedule schedule = direct(kAllReduceOfThree, 4);
  EXPECT_EQ(describe(schedule, 0, 0), "rank 0 step 0: send in[0..3] to 1");
  steps_of(schedule, 0)[0].src = in(1, 2, 2);
  steps_of(schedule, 0)[0].lane = 3;
  EXPECT_EQ(describe(schedule, 0, 0), "rank 0 step 0: send in[1..3:2] to 1 lane 3");
  EXPECT_EQ(describe(schedule, 2, 3), "rank 2 step 3: recv tmp[0..3] from 0");
}

// 0. The request.

TEST(Verifier, RejectsRequestsThatHaveNoSchedule) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  schedule.request.collective = Collective::kSend;
  expect_rejected(schedule, {"send has no global schedule"});
  schedule = direct(kAllReduceOfThree, 1);
  schedule.request.ranks = 0;
  expect_rejected(schedule, {"ranks were expected, found 0"});
  schedule = direct(kAllReduceOfThree, 1);
  schedule.request.root = 1;
  expect_rejected(schedule, {"a root below 1 was expected for all_reduce, found 1"});
  schedule = direct({Collective::kBroadcast, 3, 0, false}, 1);
  schedule.request.root = 3;
  expect_rejected(schedule, {"a root below 3 was expected for broadcast, found 3"});
  schedule = direct({Collective::kAllToAll, 3, 0, false}, 1);
  schedule.request.in_place = true;
  expect_rejected(schedule, {"all_to_all is not defined in place"});
}

TEST(Verifier, RejectsAWrongNumberOfPrograms) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  schedule.programs.pop_back();
  expect_rejected(schedule, {"3 programs were expected, found 2"});
}

TEST(Verifier, RejectsChunkCountsItCannotHold) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  schedule.chunks_per_block = 0;
  expect_rejected(schedule, {"chunks per block were expected, found 0"});
  schedule.chunks_per_block = 1U << 24;
  expect_rejected(schedule, {"more than the"});
}

TEST(Verifier, RejectsStepsThatNameMoreChunksThanItCanFollow) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[0].src.count = 1U << 28;
  expect_rejected(schedule, {"chunks named by all steps"});
}

TEST(Verifier, NeedsLittleMemoryForManyRanksAndManyRepeatedSums) {
  Schedule nothing;
  nothing.request = {Collective::kBroadcast, 65536, 0, false};
  nothing.programs.resize(65536);
  expect_rejected(nothing, {"rank 0 out[0] ends with nothing"});

  constexpr std::uint32_t kChunks = 1U << 13;
  Builder build({Collective::kReduce, 2, 0, false}, "repeats", kChunks);
  build.rank(1).send(in(0, kChunks), 0);
  auto root = build.rank(0);
  const ChunkSet landing = root.scratch(in(0, kChunks));
  root.recv(landing, 1);
  for (int i = 0; i < 50; ++i)
    root.copy(in(0, kChunks), out(0, kChunks)).reduce(landing, out(0, kChunks));
  EXPECT_TRUE(verify(std::move(build).finish()));
}

TEST(Verifier, RejectsFifosWithoutRoom) {
  expect_rejected(direct(kAllReduceOfThree, 1), {"FIFO depth"}, {.fifo_depth = 0});
}

// 1. Well-formed steps.

TEST(Verifier, RejectsUnknownVerbsAndSpaces) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 1)[2].verb = static_cast<Verb>(9);
  expect_rejected(schedule, {"rank 1 step 2", "found verb 9"});
  schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 1)[2].dst.space = static_cast<Space>(3);
  expect_rejected(schedule, {"rank 1 step 2", "spaces 0 and 3"});
}

TEST(Verifier, RejectsAnOperandOutsideItsSpace) {
  Schedule schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[0].src.first = 1;
  expect_rejected(schedule, {"rank 0 step 0: send in[1..2] to 1",
                             "the source ends at chunk 2, but rank 0 has 2 chunks of in"});
}

TEST(Verifier, RejectsAnOperandWhoseEndOverflows) {
  Schedule schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[0].src = in(1, 1U << 20, 0xffffffff);
  expect_rejected(schedule, {"rank 0 step 0", "the source ends at chunk"});
}

TEST(Verifier, RejectsABufferThisRankDoesNotHave) {
  Schedule schedule = direct({Collective::kBroadcast, 3, 0, false}, 1);
  steps_of(schedule, 1)[0].dst = in(0);
  expect_rejected(schedule, {"rank 1 step 0", "rank 1 has 0 chunks of in"});
}

TEST(Verifier, RejectsFieldsThatTheVerbDoesNotUse) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[0].dst = out(0);
  expect_rejected(schedule, {"rank 0 step 0", "no destination was expected, found out[0]"});
  schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[3].src.stride = 2;
  expect_rejected(schedule, {"rank 0 step 3", "no source was expected"});
  schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[2].peer = 1;
  expect_rejected(schedule, {"rank 0 step 2", "no peer and lane 0 were expected, found peer 1"});
  schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[2].lane = 1;
  expect_rejected(schedule, {"rank 0 step 2", "lane 1"});
}

TEST(Verifier, RejectsEmptyOperandsAndMeaninglessStrides) {
  Schedule schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[0].src.count = 0;
  expect_rejected(schedule, {"rank 0 step 0", "a source was expected, found none"});
  schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[0].src.stride = 0;
  expect_rejected(schedule, {"rank 0 step 0", "2 chunks and stride 0"});
  schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[0].src.stride = 2;
  expect_rejected(schedule, {"rank 0 step 0", "1 chunks and stride 2"});
}

TEST(Verifier, RejectsPeersAndLanesThatDoNotExist) {
  for (const Rank peer : {-1, 0, 3}) {
    Schedule schedule = direct(kAllReduceOfThree, 1);
    steps_of(schedule, 0)[0].peer = peer;
    expect_rejected(schedule, {"rank 0 step 0", "another rank below 3 was expected"});
  }
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[0].lane = 1;
  expect_rejected(schedule, {"rank 0 step 0", "a lane below 1 was expected, found 1"});
}

TEST(Verifier, RejectsDependenciesThatAreNotAscendingAndBackward) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[4].deps = {2, 4};
  expect_rejected(schedule, {"rank 0 step 4", "earlier steps were expected, found 4"});
  steps_of(schedule, 0)[4].deps = {3, 2};
  expect_rejected(schedule, {"rank 0 step 4", "found 2 after 3"});
  steps_of(schedule, 0)[4].deps = {2, 2, 3};
  expect_rejected(schedule, {"rank 0 step 4", "found 2 after 2"});
}

TEST(Verifier, RejectsOperandsOfDifferentLengths) {
  Schedule schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[2].dst.count = 1;
  expect_rejected(schedule, {"rank 0 step 2", "found 1 and 2"});
  schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[2] = {Verb::kCopy, in(0), out(1), kNoRank, 0, {}};
  expect_rejected(schedule, {"rank 0 step 2: copy in[0] into out[1]", "the same was expected"});
}

TEST(Verifier, RejectsWritesToTheCallersInput) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[4].dst = in(0);
  expect_rejected(schedule, {"rank 0 step 4", "writes in[0], which the caller expects unchanged"});
  schedule = direct({Collective::kReduceScatter, 3, 0, true}, 1);
  steps_of(schedule, 1)[3].dst = in(1);
  EXPECT_TRUE(verify(schedule)) << "its own block is its output";
  steps_of(schedule, 1)[3].dst = in(0);
  expect_rejected(schedule, {"rank 1 step 3", "writes in[0]"});
}

TEST(Verifier, RejectsScratchSizedLikeAChunkThatNobodyHas) {
  Schedule schedule = direct(kAllReduceOfThree, 2);
  schedule.programs[1].scratch[3] = 2;
  expect_rejected(schedule, {"rank 1 tmp[3] is sized like chunk 2; a chunk below 2 was expected"});
}

// 2. Matching.

TEST(Verifier, CatchesADroppedSend) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  drop(schedule, 0, 1);
  expect_rejected(schedule, {"rank 2 step 3: recv tmp[0] from 0", "rank 0 sends only 0 there"});
}

TEST(Verifier, CatchesADroppedReceive) {
  Schedule schedule = ring_all_reduce(3, false);
  steps_of(schedule, 0).pop_back();
  expect_rejected(schedule, {"rank 2 step", "this is send 4 from rank 2 to rank 0 on lane 0",
                             "rank 0 receives only 3 there"});
}

TEST(Verifier, CatchesAMessageOnAnotherLane) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  schedule.lanes = 2;
  steps_of(schedule, 0)[0].lane = 1;
  expect_rejected(schedule, {"rank 0 step 0", "lane 1"});
}

TEST(Verifier, CatchesAMessageOfAnotherLength) {
  Schedule schedule = direct(kAllReduceOfThree, 2);
  steps_of(schedule, 0)[0].src.count = 1;
  expect_rejected(schedule, {"rank 1 step 3: recv tmp[0..1] from 0", "expected 2 chunks, found 1",
                             "rank 0 step 0: send in[0] to 1"});
}

TEST(Verifier, CatchesAMessageWhoseChunksHaveOtherSizes) {
  Schedule schedule = direct(kAllGather, 2);
  steps_of(schedule, 0)[0].src = in(1);
  steps_of(schedule, 1)[3].dst = out(0);
  expect_rejected(schedule, {"rank 1 step 3: recv out[0] from 0",
                             "has the size of chunk 1 of a "
                             "block, where that of chunk 0 was expected",
                             "rank 0 step 0: send in[1] to 1"});
  schedule = direct(kAllReduceOfThree, 2);
  schedule.programs[1].scratch = {1, 0, 0, 1};
  expect_rejected(schedule, {"rank 1 step 4", "source chunk 0 has the size of chunk 1"});
}

// 3. Deadlock.

Schedule receive_first(std::int32_t ranks) {
  Builder build({Collective::kAllGather, ranks, 0, false}, "receive_first", 1);
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto program = build.rank(rank);
    program.copy(in(0), out(static_cast<std::uint32_t>(rank)));
    for (Rank peer = 0; peer < ranks; ++peer)
      if (peer != rank) program.recv(out(static_cast<std::uint32_t>(peer)), peer);
    for (Rank peer = 0; peer < ranks; ++peer)
      if (peer != rank) program.send(in(0), peer);
  }
  return std::move(build).finish();
}

TEST(Verifier, CatchesACycleOfReceives) {
  expect_rejected(receive_first(2), {"deadlock",
                                     "rank 0 step 1: recv out[1] from 1 waits for rank "
                                     "1 to send",
                                     "rank 1 step 1: recv out[0] from 0 waits for rank 0"});
}

TEST(Verifier, CatchesADeadlockThatOnlyDeeperFifosAvoid) {
  Builder build({Collective::kAllReduce, 2, 0, false}, "two_ahead", 2);
  for (Rank rank = 0; rank < 2; ++rank) {
    auto program = build.rank(rank);
    const ChunkSet landing = program.scratch(out(0, 2));
    program.send(in(0), 1 - rank).send(in(1), 1 - rank).copy(in(0, 2), out(0, 2));
    program.recv({Space::kScratch, 0, 1, 1}, 1 - rank).recv({Space::kScratch, 1, 1, 1}, 1 - rank);
    program.reduce(landing, out(0, 2));
  }
  const Schedule schedule = std::move(build).finish();
  expect_rejected(schedule, {"FIFOs of 1 messages",
                             "rank 0 step 1: send in[1] to 1 waits for rank "
                             "1 to make room"});
  EXPECT_TRUE(verify(schedule, {.fifo_depth = 2}));
}

// 4. Races.

TEST(Verifier, CatchesAReadThatDoesNotWaitForItsWrite) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[4].deps = {2};
  expect_rejected(schedule, {"rank 0 step 4: reduce tmp[0] into out[0]: races for tmp[0]",
                             "rank 0 step 3", "a dependency on step 3 was expected"});
}

TEST(Verifier, CatchesAWriteThatDoesNotWaitForAWrite) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[6].deps = {5};
  expect_rejected(schedule, {"rank 0 step 6", "races for out[0]", "a dependency on step 4"});
}

TEST(Verifier, CatchesAWriteThatDoesNotWaitForAReadThroughTheInPlaceAlias) {
  Schedule schedule = direct(kAllReduceInPlace, 1);  // 0 send, 1 send, 2 recv, 3 reduce ...
  ASSERT_EQ(steps_of(schedule, 0)[3].deps, (std::vector<StepId>{0, 1, 2}));
  steps_of(schedule, 0)[3].deps = {0, 2};
  expect_rejected(schedule, {"rank 0 step 3: reduce tmp[0] into out[0]: races for out[0]",
                             "rank 0 step 1: send in[0] to 2"});
}

TEST(Verifier, AcceptsOrderThatOtherStepsImply) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[5].deps = {4};  // 6 then reaches 4 through 5
  steps_of(schedule, 0)[6].deps = {5};
  EXPECT_TRUE(verify(schedule));
}

TEST(Verifier, CatchesOperandsThatOverlap) {
  Schedule schedule = direct(kAllReduceInPlace, 1);
  steps_of(schedule, 0)[3].src = in(0);
  steps_of(schedule, 0)[3].deps = {0, 1};
  expect_rejected(schedule, {"rank 0 step 3", "operands that do not overlap were expected"});
}

// 5. Values.

TEST(Verifier, CatchesAReadOfMemoryThatNothingHasWritten) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  drop(schedule, 0, 2);
  expect_rejected(schedule, {"rank 0 step 3: reduce tmp[0] into out[0]: reads out[0]",
                             "nothing has been written"});
}

TEST(Verifier, CatchesAContributionAddedTwice) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 0)[6].src = {Space::kScratch, 0, 1, 1};
  steps_of(schedule, 0)[6].deps = {3, 4};
  expect_rejected(schedule, {"rank 0 step 6", "adds chunk 0 of rank 1 to chunk 0 of ranks 0, 1"});
}

TEST(Verifier, CatchesChunksThatAreMixed) {
  Schedule schedule = direct({Collective::kReduceScatter, 3, 0, false}, 1);
  steps_of(schedule, 1)[0].src = in(1);  // to rank 0, which owns chunk 0
  expect_rejected(schedule, {"rank 0 step 4", "adds chunk 1 of rank 1 to chunk 0 of rank 0"});
}

TEST(Verifier, CatchesAReductionWhereTheCollectiveHasNone) {
  Schedule schedule = direct(kAllGather, 1);
  steps_of(schedule, 0)[2].verb = Verb::kReduce;
  expect_rejected(schedule, {"rank 0 step 2", "all_gather reduces nothing"});
}

TEST(Verifier, CatchesAStepThatCompletesOnlySomeOfItsChunks) {
  Builder build({Collective::kAllReduce, 2, 0, false}, "test", 2);
  for (Rank rank = 0; rank < 2; ++rank) {
    auto program = build.rank(rank);
    const ChunkSet landing = program.scratch(out(0, 2));
    program.send(in(0, 2), 1 - rank).recv(landing, 1 - rank).copy(in(0, 2), out(0, 2));
    program.reduce(landing, out(0, 2));
  }
  Schedule schedule = std::move(build).finish();
  ASSERT_TRUE(verify(schedule));

  Builder mixed({Collective::kReduce, 3, 0, false}, "test", 2);
  mixed.rank(1).send(in(0, 2), 0);
  mixed.rank(2).send(in(0), 0).send(in(1), 0);
  auto root = mixed.rank(0);
  const ChunkSet one = root.scratch(out(0, 2));
  const ChunkSet two = root.scratch(out(0, 2));
  root.recv(one, 1).copy(in(0, 2), out(0, 2));
  root.recv({Space::kScratch, two.first, 1, 1}, 2).recv({Space::kScratch, two.first + 1, 1, 1}, 2);
  root.reduce({Space::kScratch, two.first, 1, 1}, out(0)).reduce(one, out(0, 2));
  root.reduce({Space::kScratch, two.first + 1, 1, 1}, out(1));
  expect_rejected(std::move(mixed).finish(), {"rank 0 step 5", "completes 1 of 2 chunks"});
}

// 5, formats.

constexpr ChunkSet tmp(std::uint32_t chunk, FormatId format) {
  return {Space::kScratch, chunk, 1, 1, format};
}

TEST(Verifier, CatchesValuesThatAreReadInAnotherFormat) {
  Schedule schedule = direct(kAllReduceOfThree, 1, true);  // ... 5 recv, 6 reduce ...
  ASSERT_EQ(steps_of(schedule, 0)[6].verb, Verb::kReduce);
  steps_of(schedule, 0)[6].src.format = kPlain;
  expect_rejected(schedule,
                  {"rank 0 step 6", "reads tmp[2], which holds wire of chunk 0 of rank 1"});
  schedule = direct(kAllReduceOfThree, 1);
  schedule.formats = {"wire"};
  ASSERT_EQ(steps_of(schedule, 0)[4].verb, Verb::kReduce);
  steps_of(schedule, 0)[4].src.format = 1;
  expect_rejected(schedule, {"rank 0 step 4", "reads tmp[0].wire, which holds chunk 0 of rank 1"});
}

TEST(Verifier, CatchesAConversionThatIsMissingAtOneEnd) {
  Schedule schedule = direct(kAllGather, 1, true);
  ASSERT_EQ(steps_of(schedule, 0)[5].verb, Verb::kRecv);
  steps_of(schedule, 0)[5].dst.format = kPlain;
  expect_rejected(schedule, {"rank 0 step 5", "receives wire of chunk 0 of rank 1 into tmp[2]"});
}

TEST(Verifier, CatchesFormatsOutsideScratch) {
  Schedule schedule = direct(kAllGather, 1, true);
  ASSERT_EQ(steps_of(schedule, 0)[0].verb, Verb::kCopy);
  steps_of(schedule, 0)[0].dst = {Space::kOutput, 1, 1, 1, 1};
  expect_rejected(schedule, {"rank 0 step 0", "only scratch holds formatted values"});
  schedule = direct(kAllGather, 1, true);
  steps_of(schedule, 0)[0].src.format = 1;
  expect_rejected(schedule, {"rank 0 step 0", "only scratch holds formatted values"});
}

TEST(Verifier, CatchesFormatsThatDoNotExist) {
  Schedule schedule = direct(kAllGather, 1, true);
  steps_of(schedule, 0)[0].dst.format = 2;
  expect_rejected(schedule, {"rank 0 step 0", "has format 2, but there are 1 formats"});
  schedule = direct(kAllGather, 1, true);
  schedule.formats = {"a", "b", "c", "d"};
  expect_rejected(schedule, {"at most 3 formats were expected, found 4"});
  for (const std::string name : {"", "Wire", "a b", "seventeen_letters"}) {
    schedule.formats = {name};
    expect_rejected(schedule, {"different names of at most 16 small letters"});
  }
  schedule.formats = {"wire", "wire"};
  expect_rejected(schedule, {"different names"});
}

TEST(Verifier, CatchesASumThatIsNotPlain) {
  Schedule schedule = direct(kAllReduceOfThree, 1, true);
  Step& reduce = steps_of(schedule, 0)[6];
  ASSERT_EQ(reduce.verb, Verb::kReduce);
  reduce.dst = tmp(2, 1);
  expect_rejected(schedule, {"rank 0 step 6", "a plain sum was expected"});
}

TEST(Verifier, CatchesAConversionOntoItself) {
  Builder build({Collective::kBroadcast, 1, 0, false}, "test", 1);
  auto root = build.rank(0);
  const FormatId format = root.format("wire");
  const ChunkSet code = root.scratch(in(0), format);
  root.copy(in(0), code).copy(code, tmp(code.first, kPlain)).copy(in(0), out(0));
  expect_rejected(std::move(build).finish(), {"rank 0 step 1", "onto itself"});
}

/// One rank that converts its input into a format and back, `times` times.
Schedule convert_again(std::uint32_t times) {
  Builder build({Collective::kBroadcast, 1, 0, false}, "test", 1);
  auto root = build.rank(0);
  ChunkSet value = in(0);
  for (std::uint32_t i = 0; i < times; ++i) {
    const ChunkSet code = root.scratch(in(0), root.format("wire"));
    const ChunkSet plain = root.scratch(in(0));
    root.copy(value, code).copy(code, plain);
    value = plain;
  }
  root.copy(value, out(0));
  return std::move(build).finish();
}

TEST(Verifier, CountsHowOftenValuesAreRounded) {
  for (const std::uint32_t times : {0U, 1U, 2U, 31U}) {
    const Result<Proof> proof = verify(convert_again(times));
    ASSERT_TRUE(proof) << proof.error().what;
    EXPECT_EQ(proof->lossy_steps, times);
  }
  EXPECT_EQ(verify(convert_again(40))->lossy_steps, kMostLossyCounted);
  EXPECT_EQ(verify(direct(kAllReduceOfThree, 1, true))->lossy_steps, 1U);
}

TEST(Verifier, FindsOutWhetherAllRanksGetTheSameBits) {
  EXPECT_EQ(verify(direct(kAllReduceOfThree, 1))->same_bits, std::nullopt);
  // Each rank adds its own contribution as it is, and the others' as they were sent.
  EXPECT_EQ(verify(direct(kAllReduceOfThree, 1, true))->same_bits, false);
  EXPECT_EQ(verify(direct(kAllGather, 1, true))->same_bits, false);
  EXPECT_EQ(verify(direct({Collective::kScatter, 3, 0, false}, 1, true))->same_bits, true);
}

TEST(Verifier, LetsFormattedValuesBeCopiedAndForwarded) {
  Builder build({Collective::kBroadcast, 3, 0, false}, "chain", 1);
  auto root = build.rank(0);
  const FormatId format = root.format("wire");
  const ChunkSet code = root.scratch(in(0), format);
  root.copy(in(0), code).send(code, 1).copy(in(0), out(0));
  auto middle = build.rank(1);
  const ChunkSet received = middle.scratch(out(0), format);
  const ChunkSet copied = middle.scratch(out(0), format);
  middle.recv(received, 0).copy(received, copied).send(copied, 2).copy(copied, out(0));
  auto leaf = build.rank(2);
  const ChunkSet last = leaf.scratch(out(0), format);
  leaf.recv(last, 1).copy(last, out(0));
  const Result<Proof> proof = verify(std::move(build).finish());
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(proof->rounds, 2U);
  EXPECT_EQ(proof->lossy_steps, 1U);
}

// 6. Postcondition.

TEST(Verifier, CatchesAMissingContribution) {
  Schedule schedule = direct(kAllReduceOfThree, 1);
  steps_of(schedule, 2).pop_back();
  expect_rejected(schedule, {"rank 2 out[0] ends with chunk 0 of ranks 0, 2",
                             "chunk 0 of all ranks was expected", "last written by rank 2 step 4"});
}

TEST(Verifier, CatchesAnOutputThatNobodyWrites) {
  Schedule schedule = direct(kAllGather, 1);
  drop(schedule, 1, 2);
  expect_rejected(schedule, {"rank 1 out[1] ends with nothing", "chunk 0 of rank 1 was expected",
                             "no step writes it"});
}

TEST(Verifier, CatchesTheRightChunkInTheWrongPlaceForEveryMovingCollective) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    Schedule schedule = direct({collective, 3, 0, false}, 1);
    // Exchange what the root gets from (or, in scatter, sends to) the two others.
    auto& root = steps_of(schedule, 0);
    std::vector<Step*> moving;
    for (Step& step : root)
      if (step.verb == (collective == Collective::kScatter ? Verb::kSend : Verb::kRecv))
        moving.push_back(&step);
    ASSERT_EQ(moving.size(), 2U) << name_of(collective);
    std::swap(moving[0]->src, moving[1]->src);
    std::swap(moving[0]->dst, moving[1]->dst);
    expect_rejected(schedule, {"rank ", "out[", "was expected", "last written by"});
  }
}

TEST(Verifier, CatchesABroadcastOfSomethingElse) {
  Schedule schedule = direct({Collective::kBroadcast, 3, 0, false}, 2);
  steps_of(schedule, 1).clear();
  Schedule dropped = schedule;
  drop(dropped, 0, 0);
  expect_rejected(dropped, {"rank 1 out[0] ends with nothing", "chunk 0 of rank 0 was expected"});
}

TEST(Verifier, CatchesAReductionThatIsNotFinishedAtTheRoot) {
  Schedule schedule = direct({Collective::kReduce, 3, 1, false}, 1);
  steps_of(schedule, 1).pop_back();
  expect_rejected(schedule, {"rank 1 out[0] ends with chunk 0 of ranks 0, 1"});
}

TEST(Verifier, CatchesAPartialSumInReduceScatter) {
  Schedule schedule = direct({Collective::kReduceScatter, 3, 0, true}, 1);
  steps_of(schedule, 1).pop_back();
  expect_rejected(schedule, {"rank 1 out[0] ends with chunk 1 of ranks 0, 1",
                             "chunk 1 of all ranks was expected"});
}

}  // namespace
}  // namespace tutti::ir
