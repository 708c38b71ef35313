// A fabric on which some lanes have their own paths.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/sim/fabric.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// The links of one lane's path between two ranks. Value.
struct LanePath {
  Rank from = 0;
  Rank to = 0;
  Lane lane = 0;
  std::vector<LinkId> links;  ///< in order; none twice
};

/// The fabric below, except for lanes for which a schedule has paths. A schedule planned for this
/// network knows better than routers which path each message should take.
class RoutedFabric final : public Fabric {
 public:
  /// `below` must outlive this object.
  RoutedFabric(Fabric& below, std::span<const LanePath> paths);

  [[nodiscard]] std::int32_t ranks() const override { return below_.ranks(); }
  [[nodiscard]] std::span<const Link> links() const override { return below_.links(); }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;
  [[nodiscard]] Result<std::vector<NetworkTree>> trees(std::span<const ir::Group> groups) override {
    return below_.trees(groups);
  }

 private:
  Fabric& below_;
  std::map<std::tuple<Rank, Rank, Lane>, std::vector<LinkId>> paths_;
};

}  // namespace tutti::sim
