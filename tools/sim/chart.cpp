// Bus bandwidth over size, a line for each algorithm.
#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/result.hpp"
#include "tools/picture/svg.hpp"
#include "tools/program/sizes.hpp"
#include "tools/sim/report.hpp"

namespace tutti::simtool {
namespace {

using tools::kColours;
using tools::kFaint;
using tools::kInk;
using tools::kSoft;
using tools::Svg;
using tools::tick_step;

constexpr double kChartWidth = 900, kChartHeight = 500, kChartLeft = 64, kChartRight = 230,
                 kChartTop = 84, kChartBottom = 52;
constexpr double kLabelStep = 16;
constexpr std::string_view kOther = "#c3ccd5";

/// Algorithms of one curve, which may be those of several.
struct Curve {
  std::string name;
  std::vector<double> bandwidths;  // by size
  std::string_view colour = kOther;
  [[nodiscard]] double peak() const { return std::ranges::max(bandwidths); }
};

bool are_alike(const Curve& a, const Curve& b) {
  constexpr double kHardly = 1e-3;
  for (std::size_t i = 0; i < a.bandwidths.size(); ++i)
    if (std::abs(a.bandwidths[i] - b.bandwidths[i]) > kHardly * a.bandwidths[i]) return false;
  return true;
}

/// One for each algorithm that differs from those before it; the others are counted at its name.
std::vector<Curve> curves_of(std::span<const Point> points, const Plan& plan) {
  std::vector<Curve> curves;
  std::vector<int> alike;
  for (const std::string& algorithm : plan.algorithms) {
    Curve curve{.name = algorithm, .bandwidths = {}};
    for (const Point& point : points)
      if (point.algorithm == algorithm) curve.bandwidths.push_back(point.outcome.bus_bandwidth);
    const auto same =
        std::ranges::find_if(curves, [&](const Curve& other) { return are_alike(curve, other); });
    if (same != curves.end()) {
      ++alike[static_cast<std::size_t>(same - curves.begin())];
    } else {
      curves.push_back(std::move(curve));
      alike.push_back(0);
    }
  }
  for (std::size_t i = 0; i < curves.size(); ++i)
    if (alike[i] > 0) curves[i].name += fmt::format(" and {} alike", alike[i]);
  return curves;
}

/// Colours for those that win at some size, then for those that get furthest; as many as there are.
void give_colours(std::vector<Curve>& curves, std::size_t sizes) {
  std::vector<Curve*> order;
  for (Curve& curve : curves) order.push_back(&curve);
  std::ranges::stable_sort(order, std::greater<>(), [](const Curve* c) { return c->peak(); });
  std::size_t given = 0;
  const auto give = [&](Curve& curve) {
    if (curve.colour == kOther && given < kColours.size()) curve.colour = kColours.at(given++);
  };
  for (std::size_t i = 0; i < sizes; ++i)
    give(**std::ranges::max_element(order, {},
                                    [&](const Curve* curve) { return curve->bandwidths[i]; }));
  for (Curve* const curve : order) give(*curve);
}

class Chart {
 public:
  Chart(std::vector<Curve> curves, std::vector<std::size_t> sizes, const Plan& plan,
        const Machine& machine)
      : curves_(std::move(curves)), sizes_(std::move(sizes)) {
    svg_.heading(fmt::format("{}, {} ranks", name_of(plan.request.collective), plan.request.ranks),
                 machine.name + ": simulated bus bandwidth, GB/s");
    for (const Curve& curve : curves_) highest_ = std::max(highest_, curve.peak());
    highest_ *= 1.06;
  }

  std::string text() && {
    draw_axes();
    for (const Curve& curve : curves_)
      if (curve.colour == kOther) draw(curve);
    for (const Curve& curve : curves_)
      if (curve.colour != kOther) draw(curve);
    draw_labels();
    return svg_.page(kChartWidth, kChartHeight);
  }

 private:
  [[nodiscard]] double x_of(std::size_t bytes) const {
    const double low = std::log2(static_cast<double>(sizes_.front()));
    const double high = std::log2(static_cast<double>(sizes_.back()));
    return kChartLeft + (kChartWidth - kChartLeft - kChartRight) *
                            (std::log2(static_cast<double>(bytes)) - low) / (high - low);
  }
  [[nodiscard]] double y_of(double bandwidth) const {
    return kChartHeight - kChartBottom -
           (kChartHeight - kChartTop - kChartBottom) * bandwidth / highest_;
  }

