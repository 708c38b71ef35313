// The picture of a schedule. Coordinates are SVG's: x to the right, y down, in pixels.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "tools/algo/traffic.hpp"
#include "tools/picture/svg.hpp"

namespace tutti::tools {
namespace {

constexpr std::size_t kMostStrands = 8192;
constexpr std::uint32_t kMostRounds = 256;

constexpr double kLeast = 620;  ///< width, for the words at the top and the bottom
constexpr double kLeft = 92, kTop = 96, kMargin = 20, kFoot = 62;
constexpr double kInset = 14;  ///< from a column's edge to the ends of its arrows
constexpr double kGap = 16;    ///< between the lanes of two nodes

struct Point {
  double x = 0, y = 0;
};

/// A colour that differs from its neighbours' at a glance.
std::string colour(std::uint32_t chunk, std::uint32_t chunks) {
  if (chunks <= kColours.size()) return std::string(kColours.at(chunk));
  return fmt::format("hsl({:.0f},62%,{}%)", 360.0 * chunk / chunks, chunk % 2 == 0 ? 42 : 54);
}

/// Width of a round: more where arrows are steep, less where there are many rounds.
double column_for(Rank ranks, std::uint32_t rounds) {
  const double wide = ranks <= 4 ? 124 : ranks <= 8 ? 140 : ranks <= 16 ? 190 : 230;
  if (rounds > 8) return 124;
  const double filling = (kLeast - kLeft - kMargin) / std::max(rounds, 1U);
  return std::max(wide, std::min(filling, 260.0));
}

std::string shortened(std::string text) {
  constexpr std::size_t kMost = 14;
  return text.size() <= kMost ? text : text.substr(0, kMost - 1) + "\u2026";
}

/// The ranks whose lanes stand together. Without a layout they all do.
std::vector<std::vector<Rank>> nodes_of(const ir::Request& request) {
  if (!request.layout.empty()) return ir::nodes_of(request.layout);
  std::vector<Rank> all(static_cast<std::size_t>(request.ranks));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

/// "node 1" of two levels; in a grid the coordinates of the line, outermost first: "line 1,0".
std::string name_of_node(const ir::Layout& layout, Rank rank) {
  std::int32_t line = layout.cells[static_cast<std::size_t>(rank)] / layout.extents[0];
  if (layout.extents.size() <= 2) return fmt::format("node {}", line);
  std::vector<std::int32_t> coordinates;
  for (std::size_t i = 1; i < layout.extents.size(); ++i) {
    coordinates.insert(coordinates.begin(), line % layout.extents[i]);
    line /= layout.extents[i];
  }
  return fmt::format("line {}", fmt::join(coordinates, ","));
}

class Picture {
 public:
  Picture(const ir::Schedule& schedule, const ir::Proof& proof, const Traffic& traffic)
      : schedule_(schedule),
        proof_(proof),
        traffic_(traffic),
        ranks_(schedule.request.ranks),
        lane_(ranks_ <= 8    ? 52
              : ranks_ <= 16 ? 42
                             : 30),
        column_(column_for(ranks_, traffic.rounds)),
        width_(std::max(x_of(traffic.rounds) + kMargin, kLeast)),
        nodes_(nodes_of(schedule.request)),
        top_(static_cast<std::size_t>(ranks_) + schedule.groups.size()) {
    double top = kTop;
    for (const auto& node : nodes_) {
      for (const Rank rank : node) {
        top_[static_cast<std::size_t>(rank)] = top;
        top += lane_;
      }
      top += kGap;
    }
    for (std::size_t group = 0; group < schedule.groups.size(); ++group) {
      top_[static_cast<std::size_t>(ranks_) + group] = top;
      top += lane_;
    }
    bottom_ = schedule.groups.empty() ? top - kGap : top;
  }

  std::string text() {
    svg_.heading(title_of(schedule_), summary_of(schedule_, proof_, traffic_));
    draw_lanes();
    draw_rounds();
    for (const Arrow& arrow : traffic_.arrows) draw_strands(arrow);
    draw_ends();
    draw_labels();
    draw_legend();
    return svg_.page(width_, bottom_ + kFoot);
  }

 private:
  [[nodiscard]] double x_of(double round) const { return kLeft + column_ * round; }
  [[nodiscard]] double y_of(Rank rank) const {
    return top_[static_cast<std::size_t>(rank)] + lane_ / 2;
  }

  [[nodiscard]] Point begin_of(const Arrow& arrow) const {
    const double half = arrow.source >= ranks_ ? 0.5 : 0;  // the network's answer
    return {x_of(arrow.round - 1 + half) + kInset, y_of(arrow.source)};
  }
  [[nodiscard]] Point end_of(const Arrow& arrow) const {
    const double half = arrow.destination >= ranks_ ? 0.5 : 0;
    return {x_of(arrow.round - half) - kInset, y_of(arrow.destination)};
  }

  /// Of an arrow: more for a larger share of the data.
  [[nodiscard]] double thickness(const Arrow& arrow) const {
    const auto share = static_cast<double>(arrow.chunks.size()) / traffic_.chunks;
    return 1.6 + 3.2 * share;
  }

  void draw_lanes() {
    if (nodes_.size() > 1) {
      for (const auto& node : nodes_) draw_node(node);
    } else {
      for (Rank rank = 0; rank < ranks_; rank += 2) draw_band(rank, 1);
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      const bool is_root = rooted(schedule_.request.collective) && rank == schedule_.request.root;
      draw_lane(rank, fmt::format("rank {}", rank), is_root);
    }
    for (std::size_t group = 0; group < schedule_.groups.size(); ++group)
      draw_lane(ranks_ + static_cast<Rank>(group), fmt::format("network {}", group), false);
  }

  /// Behind that many lanes, from that of `first` on.
  void draw_band(Rank first, std::size_t lanes) {
    svg_.add(R"(<rect x="0" y="{:.0f}" width="{:.0f}" height="{:.0f}" fill="{}"/>)",
             y_of(first) - lane_ / 2, width_, lane_ * static_cast<double>(lanes), kBand);
  }

  /// A band behind its lanes, and its name along them.
  void draw_node(const std::vector<Rank>& ranks) {
    draw_band(ranks.front(), ranks.size());
    const double middle = (y_of(ranks.front()) + y_of(ranks.back())) / 2;
    svg_.add(
        R"svg(<text class="node" transform="translate(14 {:.0f}) rotate(-90)" fill="{}" font-size="11" text-anchor="middle">{}</text>)svg",
        middle, kSoft, name_of_node(schedule_.request.layout, ranks.front()));
  }

  void draw_lane(Rank lane, std::string_view name, bool is_root) {
    const double y = y_of(lane);
    svg_.add(R"(<text x="{}" y="{:.0f}"{}>{}</text>)",
             nodes_.size() > 1 && lane < ranks_ ? kMargin + 8 : kMargin, y + 4,
             is_root ? R"( font-weight="bold")" : "", name);
    svg_.add(R"(<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" stroke="#cbd3db"/>)", x_of(0),
             y, x_of(traffic_.rounds), y);
  }

  void draw_rounds() {
    for (std::uint32_t round = 0; round <= traffic_.rounds; ++round)
      svg_.add(
          R"(<line x1="{0:.0f}" y1="{1:.0f}" x2="{0:.0f}" y2="{2:.0f}" stroke="{3}" stroke-width="1.5"/>)",
          x_of(round), kTop, bottom_, kFaint);
    for (std::uint32_t round = 1; round <= traffic_.rounds; ++round)
      svg_.add(R"(<text x="{:.0f}" y="{:.0f}" fill="{}" text-anchor="middle">round {}</text>)",
               x_of(round - 0.5), kTop - 12, kSoft, round);
  }

  /// Side by side, in the order of chunks, on white so that what is crossed stays apart.
  void draw_strands(const Arrow& arrow) {
    const Point begin = begin_of(arrow), end = end_of(arrow);
    const double length = std::hypot(end.x - begin.x, end.y - begin.y);
    const Point across = {-(end.y - begin.y) / length, (end.x - begin.x) / length};
    const auto strands = static_cast<double>(arrow.chunks.size());
    const double strand = thickness(arrow) / strands;
    const auto line = [&](std::string_view name, double aside, std::string_view ink, double thick) {
      svg_.add(R"(<path{} d="M{:.1f} {:.1f}L{:.1f} {:.1f}" stroke="{}" stroke-width="{:.2f}"/>)",
               name, begin.x + aside * across.x, begin.y + aside * across.y,
               end.x + aside * across.x, end.y + aside * across.y, ink, thick);
    };
    line("", 0, "white", thickness(arrow) + 2);
    for (std::size_t i = 0; i < arrow.chunks.size(); ++i)
      line(R"( class="strand")", (static_cast<double>(i) - (strands - 1) / 2) * strand,
           colour(arrow.chunks[i], traffic_.chunks), strand + 0.2);
  }

  [[nodiscard]] std::string ink_of(const Arrow& arrow) const {
    return arrow.chunks.size() == 1 ? colour(arrow.chunks[0], traffic_.chunks) : std::string(kInk);
  }

  /// Dots where arrows begin, heads or pluses where they end; what several share is drawn once.
  void draw_ends() {
    std::set<std::pair<std::uint32_t, Rank>> begun, added;
    for (const Arrow& arrow : traffic_.arrows)
      if (!arrow.is_partial) draw_head(begin_of(arrow), end_of(arrow), ink_of(arrow));
    for (const Arrow& arrow : traffic_.arrows) {
      const Point begin = begin_of(arrow), end = end_of(arrow);
      if (begun.insert({arrow.round, arrow.source}).second)
        svg_.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", begin.x, begin.y, kInk);
      if (arrow.is_partial && added.insert({arrow.round, arrow.destination}).second) draw_plus(end);
    }
  }

  void draw_plus(Point at) {
    svg_.add(
        R"(<g class="plus" stroke="{2}" stroke-width="1.5"><circle cx="{0:.1f}" cy="{1:.1f}" r="6.5" fill="white"/><path d="M{3:.1f} {1:.1f}h7m-3.5 -3.5v7"/></g>)",
        at.x, at.y, kInk, at.x - 3.5);
  }

  void draw_head(Point begin, Point end, const std::string& ink) {
    const double length = std::hypot(end.x - begin.x, end.y - begin.y);
    const double ux = (end.x - begin.x) / length, uy = (end.y - begin.y) / length;
    const Point tip = {end.x + 3 * ux, end.y + 3 * uy};
    svg_.add(R"(<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z" fill="{}" stroke="white"/>)",
             tip.x, tip.y, tip.x - 11 * ux + 5 * uy, tip.y - 11 * uy - 5 * ux,
             tip.x - 11 * ux - 5 * uy, tip.y - 11 * uy + 5 * ux, ink);
  }

