#include "tools/topo/ink.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::tools {
namespace {

using topo::LinkKind;

/// Of a slowed link, whatever its kind.
constexpr std::string_view kSlowed = "#c62828";

}  // namespace

Ink::Ink(std::span<const Wire> wires, double thickest_network)
    : thickest_network_(thickest_network) {
  for (const Wire& wire : wires) {
    if (is_unlimited(wire.kind, wire.bandwidth)) continue;
    double& fastest = fastest_[static_cast<std::size_t>(wire.kind)];
    fastest = std::max(fastest, wire.bandwidth);
  }
}

/// Grows with the bandwidth, slowly, so that 1 and 900 GB/s can stand in one picture.
/// What has no limit is no picture of a wide link.
double Ink::thickness(const Wire& wire) const {
  if (is_unlimited(wire.kind, wire.bandwidth)) return 2;
  const double most = wire.kind == LinkKind::kNetwork ? thickest_network_ : 9.0;
  return std::clamp(0.7 * std::pow(wire.bandwidth, 0.42), 1.4, most);
}

std::string_view Ink::colour_of(const Wire& wire) const {
  if (wire.is_slowed()) return kSlowed;
  static constexpr std::string_view kDark[] = {"#2f8f45", "#0c938f", "#4a76b4", "#8559b0",
                                               "#d9761a"};
  static constexpr std::string_view kLight[] = {"#8fcf9b", "#83d0cd", "#a3bde0", "#c3a9dd",
                                                "#f0b47a"};
  const auto at = static_cast<std::size_t>(wire.kind);
  return wire.bandwidth < 0.75 * fastest_[at] ? kLight[at] : kDark[at];
}

void Ink::wire(const Wire& wire, std::string_view path, bool cased) {
  seen_.emplace(wire.kind, -wire.bandwidth, -wire.whole);
  const double width = thickness(wire);
  const std::string_view dashes = !wire.is_slowed()    ? ""
                                  : wire.bandwidth > 0 ? R"( stroke-dasharray="8 4")"
                                                       : R"( stroke-dasharray="2 5")";
  if (cased)
    svg_.add(R"(<path d="{}" fill="none" stroke="white" stroke-width="{:.1f}"/>)", path, width + 3);
  svg_.add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="{:.1f}"{}/>)", path,
           colour_of(wire), width, dashes);
}

void Ink::box(const Box& box, std::string_view fill, std::string_view stroke, double radius) {
  svg_.add(
      R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{:.0f}" fill="{}" stroke="{}"/>)",
      box.x, box.y, box.width, box.height, radius, fill, stroke);
}

void Ink::open_end(const Wire& wire, double x, double y) {
  svg_.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="white" stroke="{}" stroke-width="2"/>)",
           x, y, colour_of(wire));
}

void Ink::words(double x, double y, std::string_view text, const Font& font) {
  svg_.words(x, y, font.anchor, font.colour, text, font.size, font.bold);
}

double Ink::legend(bool of_amd, double y, double width) {
  constexpr double kEntry = 170, kSample = 42, kRow = 20, kLeft = 24;
  double x = kLeft;
  for (const auto& [kind, minus_bandwidth, minus_whole] : std::set(seen_)) {
    const Wire sample{0, 0, kind, -minus_bandwidth, -minus_whole};
    const std::string text = fmt::format("{} {}", title_of(kind, of_amd), speed(sample));
    const double entry = std::max(kEntry, kSample + text_width(text, 11) + 12);
    if (x > kLeft && x + entry > width) {
      x = kLeft;
      y += kRow;
    }
    wire(sample, fmt::format("M{:.1f} {:.1f}h34", x, y));
    words(x + kSample, y + 4, text, {.size = 11, .anchor = "start"});
    x += entry;
  }
  return y + kRow;
}

std::string Ink::text(double width, double height) const {
  return svg_.page(width, height, R"(font-family="sans-serif" stroke-linejoin="round")");
}

}  // namespace tutti::tools
