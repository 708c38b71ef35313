// What MSCCL's XML means here, and what is wrong with files that are.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/exchange/msccl_xml.hpp"
#include "src/ir/sample_schedules.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

/// Two gpus add in place and exchange the sums, one thread block each.
std::string all_reduce_of_two() {
  const auto gpu = [](int rank) {
    return fmt::format(R"( <gpu id="{0}" i_chunks="2" o_chunks="0" s_chunks="0">
  <tb id="0" send="{1}" recv="{1}" chan="0">
   <step s="0" type="s" srcbuf="i" srcoff="{0}" dstbuf="i" dstoff="{0}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
   <step s="1" type="rrc" srcbuf="i" srcoff="{1}" dstbuf="i" dstoff="{1}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
   <step s="2" type="s" srcbuf="i" srcoff="{1}" dstbuf="i" dstoff="{1}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
   <step s="3" type="r" srcbuf="i" srcoff="{0}" dstbuf="i" dstoff="{0}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  </tb>
 </gpu>
)",
                       rank, 1 - rank);
  };
  return R"(<algo name="ar2" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1" outofplace="0" minBytes="0" maxBytes="0">
)" + gpu(0) +
         gpu(1) + "</algo>\n";
}

std::string error_of(std::string_view text) {
  const auto schedules = read_msccl_xml(text);
  return schedules ? "none" : schedules.error().what;
}

TEST(MscclXml, ReadsAnAllReduceInPlaceThatKeepsEverythingInTheInput) {
  const auto schedules = read_msccl_xml(all_reduce_of_two());
  ASSERT_TRUE(schedules) << schedules.error().what;
  ASSERT_EQ(schedules->size(), 1U);
  const ir::Schedule& schedule = schedules->front();
  EXPECT_EQ(schedule.request, (ir::Request{Collective::kAllReduce, 2, 0, true}));
  EXPECT_EQ(schedule.algorithm, "ar2");
  EXPECT_EQ(schedule.chunks_per_block, 2U);
  const auto proof = ir::verify(schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(proof->rounds, 2U);
  EXPECT_EQ(proof->max_chunks_sent, 2U);
}

TEST(MscclXml, ReadsOneScheduleForEachPlacementThatTheFileIsFor) {
  const std::string both = replaced(all_reduce_of_two(), "outofplace=\"0\"", "outofplace=\"1\"");
  // Out of place the results are in i alone, and the output is never written.
  EXPECT_THAT(error_of(both), StartsWith("out of place: "));
}

TEST(MscclXml, ReadsTheLayoutOfTheGpusAndRefusesThatOfOthers) {
  const auto with_layout = [](std::string_view layout) {
    return read_msccl_xml(replaced(all_reduce_of_two(), "maxBytes=\"0\"",
                                   fmt::format("maxBytes=\"0\" tutti_layout=\"{}\"", layout)));
  };
  const auto read = with_layout("2x1");
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->front().request.layout, ir::Layout::grid({1, 2}));
  EXPECT_THAT(with_layout("2x2").error().what,
              HasSubstr("algo: tutti_layout: a layout places 4 ranks, and there are 2"));
  EXPECT_THAT(with_layout("2x").error().what, HasSubstr("'2x' is not a layout"));
}

TEST(MscclXml, LeavesTheInputAloneThatAFileAddsTo) {
  // Reduce-scatter out of place: partial sums overwrite foreign blocks of the input.
  const std::string text =
      R"(<algo name="rs" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="reducescatter" inplace="0" outofplace="1">
<gpu id="0" i_chunks="2" o_chunks="1" s_chunks="0"><tb id="0" send="1" recv="1" chan="0">
 <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"/>
 <step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/>
 <step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1"/></tb></gpu>
<gpu id="1" i_chunks="2" o_chunks="1" s_chunks="0"><tb id="0" send="0" recv="0" chan="0">
 <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/>
 <step s="1" type="rrc" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"/>
 <step s="2" type="cpy" srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="1"/></tb></gpu>
</algo>)";
  const auto schedules = read_msccl_xml(text);
  ASSERT_TRUE(schedules) << schedules.error().what;
  EXPECT_TRUE(ir::verify(schedules->front()));
}

