#include "src/ir/text.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/sample_schedules.hpp"
#include "src/ir/verify.hpp"

namespace tutti::ir {
namespace {

using testing::HasSubstr;

constexpr std::string_view kRing2 = R"(tutti-schedule 1
collective all_reduce
ranks 2
in_place no
algorithm ring
chunks_per_block 2
lanes 1

rank 0
scratch 1
0: copy in[0..1] into out[0..1]
1: send out[0] to 1 after 0
2: recv tmp[0] from 1
3: reduce tmp[0] into out[1] after 0 2
4: send out[1] to 1 after 3
5: recv out[0] from 1 after 1

rank 1
scratch 0
0: copy in[0..1] into out[0..1]
1: send out[1] to 0 after 0
2: recv tmp[0] from 0
3: reduce tmp[0] into out[0] after 0 2
4: send out[0] to 0 after 3
5: recv out[1] from 0 after 1
)";

std::string replaced(std::string_view what, std::string_view with) {
  std::string text(kRing2);
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

void expect_error(const std::string& text, std::string_view where, std::string_view expected) {
  const Result<Schedule> schedule = parse(text);
  ASSERT_FALSE(schedule) << "parsed: " << text;
  EXPECT_EQ(schedule.error().code, Code::kInvalidArgument);
  EXPECT_THAT(schedule.error().what, HasSubstr(std::string(where)));
  EXPECT_THAT(schedule.error().what, HasSubstr(std::string(expected)));
}

/// Anything that print can show, right or wrong.
class RandomSchedule {
 public:
  explicit RandomSchedule(std::uint64_t seed) : random_(seed) {}

  Schedule make() {
    Schedule schedule;
    schedule.request.collective = static_cast<Collective>(below(kCollectives));
    schedule.request.ranks = static_cast<std::int32_t>(1 + below(6));
    ranks_ = static_cast<std::uint32_t>(schedule.request.ranks);
    if (rooted(schedule.request.collective))
      schedule.request.root = static_cast<Rank>(below(ranks_));
    schedule.request.in_place = below(2) == 0;
    if (below(4) != 0) schedule.algorithm = "two_shot/" + std::to_string(below(100));
    schedule.chunks_per_block = 1 + below(1U << (1 + below(24)));
    for (std::uint32_t format = below(4); format > 0; --format)
      schedule.formats.push_back("f" + std::to_string(format) + "_" + std::to_string(below(10)));
    formats_ = static_cast<std::uint32_t>(schedule.formats.size());
    schedule.lanes = lanes_ = 1 + below(std::min(kMostLanes, 1U << below(15)));
    for (groups_ = below(3); schedule.groups.size() < groups_;) schedule.groups.push_back(group());
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) schedule.programs.push_back(program());
    return schedule;
  }

 private:
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  ChunkSet chunks() {
    const auto space = static_cast<Space>(below(kSpaces));
    const std::uint32_t count = below(2) == 0 ? 1 : 1 + below(50);
    const std::uint32_t stride = count == 1 ? 1 : 1 + below(300000);
    return {space, below((1U << 24) - (count - 1) * stride), count, stride,
            static_cast<FormatId>(below(formats_ + 1))};
  }

  Group group() {
    Group group;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      if (below(3) != 0) group.ranks.push_back(static_cast<Rank>(rank));
    if (group.ranks.empty()) group.ranks.push_back(0);
    return group;
  }

  Program program() {
    Program program;
    for (std::uint32_t i = below(12); i > 0; --i)
      program.scratch.push_back(below(2) == 0 || program.scratch.empty()
                                    ? below(1U << 24)
                                    : program.scratch.back() / 2 + 1);
    for (std::uint32_t i = below(4); i > 0; --i) program.scratch.push_back(100 - i);
    const std::uint32_t steps = below(20);
    for (StepId id = 0; id < steps; ++id) {
      Step step;
      step.verb = static_cast<Verb>(below(kVerbs));
      if (uses_group(step.verb) && groups_ == 0) step.verb = Verb::kCopy;
      const bool has_src = !uses_group(step.verb) || below(3) != 0;
      const bool has_dst = !uses_group(step.verb) || below(3) != 0;
      if (uses_src(step.verb) && has_src) step.src = chunks();
      if (uses_dst(step.verb) && has_dst) step.dst = chunks();
      if (uses_group(step.verb)) step.group = static_cast<GroupId>(below(groups_));
      if (uses_peer(step.verb)) {
        step.peer = static_cast<Rank>(below(ranks_));
        step.lane = static_cast<Lane>(below(lanes_));
      }
      for (StepId dep = 0; dep < id; ++dep)
        if (below(4) == 0) step.deps.push_back(dep);
      program.steps.push_back(step);
    }
    return program;
  }

  std::mt19937_64 random_;
  std::uint32_t ranks_ = 1;
  std::uint32_t lanes_ = 1;
  std::uint32_t formats_ = 0;
  std::uint32_t groups_ = 0;
};

TEST(Text, PrintsOneLineAStep) { EXPECT_EQ(print(samples::ring_all_reduce(2, false)), kRing2); }

TEST(Text, ReadsWhatItPrints) {
  const Result<Schedule> schedule = parse(kRing2);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_EQ(*schedule, samples::ring_all_reduce(2, false));
  EXPECT_TRUE(verify(*schedule));
}

TEST(Text, RoundTripsRandomSchedules) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomSchedule random(seed);
  for (int i = 0; i < 500; ++i) {
    const Schedule schedule = random.make();
    const std::string text = print(schedule);
    const Result<Schedule> parsed = parse(text);
    ASSERT_TRUE(parsed) << parsed.error().what << "\n" << text;
    ASSERT_EQ(*parsed, schedule) << text;
  }
}

