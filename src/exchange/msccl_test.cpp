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
  EXPECT_THAT(error_of(replaced(good, "allreduce", "own")),
              HasSubstr("the collective `own` has no counterpart here; there are: allreduce"));
  EXPECT_THAT(error_of(replaced(good, "ngpus=\"2\"", "ngpus=\"3\"")),
              HasSubstr("ngpus is 3, and there are 2 <gpu> elements"));
  EXPECT_THAT(error_of(""), HasSubstr("no XML"));
}

TEST(MscclXml, SkipsElementsThatMscclDoesNotReadAndNotesThem) {
  std::string with_copies = all_reduce_of_two();
  for (const std::string_view tb : {"0\" recv=\"0", "1\" recv=\"1"})
    with_copies =
        replaced(with_copies, fmt::format("<tb id=\"0\" send=\"{}\"", tb),
                 fmt::format("<copy i_off=\"0\" o_off=\"0\"/><tb id=\"0\" send=\"{}\"", tb));
  std::vector<std::string> notes;
  const auto schedules = read_msccl_xml(with_copies, &notes);
  ASSERT_TRUE(schedules) << schedules.error().what;
  EXPECT_EQ(*schedules, *read_msccl_xml(all_reduce_of_two()));
  EXPECT_THAT(notes,
              testing::ElementsAre(
                  "line 3 column 4: `<copy>` has no meaning here and is skipped (2 in all)"));
}

/// Two gpus of which each sends `sent` and receives, or does neither.
std::string custom(std::string_view sender, std::string_view receiver) {
  return fmt::format(
      R"(<algo name="own" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="custom" inplace="0" outofplace="1">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0"><tb id="0" send="1" recv="1" chan="0">{}</tb></gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0"><tb id="0" send="0" recv="0" chan="0">{}</tb></gpu>
</algo>)",
      sender, receiver);
}
std::string step_of(int number, std::string_view type, int from, int to, int count) {
  return fmt::format(
      R"(<step s="{}" type="{}" srcbuf="i" srcoff="{}" dstbuf="o" dstoff="{}" cnt="{}"/>)", number,
      type, from, to, count);
}

TEST(MscclXml, FindsOutWhatACustomCollectiveDoes) {
  struct Case {
    Collective collective;
    std::string sender, receiver;
  };
  const Case cases[] = {
      {Collective::kBroadcast, step_of(0, "s", 0, 0, 2) + step_of(1, "cpy", 0, 0, 2),
       step_of(0, "r", 0, 0, 2)},
      {Collective::kReduce, step_of(0, "rrc", 0, 0, 2), step_of(0, "s", 0, 0, 2)},
      {Collective::kGather, step_of(0, "cpy", 0, 0, 1) + step_of(1, "r", 0, 1, 1),
       step_of(0, "s", 0, 0, 1)},
      {Collective::kScatter, step_of(0, "cpy", 0, 0, 1) + step_of(1, "s", 1, 0, 1),
       step_of(0, "r", 0, 0, 1)},
      {Collective::kAllGather,
       step_of(0, "s", 0, 0, 1) + step_of(1, "cpy", 0, 0, 1) + step_of(2, "r", 0, 1, 1),
       step_of(0, "s", 0, 0, 1) + step_of(1, "cpy", 0, 1, 1) + step_of(2, "r", 0, 0, 1)},
      {Collective::kReduceScatter, step_of(0, "s", 1, 0, 1) + step_of(1, "rrc", 0, 0, 1),
       step_of(0, "s", 0, 0, 1) + step_of(1, "rrc", 1, 0, 1)},
      {Collective::kAllToAll,
       step_of(0, "s", 1, 0, 1) + step_of(1, "cpy", 0, 0, 1) + step_of(2, "r", 0, 1, 1),
       step_of(0, "s", 0, 0, 1) + step_of(1, "cpy", 1, 1, 1) + step_of(2, "r", 0, 0, 1)},
      {Collective::kAllReduce, step_of(0, "s", 0, 0, 2) + step_of(1, "rrc", 0, 0, 2),
       step_of(0, "s", 0, 0, 2) + step_of(1, "rrc", 0, 0, 2)},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(name_of(each.collective));
    const auto schedules = read_msccl_xml(custom(each.sender, each.receiver));
    ASSERT_TRUE(schedules) << schedules.error().what;
    EXPECT_EQ(schedules->front().request.collective, each.collective);
  }
  const std::string wrong = error_of(custom(step_of(0, "s", 0, 0, 1), step_of(0, "r", 0, 0, 1)));
  EXPECT_THAT(wrong, HasSubstr("`custom` is none of those that are known here; no all_reduce: "));
  EXPECT_THAT(wrong, HasSubstr("; no broadcast: "));
  const std::string waits = step_of(0, "r", 0, 0, 1);
  EXPECT_THAT(error_of(custom(waits, waits)),
              StartsWith("out of place: line 2 column "))  // once, not for each collective
      << "a deadlock";
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
  EXPECT_THAT(error_of(unordered), HasSubstr("neither waits nor messages order them"));
}