  /// The numbers of the chunks: once at a point from which all arrows carry the same, along each
  /// arrow where two differ, and not at all where more do.
  void draw_labels() {
    std::map<std::pair<std::uint32_t, Rank>, std::vector<const Arrow*>> leaving;
    for (const Arrow& arrow : traffic_.arrows)
      leaving[{arrow.round, arrow.source}].push_back(&arrow);
    for (const auto& [where, arrows] : leaving) {
      const bool same = std::ranges::all_of(
          arrows, [&](const Arrow* arrow) { return arrow->chunks == arrows[0]->chunks; });
      if (same) {
        draw_label_at(arrows);
      } else if (arrows.size() == 2) {
        for (const Arrow* arrow : arrows) draw_label_along(*arrow);
      }
    }
  }

  void draw_label(Point at, const Arrow& arrow, std::string_view anchor) {
    svg_.add(
        R"(<text x="{:.1f}" y="{:.1f}" fill="{}" font-size="11" text-anchor="{}" stroke="white" stroke-width="3" paint-order="stroke">{}</text>)",
        at.x, at.y, ink_of(arrow), anchor, shortened(ranges(arrow.chunks)));
  }

  /// Beside the point where these arrows begin, on the side they do not go to.
  void draw_label_at(const std::vector<const Arrow*>& arrows) {
    const Arrow& first = *arrows.front();
    const Point begin = begin_of(first);
    const bool goes_up =
        std::ranges::any_of(arrows, [&](const Arrow* arrow) { return end_of(*arrow).y < begin.y; });
    const bool goes_down =
        std::ranges::any_of(arrows, [&](const Arrow* arrow) { return end_of(*arrow).y > begin.y; });
    if (goes_up && goes_down) {
      draw_label({begin.x - 3, begin.y - 6}, first, "end");
    } else {
      draw_label({begin.x + 1, begin.y + (goes_up ? 16 : -7)}, first, "start");
    }
  }

