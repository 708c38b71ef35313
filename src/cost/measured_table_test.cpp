#include "src/cost/measured_table.hpp"

#include <map>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr Arrangement kFour = {4, 1, 4, 0};

MeasuredRange range(std::uint64_t from, std::uint64_t to, const std::string& algorithm,
                    std::int64_t when, const Arrangement& arrangement = kFour) {
  return {Collective::kAllReduce, arrangement, from, to, {algorithm, false}, from, 100, 200, when};
}

/// "ring 0..9, direct 10..20".
std::string shown(const MeasuredTable& table) {
  std::string text;
  for (const MeasuredRange& each : table.ranges())
    text += fmt::format("{}{} {}..{}", text.empty() ? "" : ", ", each.way.algorithm,
                        each.from_bytes, each.to_bytes);
  return text;
}

MeasuredTable table_of(const std::vector<MeasuredRange>& ranges) {
  MeasuredTable table;
  for (const MeasuredRange& each : ranges) table.add(each);
  return table;
}

std::string table_error(const std::string& text) {
  const auto table = MeasuredTable::parse(text);
  return table ? "" : table.error().what;
}

TEST(MeasuredTable, FindsTheRangeThatHoldsASize) {
  const MeasuredTable table = table_of({range(10, 20, "ring", 1), range(30, 40, "direct", 1)});
  const auto found = [&](std::uint64_t bytes) {
    const MeasuredRange* const at = table.find(Collective::kAllReduce, kFour, bytes);
    return at == nullptr ? "" : at->way.algorithm;
  };
  EXPECT_EQ(found(9), "");
  EXPECT_EQ(found(10), "ring");
  EXPECT_EQ(found(20), "ring");
  EXPECT_EQ(found(21), "");
  EXPECT_EQ(found(40), "direct");
  EXPECT_EQ(found(41), "");
  EXPECT_EQ(table.find(Collective::kReduce, kFour, 10), nullptr);
}

