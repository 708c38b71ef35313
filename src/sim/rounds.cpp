#include "src/sim/rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tutti::sim {
namespace {

/// Runs all programs in their order, each as far as the messages it needs have been sent.
class RoundCount {
 public:
  RoundCount(const ir::Schedule& schedule, const ir::Matching& matching)
      : schedule_(schedule),
        matching_(matching),
        ranks_(schedule.programs.size()),
        sent_(matching.channels.size()),
        received_(matching.channels.size(), 0) {}

  std::vector<std::vector<std::uint32_t>> run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (ranks_[rank].next < schedule_.programs[rank].steps.size() && pass(rank))
          moved = true;
    }
    for (std::size_t channel = 0; channel < sent_.size(); ++channel)
      sent_[channel].resize(matching_.channels[channel].sends.size(), 0);
    return std::move(sent_);
  }

 private:
  struct Progress {
    ir::StepId next = 0;
    std::uint32_t round = 0;  // of what it would send now
  };

  /// False when the rank's next step is a receive whose message has not been sent.
  bool pass(std::size_t rank) {
    Progress& progress = ranks_[rank];
    const ir::Verb verb = schedule_.programs[rank].steps[progress.next].verb;
    const ir::ChannelId channel = matching_.channel_of[rank][progress.next];
    if (verb == ir::Verb::kRecv) {
      if (received_[channel] == sent_[channel].size()) return false;
      progress.round = std::max(progress.round, sent_[channel][received_[channel]++] + 1);
    }
    if (verb == ir::Verb::kSend) sent_[channel].push_back(progress.round);
    ++progress.next;
    return true;
  }

  const ir::Schedule& schedule_;
  const ir::Matching& matching_;
  std::vector<Progress> ranks_;
  std::vector<std::vector<std::uint32_t>> sent_;  // rounds of the messages of each channel
  std::vector<std::size_t> received_;             // messages of each channel
};

}  // namespace

std::vector<std::vector<std::uint32_t>> count_rounds(const ir::Schedule& schedule,
                                                     const ir::Matching& matching) {
  return RoundCount(schedule, matching).run();
}

}  // namespace tutti::sim