TEST(MscclXml, ReadsAFileThatNeedsFifosOfTwoMessages) {
  // Both send two messages before they receive one.
  const auto gpu = [](int rank) {
    return fmt::format(
        R"(<gpu id="{0}" i_chunks="2" o_chunks="4" s_chunks="0"><tb id="0" send="{1}" recv="{1}" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="-1" cnt="1"/>
<step s="1" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="-1" cnt="1"/>
<step s="2" type="r" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="{3}" cnt="1"/>
<step s="3" type="r" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="{4}" cnt="1"/>
<step s="4" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{2}" cnt="2"/></tb></gpu>)",
        rank, 1 - rank, 2 * rank, 2 * (1 - rank), 2 * (1 - rank) + 1);
  };
  const auto schedules = read_msccl_xml(
      R"(<algo name="ag" proto="Simple" nchannels="1" nchunksperloop="4" ngpus="2" coll="allgather" inplace="0" outofplace="1">)" +
      gpu(0) + gpu(1) + "</algo>");
  ASSERT_TRUE(schedules) << schedules.error().what;
  EXPECT_EQ(schedules->front().lanes, 2U);
}

TEST(MscclXml, NamesThePlaceOfWhatIsWrong) {
  const std::string good = all_reduce_of_two();
  EXPECT_EQ(error_of(replaced(good, "type=\"rrc\"", "type=\"rra\"")),
            "line 5 column 5: gpu 0 tb 0 step 1: the step type `rra` has no counterpart here; "
            "there are: s r cpy re rcs rrs rrc rrcs nop");
  EXPECT_THAT(error_of(replaced(good, "cnt=\"1\"", "cnt=\"0\"")),
              StartsWith("line 4 column 5: gpu 0 tb 0 step 0: cnt from 1 to "));
  EXPECT_THAT(
      error_of(replaced(good, "srcoff=\"0\"", "srcoff=\"7\"")),
      HasSubstr("line 4 column 5: gpu 0 tb 0 step 0: i[7] is outside a buffer of 2 chunks"));
  EXPECT_THAT(error_of(replaced(good, "</tb>", "")), HasSubstr("this is no XML"));
  EXPECT_THAT(error_of(replaced(good, "allreduce", "custom")),
              HasSubstr("the collective `custom` has no counterpart here"));
  EXPECT_THAT(error_of(replaced(good, "ngpus=\"2\"", "ngpus=\"3\"")),
              HasSubstr("ngpus is 3, and there are 2 <gpu> elements"));
  EXPECT_THAT(error_of(""), HasSubstr("no XML"));
}

TEST(MscclXml, RefusesADeadlock) {
  std::string everyone_receives_first = all_reduce_of_two();
  for (std::size_t at = 0; (at = everyone_receives_first.find("\"s\"")) != std::string::npos;)
    everyone_receives_first.replace(at, 3, "\"r\"");
  EXPECT_THAT(error_of(everyone_receives_first),
              HasSubstr("line 4 column 5: gpu 0 tb 0 step 0: it waits for ever for gpu 1 tb 0"));
}

TEST(MscclXml, RefusesAWaitForAStepThatNeverTells) {
  EXPECT_THAT(
      error_of(replaced(all_reduce_of_two(), "depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"0\"")),
      HasSubstr("gpu 0 tb 0 step 0: it waits for tb 0 step 0, and neither that nor a later "
                "one has hasdep=\"1\""));
}

TEST(MscclXml, RefusesAWrongResult) {
  // gpu 0 keeps its own half instead of adding to it.
  EXPECT_THAT(error_of(replaced(all_reduce_of_two(), "type=\"rrc\"", "type=\"r\"")),
              HasSubstr("rank "));
}

TEST(MscclXml, RefusesTwoThreadBlocksThatTouchAChunkInNoOrder) {
  const auto written = write_msccl_xml(ir::samples::ring_all_reduce(3, false));
  ASSERT_TRUE(written) << written.error().what;
  ASSERT_TRUE(read_msccl_xml(*written));
  std::string unordered = *written;
  for (const std::string_view key : {" depid=\"", " deps=\""})
    for (std::size_t at = unordered.find(key); at != std::string::npos;
         at = unordered.find(key, at + key.size())) {
      const std::size_t value = at + key.size();
      unordered.replace(value, unordered.find('"', value) - value, "-1");
    }
  EXPECT_THAT(error_of(unordered), HasSubstr("no wait orders them"));
}

TEST(MscclXml, IsWrittenOnlyWhereItHasWords) {
  const auto encoded =
      write_msccl_xml(ir::samples::direct({Collective::kAllGather, 2, 0, false}, 1, true));
  ASSERT_FALSE(encoded);
  EXPECT_THAT(encoded.error().what, HasSubstr("which has no codecs"));
  EXPECT_FALSE(write_msccl_xml(ir::samples::direct({Collective::kBroadcast, 3, 1, false}, 1)));
}

}  // namespace
}  // namespace tutti::exchange
