// Which lowered programs serve blocks of different sizes.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/blocks.hpp"
#include "src/ir/builder.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/check.hpp"
#include "src/lower/lower.hpp"

namespace tutti::lower {
namespace {

constexpr CheckOptions kAnySizes{.uneven_blocks = true};

/// Of `ranks` ranks in two halves, or in one where `hosts` is 1.
Placement placement_of(std::int32_t ranks, std::int32_t hosts) {
  Placement placement;
  for (Rank rank = 0; rank < ranks; ++rank) placement.host.push_back(rank * hosts / ranks);
  return placement;
}

/// The algorithms that serve `request` with blocks of any sizes wherever they serve it at all.
std::set<std::string> serving(ir::Request request) {
  std::set<std::string> names;
  for (const ir::Algorithm& algorithm : algorithms::all()) {
    bool serves = true;
    int programs = 0;
    for (const std::int32_t hosts : {1, 2, request.ranks}) {
      const Placement placement = placement_of(request.ranks, hosts);
      request.layout = ir::Layout::of_hosts(placement.host);
      if (!algorithm.supports(request)) continue;
      const auto schedule = algorithm.generate(request);
      const auto proof = ir::verify(*schedule);
      for (const ProgramProtocol protocol :
           {ProgramProtocol::kStaged, ProgramProtocol::kPublished, ProgramProtocol::kDirect}) {
        const LowerOptions options{.protocol = protocol};
        if (!can_lower(*schedule, placement, options)) continue;
        const auto lowered = lower(*schedule, *proof, placement, options);
        EXPECT_TRUE(lowered) << algorithm.name;
        ++programs;
        if (!check(*lowered, placement, kAnySizes)) serves = false;
      }
    }
    if (serves && programs > 0) names.emplace(algorithm.name);
  }
  return names;
}

TEST(UnevenBlocks, AreServedByWhatPutsNoChunkIntoThePlaceOfAnother) {
  for (const std::int32_t ranks : {4, 6})
    for (const bool in_place : {false, true}) {
      std::set<std::string> gathers = serving({Collective::kAllGather, ranks, 0, in_place});
      std::set<std::string> scatters = serving({Collective::kReduceScatter, ranks, 0, in_place});
      // All that the tuner chooses by itself.
      for (const char* name :
           {"direct", "ring", "circulant", "hierarchical_ring", "hierarchical_circulant"})
        EXPECT_TRUE(gathers.contains(name)) << name << " of " << ranks;
      for (const char* name :
           {"one_shot", "ring", "circulant", "hierarchical_ring", "hierarchical_circulant"})
        EXPECT_TRUE(scatters.contains(name)) << name << " of " << ranks;
    }
}

/// An all-gather of two ranks in which rank 1 keeps what it got in scratch made for `like`.
Lowered gather_through(ir::ChunkSet like) {
  ir::Builder build({.collective = Collective::kAllGather, .ranks = 2}, "detour", 1);
  for (Rank rank = 0; rank < 2; ++rank) {
    auto program = build.rank(rank);
    const auto own = static_cast<std::uint32_t>(rank);
    program.send(ir::in(0), 1 - rank).copy(ir::in(0), ir::out(own));
    if (rank == 0) {
      program.recv(ir::out(1), 1);
      continue;
    }
    const ir::ChunkSet kept = program.scratch(like);
    program.recv(kept, 0).copy(kept, ir::out(0));
  }
  const ir::Schedule schedule = std::move(build).finish();
  const auto proof = ir::verify(schedule);
  EXPECT_TRUE(proof) << proof.error().what;
  return *lower(schedule, *proof, placement_of(2, 2), {});
}

TEST(UnevenBlocks, AreRefusedWhereAPlaceIsMadeForAnotherBlock) {
  const Placement apart = placement_of(2, 2);
  const Lowered fits = gather_through(ir::out(0));
  EXPECT_TRUE(check(fits, apart));
  EXPECT_TRUE(check(fits, apart, kAnySizes));
  const Lowered too_small = gather_through(ir::out(1));
  EXPECT_TRUE(check(too_small, apart));  // as long as all blocks are equal
  const Status status = check(too_small, apart, kAnySizes);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().what.find("to be as long as chunk 1"), std::string::npos)
      << status.error().what;
}

TEST(UnevenBlocks, GiveEveryChunkTheNumberItHasAmongAll) {
  const ir::Request gather{.collective = Collective::kAllGather, .ranks = 4};
  const ir::Request scatter{.collective = Collective::kReduceScatter, .ranks = 4};
  using enum ir::Space;
  EXPECT_EQ(ir::chunk_of_all(gather, 3, 2, kInput, 1), 7U);
  EXPECT_EQ(ir::chunk_of_all(gather, 3, 2, kOutput, 1), 1U);
  EXPECT_EQ(ir::chunk_of_all(scatter, 3, 2, kInput, 1), 1U);
  EXPECT_EQ(ir::chunk_of_all(scatter, 3, 2, kOutput, 1), 7U);
}

}  // namespace
}  // namespace tutti::lower
