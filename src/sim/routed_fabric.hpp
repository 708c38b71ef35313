// A fabric on which some lanes take ways of their own.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/sim/fabric.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// The links that the messages of one lane between two ranks take. Value.
struct LanePath {
  Rank from = 0;
  Rank to = 0;
  Lane lane = 0;
  std::vector<LinkId> links;  ///< in order; none twice
};

/// The fabric below it, but for the lanes that a schedule brings paths for: one that was planned
/// with the network in mind knows better than routers do which way each of its messages should go.
class RoutedFabric final : public Fabric {
 public:
  /// The fabric must outlive this.
  RoutedFabric(Fabric& below, std::span<const LanePath> paths);

  [[nodiscard]] std::int32_t ranks() const override { return below_.ranks(); }
  [[nodiscard]] std::span<const Link> links() const override { return below_.links(); }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;

 private:
  Fabric& below_;
  std::map<std::tuple<Rank, Rank, Lane>, std::vector<LinkId>> paths_;
};

}  // namespace tutti::sim
