// Divides links among flows by max-min fairness, updated as flows come and go.
//
// An allocation is max-min fair if no flow can get more without taking from a flow that has no more
// than it. It is unique, and progressive filling finds it. The rates of all flows grow alike until
// a link is full; then its flows keep their rates and the others grow on (Bertsekas, Gallager,
// "Data Networks", 1992, section 6.5.2).
//
// A flow that comes or goes can only change flows that are connected with it through shared links,
// directly or indirectly. Only this component is recomputed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::sim {

using LinkId = std::uint32_t;  ///< position in the list of capacities
using FlowId = std::uint32_t;  ///< returned by add(); reused after remove()

/// One thread at a time.
class FairShares {
 public:
  /// `capacities`: one per link, greater than 0. Rates have the same unit.
  explicit FairShares(std::vector<double> capacities);

  /// Adds a flow over `path`: one or more links, none twice. The path must stay in memory until the
  /// flow is removed.
  FlowId add(std::span<const LinkId> path);
  void remove(FlowId flow);

  /// Computes the rates after flows were added or removed. Returns the flows whose rate changed,
  /// including the new ones. Valid until the next add() or update().
  std::span<const FlowId> update();

  /// As of the last update(); 0 for a flow added since.
  [[nodiscard]] double rate(FlowId flow) const { return flows_[flow].rate; }
  [[nodiscard]] std::span<const LinkId> path(FlowId flow) const { return flows_[flow].path; }
  [[nodiscard]] std::size_t flows_on(LinkId link) const { return links_[link].flows.size(); }

 private:
  struct Flow {
    std::span<const LinkId> path;
    std::vector<std::uint32_t> places;  // its position in each link's list
    double rate = 0;
    double old_rate = 0;
    std::uint64_t visit = 0;  // the update that saw it last
    bool open = false;        // its rate still grows
  };
  struct Seat {
    FlowId flow;
    std::uint32_t hop;  // the link is flows_[flow].path[hop]
  };
  struct Link {
    double capacity = 0;
    std::vector<Seat> flows;
    std::uint64_t visit = 0;
    bool changed = false;
    double left = 0;         // capacity not assigned yet
    std::uint32_t open = 0;  // number of flows whose rate still grows
  };

  void mark_changed(LinkId link);
  /// Collects the links and flows of the component around `link`.
  void explore(LinkId link);
  void see(LinkId link);
  /// Progressive filling on the component.
  void fill();
  void close(FlowId flow, double rate);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<FlowId> free_;
  std::vector<LinkId> changed_links_;
  std::uint64_t visit_ = 0;
  // The current component. Members, to reuse their memory.
  std::vector<LinkId> component_;
  std::vector<FlowId> members_;
  std::vector<LinkId> full_;
  std::vector<FlowId> changed_flows_;
};

}  // namespace tutti::sim