  void draw_axes() {
    const double step = tick_step(highest_, 6);
    for (double value = 0; value <= highest_; value += step) {
      svg_.line(kChartLeft, y_of(value), kChartWidth - kChartRight, y_of(value), kFaint);
      svg_.words(kChartLeft - 8, y_of(value) + 4, "end", kSoft, fmt::format("{:g}", value));
    }
    double free_from = 0;
    for (const std::size_t size : sizes_) {
      const double x = x_of(size);
      if (x < free_from) continue;
      svg_.line(x, y_of(0), x, y_of(0) + 5, kSoft);
      svg_.words(x, y_of(0) + 20, "middle", kSoft, tools::size_text(size));
      free_from = x + 44;
    }
    svg_.words((kChartLeft + kChartWidth - kChartRight) / 2, kChartHeight - 12, "middle", kSoft,
               "size, bytes");
  }

  void draw(const Curve& curve) {
    std::string path;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(sizes_[i]),
                          y_of(curve.bandwidths[i]));
    const bool is_bound = curve.colour == kInk;
    svg_.add(
        R"(<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linejoin="round"{}/>)",
        path, curve.colour, curve.colour == kOther ? 1.2 : 2.2,
        is_bound ? R"( stroke-dasharray="6 4")" : "");
  }

  /// Beside the ends of the lines, moved apart where lines end together.
  void draw_labels() {
    std::vector<const Curve*> order;
    std::size_t others = 0;
    for (const Curve& curve : curves_) {
      if (curve.colour == kOther)
        ++others;
      else
        order.push_back(&curve);
    }
    std::ranges::stable_sort(order, std::greater<>(),
                             [](const Curve* curve) { return curve->bandwidths.back(); });
    std::vector<double> places;
    double least = kChartTop - 4;
    for (const Curve* curve : order) {
      places.push_back(std::max(y_of(curve->bandwidths.back()), least));
      least = places.back() + kLabelStep;
    }
    double most = y_of(0) - (others > 0 ? kLabelStep : 0);
    for (std::size_t i = places.size(); i-- > 0;) {
      places[i] = std::min(places[i], most);
      most = places[i] - kLabelStep;
    }
    const double x = kChartWidth - kChartRight;
    for (std::size_t i = 0; i < order.size(); ++i) {
      svg_.add(R"(<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}" stroke="{}" opacity="0.6"/>)", x + 2,
               y_of(order[i]->bandwidths.back()), x + 14, places[i], order[i]->colour);
      svg_.words(x + 18, places[i] + 4, "start", order[i]->colour, order[i]->name);
    }
    if (others > 0)
      svg_.words(x + 18, y_of(0) + 4, "start", kSoft, fmt::format("grey: {} others", others));
  }

  std::vector<Curve> curves_;
  std::vector<std::size_t> sizes_;
  double highest_ = 1e-9;
  Svg svg_;
};

/// Of the bound, in the same unit as the algorithms: the bandwidth of a call that took just so
/// long.
std::optional<Curve> bound_curve(std::span<const Point> points, const Plan& plan) {
  Curve curve{.name = "lower bound", .bandwidths = {}, .colour = kInk};
  const double factor = sim::bus_factor(plan.request);
  for (const Point& point : points) {
    if (!point.bound || point.bound->us <= 0) return std::nullopt;
    if (point.algorithm == plan.algorithms.front())
      curve.bandwidths.push_back(static_cast<double>(point.bytes) / point.bound->us / 1e3 * factor);
  }
  return curve;
}

}  // namespace

Result<std::string> chart_svg(std::span<const Point> points, const Plan& plan,
                              const Machine& machine) {
  std::vector<std::size_t> sizes;
  for (const Point& point : points)
    if (point.algorithm == plan.algorithms.front()) sizes.push_back(point.bytes);
  if (std::set(sizes.begin(), sizes.end()).size() < 2)
    return make_error(Code::kInvalidArgument, "--svg draws lines: give two sizes or more");
  std::vector<Curve> curves = curves_of(points, plan);
  give_colours(curves, sizes.size());
  if (auto bound = bound_curve(points, plan)) curves.push_back(*std::move(bound));
  return Chart(std::move(curves), std::move(sizes), plan, machine).text();
}

}  // namespace tutti::simtool
