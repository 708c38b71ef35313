#include "src/comm/parts.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr std::size_t kSlot = 4096;

std::byte* const kSend = reinterpret_cast<std::byte*>(0x10000000);
std::byte* const kRecv = reinterpret_cast<std::byte*>(0x20000000);

Call call_of(Collective collective, std::size_t count, DataType type = DataType::kFloat32) {
  Call call;
  call.collective = collective;
  call.send = kSend;
  call.recv = kRecv;
  call.count = count;
  call.type = type;
  return call;
}

/// Whether each byte of `stretches` passes exactly once.
void expect_covers(std::vector<CopyRange> ranges, const std::vector<Stretch>& stretches,
                   const std::byte* buffer) {
  std::ranges::sort(ranges, {}, &CopyRange::buffer);
  std::vector<std::pair<const std::byte*, const std::byte*>> passed, wanted;
  const auto add = [](auto& runs, const std::byte* begin, std::size_t bytes) {
    if (!runs.empty() && runs.back().second == begin)
      runs.back().second += bytes;
    else
      runs.emplace_back(begin, begin + bytes);
  };
  for (const CopyRange& range : ranges) add(passed, range.buffer, range.bytes);
  for (const auto& [begin, bytes] : stretches) add(wanted, buffer + begin, bytes);
  EXPECT_EQ(passed, wanted);
}

std::vector<std::size_t> counts_of(const std::vector<StagingStep>& steps) {
  std::vector<std::size_t> counts;
  for (const StagingStep& step : steps)
    for (const Part& part : step.parts) counts.push_back(part.call.count);
  return counts;
}

void expect_apart(const StagingStep& step) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const auto* ranges : {&step.in, &step.out})
    for (const CopyRange& range : *ranges)
      places.emplace_back(range.slot_offset, range.slot_offset + range.bytes);
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
  for (const auto& [begin, end] : places) EXPECT_LE(end, step.bytes);
}

void check(const Call& call, std::int32_t size) {
  std::vector<std::size_t> counts;
  for (Rank rank = 0; rank < size; ++rank) {
    SCOPED_TRACE(testing::Message() << name_of(call.collective) << ", count " << call.count
                                    << ", rank " << rank << " of " << size);
    const std::vector<StagingStep> steps = cut({&call, 1}, rank, size, kSlot);
    std::vector<CopyRange> in, out;
    for (const StagingStep& step : steps) {
      expect_apart(step);
      in.insert(in.end(), step.in.begin(), step.in.end());
      out.insert(out.end(), step.out.begin(), step.out.end());
    }
    expect_covers(in, input_stretches(call, rank, size), kSend);
    expect_covers(out, output_stretches(call, rank, size), kRecv);
    if (rank == 0) counts = counts_of(steps);
    EXPECT_EQ(counts_of(steps), counts) << "ranks must cut alike";
  }
  EXPECT_EQ(std::reduce(counts.begin(), counts.end()), call.count);
}

TEST(Cut, PassesEveryByteOfEveryCollectiveOnceAndAlikeOnAllRanks) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (is_point_to_point(call_of(collective, 1))) continue;
    for (const std::int32_t size : {1, 2, 3, 8})
      for (const std::size_t count : {0, 1, 3, 100, 1023, 5000})
        for (const DataType type : {DataType::kInt8, DataType::kFloat16, DataType::kFloat64}) {
          Call call = call_of(collective, count, type);
          call.root = size - 1;
          check(call, size);
        }
  }
}

TEST(Cut, PassesBlocksOfDifferentSizes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    const std::int32_t size = 1 + static_cast<std::int32_t>(random() % 6);
    ir::Blocks blocks;
    std::size_t start = 0;
    for (Rank rank = 0; rank < size; ++rank) {
      blocks.counts.push_back(random() % 3 == 0 ? 0 : random() % 3000);
      blocks.starts.push_back(start);
      start += blocks.counts.back() + random() % 5;
    }
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
      Call call = call_of(collective, blocks.total());
      call.blocks = std::make_shared<const ir::Blocks>(blocks);
      check(call, size);
    }
  }
}

/// Where a rank's output is used: as ranges of the caller's buffer.
std::vector<CopyRange> received_by(const std::vector<StagingStep>& steps, Rank rank,
                                   std::int32_t size) {
  std::vector<CopyRange> places;
  for (const StagingStep& step : steps)
    for (const Part& part : step.parts)
      for (const auto& [begin, bytes] : output_stretches(part.call, rank, size))
        places.push_back({static_cast<std::byte*>(part.call.recv) + begin, 0, bytes});
  return places;
}

/// In the slot a part lies as it does in the caller's buffer, but packed; there too it is in place.
void expect_in_place(const StagingStep& step, Rank rank) {
  for (const Part& part : step.parts) {
    Call call = part.call;
    if (call.recv == nullptr) {
      call.recv = kRecv + part.recv_offset;
      if (part.sends) call.send = kRecv + part.send_offset;
    }
    EXPECT_TRUE(!part.sends || is_in_place(call, rank) || call.send == call.recv);
  }
}