/// An all-reduce of two gpus and one chunk. gpu 0 runs `begin` and receives the sum into `result`
/// in another thread block; gpu 1 runs `answer`.
std::string round_trip(std::string_view placement, std::string_view begin, std::string_view result,
                       std::string_view answer) {
  return fmt::format(
      R"(<algo name="trip" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="2" coll="allreduce" {}>
<gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0">
<tb id="0" send="1" recv="-1" chan="0">{}</tb>
<tb id="1" send="-1" recv="1" chan="0"><step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="{}" dstoff="0" cnt="1"/></tb>
</gpu>
<gpu id="1" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="0" recv="0" chan="0">{}</tb></gpu>
</algo>)",
      placement, begin, result, answer);
}
std::string step(int number, std::string_view type, std::string_view from, std::string_view to) {
  return fmt::format(
      R"(<step s="{}" type="{}" srcbuf="{}" srcoff="0" dstbuf="{}" dstoff="0" cnt="1"/>)", number,
      type, from, to);
}
constexpr std::string_view kInPlace = R"(inplace="1" outofplace="0")";
constexpr std::string_view kOutOfPlace = R"(inplace="0" outofplace="1")";

TEST(MscclXml, OrdersAWriteAfterAReadByARoundTrip) {
  const std::string send = step(0, "s", "i", "i");
  const auto read = read_msccl_xml(round_trip(kInPlace, send, "i", step(0, "rrcs", "i", "i")));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_TRUE(ir::verify(read->front()));
  // An answer that waits for no question orders nothing.
  const std::string at_once = step(0, "s", "i", "i") + step(1, "rrc", "i", "i");
  EXPECT_THAT(error_of(round_trip(kInPlace, send, "i", at_once)),
              HasSubstr("gpu 0 tb 1 step 0: it races for i[0] with tb 0 step 0: neither waits nor "
                        "messages order them"));
}

TEST(MscclXml, OrdersAWriteAfterAWriteByARoundTrip) {
  const std::string answer = step(0, "rrcs", "i", "o");
  const auto read = read_msccl_xml(
      round_trip(kOutOfPlace, step(0, "cpy", "i", "o") + step(1, "s", "i", "o"), "o", answer));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_TRUE(ir::verify(read->front()));
  // What comes after the question may still be at it when the answer arrives.
  EXPECT_THAT(error_of(round_trip(kOutOfPlace, step(0, "s", "i", "o") + step(1, "cpy", "i", "o"),
                                  "o", answer)),
              HasSubstr("neither waits nor messages order them"));
}

TEST(MscclXml, IsWrittenOnlyWhereItHasWords) {
  const auto formatted =
      write_msccl_xml(ir::samples::direct({Collective::kAllGather, 2, 0, false}, 1, true));
  ASSERT_FALSE(formatted);
  EXPECT_THAT(formatted.error().what, HasSubstr("which has no formats"));
  EXPECT_FALSE(write_msccl_xml(ir::samples::direct({Collective::kBroadcast, 3, 1, false}, 1)));
}

}  // namespace
}  // namespace tutti::exchange