TEST(Text, RoundTripsEveryCollectiveWithAFormat) {
  for (const Collective collective : samples::kGlobalCollectives) {
    const Schedule schedule =
        samples::direct({collective, 4, rooted(collective) ? 3 : 0, false}, 3, true);
    const Result<Schedule> parsed = parse(print(schedule));
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(*parsed, schedule);
  }
}

TEST(Text, AllowsCommentsBlankLinesTabsAndCarriageReturns) {
  std::string text = "# a ring\n\n" + std::string(kRing2) + "\n# the end";
  const auto windows = [](std::string_view unix_text) {
    std::string result;
    for (const char c : unix_text) result += c == '\n' ? "\t# why\r\n" : std::string(1, c);
    return result;
  };
  const Result<Schedule> schedule = parse(windows(text));
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_EQ(*schedule, samples::ring_all_reduce(2, false));
}

TEST(Text, PrintsChunkSetsWithBothEndsIncluded) {
  EXPECT_EQ(print(in(3)), "in[3]");
  EXPECT_EQ(print(out(2, 4)), "out[2..5]");
  EXPECT_EQ(print(ChunkSet{Space::kScratch, 1, 4, 2}), "tmp[1..7:2]");
}

TEST(Text, EveryTruncationIsAnErrorOrASmallerSchedule) {
  for (std::size_t length = 0; length < kRing2.size(); ++length) {
    const Result<Schedule> schedule = parse(kRing2.substr(0, length));
    if (!schedule) {
      EXPECT_THAT(schedule.error().what, HasSubstr("line "));
      EXPECT_THAT(schedule.error().what, HasSubstr("expected "));
    } else {
      EXPECT_GT(length, kRing2.find("rank 1\n")) << "a rank may only lack its last words";
    }
  }
}

TEST(Text, NeverCrashesOnDamagedText) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string text(kRing2);
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, std::to_string(random() >> random() % 64));
      }
      if (text.empty()) break;
    }
    const Result<Schedule> schedule = parse(text);
    if (!schedule) continue;
    const Result<Schedule> again = parse(print(*schedule));
    ASSERT_TRUE(again) << again.error().what << "\n" << text;
    ASSERT_EQ(*again, *schedule) << text;
  }
}

TEST(Text, ErrorsNameLineColumnTokenAndWhatWasExpected) {
  const Result<Schedule> schedule = parse(replaced("to 1 after 0", "at 1 after 0"));
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().what, "line 12 column 16: found `at`, expected `to`");
}

TEST(Text, RefusesOtherFormatsAndVersions) {
  expect_error("", "line 1 column 1: found the end of the line", "`tutti-schedule`");
  expect_error("<xml/>", "line 1 column 1: found `<xml/>`", "`tutti-schedule`");
  expect_error(replaced("schedule 1", "schedule 2"), "line 1 column 16: found `2`", "`1`");
}

TEST(Text, RefusesHeadersThatAreWrong) {
  expect_error(replaced("all_reduce", "all_reuse"), "line 2 column 12: found `all_reuse`",
               "the name of a collective");
  expect_error(replaced("ranks 2", "ranks 0"), "line 3 column 7", "from 1 to 65536");
  expect_error(replaced("ranks 2", "ranks 65537"), "line 3 column 7", "from 1 to 65536");
  expect_error(replaced("ranks 2", "ranks -2"), "line 3 column 7: found `-2`", "a number");
  expect_error(replaced("ranks 2", "ranks 99999999999999999999999"), "line 3", "a number");
  expect_error(replaced("ranks 2", "ranks 2 2"), "line 3 column 9", "the end of the line");
  expect_error(replaced("ranks 2", "ranks 2\nroot 0"), "line 4 column 1: found `root`",
               "`in_place`");
  expect_error(replaced("all_reduce\nranks 2", "broadcast\nranks 2\nroot 2"), "line 4 column 6",
               "from 0 to 1");
  expect_error(replaced("in_place no", "in_place maybe"), "line 4 column 10", "yes or no");
  expect_error(replaced("algorithm ring", "algorithm"), "line 5 column 10", "a name");
  expect_error(replaced("ring", std::string(65, 'x')), "line 5 column 11", "at most 64 bytes");
  expect_error(replaced("chunks_per_block 2", "chunks_per_block 16777217"), "line 6", "16777216");
  expect_error(replaced("lanes 1", "lanes 16384"), "line 7", "from 1 to 16383");
}

