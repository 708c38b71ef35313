// What ranks know of each other's progress while a lowered program is replayed (replay.hpp): vector
// clocks. Ranks of a host order things for each other, by the progress that they publish; messages
// order nothing. Used inside this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "src/lower/program.hpp"

namespace tutti::lower {

class HostClocks {
 public:
  explicit HostClocks(const Placement& placement);

  /// The ranks of its host, itself included.
  [[nodiscard]] const std::vector<Rank>& neighbours(Rank rank) const {
    return hosts_.at(ranks_[static_cast<std::size_t>(rank)].host);
  }
  /// What `rank` knows of the clock of a rank of its host.
  [[nodiscard]] std::uint32_t known(Rank rank, Rank of) const {
    return at(rank).clock[at(of).place];
  }
  /// The rank does something.
  void tick(Rank rank) { ++at(rank).clock[at(rank).place]; }
  /// It tells its host how far it has come; what it knows is known to whoever reads that.
  void publish(Rank rank, std::uint64_t progress) {
    at(rank).published.push_back({progress, at(rank).clock});
  }
  /// `rank` learns what `peer` knew when it first published a progress of at least `position`;
  /// false if that is yet to come.
  bool join(Rank rank, Rank peer, std::uint64_t position);

 private:
  using Clock = std::vector<std::uint32_t>;  ///< of the ranks of a host
  struct Published {
    std::uint64_t progress = 0;
    Clock clock;
  };
  struct RankClock {
    std::int32_t host = 0;
    std::size_t place = 0;  ///< in the clocks of its host
    Clock clock;
    std::vector<Published> published;
  };
  RankClock& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const RankClock& at(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }

  std::vector<RankClock> ranks_;
  std::map<std::int32_t, std::vector<Rank>> hosts_;
};

}  // namespace tutti::lower
