// Draws the lines, boxes and words of a picture of a topology.
#pragma once

#include <array>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "tools/picture/svg.hpp"
#include "tools/topo/layout.hpp"

namespace tutti::tools {

/// How a text stands at its point, and how it looks.
struct Font {
  double size = 11;
  std::string_view colour = "#222";
  std::string_view anchor = "middle";
  bool bold = false;
};

/// A picture of a topology while it is drawn. Remembers kinds and bandwidths of lines for the
/// legend.
class Ink {
 public:
  /// `wires`: all there are, of which each kind's fastest are drawn darker than much slower ones.
  /// `thickest_network`: where many lines cross, those of the network are no thicker than this.
  Ink(std::span<const Wire> wires, double thickest_network);

  /// A line along a path in SVG's words, as thick as the link is fast, dashed where it is slowed.
  /// `cased`: with a white rim, so that it seems to pass over what it crosses.
  void wire(const Wire& wire, std::string_view path, bool cased = false);
  void box(const Box& box, std::string_view fill, std::string_view stroke, double radius = 4);
  /// The end of a wire that leads out of the picture.
  void open_end(const Wire& wire, double x, double y);
  void words(double x, double y, std::string_view text, const Font& font);
  /// Readers see the tooltip where they point at what is drawn until end_group().
  void begin_group(std::string_view tooltip) { svg_.begin_group(tooltip); }
  void end_group() { svg_.end_group(); }

  /// A sample of each kind and bandwidth so far, from `y` on; returns where it ends.
  double legend(bool of_amd, double y, double width);

  /// The whole picture.
  [[nodiscard]] std::string text(double width, double height) const;

 private:
  [[nodiscard]] std::string_view colour_of(const Wire& wire) const;
  [[nodiscard]] double thickness(const Wire& wire) const;

  Svg svg_;
  double thickest_network_;
  std::array<double, topo::kLinkKinds> fastest_{};
  std::set<std::tuple<topo::LinkKind, double, double>> seen_;  // bandwidth and whole bandwidth,
                                                               // negated: the fastest first
};

}  // namespace tutti::tools
