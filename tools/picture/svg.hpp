// What the pictures of `tutti sim` share. Coordinates are SVG's: x to the right, y down, in pixels.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tutti::simtool {

inline constexpr std::string_view kInk = "#1f2933", kSoft = "#66727f", kFaint = "#e3e8ed",
                                  kBand = "#f6f8fa";
inline constexpr std::array<std::string_view, 8> kColours = {
    "#3b76c4", "#e07b1a", "#3a9a4b", "#c93a4b", "#8458b3", "#1d9aa5", "#c9a200", "#d560a0"};

/// `text` with what XML gives a meaning to written as XML asks.
std::string escaped(std::string_view text);

/// A picture as it is drawn.
class Svg {
 public:
  Svg(double width, double height, std::string_view title, std::string_view subtitle);

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view colour);
  void rect(double x, double y, double width, double height, std::string_view colour);
  /// `anchor`: "start", "middle" or "end".
  void words(double x, double y, std::string_view anchor, std::string_view colour,
             std::string_view words, double size = 12);

  std::string finish() && { return std::move(text_) + "</svg>\n"; }

 private:
  std::string text_;
};

/// "12 µs", "3.4 ms".
std::string time_text(double us);

/// The first of 1, 2, 5, 10, 20 ... times a power of ten that cuts `range` in at most `parts`.
double tick_step(double range, int parts);

}  // namespace tutti::simtool
