#include "src/sim/rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tutti::sim {
namespace {

/// Runs all programs in their order, each as far as the messages it needs have been sent, and the
/// other members of its groups have come.
class RoundCount {
 public:
  RoundCount(const ir::Schedule& schedule, const ir::Matching& matching,
             const ir::GroupOperations& operations)
      : schedule_(schedule),
        matching_(matching),
        ranks_(schedule.programs.size()),
        received_(matching.channels.size(), 0) {
    rounds_.messages.resize(matching.channels.size());
    for (const auto& of_group : operations) {
      rounds_.operations.emplace_back(of_group.size(), 0);
      auto& meetings = meetings_.emplace_back();
      for (const ir::GroupOperation& operation : of_group)
        meetings.push_back({.missing = operation.parts.size()});
    }
    for (Progress& rank : ranks_) rank.operations.resize(operations.size(), 0);
  }

  Rounds run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (ranks_[rank].next < schedule_.programs[rank].steps.size() && pass(rank))
          moved = true;
    }
    for (std::size_t channel = 0; channel < received_.size(); ++channel)
      rounds_.messages[channel].resize(matching_.channels[channel].sends.size(), 0);
    return std::move(rounds_);
  }

 private:
  struct Progress {
    ir::StepId next = 0;
    std::uint32_t round = 0;                     // of what it would send now
    bool has_come = false;                       // to the operation that is its next step
    std::vector<std::uint32_t> operations = {};  // of each group, how many are behind it
  };
  struct Meeting {
    std::size_t missing = 0;
    std::uint32_t round = 0;
  };

  /// False when the rank's next step is a receive whose message has not been sent, or an operation
  /// to which others have yet to come.
  bool pass(std::size_t rank) {
    Progress& progress = ranks_[rank];
    const ir::Step& step = schedule_.programs[rank].steps[progress.next];
    if (ir::uses_group(step.verb) && !meet(progress, step.group)) return false;
    const ir::ChannelId channel = matching_.channel_of[rank][progress.next];
    if (step.verb == ir::Verb::kRecv) {
      if (received_[channel] == rounds_.messages[channel].size()) return false;
      progress.round =
          std::max(progress.round, rounds_.messages[channel][received_[channel]++] + 1);
    }
    if (step.verb == ir::Verb::kSend) rounds_.messages[channel].push_back(progress.round);
    ++progress.next;
    return true;
  }

  bool meet(Progress& progress, ir::GroupId group) {
    const std::uint32_t k = progress.operations[group];
    Meeting& meeting = meetings_[group][k];
    if (!std::exchange(progress.has_come, true)) {
      --meeting.missing;
      meeting.round = std::max(meeting.round, progress.round);
    }
    if (meeting.missing > 0) return false;
    rounds_.operations[group][k] = meeting.round;
    progress.round = meeting.round + 1;
    progress.has_come = false;
    ++progress.operations[group];
    return true;
  }

  const ir::Schedule& schedule_;
  const ir::Matching& matching_;
  std::vector<Progress> ranks_;
  std::vector<std::vector<Meeting>> meetings_;  // of the operations of each group
  std::vector<std::size_t> received_;           // messages of each channel
  Rounds rounds_;
};

}  // namespace

Rounds count_rounds(const ir::Schedule& schedule, const ir::Matching& matching,
                    const ir::GroupOperations& operations) {
  return RoundCount(schedule, matching, operations).run();
}

}  // namespace tutti::sim
