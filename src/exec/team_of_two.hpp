// For tests: two ranks in one process that see each other as ranks of different processes would.
#pragma once

#include <memory>

#include <gtest/gtest.h>

#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

class TeamOfTwo : public ::testing::Test {
 protected:
  TeamOfTwo() {
    for (Rank rank = 0; rank < 2; ++rank) {
      auto made = Team::create(rank, 2, staging_, boards_[rank], {});
      EXPECT_TRUE(made);
      teams_[rank] = *std::move(made);
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      const Rank peer = 1 - rank;
      EXPECT_TRUE(teams_[rank]->add_mapped(peer, heap_->mapping(), teams_[peer]->block_offset(),
                                           nullptr, "the peer"));
      teams_[rank]->set_placement({{0, 0}});
    }
  }

  /// A broadcast of `bytes` bytes from rank 0.
  [[nodiscard]] Result<std::unique_ptr<Plan>> broadcast(Rank rank, lower::ProgramProtocol protocol,
                                                        std::size_t bytes) const {
    lower::Op op;
    op.like = {0};
    op.destinations = {{lower::ProgramMemory::kOutput, kNoRank, 0, {0}}};
    auto lowered = std::make_shared<lower::Lowered>();
    lowered->request = {Collective::kBroadcast, 2, 0, false};
    lowered->protocol = protocol;
    lowered->programs.resize(2);
    for (const lower::Operand& source :
         {lower::Operand{lower::ProgramMemory::kInput, kNoRank, 0, {0}},
          lower::Operand{lower::ProgramMemory::kPublished, 0, 0, {0}}}) {
      op.sources = {source};
      lowered->programs[source.memory == lower::ProgramMemory::kInput ? 0 : 1].ops = {op};
    }
    return Plan::bind(std::move(lowered), *teams_[rank], {bytes, DataType::kInt8});
  }

  std::shared_ptr<SharedHeap> heap_ = *SharedHeap::create(8 << 20);
  StagingPool staging_{heap_};
  LocalBoard boards_[2];
  std::unique_ptr<Team> teams_[2];
};

}  // namespace tutti::exec
