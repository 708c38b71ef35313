// What each rank does when: a lane for each rank, in it a row for what it sends, one for what it
// receives and one for its own work. What the network adds or copies for a group is sent to it and
// received from it. Colours tell what is done or, where messages are cut, which
// slice it is done with.
#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/result.hpp"
#include "tools/picture/svg.hpp"
#include "tools/program/sizes.hpp"
#include "tools/sim/report.hpp"

namespace tutti::simtool {
namespace {

using tools::kBand;
using tools::kInk;
using tools::kSoft;
using tools::Svg;
using tools::tick_step;
using tools::time_text;

constexpr std::size_t kMostBars = 20000;
constexpr double kTimelineWidth = 1000, kTimelineLeft = 84, kTimelineRight = 24, kTimelineTop = 84,
                 kTimelineFoot = 74;

enum Row : std::size_t { kSends, kReceives, kWorks };
constexpr std::size_t kRows = 3;

constexpr std::string_view kSendColour = "#3b76c4", kReceiveColour = "#8fb8e8",
                           kReduceColour = "#e07b1a", kCopyColour = "#8458b3",
                           kConvertColour = "#3a9a4b", kSumColour = "#b8336a",
                           kMulticastColour = "#2a9d8f";

struct Kind {
  Row row;
  std::string_view colour;
};

/// What a step does in the rows of its rank: one thing, or two in groups.
std::vector<Kind> kinds_of(const ir::Step& step) {
  switch (step.verb) {
    case ir::Verb::kSend:
      return {{kSends, kSendColour}};
    case ir::Verb::kRecv:
      return {{kReceives, kReceiveColour}};
    case ir::Verb::kReduce:
      return {{kWorks, kReduceColour}};
    case ir::Verb::kCopy:
      return {{kWorks, step.src.format == step.dst.format ? kCopyColour : kConvertColour}};
    case ir::Verb::kGroupReduce:
    case ir::Verb::kMulticast:
      break;
  }
  const auto colour = step.verb == ir::Verb::kGroupReduce ? kSumColour : kMulticastColour;
  std::vector<Kind> kinds;
  if (step.src.count > 0) kinds.push_back({kSends, colour});
  if (step.dst.count > 0) kinds.push_back({kReceives, colour});
  return kinds;
}

struct Rgb {
  double red, green, blue;
  [[nodiscard]] double luminance() const { return 0.3 * red + 0.59 * green + 0.11 * blue; }
};

/// Of one of several slices: from violet for the first, over green, to yellow for the last.
Rgb colour_of_slice(std::uint32_t slice, std::uint32_t slices) {
  constexpr Rgb kStops[] = {
      {72, 30, 110}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {240, 220, 60}};
  constexpr std::size_t kParts = std::size(kStops) - 1;
  const double at = slices < 2 ? 0 : static_cast<double>(slice) / (slices - 1) * kParts;
  const std::size_t part = std::min(static_cast<std::size_t>(at), kParts - 1);
  const double share = at - static_cast<double>(part);
  const auto mix = [&](double Rgb::* channel) {
    return kStops[part].*channel * (1 - share) + kStops[part + 1].*channel * share;
  };
  return {mix(&Rgb::red), mix(&Rgb::green), mix(&Rgb::blue)};
}

std::string text_of(const Rgb& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", static_cast<int>(colour.red),
                     static_cast<int>(colour.green), static_cast<int>(colour.blue));
}

/// Of one step, or of several short ones that follow each other closely.
struct Bar {
  double begin = 0, end = 0;  // pixels
  std::string_view colour;    // of what is done
  std::uint32_t slice = 0;
  Rank peer = kNoRank;  // of a single message
  bool with_network = false;
  int messages = 1;
};

class Timeline {
 public:
  Timeline(const Traced& traced, const Machine& machine)
      : traced_(traced),
        ranks_(traced.schedule.request.ranks),
        row_(ranks_ <= 8    ? 14
             : ranks_ <= 16 ? 9
                            : 6) {
    svg_.heading(fmt::format("{} of {} by {}: {}", name_of(traced.schedule.request.collective),
                             tools::size_text(traced.point.bytes), traced.point.algorithm,
                             time_text(traced.point.outcome.time_us)),
                 machine.name);
  }