TEST(MeasuredTable, TellsArrangementsApart) {
  const Arrangement one_host{4, 1, 4};
  const std::vector<Arrangement> others = {{4, 2, 2, 7, 2},
                                           {4, 2, 2},
                                           {4, 2, 3},
                                           {5, 1, 5},
                                           {4, 2, 2, 0, 2},
                                           {4, 2, 2, 0, 1},
                                           {4, 2, 2, 0, 2, 1'000},
                                           {4, 2, 2, 0, 2, 10'000}};
  MeasuredTable table = table_of({range(0, 9, "ring", 1, one_host)});
  for (const Arrangement& other : others) {
    EXPECT_EQ(table.find(Collective::kAllReduce, other, 5), nullptr);
    table.add(range(0, 9, "direct", 2, other));
    EXPECT_NE(table.find(Collective::kAllReduce, other, 5), nullptr);
  }
  EXPECT_EQ(table.find(Collective::kAllReduce, one_host, 5)->way.algorithm, "ring");
}

TEST(MeasuredTable, ArrangesRanksByTheirHosts) {
  EXPECT_EQ(arrangement_of(std::vector<std::int32_t>{0, 0, 1, 2, 1, 0}), (Arrangement{6, 3, 3}));
}

TEST(MeasuredTable, PrefersTheSameWiringAndFallsBackToWhereItWasNotKnown) {
  Arrangement wired = kFour;
  wired.topology = 7;
  const MeasuredTable table =
      table_of({range(0, 100, "ring", 9), range(0, 50, "direct", 1, wired)});
  EXPECT_EQ(table.find(Collective::kAllReduce, wired, 50)->way.algorithm, "direct");
  EXPECT_EQ(table.find(Collective::kAllReduce, wired, 51)->way.algorithm, "ring");
  EXPECT_EQ(table.find(Collective::kAllReduce, kFour, 50)->way.algorithm, "ring");
  Arrangement other = kFour;
  other.topology = 8;
  EXPECT_EQ(table.find(Collective::kAllReduce, other, 50)->way.algorithm, "ring");
}

TEST(MeasuredTable, LetsNewerRangesReplaceWhatTheyOverlap) {
  MeasuredTable table = table_of({range(0, 100, "old", 1)});
  table.add(range(40, 60, "new", 2));
  EXPECT_EQ(shown(table), "old 0..39, new 40..60, old 61..100");
  table.add(range(60, 200, "newer", 3));
  EXPECT_EQ(shown(table), "old 0..39, new 40..59, newer 60..200");
}

TEST(MeasuredTable, FitsOlderRangesBetweenNewerOnes) {
  MeasuredTable table = table_of({range(10, 20, "new", 5), range(40, 50, "new too", 5)});
  table.add(range(0, 60, "old", 1));
  EXPECT_EQ(shown(table), "old 0..9, new 10..20, old 21..39, new too 40..50, old 51..60");
  table.add(range(12, 18, "oldest", 0));
  EXPECT_EQ(shown(table), "old 0..9, new 10..20, old 21..39, new too 40..50, old 51..60");
}

TEST(MeasuredTable, JoinsPiecesOfOneMeasurement) {
  MeasuredTable table = table_of({range(0, 100, "old", 1), range(40, 60, "new", 2)});
  MeasuredRange whole = range(0, 100, "old", 1);
  whole.measured_s = 2;
  table.add(whole);
  EXPECT_EQ(shown(table), "old 0..100");
}

TEST(MeasuredTable, MergesTheNewerOfTwoTablesWhicheverComesFirst) {
  const MeasuredTable a = table_of({range(0, 100, "a", 1), range(200, 300, "a", 9)});
  const MeasuredTable b = table_of({range(50, 250, "b", 5)});
  MeasuredTable ab = a, ba = b;
  ab.merge(b);
  ba.merge(a);
  EXPECT_EQ(shown(ab), "a 0..49, b 50..199, a 200..300");
  EXPECT_EQ(ab, ba);
}

// Beside the plainest table there is: what each byte is said to run.
TEST(MeasuredTable, AgreesWithATableOfBytes) {
  constexpr unsigned kSeed = 20261122;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    MeasuredTable table;
    std::map<std::uint64_t, MeasuredRange> by_byte;
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t from = random() % 40, to = from + random() % 20;
      const auto added = range(from, to, fmt::format("x{}", i), random() % 6);
      table.add(added);
      for (std::uint64_t byte = from; byte <= to; ++byte) {
        const auto known = by_byte.find(byte);
        if (known == by_byte.end() || known->second.measured_s <= added.measured_s)
          by_byte[byte] = added;
      }
    }
    for (std::uint64_t byte = 0; byte < 64; ++byte) {
      const MeasuredRange* const found = table.find(Collective::kAllReduce, kFour, byte);
      const auto expected = by_byte.find(byte);
      ASSERT_EQ(found != nullptr, expected != by_byte.end())
          << "seed " << kSeed << " byte " << byte;
      if (found != nullptr) {
        ASSERT_EQ(found->way, expected->second.way) << "seed " << kSeed << " byte " << byte;
      }
    }
  }
}

TEST(MeasuredTable, ForgetsTheOldestBeyondWhatItHolds) {
  constexpr int kMost = static_cast<int>(kMostRanges);
  const auto alone = [](int ranks) { return Arrangement{ranks, 1, ranks}; };
  MeasuredTable table;
  for (int i = 1; i <= kMost + 1; ++i) table.add(range(0, 9, "ring", i, alone(i)));
  EXPECT_EQ(table.ranges().size(), kMostRanges);
  EXPECT_EQ(table.find(Collective::kAllReduce, alone(1), 0), nullptr);
  EXPECT_NE(table.find(Collective::kAllReduce, alone(2), 0), nullptr);
}

TEST(MeasuredTable, IsReadAsItWasWritten) {
  Arrangement wired = {6, 2, 4, 0x00c0ffee00c0ffee};
  MeasuredTable table = table_of({range(0, 7, "one_shot", 1), range(8, 1 << 20, "a\"b", 1, wired)});
  MeasuredRange reads = range(100, 200, "direct", 3);
  reads.way.kernel_reads = true;
  table.add(reads);
  table.add(range(0, 7, "ring", 1, {8, 3, 4, 0, 2, ~0U}));
  table.machine = "A \"fast\" CPU";
  const auto again = MeasuredTable::parse(table.text());
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(*again, table);
  EXPECT_EQ(MeasuredTable::parse(MeasuredTable().text())->ranges().size(), 0U);
}

/// The text of a table with one entry, in which `from` became `to`.
std::string changed(std::string_view from, std::string_view to) {
  Arrangement wired = {4, 2, 2, 0x00c0ffee00c0ffee, 2, 100};
  MeasuredTable table = table_of({range(8, 64, "ring", 5, wired)});
  table.machine = "mill";
  std::string text = table.text();
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(MeasuredTable, NamesThePlaceOfWhatIsWrong) {
  EXPECT_THAT(table_error("{\"format\": \n  nonsense"), HasSubstr("line 2, column"));
  EXPECT_THAT(table_error("[]"), HasSubstr("object"));
  EXPECT_THAT(table_error(changed("tutti-table", "other")), HasSubstr("version 1"));
  EXPECT_THAT(table_error(changed("\"version\": 1", "\"version\": 2")), HasSubstr("tutti tune"));
  EXPECT_THAT(table_error(changed("\"ranks\": 4", "\"ranks\": -4")), HasSubstr("ranges[0]: ranks"));
  EXPECT_THAT(table_error(changed("\"ranks\": 4", "\"ranks\": 4.5")), HasSubstr("ranks"));
  EXPECT_THAT(table_error(changed("\"ranks\": 4", "\"ranks\": 5")), HasSubstr("cannot be"));
  EXPECT_THAT(table_error(changed("\"ranks\": 4", "\"ranks\": 1e300")), HasSubstr("ranks"));
  EXPECT_THAT(table_error(changed("\"ranks\": 4", "\"ranks\": \"4\"")), HasSubstr("ranks"));
  EXPECT_THAT(table_error(changed("\"hosts\": 2", "\"hosts\": 0")), HasSubstr("hosts"));
  EXPECT_THAT(table_error(changed("\"hosts\": 2", "\"hosts\": 5")), HasSubstr("cannot be"));
  EXPECT_THAT(table_error(changed("\"most_on_a_host\": 2", "\"most_on_a_host\": 5")),
              HasSubstr("cannot be"));
  EXPECT_THAT(table_error(changed("most_on_a_host", "most_at_home")), HasSubstr("most_at_home"));
  EXPECT_THAT(table_error(changed("\"machines\": 2", "\"machines\": 3")),
              HasSubstr("2 hosts on 3 machines"));
  EXPECT_THAT(table_error(changed("\"machines\": 2", "\"machines\": 0")), HasSubstr("machines"));
  EXPECT_THAT(table_error(changed("\"mbit_per_s\": 100", "\"mbit_per_s\": 4294967296")),
              HasSubstr("mbit_per_s: not an integer within 1..4294967295"));
  EXPECT_THAT(table_error(changed("\"machine\": \"mill\"", "\"machine\": 7")),
              HasSubstr("machine: not a text"));
  EXPECT_THAT(table_error(changed("mill", std::string(1025, 'm'))), HasSubstr("1 to 1024 bytes"));
  EXPECT_THAT(table_error(changed("\"to_bytes\": 64", "\"to_bytes\": 1152921504606846977")),
              HasSubstr("to_bytes"));
  EXPECT_THAT(table_error(changed("\"ranks\": 4, ", "")), HasSubstr("'ranks' not found"));
  EXPECT_THAT(table_error(changed("all_reduce", "all_reduced")), HasSubstr("no 'all_reduced'"));
  EXPECT_THAT(table_error(changed("00c0ffee00c0ffee", "c0ffee")), HasSubstr("16 hexadecimal"));
  EXPECT_THAT(table_error(changed("00c0ffee00c0ffee", "0000000000000000")), HasSubstr("all 0"));
  EXPECT_THAT(table_error(changed("\"to_bytes\": 64", "\"to_bytes\": 7")), HasSubstr("8 to 7"));
  EXPECT_THAT(table_error(changed("\"at_bytes\"", "\"at_byte\"")), HasSubstr("'at_byte'"));
  EXPECT_THAT(table_error(changed("\"kernel_reads\": false", "\"kernel_reads\": 0")),
              HasSubstr("kernel_reads"));
  EXPECT_THAT(table_error(changed("\"ring\"", "\"\"")), HasSubstr("algorithm"));
  EXPECT_THAT(table_error(changed("\"ring\"", "[1]")), HasSubstr("algorithm"));
}

TEST(MeasuredTable, CutAnywhereIsRefused) {
  const std::string whole = changed("mill", "m");
  for (std::size_t length = 0; length + 2 < whole.size(); ++length)
    EXPECT_NE(table_error(whole.substr(0, length)), "") << length;
}

TEST(MeasuredTable, RefusesWhatIsSaidTwiceAndWhatIsTooLong) {
  const std::string one = table_of({range(8, 64, "ring", 5)}).text();
  const std::size_t begin = one.find("\n  {") + 3, end = one.rfind(']');
  const std::string entry = one.substr(begin, end - begin);
  EXPECT_THAT(table_error(one.substr(0, end) + ",\n" + entry + "]}"),
              HasSubstr("twice from 8 bytes"));
  EXPECT_THAT(table_error(std::string(kMostTableBytes + 1, ' ')), HasSubstr("too many"));
}

TEST(MeasuredTable, GivesThoseOfANumberOfRanks) {
  const MeasuredTable table =
      table_of({range(0, 7, "ring", 1), range(0, 7, "direct", 1, {2, 1, 2})});
  EXPECT_EQ(shown(table.of_ranks(2)), "direct 0..7");
  EXPECT_EQ(shown(table.of_ranks(3)), "");
  const MeasuredTable many =
      table_of({range(0, 7, "a", 2), range(8, 9, "b", 1), range(10, 11, "c", 3)});
  EXPECT_EQ(shown(many.of_ranks(4, 2)), "a 0..7, c 10..11") << "the newest";
}

}  // namespace
}  // namespace tutti
