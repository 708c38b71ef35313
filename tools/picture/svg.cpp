#include "tools/picture/svg.hpp"

#include <cmath>

namespace tutti::tools {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:  // XML has no place for control bytes
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return result;
}

void Svg::heading(std::string_view title, std::string_view subtitle) {
  add(R"(<text x="20" y="32" font-size="18" font-weight="bold">{}</text>)", escaped(title));
  add(R"(<text x="20" y="52" fill="{}">{}</text>)", kSoft, escaped(subtitle));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view colour) {
  add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1, x2, y2,
      colour);
}

void Svg::rect(double x, double y, double width, double height, std::string_view colour) {
  add(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}"/>)", x, y, width,
      height, colour);
}

void Svg::words(double x, double y, std::string_view anchor, std::string_view colour,
                std::string_view words, double size, bool bold) {
  add(R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" fill="{}" text-anchor="{}"{}>{}</text>)", x, y,
      size, colour, anchor, bold ? R"( font-weight="bold")" : "", escaped(words));
}

void Svg::begin_group(std::string_view tooltip) { add("<g><title>{}</title>", escaped(tooltip)); }

std::string Svg::page(double width, double height, std::string_view style) const {
  constexpr std::string_view kBegin =
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" {2}>)"
      "\n"
      R"(<rect width="100%" height="100%" fill="white"/>)"
      "\n";
  return fmt::format(kBegin, width, height, style) + text_ + "</svg>\n";
}

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.4g} s", us / 1e6);
  if (us >= 1e4) return fmt::format("{:.4g} ms", us / 1e3);
  return fmt::format("{:.4g} µs", us);
}

double tick_step(double range, int parts) {
  if (!(range > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(range / parts)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= parts) return factor * power;
  return 10 * power;
}

}  // namespace tutti::tools
