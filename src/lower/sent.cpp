#include "src/lower/sent.hpp"

#include <map>
#include <utility>

#include "src/ir/blocks.hpp"

namespace tutti::lower {
namespace {

using ir::ChunkSet;
using ir::Space;

/// What one rank sends, as its program is read.
class Sender {
 public:
  Sender(const ir::Schedule& schedule, const Placement& placement, Rank rank)
      : schedule_(schedule), placement_(placement), rank_(rank) {}

  std::vector<SentChunks> run() {
    for (const ir::Step& step : schedule_.programs[rank_].steps)
      if (step.verb == ir::Verb::kSend)
        send(step.src, !placement_.mapped(rank_, step.peer));
      else if (uses_group(step.verb))
        send(step.src, true);  // to the network
    return in_runs();
  }

 private:
  struct Times {
    std::uint32_t sent = 0, to_other_hosts = 0;
    friend bool operator==(const Times&, const Times&) = default;
  };
  using Key = std::pair<ir::FormatId, std::uint32_t>;  ///< format, and as long as that chunk

  void send(const ChunkSet& set, bool leaves_host) {
    for (std::uint32_t i = 0; i < set.count; ++i) {
      Times& times = times_[{set.format, like(set.space, set.at(i))}];
      ++times.sent;
      if (leaves_host) ++times.to_other_hosts;
    }
  }

  [[nodiscard]] std::uint32_t like(Space space, std::uint32_t chunk) const {
    if (space == Space::kScratch) return schedule_.programs[rank_].scratch[chunk];
    return ir::chunk_of_all(schedule_.request, schedule_.chunks_per_block, rank_, space, chunk);
  }

  [[nodiscard]] std::vector<SentChunks> in_runs() const {
    std::vector<SentChunks> runs;
    Times last;
    for (const auto& [key, times] : times_) {
      const auto [format, chunk] = key;
      const bool continues = !runs.empty() && runs.back().format == format && last == times &&
                             runs.back().first + runs.back().count == chunk;
      if (continues)
        ++runs.back().count;
      else
        runs.push_back({chunk, 1, times.sent, times.to_other_hosts, format});
      last = times;
    }
    return runs;
  }

  const ir::Schedule& schedule_;
  const Placement& placement_;
  const Rank rank_;
  std::map<Key, Times> times_;
};

}  // namespace

std::vector<std::vector<SentChunks>> sent_chunks(const ir::Schedule& schedule,
                                                 const Placement& placement) {
  std::vector<std::vector<SentChunks>> sent(schedule.programs.size());
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    sent[rank] = Sender(schedule, placement, rank).run();
  return sent;
}

}  // namespace tutti::lower