TEST(Text, RefusesRanksOutOfOrderMissingOrTooMany) {
  expect_error(replaced("rank 0", "rank 1"), "line 9 column 6: found `1`", "the rank from 0 to 0");
  expect_error(std::string(kRing2.substr(0, kRing2.find("\nrank 1"))), "line 17 column 1",
               "a step or `rank 1`");
  expect_error(std::string(kRing2) + "rank 2\n", "line 26 column 1: found `rank`",
               "the end of the text");
}

TEST(Text, RefusesScratchThatWouldFillTheMemory) {
  expect_error(replaced("scratch 1", "scratch"), "line 10 column 8", "a chunk");
  expect_error(replaced("scratch 1", "scratch 5..2"), "line 10 column 9", "a range such as 2..5");
  expect_error(replaced("scratch 1", "scratch 16777216"), "line 10", "a chunk below 16777216");
  expect_error(replaced("scratch 1", "scratch 0..16777215 0..16777215 0"), "line 10 column 33",
               "at most 33554432 scratch chunks");
}

TEST(Text, RefusesStepsThatAreMisnumberedOrUnknown) {
  expect_error(replaced("1: send", "2: send"), "line 12 column 1: found `2:`", "`1:`");
  expect_error(replaced("1: send", "1: sent"), "line 12 column 4: found `sent`", "one of send");
  expect_error(replaced("to 1 after 0", "to 2 after 0"), "line 12", "a rank from 0 to 1");
  expect_error(replaced("to 1 after 0", "to 1 lane 1"), "line 12", "a lane from 0 to 0");
  expect_error(replaced("after 0 2", "after 2 0"), "line 14 column 38", "none is left");
  expect_error(replaced("after 0 2", "after 0 3"), "line 14", "a step from 1 to 2");
  expect_error(replaced("after 0 2", "after"), "line 14", "a step from 0 to 2");
  expect_error(replaced("out[0..1]\n", "out[0..1] after 0\n"), "line 11", "none is left");
}

TEST(Text, ReadsFormats) {
  const std::string text = replaced("lanes 1\n", "lanes 1\nformats bf16 wire_2\n");
  const Result<Schedule> schedule = parse(text);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_EQ(schedule->formats, (std::vector<std::string>{"bf16", "wire_2"}));
  std::string operand = text;
  operand.replace(operand.find("tmp[0] from"), 6, "tmp[0].wire_2");
  const Result<Schedule> formatted = parse(operand);
  ASSERT_TRUE(formatted) << formatted.error().what;
  EXPECT_EQ(formatted->programs[0].steps[2].dst.format, 2);
  EXPECT_EQ(print(*formatted), operand);

  for (const std::string_view bad : {"formats", "formats BF16", "formats a a", "formats a b c d",
                                     "formats seventeen_letters", "formats a.b"})
    expect_error(replaced("lanes 1\n", "lanes 1\n" + std::string(bad) + "\n"), "line 8 column ",
                 "the names of one to 3 different formats");
  operand = text;
  operand.replace(operand.find("tmp[0] from"), 6, "tmp[0].other");
  expect_error(operand, "line 14 column 9: found `tmp[0].other`",
               "one of the formats bf16, wire_2");
  expect_error(replaced("tmp[0] from", "tmp[0].a from"), "line 13 column 9: found `tmp[0].a`",
               "no line of formats");
}

TEST(Text, RefusesOperandsThatAreNotChunks) {
  for (const std::string_view bad :
       {"out",           "out[",
        "out[]",         "out[0",
        "out[0]]",       "[0]",
        "tmp 0]",        "mem[0]",
        "out[a]",        "out[-1]",
        "out[16777216]", "out[99999999999999999999]",
        "out[1..1]",     "out[2..1]",
        "out[0..]",      "out[..1]",
        "out[0..3:2]",   "out[0..4:0]",
        "out[0..4:]",    "out[0:2]",
        "out[0..4:-2]",  "out[0..18446744073709551615:18446744073709551615]"})
    expect_error(replaced("send out[0]", "send " + std::string(bad)), "line 12 column 9",
                 "chunks below 16777216");
}

TEST(Text, ShowsUnprintableAndLongTokensSafely) {
  expect_error(replaced("send out[0]", "send \x1b[31m"), "found `\\x1b[31m`", "chunks");
  expect_error(replaced("send out[0]", "send " + std::string(100000, 'x')),
               "`" + std::string(40, 'x') + "...`", "chunks");
}

}  // namespace
}  // namespace tutti::ir
