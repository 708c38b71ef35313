// What SCCL's steps mean here, and what is wrong with files that are.
#include "src/exchange/sccl_json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

using testing::HasSubstr;

/// Three ranks pass their blocks around a ring; rank r's block has address r.
std::string all_gather_of_three(std::string_view last_step = "[[2,0,1],[0,1,2],[1,2,0]]") {
  return fmt::format(R"({{"msccl_type": "algorithm", "name": "Allgather over 3",
 "instance": {{"msccl_type": "instance", "steps": 2, "chunks": 1}},
 "input_map": {{"0": [0], "1": [1], "2": [2]}},
 "output_map": {{"0": [0,1,2], "1": [0,1,2], "2": [0,1,2]}},
 "steps": [{{"msccl_type": "step", "rounds": 1, "sends": [[0,0,1],[1,1,2],[2,2,0]]}},
           {{"msccl_type": "step", "rounds": 1, "sends": {}}}],
 "collective": {{"msccl_type": "collective", "name": "Allgather", "nodes": 3, "chunks": [],
                "triggers": {{}}, "runtime_name": "allgather"}}}})",
                     last_step);
}

std::string sccl_error(std::string_view text) {
  const auto schedules = read_sccl_json(text);
  return schedules ? "none" : schedules.error().what;
}

TEST(ScclJson, ReadsAnAllGatherForBothPlacements) {
  const auto schedules = read_sccl_json(all_gather_of_three());
  ASSERT_TRUE(schedules) << schedules.error().what;
  ASSERT_EQ(schedules->size(), 2U);
  for (const bool in_place : {false, true}) {
    const ir::Schedule& schedule = (*schedules)[in_place ? 1 : 0];
    EXPECT_EQ(schedule.request, (ir::Request{Collective::kAllGather, 3, 0, in_place}));
    const auto proof = ir::verify(schedule);
    ASSERT_TRUE(proof) << proof.error().what;
    EXPECT_EQ(proof->rounds, 2U);
    EXPECT_EQ(proof->max_chunks_sent, 2U);
  }
}

TEST(ScclJson, AddsWhatArrivesToOtherContributionsAndReplacesWhatItContains) {
  // Two ranks: each adds one half, then sends the sum back.
  const auto schedules = read_sccl_json(R"({"name": "ar",
 "input_map": {"0": [0,1], "1": [0,1]}, "output_map": {"0": [0,1], "1": [0,1]},
 "steps": [{"rounds": 1, "sends": [[0,1,0],[1,0,1]]}, {"rounds": 1, "sends": [[0,0,1],[1,1,0]]}],
 "collective": {"nodes": 2, "runtime_name": "allreduce"}})");
  ASSERT_TRUE(schedules) << schedules.error().what;
  const auto proof = ir::verify(schedules->front());
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(proof->rounds, 2U);
}

TEST(ScclJson, ExchangesWhatRanksHeldWhenTheStepBegan) {
  // Both send their half of an all-reduce to each other at once, at the same address.
  const auto schedules = read_sccl_json(R"({"name": "ar",
 "input_map": {"0": [0], "1": [0]}, "output_map": {"0": [0], "1": [0]},
 "steps": [{"rounds": 1, "sends": [[0,1,0],[0,0,1]]}],
 "collective": {"nodes": 2, "runtime_name": "allreduce"}})");
  ASSERT_TRUE(schedules) << schedules.error().what;
  EXPECT_EQ(schedules->size(), 2U);
}

TEST(ScclJson, FindsTheRootInTheMaps) {
  const auto schedules = read_sccl_json(R"({"name": "b",
 "input_map": {"1": [0]}, "output_map": {"0": [0], "1": [0]},
 "steps": [{"rounds": 1, "sends": [[0,1,0]]}],
 "collective": {"nodes": 2, "runtime_name": "broadcast"}})");
  ASSERT_TRUE(schedules) << schedules.error().what;
  EXPECT_EQ(schedules->front().request.root, 1);
}

TEST(ScclJson, NamesThePathToWhatIsWrong) {
  EXPECT_EQ(sccl_error(all_gather_of_three("[[2,0,5]]")),
            "steps[1].sends[0][2]: a whole number from 0 to 2 was expected");
  EXPECT_EQ(sccl_error(all_gather_of_three("[[1,0,2]]")),
            "steps[1].sends[0]: rank 0 has nothing at address 1 yet");
  EXPECT_EQ(sccl_error(all_gather_of_three("[7]")),
            "steps[1].sends[0]: [address, source, destination] was expected");
  EXPECT_THAT(sccl_error(all_gather_of_three("[[2,0,1]]")), HasSubstr("rank 0"));
  EXPECT_EQ(sccl_error("{\n  \"steps\": ["), "line 2 column 13: this is no JSON");
  EXPECT_EQ(sccl_error("{}"), "the file: `collective` is missing");
  EXPECT_THAT(sccl_error(std::string(100, '[') + std::string(100, ']')),
              HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace tutti::exchange
