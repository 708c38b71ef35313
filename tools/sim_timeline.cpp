// What each rank does when: a lane for each rank, in it a row for what it sends, one for what it
// receives and one for its own work.
#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/result.hpp"
#include "tools/bench_sizes.hpp"
#include "tools/sim_report.hpp"
#include "tools/sim_svg.hpp"

namespace tutti::simtool {
namespace {

constexpr Rank kMostRanks = 32;
constexpr std::size_t kMostBars = 20000;
constexpr double kWidth = 1000, kLeft = 84, kRight = 24, kTop = 84, kFoot = 74;

enum Row : std::size_t { kSends, kReceives, kWorks };
constexpr std::size_t kRows = 3;

constexpr std::string_view kSendColour = "#3b76c4", kReceiveColour = "#8fb8e8",
                           kReduceColour = "#e07b1a", kCopyColour = "#8458b3",
                           kCodecColour = "#3a9a4b";

struct Kind {
  Row row;
  std::string_view colour;
};

Kind kind_of(ir::Verb verb) {
  switch (verb) {
    case ir::Verb::kSend:
      return {kSends, kSendColour};
    case ir::Verb::kRecv:
      return {kReceives, kReceiveColour};
    case ir::Verb::kReduce:
      return {kWorks, kReduceColour};
    case ir::Verb::kCopy:
      return {kWorks, kCopyColour};
    case ir::Verb::kEncode:
    case ir::Verb::kDecode:
      break;
  }
  return {kWorks, kCodecColour};
}

/// Of one step, or of several short ones that follow each other closely.
struct Bar {
  double begin = 0, end = 0;  // pixels
  std::string_view colour;
  Rank peer = kNoRank;  // of a single message
  int messages = 1;
};

class Timeline {
 public:
  Timeline(const Traced& traced, const Machine& machine)
      : traced_(traced),
        ranks_(traced.schedule.request.ranks),
        row_(ranks_ <= 8    ? 14
             : ranks_ <= 16 ? 9
                            : 6),
        svg_(kWidth, kTop + lane() * ranks_ + kFoot,
             fmt::format("{} of {} by {}: {}", name_of(traced.schedule.request.collective),
                         bench::size_text(traced.point.bytes), traced.point.algorithm,
                         time_text(traced.point.outcome.time_us)),
             machine.name) {}

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
    return std::move(svg_).finish();
  }

 private:
  [[nodiscard]] double lane() const { return row_ * kRows + 8; }
  [[nodiscard]] double y_of(Rank rank, std::size_t row) const {
    return kTop + lane() * rank + 4 + row_ * static_cast<double>(row);
  }
  [[nodiscard]] double x_of(double us) const {
    return kLeft + (kWidth - kLeft - kRight) * us / traced_.point.outcome.time_us;
  }
  [[nodiscard]] double bottom() const { return kTop + lane() * ranks_; }

  /// Bars by rank and row, in the order of their begins; what takes no time is left out.
  void collect() {
    lanes_.resize(static_cast<std::size_t>(ranks_));
    for (const sim::StepTime& step : traced_.steps) {
      if (step.end_us <= step.start_us) continue;
      const auto rank = static_cast<std::size_t>(step.task.rank);
      const ir::Step& what = traced_.schedule.programs[rank].steps[step.task.step];
      const Kind kind = kind_of(what.verb);
      lanes_[rank].at(kind.row).push_back(
          {x_of(step.start_us), x_of(step.end_us), kind.colour, what.peer});
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
      if (rank % 2 == 0) svg_.rect(0, kTop + lane() * rank, kWidth, lane(), kBand);
      svg_.words(20, kTop + lane() * (rank + 0.5) + 4, "start", kInk, fmt::format("rank {}", rank),
                 row_ < 8 ? 10 : 12);
    }
    const double time = traced_.point.outcome.time_us;
    const double step = tick_step(time, 8);
    for (double at = 0; at <= time * (1 + 1e-9); at += step) {
      svg_.line(x_of(at), kTop, x_of(at), bottom() + 5, "#d5dbe1");
      svg_.words(x_of(at), bottom() + 20, "middle", kSoft, time_text(at));
    }
  }

  void draw_row(Rank rank, std::size_t row) {
    constexpr double kRoomForPeer = 18, kRoomForCount = 50;
    for (const Bar& bar : lanes_[static_cast<std::size_t>(rank)].at(row)) {
      const double width = std::max(bar.end - bar.begin, 0.4);
      const double gap = width > 3 ? 0.6 : 0;
      svg_.add(
          R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}" fill-opacity="0.85"/>)",
          bar.begin, y_of(rank, row), width - gap, row_ - 1, bar.colour);
      if (bar.peer != kNoRank && row_ >= 9 &&
          width >= (bar.messages > 1 ? kRoomForCount : kRoomForPeer))
        svg_.words((bar.begin + bar.end) / 2, y_of(rank, row) + row_ / 2 + 2.6, "middle",
                   row == kSends ? "white" : kInk,
                   bar.messages > 1
                       ? fmt::format("{} {} ranks", row == kSends ? "→" : "←", bar.messages)
                       : fmt::format("{}{}", row == kSends ? "→" : "←", bar.peer),
                   9);
    }
  }

  void draw_legend() {
    struct Entry {
      std::string_view text, colour;
    };
    constexpr std::array<Entry, 5> kEntries = {{{"sends", kSendColour},
                                                {"receives", kReceiveColour},
                                                {"adds", kReduceColour},
                                                {"copies", kCopyColour},
                                                {"encodes, decodes", kCodecColour}}};
    double x = kLeft;
    for (const auto& [text, colour] : kEntries) {
      svg_.rect(x, bottom() + 42, 12, 12, colour);
      svg_.words(x + 18, bottom() + 52, "start", kSoft, text);
      x += 90;
    }
    svg_.words(kWidth - kRight, bottom() + 52, "end", kSoft,
               "work that takes no time is not shown");
  }

  const Traced& traced_;
  Rank ranks_;
  double row_;  // height
  std::vector<std::array<std::vector<Bar>, kRows>> lanes_;
  Svg svg_;
};

}  // namespace

Result<std::string> timeline_svg(const Traced& traced, const Machine& machine) {
  const Rank ranks = traced.schedule.request.ranks;
  if (ranks > kMostRanks)
    return make_error(Code::kInvalidArgument,
                      "a timeline of {} ranks is more than the {} that can be read", ranks,
                      kMostRanks);
  return Timeline(traced, machine).text();
}

}  // namespace tutti::simtool