  Result<std::string> text() && {
    collect();
    std::size_t bars = 0;
    for (const auto& lane : lanes_)
      for (const auto& row : lane) bars += row.size();
    if (bars > kMostBars)
      return make_error(Code::kInvalidArgument,
                        "a timeline of {} bars is more than the {} that can be read: take fewer "
                        "ranks or no slices",
                        bars, kMostBars);
    draw_lanes();
    for (Rank rank = 0; rank < ranks_; ++rank)
      for (std::size_t row = 0; row < kRows; ++row) draw_row(rank, row);
    draw_legend();
    return svg_.page(kTimelineWidth, kTimelineTop + lane() * ranks_ + kTimelineFoot);
  }

 private:
  [[nodiscard]] double lane() const { return row_ * kRows + 8; }
  [[nodiscard]] double y_of(Rank rank, std::size_t row) const {
    return kTimelineTop + lane() * rank + 4 + row_ * static_cast<double>(row);
  }
  [[nodiscard]] double x_of(double us) const {
    return kTimelineLeft +
           (kTimelineWidth - kTimelineLeft - kTimelineRight) * us / traced_.point.outcome.time_us;
  }
  [[nodiscard]] double bottom() const { return kTimelineTop + lane() * ranks_; }

  /// Bars by rank and row, in the order of their begins; what takes no time is left out.
  void collect() {
    lanes_.resize(static_cast<std::size_t>(ranks_));
    for (const sim::StepTime& step : traced_.steps) {
      if (step.end_us <= step.start_us) continue;
      const auto rank = static_cast<std::size_t>(step.task.rank);
      const ir::Step& what = traced_.schedule.programs[rank].steps[step.task.step];
      for (const Kind& kind : kinds_of(what))
        lanes_[rank].at(kind.row).push_back({x_of(step.start_us), x_of(step.end_us), kind.colour,
                                             step.task.slice, what.peer,
                                             ir::uses_group(what.verb)});
      slices_ = std::max(slices_, step.task.slice + 1);
    }
    for (auto& lane : lanes_)
      for (auto& row : lane) join_short(row);
  }

  /// Neighbours that are too short to tell apart become one bar.
  static void join_short(std::vector<Bar>& row) {
    constexpr double kShort = 2, kClose = 0.5;
    std::ranges::stable_sort(row, {}, &Bar::begin);
    std::vector<Bar> joined;
    for (const Bar& bar : row) {
      Bar* const last = joined.empty() ? nullptr : &joined.back();
      if (last != nullptr && bar.end - bar.begin < kShort && last->colour == bar.colour &&
          bar.begin <= last->end + kClose) {
        last->end = std::max(last->end, bar.end);
        if (last->peer != bar.peer) last->peer = kNoRank;
      } else if (last != nullptr && last->peer != bar.peer && bar.peer != kNoRank &&
                 std::abs(last->begin - bar.begin) < kClose &&
                 std::abs(last->end - bar.end) < kClose) {
        ++last->messages;  // at the same time with several ranks
      } else {
        joined.push_back(bar);
      }
    }
    row = std::move(joined);
  }

  void draw_lanes() {
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (rank % 2 == 0) svg_.rect(0, kTimelineTop + lane() * rank, kTimelineWidth, lane(), kBand);
      svg_.words(20, kTimelineTop + lane() * (rank + 0.5) + 4, "start", kInk,
                 fmt::format("rank {}", rank), row_ < 8 ? 10 : 12);
    }
    const double time = traced_.point.outcome.time_us;
    const double step = tick_step(time, 8);
    for (double at = 0; at <= time * (1 + 1e-9); at += step) {
      svg_.line(x_of(at), kTimelineTop, x_of(at), bottom() + 5, "#d5dbe1");
      svg_.words(x_of(at), bottom() + 20, "middle", kSoft, time_text(at));
    }
  }

