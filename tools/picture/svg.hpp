// Writes pictures as SVG. Coordinates are SVG's: x to the right, y down, in pixels.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tutti::tools {

/// Colours that pictures share: of words and lines, less important words, grids, and bands behind.
inline constexpr std::string_view kInk = "#1f2933", kSoft = "#66727f", kFaint = "#e3e8ed",
                                  kBand = "#f6f8fa";
/// Of series, in this order.
inline constexpr std::array<std::string_view, 8> kColours = {
    "#3b76c4", "#e07b1a", "#3a9a4b", "#c93a4b", "#8458b3", "#1d9aa5", "#c9a200", "#d560a0"};

/// A picture while it is drawn: later shapes lie over earlier ones. The size is said at the end.
class Svg {
 public:
  /// Any element; its text must be valid XML, see escaped().
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  /// The two lines at the top of a picture.
  void heading(std::string_view title, std::string_view subtitle);
  void line(double x1, double y1, double x2, double y2, std::string_view colour);
  void rect(double x, double y, double width, double height, std::string_view colour);
  /// `anchor`: "start", "middle" or "end".
  void words(double x, double y, std::string_view anchor, std::string_view colour,
             std::string_view words, double size = 12, bool bold = false);
  /// Readers see the tooltip where they point at what is drawn until end_group().
  void begin_group(std::string_view tooltip);
  void end_group() { add("</g>"); }

  /// The whole file. `style`: attributes of all that does not say otherwise.
  [[nodiscard]] std::string page(double width, double height,
                                 std::string_view style = kStyle) const;

 private:
  static constexpr std::string_view kStyle =
      R"(font-family="Inter, Helvetica, Arial, sans-serif" font-size="12" fill="#1f2933")";

  std::string text_;
};

/// `text` as XML: what has a meaning there is escaped, and control bytes become '?'.
std::string escaped(std::string_view text);

/// "12 µs", "3.4 ms".
std::string time_text(double us);

/// The first of 1, 2, 5, 10, 20 ... times a power of ten that cuts `range` in at most `parts`.
double tick_step(double range, int parts);

}  // namespace tutti::tools
