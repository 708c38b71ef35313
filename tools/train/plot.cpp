#include "tools/train/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "tools/picture/svg.hpp"

namespace tutti::trainer {
namespace {

using tools::kColours;
using tools::kFaint;
using tools::kInk;
using tools::kSoft;
using tools::Svg;

constexpr double kWidth = 940, kLeft = 66, kRight = 150, kTop = 96;
constexpr double kLossHeight = 300, kSmallHeight = 130, kGap = 46;
constexpr double kBelow = 56;  ///< of the last panel: steps
constexpr std::size_t kMostPoints = 600;
constexpr double kMostDrawn = 1e15;  ///< what is larger, or no number, is left out

struct Point {
  double step = 0, value = 0;
};
using Series = std::vector<Point>;
using Value = std::function<double(const StepRecord&)>;

bool can_be_drawn(double value) { return std::abs(value) < kMostDrawn; }

/// At most kMostPoints, each the mean of as many steps that follow each other.
Series series_of(std::span<const StepRecord> steps, const Value& value) {
  const std::size_t bin = (steps.size() + kMostPoints - 1) / kMostPoints;
  Series series;
  for (std::size_t begin = 0; begin < steps.size(); begin += bin) {
    double sum = 0, middle = 0;
    std::size_t count = 0;
    for (const StepRecord& step : steps.subspan(begin, std::min(bin, steps.size() - begin))) {
      const double one = value(step);
      if (!can_be_drawn(one)) continue;
      sum += one;
      middle += static_cast<double>(step.step);
      ++count;
    }
    const auto counted = static_cast<double>(count);
    if (count > 0) series.push_back({middle / counted, sum / counted});
  }
  return series;
}

/// A part of the picture with axes of its own; all share the steps.
struct Panel {
  double top = 0, height = 0;
  double first = 0, last = 1;  ///< steps
  double least = 0, most = 1;  ///< values
  [[nodiscard]] double x(double step) const {
    return kLeft + (kWidth - kLeft - kRight) * (step - first) / (last - first);
  }
  [[nodiscard]] double y(double value) const {
    return top + height - height * (value - least) / (most - least);
  }
};

/// Multiples of `step` from `least` to `most`: counted, since a sum of doubles may stand still.
std::vector<double> ticks(double least, double most, double step) {
  const double first = std::ceil(least / step);
  const auto count = static_cast<std::size_t>(std::floor(most / step + 1e-9) - first + 1);
  std::vector<double> found(count);
  for (std::size_t i = 0; i < count; ++i) found[i] = (first + static_cast<double>(i)) * step;
  return found;
}

void draw_grid(Svg& svg, const Panel& panel, std::string_view title, int parts) {
  svg.words(kLeft, panel.top - 10, "start", kInk, title, 13);
  const double step = tools::tick_step(panel.most - panel.least, parts);
  for (const double value : ticks(panel.least, panel.most, step)) {
    svg.line(kLeft, panel.y(value), kWidth - kRight, panel.y(value), kFaint);
    const double shown = std::abs(value) < step * 1e-9 ? 0 : value;
    svg.words(kLeft - 8, panel.y(value) + 4, "end", kSoft, fmt::format("{:g}", shown));
  }
}

void draw_steps(Svg& svg, const Panel& panel) {
  const double step = std::max(1.0, tools::tick_step(panel.last - panel.first, 10));
  const double bottom = panel.top + panel.height;
  for (const double at : ticks(panel.first, panel.last, step)) {
    svg.line(panel.x(at), bottom, panel.x(at), bottom + 5, kSoft);
    svg.words(panel.x(at), bottom + 20, "middle", kSoft, fmt::format("{:g}", at));
  }
  svg.words((kLeft + kWidth - kRight) / 2, bottom + 42, "middle", kSoft, "step");
}

void draw_line(Svg& svg, const Panel& panel, const Series& series, std::string_view colour,
               double width) {
  std::string path;
  for (const Point& point : series)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", panel.x(point.step),
                        std::clamp(panel.y(point.value), panel.top, panel.top + panel.height));
  svg.add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linejoin="round"/>)",
          path, colour, width);
}

