// What the operations of MSCCL++ plans mean here, and which are refused.
#include "src/exchange/mscclpp_json.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/exchange/read.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

using testing::HasSubstr;

struct PlanText {
  std::string_view collective;
  bool in_place = false;
  int inputs = 0, outputs = 0, scratch = 0;
  std::string_view remote_type;  ///< of the one remote buffer of each gpu, at its peer
};

/// Two gpus with a memory channel between them; `blocks(rank)` yields the thread blocks, which know
/// the peer's buffer as buffer 0 and the channel as channel 0.
template <class Blocks>
std::string plan_of_two(const PlanText& plan, Blocks&& blocks) {
  std::string gpus;
  for (int rank = 0; rank < 2; ++rank) {
    std::string threadblocks;
    int id = 0;
    for (const std::string& ops : blocks(rank))
      threadblocks += fmt::format(
          R"({}{{"id": {}, "channels": [{{"channel_type": "memory", "channel_ids": [0]}}],
  "remote_buffer_refs": [{{"access_channel_type": "memory", "remote_buffer_ids": [0]}}],
  "ops": [{}]}})",
          threadblocks.empty() ? "" : ",", id++, ops);
    gpus += fmt::format(
        R"({}{{"id": {}, "input_chunks": {}, "output_chunks": {}, "scratch_chunks": {},
 "channels": [{{"channel_type": "memory", "connected_to": [{}]}}],
 "remote_buffers": [{{"rank": {}, "type": "{}", "access_channel_types": ["memory"]}}],
 "semaphores": [], "threadblocks": [{}]}})",
        rank > 0 ? "," : "", rank, plan.inputs, plan.outputs, plan.scratch, 1 - rank, 1 - rank,
        plan.remote_type, threadblocks);
  }
  return fmt::format(
      R"({{"name": "two", "collective": "{}", "protocol": "Simple", "inplace": {}, "gpus": [{}]}})",
      plan.collective, plan.in_place, gpus);
}

std::string all_gather_with(std::string_view last_op) {
  return plan_of_two({"allgather", false, 1, 2, 0, "o"}, [&](int rank) {
    return std::vector<std::string>{fmt::format(
        R"({{"name": "put", "src_buff": [{{"type": "i", "index": 0, "size": 1}}],
 "dst_buff": [{{"buffer_id": 0, "index": {0}, "size": 1}}], "channel_ids": [0], "channel_type": "memory"}},
 {{"name": "signal", "channel_ids": [0], "channel_type": "memory"}},
 {{"name": "wait", "channel_ids": [0], "channel_type": "memory"}},
 {{"name": "copy", "src_buff": [{{"type": "i", "index": 0, "size": 1}}], "dst_buff": [{{"type": "o", "index": {0}, "size": 1}}]}},
 {1})",
        rank, last_op)};
  });
}

std::string mscclpp_error(std::string_view text) {
  const auto schedules = read_mscclpp_json(text);
  return schedules ? "none" : schedules.error().what;
}

TEST(MscclppJson, ReadsPutsWithSignalsAndWaits) {
  const auto schedules = read(all_gather_with(R"({"name": "nop"})"));
  ASSERT_TRUE(schedules) << schedules.error().what;
  const ir::Schedule& schedule = schedules->front();
  EXPECT_EQ(schedule.request, (ir::Request{Collective::kAllGather, 2, 0, false}));
  const auto proof = ir::verify(schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(proof->rounds, 1U);
  EXPECT_EQ(proof->max_chunks_sent, 1U);
}

TEST(MscclppJson, WaitsForThePacketsThatItUnpacks) {
  // Two shots in place: one thread block hands out the half that the other gpu adds, one takes the
  // other's sum out of scratch.
  const auto text =
      plan_of_two({"allreduce", true, 2, 0, 2, "s"}, [](int rank) -> std::vector<std::string> {
        return {
            fmt::format(
                R"({{"name": "upkt", "src_buff": [{{"type": "s", "index": 1, "size": 1}}], "dst_buff": [{{"type": "i", "index": {}, "size": 1}}]}})",
                1 - rank),
            fmt::format(
                R"({{"name": "ppkt", "src_buff": [{{"type": "i", "index": {1}, "size": 1}}], "dst_buff": [{{"buffer_id": 0, "index": 0, "size": 1}}], "channel_type": "memory"}},
 {{"name": "respkt", "src_buff": [{{"type": "i", "index": {0}, "size": 1}}, {{"type": "s", "index": 0, "size": 1}}],
   "dst_buff": [{{"type": "i", "index": {0}, "size": 1}}, {{"buffer_id": 0, "index": 1, "size": 1}}], "channel_type": "memory"}})",
                rank, 1 - rank)};
      });
  const auto schedules = read_mscclpp_json(text);
  ASSERT_TRUE(schedules) << schedules.error().what;
  const auto proof = ir::verify(schedules->front());
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(proof->rounds, 2U);
  EXPECT_EQ(proof->max_chunks_sent, 2U);
}

