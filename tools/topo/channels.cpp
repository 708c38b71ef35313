#include "tools/topo/channels.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tools/picture/svg.hpp"

namespace tutti::tools {
namespace {

using topo::Graph;
using topo::GraphPattern;
using topo::GraphStop;
using Path = std::vector<GraphStop>;

/// Channels one after the other that take the same path.
struct Run {
  std::size_t first = 0, last = 0;
  const Path* path = nullptr;
};

std::vector<Run> runs_of(const Graph& graph) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < graph.channels.size(); ++i) {
    if (!runs.empty() && *runs.back().path == graph.channels[i])
      runs.back().last = i;
    else
      runs.push_back({i, i, &graph.channels[i]});
  }
  return runs;
}

std::string channels_of(const Run& run) {
  return run.first == run.last ? fmt::format("channel {}", run.first)
                               : fmt::format("channels {}-{}", run.first, run.last);
}

std::string name_of(const GraphStop& stop) {
  constexpr std::array<std::string_view, 3> kNames = {"nic", "gpu", "rank"};
  const std::string number = stop.text.empty() ? std::to_string(stop.number) : stop.text;
  return fmt::format("{}{}", kNames[static_cast<std::size_t>(stop.kind)], number);
}

std::string_view name_of(GraphPattern pattern) {
  constexpr std::array<std::string_view, 7> kNames = {
      "", "balanced tree", "split tree", "tree", "ring", "NVLS", "CollNet direct",
  };
  return kNames[static_cast<std::size_t>(pattern)];
}

/// Of graph `id`.
std::string_view use_of(std::int64_t id) {
  constexpr std::array<std::string_view, 5> kUses = {"rings", "trees", "CollNet chains", "NVLS",
                                                     "CollNet direct"};
  return kUses[static_cast<std::size_t>(id)];
}

std::string value(const Graph& graph, std::string_view key) {
  const auto found = std::ranges::find(graph.attributes, key, &topo::Attribute::key);
  return found == graph.attributes.end() ? "" : found->value;
}

/// "12.5 GB/s between GPUs by SYS", or "" where the file does not tell.
std::string told_speed(const Graph& graph, std::string_view between, const char* speed_key,
                       const char* type_key) {
  const std::string speed = value(graph, speed_key), type = value(graph, type_key);
  if (speed.empty()) return "";
  return fmt::format("; {} GB/s {}{}", speed, between, type.empty() ? "" : " by " + type);
}

bool has_nics(const Graph& graph) {
  return std::ranges::any_of(graph.channels, [](const Path& path) {
    return std::ranges::any_of(
        path, [](const GraphStop& stop) { return stop.kind == GraphStop::Kind::kNet; });
  });
}

std::string summary_of(const Graph& graph) {
  if (graph.channels.empty()) return "no channel was found";
  return fmt::format(
      "{} channel{} of pattern {}{}{}", graph.channels.size(),
      graph.channels.size() == 1 ? "" : "s", name_of(graph.pattern),
      told_speed(graph, "between GPUs", "speedintra", "typeintra"),
      has_nics(graph) ? told_speed(graph, "to NICs", "speedinter", "typeinter") : std::string());
}

/// Whether the last leads back to the first.
bool closes(const Graph& graph, const Path& path) {
  return graph.pattern == GraphPattern::kRing && path.size() > 1 &&
         path.front().kind != GraphStop::Kind::kNet;
}

class ChannelPicture {
 public:
  std::string run(const std::vector<Graph>& graphs, std::string_view name) {
    svg_.heading(fmt::format("Channels of {}", name),
                 "as NCCL found them, or as they are given to it");
    for (const Graph& graph : graphs) draw(graph);
    return svg_.page(width_, y_ + kMargin);
  }

 private:
  static constexpr double kMargin = 20, kRows = 150;  // where rows begin
  static constexpr double kBox = 58, kHeight = 24, kGap = 30, kRow = 44;
  static constexpr std::size_t kMostRows = 64;  // of a graph

  void draw(const Graph& graph) {
    svg_.words(kMargin, y_, "start", kInk, use_of(graph.id), 14, true);
    svg_.words(kRows, y_, "start", kSoft, summary_of(graph));
    width_ = std::max(width_, kRows + 7.0 * static_cast<double>(summary_of(graph).size()));
    y_ += 16;
    const std::vector<Run> runs = runs_of(graph);
    for (std::size_t i = 0; i < std::min(runs.size(), kMostRows); ++i) draw(graph, runs[i]);
    if (runs.size() > kMostRows) {
      svg_.words(kMargin, y_ + 16, "start", kSoft,
                 fmt::format("and {} more", runs.size() - kMostRows));
      y_ += kRow;
    }
    y_ += 24;
  }

  void draw(const Graph& graph, const Run& run) {
    const double middle = y_ + kHeight / 2;
    svg_.words(kMargin, middle + 4, "start", kSoft, channels_of(run));
    double x = kRows;
    for (std::size_t i = 0; i < run.path->size(); ++i) {
      const GraphStop& stop = (*run.path)[i];
      if (i > 0) arrow(x - kGap, x, middle);
      svg_.add(R"(<rect x="{:.0f}" y="{:.0f}" width="{}" height="{}" rx="4" fill="{}"/>)", x, y_,
               kBox, kHeight, kColours[stop.kind == GraphStop::Kind::kNet ? 1 : 0]);
      svg_.words(x + kBox / 2, middle + 4, "middle", "white", shortened(name_of(stop)));
      x += kBox + kGap;
    }
    if (closes(graph, *run.path)) arrow_back(x - kGap - kBox / 2);
    width_ = std::max(width_, x - kGap + kMargin);
    y_ += kRow;
  }

  static std::string shortened(std::string text) {
    constexpr std::size_t kMost = 8;  // of a NIC with its host, the end tells it from others
    return text.size() <= kMost ? text : "\u2026" + text.substr(text.size() - kMost + 1);
  }

  void arrow(double from, double to, double y) {
    svg_.line(from + 3, y, to - 8, y, kSoft);
    svg_.add(R"(<path d="M{0:.0f} {1:.0f}l-6 -4v8z" fill="{2}"/>)", to - 2, y, kSoft);
  }

  /// Below the row, from the middle of the last box to that of the first.
  void arrow_back(double from) {
    const double to = kRows + kBox / 2, below = y_ + kHeight;
    svg_.add(R"(<path d="M{:.0f} {:.0f}v8H{:.0f}v-4" fill="none" stroke="{}"/>)", from, below, to,
             kSoft);
    svg_.add(R"(<path d="M{:.0f} {:.0f}l-4 6h8z" fill="{}"/>)", to, below, kSoft);
  }

  Svg svg_;
  double y_ = 86, width_ = 620;
};

}  // namespace

std::string channels_text(const std::vector<Graph>& graphs) {
  std::string text;
  for (const Graph& graph : graphs) {
    text +=
        fmt::format("{}{}: {}\n", text.empty() ? "" : "\n", use_of(graph.id), summary_of(graph));
    for (const Run& run : runs_of(graph)) {
      std::string path;
      for (const GraphStop& stop : *run.path)
        path += fmt::format("{}{}", path.empty() ? "" : " → ", name_of(stop));
      if (closes(graph, *run.path)) path += fmt::format(" → {}", name_of(run.path->front()));
      text += fmt::format("  {:<15}{}\n", channels_of(run), path);
    }
  }
  return text.empty() ? "the file holds no graph\n" : text;
}

std::string channels_picture(const std::vector<Graph>& graphs, std::string_view name) {
  return ChannelPicture().run(graphs, name);
}

}  // namespace tutti::tools