void check_puts(Call call, std::int32_t size) {
  call.for_devices = true;
  std::vector<std::size_t> counts;
  for (const bool stays : {false, true})
    for (Rank rank = 0; rank < size; ++rank) {
      SCOPED_TRACE(testing::Message() << name_of(call.collective) << ", count " << call.count
                                      << ", rank " << rank << " of " << size << ", " << stays);
      const auto steps = cut({&call, 1}, rank, size, kSlot, [&](const Call&) { return stays; });
      std::vector<CopyRange> in, out, moved;
      for (const StagingStep& step : steps) {
        EXPECT_LE(step.bytes, stays ? 0 : kSlot);
        expect_in_place(step, rank);
        in.insert(in.end(), step.in.begin(), step.in.end());
        out.insert(out.end(), step.out.begin(), step.out.end());
        for (const DeviceCopy& move : step.moves)
          moved.push_back({const_cast<std::byte*>(move.from), 0, move.bytes});
      }
      const auto input = input_stretches(call, rank, size);
      const bool has_input = call.collective == Collective::kAllGather || rank == call.root;
      if (has_input) expect_covers(stays ? moved : in, input, kSend);
      expect_covers(stays ? received_by(steps, rank, size) : out,
                    output_stretches(call, rank, size), kRecv);
      EXPECT_TRUE(stays ? in.empty() && out.empty() : moved.empty());
      if (rank == 0 && !stays) counts = counts_of(steps);
      EXPECT_EQ(counts_of(steps), counts) << "ranks must cut alike, wherever their buffers are";
    }
}

TEST(Cut, LeavesWhatIsPutWhereItIsOrLaysItInPlace) {
  for (const std::int32_t size : {1, 2, 3, 8})
    for (const std::size_t count : {0, 1, 3, 100, 1023, 5000}) {
      check_puts(call_of(Collective::kAllGather, count, DataType::kFloat16), size);
      Call broadcast = call_of(Collective::kBroadcast, count);
      broadcast.root = size - 1;
      check_puts(broadcast, size);
    }
  Call uneven = call_of(Collective::kAllGather, 4010);
  uneven.blocks = std::make_shared<const ir::Blocks>(ir::Blocks{{7, 0, 4003}, {0, 9, 12}});
  check_puts(uneven, 3);
}

TEST(Cut, CopiesNothingOfAMessageThatStays) {
  Call calls[] = {call_of(Collective::kSend, 100), call_of(Collective::kRecv, 7),
                  call_of(Collective::kRecv, 9)};
  calls[0].for_devices = calls[1].for_devices = true;
  const auto steps = cut(calls, 0, 2, kSlot, [](const Call&) { return true; });
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_TRUE(steps[0].in.empty());
  ASSERT_EQ(steps[0].out.size(), 1U);
  EXPECT_EQ(steps[0].out[0].bytes, 36U);
  EXPECT_EQ(steps[0].parts[0].call.send, kSend);
  EXPECT_EQ(steps[0].parts[1].call.recv, kRecv);
  EXPECT_EQ(steps[0].parts[2].call.recv, nullptr);
}

TEST(Cut, KeepsAStepOfCollectivesWithinTheSlot) {
  for (const std::size_t count : {1, 900, 100'000}) {
    const Call calls[] = {call_of(Collective::kAllReduce, count),
                          call_of(Collective::kAllToAll, count),
                          call_of(Collective::kBroadcast, count)};
    for (const StagingStep& step : cut(calls, 1, 4, kSlot)) EXPECT_LE(step.bytes, kSlot);
  }
}

TEST(Cut, MakesTheSameStepsOnAllRanks) {
  std::vector<Call> calls;
  for (const Collective collective :
       {Collective::kGather, Collective::kBroadcast, Collective::kAllReduce, Collective::kScatter})
    for (const std::size_t count : {5, 300, 4000}) calls.push_back(call_of(collective, count));
  std::vector<std::size_t> of_root;
  for (Rank rank = 0; rank < 4; ++rank) {
    std::vector<std::size_t> parts;
    for (const StagingStep& step : cut(calls, rank, 4, kSlot)) parts.push_back(step.parts.size());
    if (rank == 0) of_root = parts;
    EXPECT_EQ(parts, of_root) << "rank " << rank;
  }
}

TEST(Cut, PutsSmallCollectivesIntoOneStep) {
  const std::vector<Call> calls(6, call_of(Collective::kAllReduce, 8));
  const std::vector<StagingStep> steps = cut(calls, 0, 2, kSlot);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].parts.size(), 6U);
}

TEST(Cut, TakesOneElementOfEachBlockWhereTheSlotHasNoRoomForMore) {
  const Call call = call_of(Collective::kAllToAll, 3, DataType::kFloat64);
  const std::vector<StagingStep> steps = cut({&call, 1}, 0, 1000, kSlot);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].parts[0].call.count, 1U);
}

TEST(Cut, LeavesMessagesWholeAndInOneStepAfterTheCollectives) {
  std::vector<Call> calls = {call_of(Collective::kSend, 10'000), call_of(Collective::kAllReduce, 4),
                             call_of(Collective::kRecv, 0), call_of(Collective::kRecv, 7)};
  const std::vector<StagingStep> steps = cut(calls, 0, 2, kSlot);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].parts.size(), 1U);
  ASSERT_EQ(steps[1].parts.size(), 3U);
  EXPECT_TRUE(steps[1].parts[0].sends);
  EXPECT_FALSE(steps[1].parts[0].receives);
  EXPECT_EQ(steps[1].in, (std::vector<CopyRange>{{kSend, 0, 40'000}}));
  ASSERT_EQ(steps[1].out.size(), 1U);
  EXPECT_EQ(steps[1].out[0].bytes, 28U);
  expect_apart(steps[1]);
}

}  // namespace
}  // namespace tutti