/// A name beside the end of a line, below the ones before it.
class Labels {
 public:
  Labels(Svg& svg, const Panel& panel) : svg_(svg), next_(panel.top) {}
  void add(std::string_view colour, std::string_view words) {
    svg_.rect(kWidth - kRight + 14, next_ + 4, 10, 10, colour);
    svg_.words(kWidth - kRight + 30, next_ + 13, "start", kInk, words);
    next_ += 19;
  }

 private:
  Svg& svg_;
  double next_;
};

std::pair<double, double> range_of(std::span<const Series> all) {
  double least = 1e300, most = -1e300;
  for (const Series& series : all)
    for (const Point& point : series) {
      least = std::min(least, point.value);
      most = std::max(most, point.value);
    }
  return {least, most};
}

Series validations(std::span<const StepRecord> steps) {
  Series series;
  for (const StepRecord& step : steps)
    if (step.validation && can_be_drawn(*step.validation))
      series.push_back({static_cast<double>(step.step), *step.validation});
  return series;
}

void draw_loss(Svg& svg, Panel panel, std::span<const StepRecord> steps) {
  const std::array<Series, 3> all = {
      series_of(steps, [](const StepRecord& step) { return step.loss; }),
      series_of(steps, [](const StepRecord& step) { return step.average; }), validations(steps)};
  const auto [least, most] = range_of(all);
  const double room = std::max({1e-3, 0.04 * (most - least), 1e-9 * std::abs(most)});
  panel.least = least - room;
  panel.most = most + room;
  draw_grid(svg, panel, "loss, nats a byte", 8);
  draw_line(svg, panel, all[0], "#b9cfec", 1);
  draw_line(svg, panel, all[1], kColours[0], 2.2);
  Labels labels(svg, panel);
  labels.add("#b9cfec", "training");
  labels.add(kColours[0], fmt::format("average {:.3f}", all[1].back().value));
  if (all[2].empty()) return;
  draw_line(svg, panel, all[2], kColours[1], 1.6);
  for (const Point& point : all[2])
    svg.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", panel.x(point.step),
            panel.y(point.value), kColours[1]);
  labels.add(kColours[1], fmt::format("validation {:.3f}", all[2].back().value));
}

void draw_throughput(Svg& svg, Panel panel, std::span<const StepRecord> steps) {
  const Series speed =
      series_of(steps, [](const StepRecord& step) { return step.tokens_per_second / 1e3; });
  if (speed.empty()) return;
  panel.most = std::max(1e-6, range_of(std::span(&speed, 1)).second * 1.08);
  draw_grid(svg, panel, "throughput, thousand tokens a second", 4);
  draw_line(svg, panel, speed, kColours[2], 1.6);
  std::vector<double> sorted;
  for (const Point& point : speed) sorted.push_back(point.value);
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
  Labels(svg, panel).add(kColours[2], fmt::format("median {:.3g}", sorted.at(sorted.size() / 2)));
}

struct Layer {
  std::string_view name;
  double (*seconds)(const StepTimes&);
  std::string_view colour;
};
constexpr Layer kLayers[] = {
    {"forward", [](const StepTimes& times) { return times.forward; }, kColours[0]},
    {"backward", [](const StepTimes& times) { return times.backward; }, kColours[5]},
    {"waiting", [](const StepTimes& times) { return times.waiting; }, kColours[3]},
    {"optimizer", [](const StepTimes& times) { return times.optimizer; }, kColours[6]},
    {"data", [](const StepTimes& times) { return times.data; }, kColours[4]},
    {"other", [](const StepTimes& times) { return std::max(0.0, times.other()); }, "#c3ccd5"},
};

void draw_times(Svg& svg, Panel panel, std::span<const StepRecord> steps) {
  std::vector<Series> tops;  // of each layer, those below included
  for (const Layer& layer : kLayers) {
    Series series = series_of(steps, [&](const StepRecord& step) {
      const double ms = layer.seconds(step.times) * 1e3;
      return can_be_drawn(ms) ? ms : 0;  // so that every layer has every point
    });
    if (!tops.empty())
      for (std::size_t i = 0; i < series.size(); ++i) series[i].value += tops.back()[i].value;
    tops.push_back(std::move(series));
  }
  panel.most = std::max(1e-6, range_of(tops).second * 1.05);
  draw_grid(svg, panel, "time of a step of rank 0, ms", 4);
  Labels labels(svg, panel);
  for (std::size_t i = tops.size(); i-- > 0;) {
    std::string path;
    for (const Point& point : tops[i])
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", panel.x(point.step),
                          panel.y(point.value));
    path += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}Z", panel.x(tops[i].back().step), panel.y(0),
                        panel.x(tops[i].front().step), panel.y(0));
    svg.add(R"(<path d="{}" fill="{}"/>)", path, kLayers[i].colour);
    labels.add(kLayers[i].colour, kLayers[i].name);
  }
}