  void draw_row(Rank rank, std::size_t row) {
    const std::vector<Bar>& bars = lanes_[static_cast<std::size_t>(rank)].at(row);
    for (std::size_t i = 0; i < bars.size(); ++i) {
      const Bar& bar = bars[i];
      const Rgb slice = colour_of_slice(bar.slice, slices_);
      const double width = std::max(bar.end - bar.begin, 0.4);
      const double gap = width > 3 ? 0.6 : 0;
      svg_.add(
          R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}" fill-opacity="0.85"/>)",
          bar.begin, y_of(rank, row), width - gap, row_ - 1,
          slices_ > 1 ? text_of(slice) : std::string(bar.colour));
      const bool is_dark =
          slices_ > 1 ? slice.luminance() < 140 : row == kSends || bar.with_network;
      const double seen = i + 1 < bars.size() ? std::min(bar.end, bars[i + 1].begin) : bar.end;
      draw_peer(bar, {bar.begin, seen}, {rank, row}, is_dark ? "white" : kInk);
    }
  }

  struct Span {
    double begin, end;
  };
  struct At {
    Rank rank;
    std::size_t row;
  };

  /// Whom a message goes to or comes from, where the part of its bar that is seen has room for it.
  void draw_peer(const Bar& bar, Span seen, At at, std::string_view colour) {
    constexpr double kDigit = 5.3, kArrow = 10, kAround = 3;
    if ((bar.peer == kNoRank && !bar.with_network) || row_ < 9) return;
    const std::string whom = bar.with_network   ? " network"
                             : bar.messages > 1 ? fmt::format(" {} ranks", bar.messages)
                                                : std::to_string(bar.peer);
    if (seen.end - seen.begin < kArrow + kDigit * static_cast<double>(whom.size()) + kAround)
      return;
    svg_.words((seen.begin + seen.end) / 2, y_of(at.rank, at.row) + row_ / 2 + 2.6, "middle",
               colour, (at.row == kSends ? "→" : "←") + whom, 9);
  }

  double draw_sample(double x, std::string_view text, std::string_view colour, double room) {
    svg_.rect(x, bottom() + 42, 12, 12, colour);
    svg_.words(x + 18, bottom() + 52, "start", kSoft, text);
    return x + room;
  }

  void draw_legend() {
    struct Entry {
      std::string_view text, colour;
    };
    std::vector<Entry> entries = {{"sends", kSendColour},
                                  {"receives", kReceiveColour},
                                  {"adds", kReduceColour},
                                  {"copies", kCopyColour},
                                  {"converts", kConvertColour}};
    if (!traced_.schedule.groups.empty()) {
      entries.push_back({"network adds", kSumColour});
      entries.push_back({"network copies", kMulticastColour});
    }
    double x = kTimelineLeft;
    if (slices_ > 1)
      draw_slices();
    else
      for (const auto& [text, colour] : entries)
        x = draw_sample(x, text, colour, text.size() > 10 ? 115 : entries.size() > 5 ? 82 : 90);
    svg_.words(kTimelineWidth - kTimelineRight, bottom() + 52, "end", kSoft,
               slices_ > 1 ? "rows of a rank: sends, receives, own work that takes time"
                           : "work that takes no time is not shown");
  }

  /// A few of them, evenly spread, with the first and the last.
  void draw_slices() {
    constexpr std::uint32_t kMostSamples = 8;
    const std::uint32_t samples = std::min(slices_, kMostSamples);
    double x = kTimelineLeft;
    svg_.words(x, bottom() + 52, "start", kSoft, "slice");
    x += 38;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const auto slice =
          static_cast<std::uint32_t>(std::uint64_t{i} * (slices_ - 1) / (samples - 1));
      x = draw_sample(x, std::to_string(slice + 1), text_of(colour_of_slice(slice, slices_)),
                      slices_ > 99 ? 56 : 46);
    }
  }

  const Traced& traced_;
  Rank ranks_;
  double row_;  // height
  std::uint32_t slices_ = 1;
  std::vector<std::array<std::vector<Bar>, kRows>> lanes_;
  Svg svg_;
};

}  // namespace

Result<std::string> timeline_svg(const Traced& traced, const Machine& machine) {
  const Rank ranks = traced.schedule.request.ranks;
  if (ranks > kMostTimelineRanks)
    return make_error(Code::kInvalidArgument,
                      "a timeline of {} ranks is more than the {} that can be read", ranks,
                      kMostTimelineRanks);
  return Timeline(traced, machine).text();
}

}  // namespace tutti::simtool
