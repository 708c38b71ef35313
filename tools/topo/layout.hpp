// Places the parts of a picture of a topology. Lengths are in pixels, y grows downwards.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/topo/arrangement.hpp"

namespace tutti::tools {

/// Left and right of everything; and of a bar of NVSwitches.
inline constexpr double kMargin = 24;
inline constexpr double kPlaneHeight = 24;

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  [[nodiscard]] double center_x() const { return x + width / 2; }
  [[nodiscard]] double center_y() const { return y + height / 2; }
  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
};

/// A host's box and the groups in it, each a CPU and what hangs from it.
struct HostBox {
  topo::HostId host = 0;
  Box frame;
  std::vector<Box> groups;
  bool brief = false;  ///< drawn as its NICs and `summary`
  std::string summary;
};

/// What stands in a box: "gpu0" and "25 GB/s".
struct Label {
  std::string first;
  std::string second;  ///< may be empty
};

/// A router of a direct network, drawn as what it forwards for, or a switch that joins a line of
/// them.
struct Place {
  Label label;  ///< a host, and a GPU of it; empty: the node's own name
  topo::NodeKind look = topo::NodeKind::kSwitch;
  std::uint32_t plane = 0;  ///< of three dimensions: the first coordinate
  bool joins_row = false;
  bool joins_column = false;
};

struct Layout {
  double width = 0;
  double height = 0;  ///< down to where the legend begins
  std::vector<HostBox> hosts;
  std::map<topo::NodeId, Box> nodes;     ///< all that are drawn
  std::map<topo::NodeId, Place> places;  ///< of a ring, torus or mesh; else empty
  double thickest_network = 9;           ///< pixels: thinner where many lines cross
  std::string note;                      ///< what is not drawn; may be empty
};

/// What of a topology is drawn, and where, from `top` downwards.
Layout lay_out(const Arrangement& arrangement, double top);

/// The layout of a network of routers that are named by their coordinates, without their hosts; one
/// without places for other topologies.
Layout lay_out_grid(const Arrangement& arrangement, double top);

/// Whether a node is drawn as a bar above what hangs from it: a PCI switch, or a CPU that does not
/// itself hang from a memory.
bool is_bar(const Arrangement& arrangement, topo::NodeId node);

Label label_of(const Arrangement& arrangement, topo::NodeId node);

/// Whether every two of a host's CPUs, more than two, are joined at one bandwidth: then one line
/// stands for all of these links.
bool joins_all_cpus(const Arrangement& arrangement, topo::HostId host);

/// How far the curve that joins two GPUs below their boxes is pulled down; it gets three quarters
/// of that.
double arc_depth(const Box& a, const Box& b);

/// Pixels that a text of that font size takes, roughly.
double text_width(std::string_view text, double size);

}  // namespace tutti::tools
