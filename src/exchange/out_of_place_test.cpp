// What a schedule for calls in place alone becomes for ranks out of place.
#include "src/exchange/out_of_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ir::Schedule schedule_of(const std::string& text) {
  auto schedule = ir::parse(text);
  EXPECT_TRUE(schedule) << schedule.error().what;
  const auto proof = ir::verify(*schedule);
  EXPECT_TRUE(proof) << proof.error().what;
  return *std::move(schedule);
}

TEST(OutOfPlace, CopiesFirstAndAddsInTheOutput) {
  const auto rank = [](int self) {
    const std::string other = std::to_string(1 - self);
    return "rank " + std::to_string(self) + "\nscratch 0\n0: send in[0] to " + other +
           "\n1: recv tmp[0] from " + other + "\n2: reduce tmp[0] into out[0] after 0 1\n";
  };
  const ir::Schedule in_place = schedule_of(
      "tutti-schedule 1\ncollective all_reduce\nranks 2\nin_place yes\nchunks_per_block 1\n"
      "lanes 1\n" +
      rank(0) + rank(1));
  const auto schedule = out_of_place(in_place);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_FALSE(schedule->request.in_place);
  EXPECT_THAT(ir::print(*schedule), HasSubstr("0: copy in[0] into out[0]\n"
                                              "1: send out[0] to 1 after 0\n"
                                              "2: recv tmp[0] from 1 after 0\n"
                                              "3: reduce tmp[0] into out[0] after 1 2\n"));
}

TEST(OutOfPlace, PutsEachInputOfAnAllGatherWhereItBelongs) {
  const ir::Schedule in_place = schedule_of(
      "tutti-schedule 1\ncollective all_gather\nranks 2\nin_place yes\nchunks_per_block 1\n"
      "lanes 1\nrank 0\n0: send in[0] to 1\n1: recv out[1] from 1\n"
      "rank 1\n0: send in[0] to 0\n1: recv out[0] from 0\n");
  const auto schedule = out_of_place(in_place);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_THAT(ir::print(*schedule), HasSubstr("rank 1\n0: copy in[0] into out[1]\n"
                                              "1: send out[1] to 0 after 0\n"));
}

TEST(OutOfPlace, LeavesTheInputOfAReduceScatterThatOverlapsNothing) {
  const ir::Schedule in_place = schedule_of(
      "tutti-schedule 1\ncollective reduce_scatter\nranks 2\nin_place yes\nchunks_per_block 1\n"
      "lanes 1\nrank 0\nscratch 0\n0: send in[1] to 1\n1: recv tmp[0] from 1\n"
      "2: reduce tmp[0] into out[0] after 1\n"
      "rank 1\nscratch 1\n0: send in[0] to 0\n1: recv tmp[0] from 0\n"
      "2: reduce tmp[0] into out[0] after 1\n");
  const auto schedule = out_of_place(in_place);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_THAT(ir::print(*schedule), HasSubstr("rank 1\nscratch 1\n0: copy in[1] into out[0]\n"
                                              "1: send in[0] to 0 after 0\n"));
}

TEST(OutOfPlace, NamesAStepThatSpansBothKindsOfChunks) {
  const ir::Schedule in_place = schedule_of(
      "tutti-schedule 1\ncollective reduce_scatter\nranks 2\nin_place yes\nchunks_per_block 1\n"
      "lanes 1\nrank 0\nscratch 0..1\n0: send in[0..1] to 1\n1: recv tmp[0..1] from 1\n"
      "2: reduce tmp[0] into out[0] after 0 1\n"
      "rank 1\nscratch 0..1\n0: send in[0..1] to 0\n1: recv tmp[0..1] from 0\n"
      "2: reduce tmp[1] into out[0] after 0 1\n");
  const auto schedule = out_of_place(in_place);
  ASSERT_FALSE(schedule);
  EXPECT_THAT(schedule.error().what, StartsWith("rank 0: in[0..1] spans"));
}

}  // namespace
}  // namespace tutti::exchange