  void draw_label_along(const Arrow& arrow) {
    const Point begin = begin_of(arrow), end = end_of(arrow);
    const double along = 34 / std::hypot(end.x - begin.x, end.y - begin.y);
    draw_label({begin.x + along * (end.x - begin.x), begin.y + along * (end.y - begin.y) - 4},
               arrow, "middle");
  }

  void draw_legend() {
    const double y = bottom_ + 34;
    double x = kMargin;
    const auto say = [&](std::string_view text, double advance) {
      svg_.add(R"(<text x="{:.0f}" y="{:.0f}" fill="{}">{}</text>)", x, y + 4, kSoft, text);
      x += advance;
    };
    if (std::ranges::any_of(traffic_.arrows, &Arrow::is_partial)) {
      draw_plus({x + 7, y});
      x += 20;
      say("added on arrival", 112);
    }
    if (!std::ranges::all_of(traffic_.arrows, &Arrow::is_partial)) {
      draw_head({x, y}, {x + 13, y}, std::string(kInk));
      x += 22;
      say("kept as it is", 92);
    }
    say("chunk", 42);
    const std::uint32_t shown = std::min(traffic_.chunks, 16U);
    for (std::uint32_t i = 0; i < shown; ++i) {
      const bool is_last = i + 1 == shown;
      const std::uint32_t chunk = is_last ? traffic_.chunks - 1 : i;
      svg_.add(R"(<rect x="{:.0f}" y="{:.0f}" width="11" height="11" rx="2" fill="{}"/>)", x, y - 6,
               colour(chunk, traffic_.chunks));
      x += 15;
      say(is_last && chunk != i ? fmt::format("... {}", chunk) : std::to_string(chunk),
          chunk < 10 ? 15 : 21);
    }
  }

  const ir::Schedule& schedule_;
  const ir::Proof& proof_;
  const Traffic& traffic_;
  Rank ranks_;
  double lane_, column_;  ///< height of a rank, width of a round
  double width_;
  std::vector<std::vector<Rank>> nodes_;  ///< from the top to the bottom
  std::vector<double> top_;               ///< of each lane: of ranks, then of groups
  double bottom_ = 0;                     ///< of the last lane
  Svg svg_;
};

}  // namespace

Result<std::string> to_svg(const ir::Schedule& schedule, const ir::Proof& proof,
                           const Traffic& traffic) {
  std::size_t strands = 0;
  for (const Arrow& arrow : traffic.arrows) strands += arrow.chunks.size();
  if (strands > kMostStrands || traffic.rounds > kMostRounds)
    return make_error(
        Code::kInvalidArgument,
        "a picture of {} messages, with {} chunks of at most {} and rounds up to {} of "
        "at most {}, is more than anyone can read: take fewer ranks (-n), or the text "
        "of it (-o FILE.txt, --rounds)",
        traffic.arrows.size(), strands, kMostStrands, traffic.rounds, kMostRounds);
  return Picture(schedule, proof, traffic).text();
}

}  // namespace tutti::tools
