#include "tools/topo/wiring.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

namespace tutti::tools {
namespace {

using topo::LinkKind;
using topo::NodeId;
using topo::NodeKind;

enum class Side { kTop, kBottom };

class Wiring {
 public:
  Wiring(const Arrangement& arrangement, const Layout& layout)
      : arrangement_(arrangement), topology_(arrangement.topology()), layout_(layout) {
    for (const HostBox& host : layout.hosts) {
      hosts_[host.host] = &host;
      if (!host.brief && joins_all_cpus(arrangement, host.host)) buses_.insert(host.host);
    }
    wires_ = drawn_wires();
    assign_ports();
  }

  void draw_inside(Ink& ink) const {
    for (const Wire* wire : wires_)
      if (wire->kind != LinkKind::kNetwork) draw_wire(ink, *wire);
  }

  void draw_network(Ink& ink) const {
    for (const Wire* wire : wires_)
      if (wire->kind == LinkKind::kNetwork) draw_wire(ink, *wire);
    draw_outside(ink);
  }

 private:
  [[nodiscard]] const Box* box_of(NodeId node) const {
    const auto at = layout_.nodes.find(node);
    return at == layout_.nodes.end() ? nullptr : &at->second;
  }

  [[nodiscard]] std::vector<const Wire*> drawn_wires() const {
    std::vector<const Wire*> drawn;
    for (const Wire& wire : arrangement_.wires())
      if (box_of(wire.a) != nullptr && box_of(wire.b) != nullptr && is_drawn(wire))
        drawn.push_back(&wire);
    return drawn;
  }

  /// Of the links of a grid, those between its planes are not, nor those to the host below it.
  [[nodiscard]] bool is_drawn(const Wire& wire) const {
    const Place *a = place_of(wire.a), *b = place_of(wire.b);
    if (a == nullptr && b == nullptr) return true;
    return a != nullptr && b != nullptr && a->plane == b->plane;
  }

  [[nodiscard]] const Place* place_of(NodeId node) const {
    const auto at = layout_.places.find(node);
    return at == layout_.places.end() ? nullptr : &at->second;
  }

  /// Lines that end at the same side of a box share it evenly, in the order of where they come
  /// from.
  void assign_ports() {
    std::map<std::pair<NodeId, Side>, std::vector<std::pair<double, const Wire*>>> ends;
    const auto add = [&](NodeId node, Side side, const Wire* wire) {
      ends[{node, side}].emplace_back(box_of(wire->other(node))->center_x(), wire);
    };
    for (const Wire* wire : wires_) {
      if (place_of(wire->a) != nullptr) continue;
      const Box &a = *box_of(wire->a), &b = *box_of(wire->b);
      if (is_arc(*wire)) {
        const Side side =
            topology_.node(wire->a).kind == NodeKind::kGpu ? Side::kBottom : Side::kTop;
        add(wire->a, side, wire);
        add(wire->b, side, wire);
      } else if (wire->kind == LinkKind::kNetwork) {
        const NodeId upper = a.y < b.y ? wire->a : wire->b;
        add(upper, Side::kBottom, wire);
        if (topology_.node(wire->other(upper)).kind == NodeKind::kSwitch)
          add(wire->other(upper), Side::kTop, wire);
      }
    }
    for (auto& [end, all] : ends) {
      std::ranges::sort(all);  // of equals, in the order of wires
      const Box& box = *box_of(end.first);
      for (std::size_t i = 0; i < all.size(); ++i)
        ports_[{end.first, end.second, all[i].second}] =
            box.x +
            box.width * (static_cast<double>(i) + 1) / (static_cast<double>(all.size()) + 1);
    }
  }

  [[nodiscard]] double port(NodeId node, Side side, const Wire& wire) const {
    const auto at = ports_.find({node, side, &wire});
    return at == ports_.end() ? box_of(node)->center_x() : at->second;
  }

  /// Whether a line bows from one box to another in the same row.
  [[nodiscard]] bool is_arc(const Wire& wire) const {
    const NodeKind a = topology_.node(wire.a).kind, b = topology_.node(wire.b).kind;
    if (a != b || arrangement_.in_tree(wire)) return false;
    return a == NodeKind::kGpu || (a == NodeKind::kCpu && is_bar(arrangement_, wire.a) &&
                                   is_bar(arrangement_, wire.b) && !between_two(wire));
  }