/// What was sent, and what it would be without compression.
void draw_bytes(Svg& svg, Panel panel, std::span<const StepRecord> steps) {
  const bool has_hosts =
      std::ranges::any_of(steps, [](const StepRecord& step) { return step.bytes.other_hosts > 0; });
  const std::array<Series, 2> all = {
      series_of(steps,
                [&](const StepRecord& step) {
                  const StepBytes& bytes = step.bytes;
                  return static_cast<double>(has_hosts ? bytes.other_hosts : bytes.all()) / 1e6;
                }),
      series_of(steps, [](const StepRecord& step) {
        return static_cast<double>(step.bytes.uncompressed) / 1e6;
      })};
  panel.most = std::max(1e-6, range_of(all).second * 1.08);
  draw_grid(
      svg, panel,
      has_hosts ? "sent by rank 0 to other hosts in a step, MB" : "sent by rank 0 in a step, MB",
      4);
  draw_line(svg, panel, all[1], kSoft, 1.2);
  draw_line(svg, panel, all[0], kColours[1], 1.8);
  Labels labels(svg, panel);
  labels.add(kColours[1], fmt::format("sent {:.3g}", all[0].back().value));
  labels.add(kSoft, fmt::format("without {:.3g}", all[1].back().value));
  if (all[0].back().value > 0)
    labels.add("none",
               fmt::format("{:.1f} times fewer", all[1].back().value / all[0].back().value));
}

void draw_owed(Svg& svg, Panel panel, std::span<const StepRecord> steps) {
  const Series owed = series_of(steps, [](const StepRecord& step) {
    return step.owed.value_or(std::numeric_limits<double>::infinity());
  });
  if (owed.empty()) return;
  panel.most = std::max(1e-9, range_of(std::span(&owed, 1)).second * 1.08);
  draw_grid(svg, panel, "norm of what compression owes to later steps", 4);
  draw_line(svg, panel, owed, kColours[4], 1.6);
  Labels(svg, panel).add(kColours[4], fmt::format("owed {:.3g}", owed.back().value));
}

std::string subtitle_of(const StepLog& log) {
  const RunRecord& run = log.runs.back();
  const StepRecord& last = log.steps.back();
  return fmt::format("{:.3g} million parameters, {} on {} rank{}, {}; {} steps, {} of training",
                     static_cast<double>(run.parameters) / 1e6, run.strategy, run.ranks,
                     run.ranks == 1 ? "" : "s", run.precision, last.step,
                     duration_text(last.seconds));
}

}  // namespace

Result<std::string> plot_svg(const StepLog& log, const std::string& title) {
  std::vector<StepRecord> steps;
  for (const StepRecord& step : log.steps)
    if (can_be_drawn(step.loss) && can_be_drawn(step.average)) steps.push_back(step);
  if (steps.size() < 2)
    return make_error(Code::kWrongData, "the log has {} steps with a loss: a line takes two",
                      steps.size());
  Svg svg;
  svg.heading(title, subtitle_of(log));
  Panel panel{.top = kTop,
              .height = kLossHeight,
              .first = static_cast<double>(steps.front().step),
              .last = static_cast<double>(steps.back().step)};
  draw_loss(svg, panel, steps);
  panel.top += panel.height + kGap;
  panel.height = kSmallHeight;
  draw_throughput(svg, panel, steps);
  panel.top += panel.height + kGap;
  draw_times(svg, panel, steps);
  if (std::ranges::any_of(steps, [](const StepRecord& s) { return s.bytes.uncompressed > 0; })) {
    panel.top += panel.height + kGap;
    draw_bytes(svg, panel, steps);
  }
  if (std::ranges::any_of(steps, [](const StepRecord& s) { return s.owed.has_value(); })) {
    panel.top += panel.height + kGap;
    draw_owed(svg, panel, steps);
  }
  draw_steps(svg, panel);
  return svg.page(kWidth, panel.top + panel.height + kBelow);
}

}  // namespace tutti::trainer
