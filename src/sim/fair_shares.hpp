// How flows share links: max-min fairness, kept up to date as flows come and go.
//
// An allocation is max-min fair when no flow can be given more without taking from one that has no
// more than it. It is unique, and progressive filling finds it: the rates of all flows grow alike
// until a link is full; its flows keep what they have, and the others grow on (Bertsekas, Gallager,
// "Data Networks", 1992, section 6.5.2).
//
// A flow that comes or goes can change the rates of those flows alone that it is joined with by
// links that flows share, directly or through others: only this component is computed anew.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::sim {

using LinkId = std::uint32_t;  ///< position in the list of capacities
using FlowId = std::uint32_t;  ///< given by add(), free to be given again after remove()

/// Not safe for use by several threads at once.
class FairShares {
 public:
  /// `capacities`: of each link, greater than 0. Rates have the same unit.
  explicit FairShares(std::vector<double> capacities);

  /// A flow over `path`: one link or more, none twice. The path must stay where it is until the
  /// flow is removed.
  FlowId add(std::span<const LinkId> path);
  void remove(FlowId flow);

  /// Computes the rates after flows were added and removed. Returns the flows whose rate differs
  /// from before; those just added are among them. Valid until the next call of add() or update().
  std::span<const FlowId> update();

  /// As of the last update(); 0 for a flow added since.
  [[nodiscard]] double rate(FlowId flow) const { return flows_[flow].rate; }
  [[nodiscard]] std::span<const LinkId> path(FlowId flow) const { return flows_[flow].path; }
  [[nodiscard]] std::size_t flows_on(LinkId link) const { return links_[link].flows.size(); }

 private:
  struct Flow {
    std::span<const LinkId> path;
    std::vector<std::uint32_t> places;  // where it stands in each link's list
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
    double left = 0;         // capacity that is not given away yet
    std::uint32_t open = 0;  // flows whose rate still grows
  };

  void mark_changed(LinkId link);
  /// Collects the links and flows of the component around `link`.
  void explore(LinkId link);
  void see(LinkId link);
  /// Progressive filling over the component.
  void fill();
  void close(FlowId flow, double rate);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<FlowId> free_;
  std::vector<LinkId> changed_links_;
  std::uint64_t visit_ = 0;
  // Of the component in work; members so that they keep their memory.
  std::vector<LinkId> component_;
  std::vector<FlowId> members_;
  std::vector<LinkId> full_;
  std::vector<FlowId> changed_flows_;
};

}  // namespace tutti::sim