  /// Whether the wire joins the only two CPUs of a host.
  [[nodiscard]] bool between_two(const Wire& wire) const {
    const topo::HostId host = topology_.node(wire.a).host;
    return std::ranges::count_if(topology_.nodes_of(host), [&](NodeId node) {
             return topology_.node(node).kind == NodeKind::kCpu;
           }) == 2;
  }

  void draw_wire(Ink& ink, const Wire& wire) const {
    if (place_of(wire.a) != nullptr)
      ink.wire(wire, path_in_grid(wire));
    else if (arrangement_.in_tree(wire))
      ink.wire(wire, tree_path(wire));
    else if (is_arc(wire))
      ink.wire(wire, is_on_bus(wire) ? bus_path(wire) : arc_path(wire));
    else if (wire.kind == LinkKind::kNetwork)
      draw_cable(ink, wire);
    else
      ink.wire(wire, straight_path(wire));
  }

  /// Down from a node to what hangs from it; to a NIC around the corner, so that the line out of it
  /// stands free.
  [[nodiscard]] std::string tree_path(const Wire& wire) const {
    const NodeId child = arrangement_.parent(wire.a) == wire.b ? wire.a : wire.b;
    const Box &above = *box_of(wire.other(child)), &below = *box_of(child);
    if (topology_.node(child).kind == NodeKind::kNic && below.x >= above.right())
      return fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}", above.right(), above.center_y() + 7,
                         below.center_x() - 10, below.y);
    return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}",
                       std::clamp(below.center_x(), above.x, above.right()), above.bottom(),
                       below.center_x(), below.y);
  }

  [[nodiscard]] std::string arc_path(const Wire& wire) const {
    const Box &a = *box_of(wire.a), &b = *box_of(wire.b);
    const bool below = topology_.node(wire.a).kind == NodeKind::kGpu;
    const Side side = below ? Side::kBottom : Side::kTop;
    const double x1 = port(wire.a, side, wire), x2 = port(wire.b, side, wire);
    const double depth = below ? arc_depth(a, b) : -std::min(14 + 0.07 * std::abs(x2 - x1), 62.0);
    const double y1 = below ? a.bottom() : a.y, y2 = below ? b.bottom() : b.y;
    return fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, x1,
                       y1 + depth, x2, y2 + depth, x2, y2);
  }

  /// Whether the wire is one of those between all CPUs of a host that are drawn as one line.
  [[nodiscard]] bool is_on_bus(const Wire& wire) const {
    return wire.kind == LinkKind::kSystem && topology_.node(wire.a).kind == NodeKind::kCpu &&
           buses_.contains(topology_.node(wire.a).host);
  }

  /// Above all CPUs of a host.
  [[nodiscard]] std::string bus_path(const Wire& wire) const {
    const Box &a = *box_of(wire.a), &b = *box_of(wire.b);
    constexpr double kAbove = 26;
    return fmt::format("M{:.1f} {:.1f}V{:.1f}H{:.1f}V{:.1f}", a.center_x(), a.y, a.y - kAbove,
                       b.center_x(), b.y);
  }

  /// Up from the lower end to the upper, out of a host's box upright.
  void draw_cable(Ink& ink, const Wire& wire) const {
    const bool a_above = box_of(wire.a)->y < box_of(wire.b)->y;
    const NodeId above = a_above ? wire.a : wire.b, below = wire.other(above);
    const double x = topology_.node(below).kind == NodeKind::kSwitch ? port(below, Side::kTop, wire)
                                                                     : out_of(below);
    const double y = box_of(below)->y, top = top_of(below);
    if (top < y) ink.wire(wire, fmt::format("M{:.1f} {:.1f}V{:.1f}", x, y, top), true);
    ink.wire(wire, fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x, top,
                               port(above, Side::kBottom, wire), box_of(above)->bottom()));
  }

  /// Where a line leaves a NIC upwards.
  [[nodiscard]] double out_of(NodeId nic) const {
    const Box& box = *box_of(nic);
    const auto host = hosts_.find(topology_.node(nic).host);
    return host != hosts_.end() && host->second->brief ? box.center_x() : box.center_x() + 10;
  }

  /// The top of the host that a node is drawn in; of the node itself where it is in none.
  [[nodiscard]] double top_of(NodeId node) const {
    const auto host = hosts_.find(topology_.node(node).host);
    return host == hosts_.end() ? box_of(node)->y : host->second->frame.y;
  }

  [[nodiscard]] std::string straight_path(const Wire& wire) const {
    const Box &a = *box_of(wire.a), &b = *box_of(wire.b);
    const Box &upper = a.y <= b.y ? a : b, &lower = a.y <= b.y ? b : a;
    if (upper.y == lower.y) {  // side by side
      const Box &left = a.x < b.x ? a : b, &right = a.x < b.x ? b : a;
      return fmt::format("M{:.1f} {:.1f}H{:.1f}", left.right(), left.center_y() - 7, right.x);
    }
    const Box& narrow = upper.width < lower.width ? upper : lower;
    const double x = narrow.center_x();
    return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", std::clamp(x, upper.x, upper.right()),
                       upper.bottom(), std::clamp(x, lower.x, lower.right()), lower.y);
  }

  /// To the switch of a row or column beside the places of that line, otherwise as grid_path().
  [[nodiscard]] std::string path_in_grid(const Wire& wire) const {
    const bool a_joins = place_of(wire.a)->joins_row || place_of(wire.a)->joins_column;
    const NodeId joint = a_joins ? wire.a : wire.b;
    const Box &from = *box_of(wire.other(joint)), &to = *box_of(joint);
    if (place_of(joint)->joins_row)
      return fmt::format("M{:.1f} {:.1f}V{:.1f}H{:.1f}", from.center_x() - 14, from.bottom(),
                         to.center_y(), to.x);
    if (place_of(joint)->joins_column)
      return fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}", from.right(), from.center_y() - 8,
                         to.center_x(), to.y);
    return grid_path(from, to);
  }

  /// Between neighbours straight, around the torus in a bow.
  [[nodiscard]] static std::string grid_path(const Box& a, const Box& b) {
    const double dx = b.center_x() - a.center_x(), dy = b.center_y() - a.center_y();
    const double x1 = a.center_x(), y1 = a.center_y(), x2 = b.center_x(), y2 = b.center_y();
    constexpr double kFar = 150, kBow = 48;
    if ((std::abs(dx) > 1 && std::abs(dy) > 1) || std::hypot(dx, dy) < kFar)
      return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x1, y1, x2, y2);
    const double bow_x = std::abs(dx) > 1 ? 0 : -kBow - 14, bow_y = std::abs(dx) > 1 ? -kBow : 0;
    return fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1,
                       x1 + bow_x, y1 + bow_y, x2 + bow_x, y2 + bow_y, x2, y2);
  }

  /// Lines to what lies outside of a NIC and is no box of its own.
  void draw_outside(Ink& ink) const {
    for (const auto& [node, box] : layout_.nodes)
      for (const std::uint32_t at : arrangement_.wires_at(node)) {
        const Wire& wire = arrangement_.wires()[at];
        const bool leaves = arrangement_.is_outside(wire.other(node)) ||
                            (place_of(wire.other(node)) != nullptr && place_of(node) == nullptr);
        if (wire.kind != LinkKind::kNetwork || !leaves) continue;
        const double x = out_of(node), y = top_of(node) - 12;
        ink.wire(wire, fmt::format("M{:.1f} {:.1f}V{:.1f}", x, box.y, y), true);
        ink.open_end(wire, x, y);
      }
  }

  const Arrangement& arrangement_;
  const topo::Topology& topology_;
  const Layout& layout_;
  std::map<topo::HostId, const HostBox*> hosts_;
  std::set<topo::HostId> buses_;  ///< whose CPUs are joined by one line
  std::vector<const Wire*> wires_;
  std::map<std::tuple<NodeId, Side, const Wire*>, double> ports_;
};

}  // namespace

void draw_wires_inside(Ink& ink, const Arrangement& arrangement, const Layout& layout) {
  Wiring(arrangement, layout).draw_inside(ink);
}

void draw_network(Ink& ink, const Arrangement& arrangement, const Layout& layout) {
  Wiring(arrangement, layout).draw_network(ink);
}

}  // namespace tutti::tools