TEST(MscclppJson, ReadsReductionsOfRemoteBuffersBetweenBarriers) {
  const auto text = plan_of_two({"allreduce", false, 1, 1, 0, "i"}, [](int) -> std::vector<std::string> {
    constexpr std::string_view kMeet =
        R"({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2})";
    return {
        fmt::format(
            R"({{"name": "signal", "channel_ids": [0], "channel_type": "memory"}}, {{"name": "wait", "channel_ids": [0], "channel_type": "memory"}}, {})",
            kMeet),
        fmt::format(
            R"({}, {{"name": "rre", "src_buff": [{{"type": "i", "index": 0, "size": 1}}, {{"buffer_id": 0, "index": 0, "size": 1}}], "dst_buff": [{{"type": "o", "index": 0, "size": 1}}], "channel_type": "memory"}})",
            kMeet)};
  });
  const auto schedules = read_mscclpp_json(text);
  ASSERT_TRUE(schedules) << schedules.error().what;
  EXPECT_TRUE(ir::verify(schedules->front()));
}

TEST(MscclppJson, NamesTheOlderSchema) {
  EXPECT_THAT(mscclpp_error(R"({"name": "allreduce", "protocol": "Simple", "gpus": [
      {"id": 0, "inputChunks": 1, "outputChunks": 0, "scratchChunks": 0, "chunkGroups": 1,
       "threadblocks": []}]})"),
              HasSubstr("an older schema (inputChunks, chunkGroups) is not read"));
}

TEST(MscclppJson, NamesTheOperationThatHasNoCounterpart) {
  for (const char* const packets : {"recpkt", "recspkt", "tpkt"})
    EXPECT_THAT(mscclpp_error(all_gather_with(std::string(R"({"name": ")") + packets + "\"}")),
                HasSubstr(std::string("the operation `") + packets + "` has no counterpart here"));
  EXPECT_EQ(mscclpp_error(all_gather_with(R"({"name": "glres"})")),
            "gpus[0].threadblocks[0].ops[4]: the operation `glres` has no counterpart here");
  EXPECT_EQ(
      mscclpp_error(all_gather_with(R"({"name": "nop", "tbg_info": {"tb_id": 0, "tbg_size": 2}})")),
      "gpus[0].threadblocks[0].ops[4]: an operation that several thread blocks share has no "
      "counterpart here");
  EXPECT_EQ(mscclpp_error(all_gather_with(
                R"({"name": "wait", "channel_ids": [0], "channel_type": "memory"})")),
            "gpus[0].threadblocks[0].ops[4]: it waits for ever");
  EXPECT_EQ(mscclpp_error(all_gather_with(
                R"({"name": "signal", "channel_ids": [3], "channel_type": "memory"})")),
            "gpus[0].threadblocks[0].ops[4].channel_ids[0]: there is no channel 3");
  EXPECT_THAT(mscclpp_error(R"({"collective": "custom", "gpus": [{"threadblocks": []}]})"),
              HasSubstr("the collective `custom` has no counterpart here"));
}

}  // namespace
}  // namespace tutti::exchange
