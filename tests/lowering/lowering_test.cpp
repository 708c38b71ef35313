// Every algorithm, lowered for several placements of the ranks on hosts, passes the replay check.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/base/result.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/check.hpp"
#include "src/lower/lower.hpp"

namespace tutti::lower {
namespace {

std::vector<Placement> placements(std::int32_t ranks) {
  Placement one, each, halves, alternating;
  for (Rank rank = 0; rank < ranks; ++rank) {
    one.host.push_back(0);
    each.host.push_back(rank);
    halves.host.push_back(rank < ranks / 2 ? 0 : 1);
    alternating.host.push_back(rank % 2);
  }
  if (ranks < 3) return {one, each};
  return {one, each, halves, alternating};
}

std::vector<ir::Request> requests(std::int32_t ranks) {
  std::vector<ir::Request> all;
  for (int c = 0; c < 8; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const bool in_place : {false, true})
      for (Rank root = 0; root < (rooted(collective) ? ranks : 1); root += ranks > 4 ? 3 : 1)
        all.push_back({collective, ranks, root, in_place});
  }
  return all;
}

class Lowering : public testing::TestWithParam<int> {};

TEST_P(Lowering, OfEveryAlgorithmPassesTheReplayCheck) {
  const std::int32_t ranks = GetParam();
  int lowered_programs = 0;
  for (const ir::Algorithm& algorithm : algorithms::with_in_network())
    for (const ir::Request& request : requests(ranks)) {
      if (!algorithm.supports(request)) continue;
      const auto schedule = algorithm.generate(request);
      ASSERT_TRUE(schedule) << algorithm.name;
      const auto proof = ir::verify(*schedule);
      ASSERT_TRUE(proof) << proof.error().what;
      for (const Placement& placement : placements(ranks))
        for (const ProgramProtocol protocol :
             {ProgramProtocol::kStaged, ProgramProtocol::kPublished, ProgramProtocol::kDirect})
          for (const bool scales_input : {false, true}) {
            LowerOptions options;
            options.protocol = protocol;
            options.scales_input = scales_input;
            if (!can_lower(*schedule, placement, options)) continue;
            const auto lowered = lower(*schedule, *proof, placement, options);
            ASSERT_TRUE(lowered) << fmt::format(
                "{} {} n={} root={} in_place={} hosts={}: {}", algorithm.name,
                name_of(request.collective), ranks, request.root, request.in_place,
                fmt::join(placement.host, ","), lowered.error().what);
            ++lowered_programs;
          }
    }
  EXPECT_GT(lowered_programs, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Lowering, testing::Values(1, 2, 3, 4, 5, 8, 13));

Result<ir::Schedule> schedule_of(std::string_view name, const ir::Request& request) {
  for (const ir::Algorithm& algorithm : algorithms::all())
    if (algorithm.name == name) return algorithm.generate(request);
  return make_error(Code::kInvalidArgument, "no algorithm {}", name);
}

Lowered lowered_on_one_host(std::string_view name, const ir::Request& request,
                            const LowerOptions& options = {}) {
  Placement placement;
  placement.host.assign(request.ranks, 0);
  const auto schedule = schedule_of(name, request);
  const auto proof = ir::verify(*schedule);
  const auto lowered = lower(*schedule, *proof, placement, options);
  EXPECT_TRUE(lowered) << lowered.error().what;
  return *lowered;
}
Lowered lowered_directly(std::string_view name, const ir::Request& request,
                         bool stores_to_peers = true) {
  LowerOptions options;
  options.protocol = ProgramProtocol::kDirect;
  options.stores_to_peers = stores_to_peers;
  return lowered_on_one_host(name, request, options);
}

TEST(Lowering, DoesNotGoDirectWhereAMessageIsPutTogetherInScratch) {
  Placement placement;
  placement.host.assign(4, 0);
  LowerOptions options;
  options.protocol = ProgramProtocol::kDirect;
  const auto fits = [&](std::string_view name) {
    return can_lower(*schedule_of(name, {Collective::kGather, 4, 0, /*in_place=*/true}), placement,
                     options);
  };
  EXPECT_TRUE(fits("direct"));
  EXPECT_FALSE(fits("binomial")) << "rank 2 sends its own block and that of rank 3 as one message";
}

TEST(Lowering, HasNoSingleRoundWhereARankGoesOnWithASumInScratch) {
  Placement placement;
  placement.host.assign(3, 0);
  for (const ProgramProtocol protocol : {ProgramProtocol::kPublished, ProgramProtocol::kDirect}) {
    LowerOptions options;
    options.protocol = protocol;
    const auto fits = [&](std::string_view name) {
      return can_lower(*schedule_of(name, {Collective::kReduceScatter, 3, 0, false}), placement,
                       options);
    };
    EXPECT_TRUE(fits("one_shot"));
    EXPECT_FALSE(fits("fixed_tree")) << "the first two contributions are rounded before the third";
  }
}

TEST(Lowering, AddsAlongTheFixedTreeInPassesOfTwoOnEveryPlacement) {
  for (const Placement& placement : placements(8)) {
    const auto schedule = schedule_of("fixed_tree", {Collective::kAllReduce, 8, 0, true});
    const auto proof = ir::verify(*schedule);
    const auto lowered = lower(*schedule, *proof, placement, {});
    ASSERT_TRUE(lowered) << lowered.error().what;
    for (const Program& program : lowered->programs) {
      const auto adds = [](const Op& op) { return op.sources.size() > 1; };
      EXPECT_EQ(std::ranges::count_if(program.ops, adds), 7);
      for (const Op& op : program.ops) EXPECT_LE(op.sources.size(), 2U);
    }
  }
}

TEST(Lowering, FusesATwoShotAllReduceIntoOnePassPerPhase) {
  const Lowered lowered =
      lowered_on_one_host("two_shot", {Collective::kAllReduce, 4, 0, /*in_place=*/false});
  for (Rank rank = 0; rank < 4; ++rank) {
    const Program& program = lowered.programs[rank];
    // 3 chunks staged for their owners, 1 pass over 4 sources into output and slot, 3 chunks
    // fetched.
    ASSERT_EQ(program.ops.size(), 7u) << describe(lowered, rank, 0);
    EXPECT_EQ(program.slots.size(), 4u);
    EXPECT_EQ(program.scratch_pieces, 0u);
    EXPECT_EQ(program.last_stage, 2u);
    const auto fused = std::find_if(program.ops.begin(), program.ops.end(),
                                    [](const Op& op) { return op.sources.size() == 4; });
    ASSERT_NE(fused, program.ops.end());
    EXPECT_EQ(fused->destinations.size(), 2u);
    EXPECT_TRUE(fused->completes);
  }
}

TEST(Lowering, InPlaceTwoShotMakesNoCopyOfItsOwnInput) {
  const Lowered lowered =
      lowered_on_one_host("two_shot", {Collective::kAllReduce, 4, 0, /*in_place=*/true});
  for (const Program& program : lowered.programs) {
    EXPECT_EQ(program.ops.size(), 7u);
    EXPECT_EQ(program.scratch_pieces, 0u);
  }
}

TEST(Lowering, TheRootOfABroadcastToFewRanksRunsAheadOfThem) {
  const auto depth = [](const char* name, Collective collective, std::int32_t ranks,
                        bool in_place = false) {
    const Lowered lowered = lowered_on_one_host(name, {collective, ranks, 0, in_place});
    EXPECT_EQ(runs_ahead(lowered), lowered.slot_depth == kSlicesAhead) << name << ' ' << ranks;
    return lowered.slot_depth;
  };
  for (const std::int32_t ranks : {2, 3, 4}) {
    EXPECT_EQ(depth("direct", Collective::kBroadcast, ranks), kSlicesAhead);
    EXPECT_EQ(depth("direct", Collective::kBroadcast, ranks, true), kSlicesAhead);
    EXPECT_EQ(depth("direct", Collective::kGather, ranks), 2u);
    EXPECT_EQ(depth("direct", Collective::kAllGather, ranks), 2u);
  }
  EXPECT_EQ(depth("direct", Collective::kBroadcast, 5), 2u);
  EXPECT_LT(depth("ring", Collective::kBroadcast, 3),
            kSlicesAhead);  // ranks pass on what they read
}

TEST(Lowering, ABroadcastThatAlsoCrossesAWireDoesNotRunAhead) {
  const ir::Request request{Collective::kBroadcast, 3, 0, false};
  const auto schedule = schedule_of("direct", request);
  ASSERT_TRUE(schedule);
  const auto proof = ir::verify(*schedule);
  ASSERT_TRUE(proof);
  const auto lowered = lower(*schedule, *proof, {{0, 0, 1}});
  ASSERT_TRUE(lowered) << lowered.error().what;
  EXPECT_FALSE(runs_ahead(*lowered));
}

TEST(Lowering, GoesDirectlyOnlyWhereNobodySharesWhatIsWritten) {
  const Placement one_host{{0, 0, 0, 0}};
  const auto may = [&](const char* name, Collective collective, bool in_place) {
    const ir::Request request{collective, 4, 0, in_place};
    const auto schedule = schedule_of(name, request);
    LowerOptions options;
    options.protocol = ProgramProtocol::kDirect;
    return schedule && can_lower(*schedule, one_host, options);
  };
  EXPECT_TRUE(may("direct", Collective::kAllToAll, false));
  EXPECT_TRUE(may("direct", Collective::kAllGather, true));
  EXPECT_TRUE(may("direct", Collective::kBroadcast, true));
  EXPECT_TRUE(may("one_shot", Collective::kReduceScatter, false));
  EXPECT_TRUE(may("one_shot", Collective::kAllReduce, false));
  EXPECT_FALSE(may("one_shot", Collective::kAllReduce, true));  // peers read what it overwrites
  EXPECT_TRUE(may("two_shot", Collective::kAllReduce, false));
  EXPECT_TRUE(may("two_shot", Collective::kAllReduce, true));
  EXPECT_FALSE(may("ring", Collective::kAllGather, false));  // relays what it received
  EXPECT_FALSE(may("ring", Collective::kAllReduce, false));
}

TEST(Lowering, ADirectTwoShotAllReduceLoadsAndStoresEachElementOnce) {
  for (const bool in_place : {false, true}) {
    const Lowered lowered = lowered_directly("two_shot", {Collective::kAllReduce, 4, 0, in_place});
    EXPECT_TRUE(needs_mapped_buffers(lowered));
    for (Rank rank = 0; rank < 4; ++rank) {
      ASSERT_EQ(lowered.programs[rank].ops.size(), 1u) << describe(lowered, rank, 0);
      const Op& op = lowered.programs[rank].ops[0];
      EXPECT_EQ(op.sources.size(), 4u);
      EXPECT_EQ(op.destinations.size(), 4u);
    }
  }
}

// More than one op's destinations, and all of its sources.
TEST(Lowering, ManyRanksOfOneHostGoDirectly) {
  for (const std::int32_t ranks : {9, 17, 33, 64})
    for (const bool in_place : {false, true}) {
      lowered_directly("two_shot", {Collective::kAllReduce, ranks, 0, in_place});
      lowered_directly("one_shot", {Collective::kReduceScatter, ranks, 0, in_place});
      lowered_directly("direct", {Collective::kAllGather, ranks, 0, in_place});
      lowered_directly("spread", {Collective::kBroadcast, ranks, 0, in_place});
    }
}

/// Chunks that each rank loads from peers and stores to peers.
struct Moves {
  std::size_t loads = 0, stores = 0;
  friend bool operator==(const Moves&, const Moves&) = default;
};
std::vector<Moves> moves_of(const Lowered& lowered) {
  std::vector<Moves> moves;
  for (const Program& program : lowered.programs) {
    Moves& mine = moves.emplace_back();
    for (const Op& op : program.ops) {
      for (const Operand& source : op.sources)
        if (source.memory == ProgramMemory::kPublished) mine.loads += source.pieces.size();
      for (const Operand& destination : op.destinations)
        if (destination.memory == ProgramMemory::kPeerOutput)
          mine.stores += destination.pieces.size();
    }
  }
  return moves;
}
std::vector<Moves> moves_of(Collective collective, bool in_place, bool stores_to_peers = true) {
  return moves_of(lowered_directly("direct", {collective, 4, 0, in_place}, stores_to_peers));
}

TEST(Lowering, SendersStoreWhereTheReceiverWouldDoEverything) {
  for (const bool in_place : {false, true})
    EXPECT_EQ(moves_of(Collective::kGather, in_place),
              (std::vector<Moves>{{0, 0}, {0, 1}, {0, 1}, {0, 1}}));
}

TEST(Lowering, SendersStoreWhatTheyLoadOnceForAllReceivers) {
  for (const std::int32_t ranks : {2, 4, 8})
    for (const bool in_place : {false, true}) {
      const Lowered lowered =
          lowered_directly("direct", {Collective::kAllGather, ranks, 0, in_place});
      const auto others = static_cast<std::size_t>(ranks) - 1;
      EXPECT_EQ(moves_of(lowered), std::vector<Moves>(others + 1, {0, others}));
      for (const Program& program : lowered.programs) EXPECT_EQ(program.ops.size(), 1u);
    }
}

TEST(Lowering, ReceiversLoadWhereSendersWouldHaveAsMuchToDoOrMore) {
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(moves_of(Collective::kScatter, in_place),
              (std::vector<Moves>{{0, 0}, {1, 0}, {1, 0}, {1, 0}}));
    EXPECT_EQ(moves_of(Collective::kBroadcast, in_place),
              (std::vector<Moves>{{0, 0}, {1, 0}, {1, 0}, {1, 0}}));
  }
  EXPECT_EQ(moves_of(Collective::kAllToAll, false), std::vector<Moves>(4, {3, 0}));
  // So one program serves mapped buffers and ordinary ones.
  const ir::Request exchange{Collective::kAllToAll, 4, 0, false};
  EXPECT_TRUE(lowered_directly("direct", exchange) == lowered_directly("direct", exchange, false));
}

TEST(Lowering, ReceiversLoadWhereNobodyMayStoreToPeers) {
  EXPECT_EQ(moves_of(Collective::kGather, false, false),
            (std::vector<Moves>{{3, 0}, {0, 0}, {0, 0}, {0, 0}}));
  EXPECT_EQ(moves_of(Collective::kAllGather, true, false), std::vector<Moves>(4, {3, 0}));
  const auto schedule = schedule_of("spread", {Collective::kBroadcast, 4, 0, false});
  LowerOptions loads;
  loads.protocol = ProgramProtocol::kDirect;
  loads.stores_to_peers = false;
  EXPECT_FALSE(can_lower(*schedule, {{0, 0, 0, 0}}, loads));
}

TEST(Lowering, ADirectSpreadLoadsEachElementOnceAndStoresAsMuchOnEveryRank) {
  for (const bool in_place : {false, true}) {
    const Lowered lowered = lowered_directly("spread", {Collective::kBroadcast, 4, 1, in_place});
    EXPECT_EQ(moves_of(lowered), (std::vector<Moves>{{1, 2}, {0, 3}, {1, 2}, {1, 2}}));
    for (Rank rank = 0; rank < 4; ++rank) {
      if (rank == 1) continue;
      ASSERT_EQ(lowered.programs[rank].ops.size(), 1u) << describe(lowered, rank, 0);
      EXPECT_EQ(lowered.programs[rank].ops[0].destinations.size(), 3u);
    }
  }
}

TEST(Lowering, OnlyLoadsOfPeersInputsNeedNoMappedBuffers) {
  const ir::Request gather{Collective::kAllGather, 4, 0, false};
  EXPECT_TRUE(needs_mapped_buffers(lowered_directly("direct", gather)));
  EXPECT_FALSE(needs_mapped_buffers(lowered_directly("direct", gather, false)));
  EXPECT_TRUE(needs_mapped_buffers(
      lowered_directly("one_shot", {Collective::kReduceScatter, 4, 0, false})));
}

// With more peers than one op stores to, too.
TEST(Lowering, RanksInPlaceAndOutOfPlaceUnderstandEachOtherWhenTheyMoveDirectly) {
  for (const std::int32_t ranks : {2, 4, 8, 9, 17})
    for (const auto& [name, collective] :
         {std::pair{"two_shot", Collective::kAllReduce}, std::pair{"two_shot", Collective::kReduce},
          std::pair{"spread", Collective::kBroadcast}, std::pair{"direct", Collective::kAllGather},
          std::pair{"direct", Collective::kGather}, std::pair{"direct", Collective::kScatter}})
      EXPECT_TRUE(interoperable(lowered_directly(name, {collective, ranks, 0, false}),
                                lowered_directly(name, {collective, ranks, 0, true})))
          << name << " over " << ranks << " ranks";
}

TEST(Lowering, RanksInPlaceAndOutOfPlaceUnderstandEachOtherInTheHostAlgorithms) {
  for (const auto& [name, collective] :
       {std::pair{"two_shot", Collective::kAllReduce},
        std::pair{"one_shot", Collective::kAllReduce}, std::pair{"ring", Collective::kAllReduce},
        std::pair{"direct", Collective::kAllGather},
        std::pair{"one_shot", Collective::kReduceScatter}}) {
    const ir::Request request{collective, 4, 0, false};
    ir::Request in_place = request;
    in_place.in_place = true;
    EXPECT_TRUE(
        interoperable(lowered_on_one_host(name, request), lowered_on_one_host(name, in_place)))
        << name;
  }
}

// A rank that publishes nothing may have fewer iterations in place.
TEST(Lowering, AGatherInPlaceUnderstandsOneOutOfPlaceOnAnotherHost) {
  const Placement each{{0, 1, 2}};
  const ir::Request request{Collective::kGather, 3, 0, false};
  ir::Request in_place = request;
  in_place.in_place = true;
  for (const std::string_view name : {"direct", "binomial"}) {
    const auto out = schedule_of(name, request), in = schedule_of(name, in_place);
    ASSERT_TRUE(out && in);
    const auto lowered_out = lower(*out, *ir::verify(*out), each, {});
    const auto lowered_in = lower(*in, *ir::verify(*in), each, {});
    ASSERT_TRUE(lowered_out && lowered_in);
    EXPECT_TRUE(interoperable(*lowered_out, *lowered_in)) << name;
  }
}

TEST(Lowering, MessagesAreReceivedAnIterationBeforeTheyAreSent) {
  const auto schedule = schedule_of("two_shot", {Collective::kAllReduce, 2, 0, false});
  ASSERT_TRUE(schedule);
  const auto lowered = lower(*schedule, *ir::verify(*schedule), Placement{{0, 1}}, {});
  ASSERT_TRUE(lowered);
  const auto stages = [&](Rank rank, OpKind kind) {
    std::vector<std::uint32_t> found;
    for (const Op& op : lowered->programs[rank].ops)
      if (op.kind == kind) found.push_back(op.stage);
    return found;
  };
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(stages(rank, OpKind::kSend), (std::vector<std::uint32_t>{1, 2}));
    EXPECT_EQ(stages(1 - rank, OpKind::kRecv), (std::vector<std::uint32_t>{0, 1}));
  }
}

