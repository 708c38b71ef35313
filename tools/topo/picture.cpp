#include "tools/topo/picture.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tools/topo/ink.hpp"
#include "tools/topo/layout.hpp"
#include "tools/topo/wiring.hpp"

namespace tutti::tools {
namespace {

using topo::NodeId;
using topo::NodeKind;

struct Look {
  std::string_view fill;
  std::string_view stroke;
};

Look look_of(NodeKind kind) {
  static constexpr Look kLooks[] = {{"#d9f0dc", "#3d9a50"},   // GPU
                                    {"#e9e0f3", "#9068b8"},   // CPU
                                    {"#e1eaf6", "#5a84bd"},   // PCI
                                    {"#bfe3c5", "#3d9a50"},   // NVSwitch
                                    {"#fde9d3", "#dd8127"},   // NIC
                                    {"#fbd9b0", "#dd8127"}};  // switch
  return kLooks[static_cast<int>(kind)];
}

/// The links that the picture shows, or some of them: in a grid those between its places.
std::vector<Wire> shown_wires(const Arrangement& arrangement, const Layout& layout) {
  std::vector<Wire> shown;
  for (const Wire& wire : arrangement.wires()) {
    const bool a = layout.nodes.contains(wire.a), b = layout.nodes.contains(wire.b);
    if (layout.places.empty() ? a || b : a && b) shown.push_back(wire);
  }
  return shown;
}

class Picture {
 public:
  Picture(const Arrangement& arrangement, const Layout& layout)
      : arrangement_(arrangement), topology_(arrangement.topology()), layout_(layout) {}

  void draw(Ink& ink) const {
    draw_frames(ink);
    draw_wires_inside(ink, arrangement_, layout_);
    for (const auto& [node, box] : layout_.nodes)
      if (is_bar(arrangement_, node)) draw_box(ink, node, box);
    draw_network(ink, arrangement_, layout_);
    for (const auto& [node, box] : layout_.nodes)
      if (is_bar(arrangement_, node))
        draw_label(ink, node, box);
      else
        draw_box(ink, node, box);
  }

 private:
  void draw_frames(Ink& ink) const {
    for (const HostBox& host : layout_.hosts) {
      ink.box(host.frame, "#fafafa", "#999", 8);
      ink.words(host.frame.x + 14, host.frame.y + (host.brief ? 48 : 20),
                topology_.hosts()[host.host].name, {.size = 14, .anchor = "start", .bold = true});
      for (const Box& group : host.groups) ink.box(group, "#f1f0f5", "#d8d4e2", 6);
      if (host.brief) draw_summary(ink, host);
    }
  }

  static void draw_summary(Ink& ink, const HostBox& host) {
    double y = host.frame.y + 66;
    std::string line;
    const auto flush = [&] {
      ink.words(host.frame.x + 14, y, line, {.size = 11, .colour = "#555", .anchor = "start"});
      y += 15;
      line.clear();
    };
    for (std::size_t at = 0; at < host.summary.size();) {
      const std::size_t comma = std::min(host.summary.find(", ", at), host.summary.size());
      const std::string part = host.summary.substr(at, comma - at);
      if (!line.empty() && text_width(line + ", " + part, 11) > host.frame.width - 16) flush();
      line += (line.empty() ? "" : ", ") + part;
      at = comma + 2;
    }
    flush();
  }

  void draw_box(Ink& ink, NodeId node, const Box& box) const {
    const auto place = layout_.places.find(node);
    const Look look =
        look_of(place == layout_.places.end() ? topology_.node(node).kind : place->second.look);
    const std::string details = details_of(arrangement_, node);
    ink.begin_group(topo::full_name(topology_, node) + (details.empty() ? "" : ": " + details));
    ink.box(box, look.fill, look.stroke);
    if (!is_bar(arrangement_, node)) draw_label(ink, node, box);
    ink.end_group();
  }

  void draw_label(Ink& ink, NodeId node, const Box& box) const {
    const auto place = layout_.places.find(node);
    const bool is_named = place != layout_.places.end() && !place->second.label.first.empty();
    const Label label = is_named ? place->second.label : label_of(arrangement_, node);
    if (text_width(label.first, 11) > box.width) return;  // a host in brief
    const NodeKind kind = topology_.node(node).kind;
    if (kind == NodeKind::kCpu && is_bar(arrangement_, node)) {
      ink.words(box.x + 8, box.center_y() + 4,
                label.first + (label.second.empty() ? "" : ", " + label.second),
                {.anchor = "start", .bold = true});
      return;
    }
    const bool alone = label.second.empty();
    ink.words(box.center_x(), box.center_y() + (alone ? 4 : -2), label.first,
              {.size = kind == NodeKind::kPci ? 10.0 : 11.0, .bold = kind == NodeKind::kGpu});
    if (!alone)
      ink.words(box.center_x(), box.center_y() + 12, label.second, {.size = 9, .colour = "#555"});
  }

  const Arrangement& arrangement_;
  const topo::Topology& topology_;
  const Layout& layout_;
};

}  // namespace

std::string picture(const Arrangement& arrangement, std::string_view title,
                    const std::vector<Measured>& measured) {
  const topo::Topology& topology = arrangement.topology();
  std::vector<NodeId> all(topology.nodes().size());
  for (NodeId node = 0; node < all.size(); ++node) all[node] = node;

  double y = 50;
  const Layout layout = lay_out(arrangement, y + 39 + 17 * static_cast<double>(measured.size()));
  Ink ink(shown_wires(arrangement, layout), layout.thickest_network);
  ink.words(24, 30, title, {.size = 17, .anchor = "start", .bold = true});
  double width = std::max(layout.width, 2 * kMargin + text_width(title, 17));
  const auto say = [&](std::string_view text, std::string_view colour) {
    ink.words(24, y, text, {.size = 12, .colour = colour, .anchor = "start"});
    y += 17;
    width = std::max(width, 2 * kMargin + text_width(text, 12));
  };
  say(fmt::format("{} host{}: {}", topology.hosts().size(), topology.hosts().size() == 1 ? "" : "s",
                  !layout.places.empty() && layout.hosts.empty()
                      ? "a GPU and a router each"
                      : count_of_nodes(arrangement, all)),
      "#666");
  for (const Measured& row : measured) say("measured " + sentence(row, topology), "#a03020");
  if (!layout.note.empty()) say(layout.note, "#666");
  Picture(arrangement, layout).draw(ink);
  const bool of_amd = std::ranges::any_of(arrangement.topology().nodes(), is_of_amd);
  const double bottom = ink.legend(of_amd, layout.height + 30, width);
  return ink.text(width, bottom + 6);
}

}  // namespace tutti::tools