// The receive of rank 1 waits for its send of the same place. That ends with rank 0's receive on
// lane 1, which cannot be early.
TEST(Lowering, ReceivesThatCannotBeEarlyAreNot) {
  const auto schedule = ir::parse(R"(tutti-schedule 1
collective all_gather
ranks 2
in_place no
algorithm chain
chunks_per_block 1
lanes 2

rank 0
scratch 0
0: recv tmp[0] from 1
1: copy in[0] into out[0]
2: copy tmp[0] into out[1] after 0
3: recv tmp[0] from 1 lane 1 after 2
4: send tmp[0] to 1 after 3
5: send in[0] to 1

rank 1
scratch 0
0: copy in[0] into out[1]
1: send out[1] to 0 after 0
2: copy in[0] into out[1] after 1
3: send out[1] to 0 lane 1 after 2
4: recv out[1] from 0 after 3
5: copy in[0] into out[1] after 4
6: recv out[0] from 0
)");
  ASSERT_TRUE(schedule) << schedule.error().what;
  const auto proof = ir::verify(*schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  const auto lowered = lower(*schedule, *proof, Placement{{0, 1}}, {});
  EXPECT_TRUE(lowered) << lowered.error().what;
}

// 65 inputs are more than one op adds up, and a published plan keeps no copy of an own one.
TEST(Lowering, ManyRanksOfOneHostReduceInPlace) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (const int ranks : {64, 65}) {
      const Rank root = rooted(collective) ? ranks - 1 : 0;
      const ir::Request request{collective, ranks, root, /*in_place=*/true};
      Placement one_host;
      one_host.host.assign(ranks, 0);
      const auto schedule = schedule_of("one_shot", request);
      ASSERT_TRUE(schedule);
      const auto proof = ir::verify(*schedule);
      ASSERT_TRUE(proof) << proof.error().what;
      LowerOptions options;
      options.protocol = ProgramProtocol::kPublished;
      const bool published = can_lower(*schedule, one_host, options);
      EXPECT_EQ(published, ranks == 64);
      if (!published) options.protocol = ProgramProtocol::kStaged;
      const auto lowered = lower(*schedule, *proof, one_host, options);
      EXPECT_TRUE(lowered) << lowered.error().what;
    }
  }
}

Lowered ring_over_hosts() {
  const auto schedule = schedule_of("ring", {Collective::kAllReduce, 3, 0, /*in_place=*/false});
  const auto proof = ir::verify(*schedule);
  return *lower(*schedule, *proof, {{0, 1, 2}});
}

TEST(Lowering, RanksThatSendInDifferentStagesDoNotUnderstandEachOther) {
  const Lowered original = ring_over_hosts();
  ASSERT_TRUE(interoperable(original, original));
  int moved = 0;
  for (std::uint32_t id = 0; id < original.programs[0].ops.size(); ++id) {
    const Op& op = original.programs[0].ops[id];
    if (op.peer == kNoRank || op.published || op.stage == original.programs[0].last_stage) continue;
    Lowered other = original;
    ++other.programs[0].ops[id].stage;
    EXPECT_FALSE(interoperable(original, other)) << describe(original, 0, id);
    ++moved;
  }
  EXPECT_GT(moved, 0);
}

// An executor binds as many chunks as the largest buffer has: one block of a vector that is not
// split by rank.
// In a long pipeline a late op of slice k comes after an early one of slice k + depth. What the
// late one writes where the early one receives does no harm with depth + 1 slices, and does with
// more.
TEST(Lowering, APlaceGoesFromSliceToSliceInOrder) {
  const auto schedule = schedule_of("ring", {Collective::kAllReduce, 6, 0, false});
  ASSERT_TRUE(schedule);
  const Placement placement{{0, 0, 0, 1, 1, 1}};
  auto lowered = lower(*schedule, *ir::verify(*schedule), placement, {});
  ASSERT_TRUE(lowered);
  const auto keeps_a_sum = [](const Op& op) {
    return op.stage > 4 && op.kind == OpKind::kCombine && op.sources.size() > 1 &&
           op.destinations.size() > 1 && op.destinations[0].memory == ProgramMemory::kScratch;
  };
  auto& ops = lowered->programs[0].ops;
  const auto late = std::ranges::find_if(ops, keeps_a_sum);
  ASSERT_NE(late, ops.end());
  const auto early = std::ranges::find(ops, OpKind::kRecv, &Op::kind);
  ASSERT_NE(early, ops.end());
  ASSERT_LT(early->stage, late->stage);
  late->destinations[0].pieces = early->destinations[0].pieces;
  const Status status = check(*lowered, placement);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().what.find("writes slice 0 where slice 3 has been"), std::string::npos)
      << status.error().what;
}

TEST(Lowering, AProgramThatNamesChunksBeyondTheLargestBufferIsMalformed) {
  Lowered lowered =
      lowered_on_one_host("two_shot", {Collective::kAllReduce, 4, 0, /*in_place=*/false});
  const Placement one_host{{0, 0, 0, 0}};
  ASSERT_TRUE(check(lowered, one_host));
  std::uint32_t& chunk = lowered.programs[1].ops[0].like[0];
  chunk += lowered.chunks_per_block;  // of the same length
  const Status checked = check(lowered, one_host);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().what.find(fmt::format("the length of chunk {}", chunk)),
            std::string::npos)
      << checked.error().what;
}

}  // namespace
}  // namespace tutti::lower
