#include "tools/algo_export.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tutti::tools {
namespace {

// --- what is drawn -------------------------------------------------------------------------------

struct Arrow {
  std::set<std::uint32_t> chunks;  ///< numbered as in the input or output
  bool adds = false;
};

/// (round, source, destination) -> the messages between them, as one arrow.
using Arrows = std::map<std::tuple<std::uint32_t, Rank, Rank>, Arrow>;

/// Scratch has no numbers of its own that a reader would know: it is named by the data it is sized
/// like.
std::uint32_t data_chunk(const ir::Program& program, ir::Space space, std::uint32_t chunk) {
  return space == ir::Space::kScratch ? program.scratch[chunk] : chunk;
}

bool touches(const ir::ChunkSet& set, const ir::ChunkSet& other) {
  return set.count > 0 && set.space == other.space && set.first == other.first;
}

/// Whether the first step that uses what arrived adds it to something.
bool is_added(const ir::Program& program, std::size_t recv) {
  const ir::ChunkSet& arrived = program.steps[recv].dst;
  const auto use = std::find_if(program.steps.begin() + static_cast<std::ptrdiff_t>(recv) + 1,
                                program.steps.end(), [&](const ir::Step& step) {
                                  return touches(step.src, arrived) || touches(step.dst, arrived);
                                });
  return use != program.steps.end() && use->verb == ir::Verb::kReduce;
}

/// The k-th send and the k-th receive of a (source, destination, lane) are one message.
using Channel = std::tuple<Rank, Rank, Lane>;

std::map<Channel, std::vector<std::size_t>> receives_of(const ir::Schedule& schedule) {
  std::map<Channel, std::vector<std::size_t>> receives;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const auto& steps = schedule.programs[rank].steps;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].verb == ir::Verb::kRecv)
        receives[{steps[i].peer, rank, steps[i].lane}].push_back(i);
  }
  return receives;
}

Arrows arrows_of(const ir::Schedule& schedule, const ir::Proof& proof) {
  const auto receives = receives_of(schedule);
  std::map<Channel, std::size_t> sent;
  Arrows arrows;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const ir::Program& program = schedule.programs[rank];
    for (const ir::Step& step : program.steps) {
      if (step.verb != ir::Verb::kSend) continue;
      const Channel channel{rank, step.peer, step.lane};
      const std::size_t recv = receives.at(channel).at(sent[channel]++);
      Arrow& arrow = arrows[{proof.round[step.peer][recv], rank, step.peer}];
      for (std::uint32_t i = 0; i < step.src.count; ++i)
        arrow.chunks.insert(data_chunk(program, step.src.space, step.src.at(i)));
      arrow.adds |= is_added(schedule.programs[step.peer], recv);
    }
  }
  return arrows;
}

// --- how it is drawn -----------------------------------------------------------------------------

constexpr double kColumn = 120, kLane = 54, kLeft = 84, kTop = 74, kFoot = 66, kGap = 16;
constexpr int kReadableFan = 2;  // labels of more arrows from one point would cover each other

double x_of(double round) { return kLeft + kColumn * round; }
double y_of(Rank rank) { return kTop + kLane * rank; }

std::string colour(std::uint32_t chunk, std::uint32_t chunks) {
  return fmt::format("hsl({:.0f},68%,42%)", 360.0 * chunk / std::max(chunks, 1U));
}

/// {0,1,2,5} -> "0-2 5"
std::string ranges(const std::set<std::uint32_t>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const std::uint32_t first = *at;
    std::uint32_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", first,
                        last > first ? fmt::format("-{}", last) : "");
  }
  return text;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string shortened(std::string text) {
  constexpr std::size_t kMost = 12;
  return text.size() <= kMost ? text : text.substr(0, kMost - 1) + "\u2026";
}

std::uint32_t chunks_of(const ir::Schedule& schedule) {
  std::int32_t blocks = 1;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const ir::BlockCounts counts = ir::block_counts(schedule.request, rank);
    blocks = std::max({blocks, counts.input, counts.output});
  }
  return schedule.chunks_per_block * static_cast<std::uint32_t>(blocks);
}

class Picture {
 public:
  Picture(const ir::Schedule& schedule, const ir::Proof& proof)
      : schedule_(schedule),
        proof_(proof),
        chunks_(chunks_of(schedule)),
        height_(y_of(schedule.request.ranks - 1) + kFoot) {}

  std::string text() {
    open();
    draw_rounds();
    draw_lanes();
    const Arrows arrows = arrows_of(schedule_, proof_);
    for (const auto& [where, arrow] : arrows) ++fan_[{std::get<0>(where), std::get<1>(where)}];
    for (const auto& [where, arrow] : arrows) draw(where, arrow);
    draw_legend();
    return svg_ + "</svg>\n";
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    svg_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void open() {
    const double width = std::max(x_of(proof_.rounds) + 40, 520.0);
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif" font-size="12">)",
        width, height_);
    add(R"(<rect width="100%" height="100%" fill="white"/>)");
    const ir::Request& request = schedule_.request;
    add(R"(<text x="16" y="26" font-size="16" font-weight="bold">{} {}, {} ranks{}{}</text>)",
        schedule_.algorithm, name_of(request.collective), request.ranks,
        rooted(request.collective) ? fmt::format(", root {}", request.root) : "",
        request.in_place ? ", in place" : "");
    add(R"(<text x="16" y="44" fill="#666">{}; {} of data; a rank sends {} in all at most</text>)",
        counted(proof_.rounds, "round"), counted(chunks_, "chunk"),
        counted(proof_.max_chunks_sent, "chunk"));
  }

  void draw_rounds() {
    for (std::uint32_t round = 0; round <= proof_.rounds; ++round)
      add(R"(<line x1="{0:.0f}" y1="{1:.0f}" x2="{0:.0f}" y2="{2:.0f}" stroke="#e4e4e4"/>)",
          x_of(round), kTop - 10, y_of(schedule_.request.ranks - 1) + 10);
    for (std::uint32_t round = 1; round <= proof_.rounds; ++round)
      add(R"(<text x="{:.0f}" y="{:.0f}" fill="#999" text-anchor="middle">{}</text>)",
          x_of(round - 0.5), kTop - 14, round);
  }

  void draw_lanes() {
    for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
      add(R"(<text x="16" y="{:.0f}">rank {}</text>)", y_of(rank) + 4, rank);
      add(R"(<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" stroke="#bbb"/>)", x_of(0),
          y_of(rank), x_of(proof_.rounds), y_of(rank));
    }
  }

  void draw(const Arrows::key_type& where, const Arrow& arrow) {
    const auto [round, source, destination] = where;
    const double x1 = x_of(round - 1) + kGap / 2, x2 = x_of(round) - kGap / 2;
    const double y1 = y_of(source), y2 = y_of(destination);
    const std::string ink = colour(*arrow.chunks.begin(), chunks_);
    add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>)", x1, y1, ink);
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="1.8"/>)",
        x1, y1, x2, y2, ink);
    draw_head(x1, y1, x2, y2, ink, arrow.adds);
    if (fan_.at({round, source}) <= kReadableFan)
      draw_label(x1, y1, x2, y2, ink, shortened(ranges(arrow.chunks)));
  }

  /// Near the source, where arrows have not crossed yet.
  void draw_label(double x1, double y1, double x2, double y2, const std::string& ink,
                  const std::string& text) {
    const double along = 30 / std::hypot(x2 - x1, y2 - y1);
    add(R"(<text x="{:.1f}" y="{:.1f}" fill="{}" font-size="11" text-anchor="middle" stroke="white" stroke-width="3" paint-order="stroke">{}</text>)",
        x1 + along * (x2 - x1), y1 + along * (y2 - y1) - 4, ink, text);
  }

  void draw_head(double x1, double y1, double x2, double y2, const std::string& ink, bool adds) {
    if (adds) {
      add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="6" fill="white" stroke="{}" stroke-width="1.5"/>)",
          x2, y2, ink);
      add(R"(<path d="M{0:.1f} {1:.1f}h7m-3.5 -3.5v7" stroke="{2}" stroke-width="1.5"/>)", x2 - 3.5,
          y2, ink);
      return;
    }
    const double length = std::hypot(x2 - x1, y2 - y1);
    const double ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    add(R"(<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z" fill="{}"/>)", x2, y2,
        x2 - 9 * ux + 4 * uy, y2 - 9 * uy - 4 * ux, x2 - 9 * ux - 4 * uy, y2 - 9 * uy + 4 * ux,
        ink);
  }

  void draw_legend() {
    constexpr std::uint32_t kMost = 16;
    const double y = height_ - 16;
    add(R"(<text x="16" y="{:.0f}" fill="#666">chunk</text>)", y);
    for (std::uint32_t chunk = 0; chunk < std::min(chunks_, kMost); ++chunk) {
      const double x = 64 + 28.0 * chunk;
      add(R"(<rect x="{:.0f}" y="{:.0f}" width="10" height="10" fill="{}"/>)", x, y - 9,
          colour(chunk, chunks_));
      add(R"(<text x="{:.0f}" y="{:.0f}" font-size="11">{}</text>)", x + 13, y, chunk);
    }
    if (chunks_ > kMost)
      add(R"(<text x="{:.0f}" y="{:.0f}" fill="#666">to {}</text>)", 64 + 28.0 * kMost, y,
          chunks_ - 1);
  }

  const ir::Schedule& schedule_;
  const ir::Proof& proof_;
  std::uint32_t chunks_;
  double height_;
  std::map<std::pair<std::uint32_t, Rank>, int> fan_;  ///< arrows by (round, source)
  std::string svg_;
};

// --- JSON ----------------------------------------------------------------------------------------

using Json = nlohmann::ordered_json;

Json json_of(const ir::ChunkSet& set) {
  return {{"space", name_of(set.space)},
          {"first", set.first},
          {"count", set.count},
          {"stride", set.stride}};
}

Json json_of(const ir::Step& step) {
  Json json = {{"verb", name_of(step.verb)}};
  if (uses_src(step.verb)) json["src"] = json_of(step.src);
  if (uses_dst(step.verb)) json["dst"] = json_of(step.dst);
  if (uses_peer(step.verb)) {
    json["peer"] = step.peer;
    json["lane"] = step.lane;
  }
  json["deps"] = step.deps;
  return json;
}

}  // namespace

std::string to_svg(const ir::Schedule& schedule, const ir::Proof& proof) {
  return Picture(schedule, proof).text();
}

std::string to_json(const ir::Schedule& schedule) {
  const ir::Request& request = schedule.request;
  Json json = {{"algorithm", schedule.algorithm}, {"collective", name_of(request.collective)},
               {"ranks", request.ranks},          {"root", request.root},
               {"in_place", request.in_place},    {"chunks_per_block", schedule.chunks_per_block},
               {"lanes", schedule.lanes},         {"programs", Json::array()}};
  for (const ir::Program& program : schedule.programs) {
    Json steps = Json::array();
    for (const ir::Step& step : program.steps) steps.push_back(json_of(step));
    json["programs"].push_back({{"scratch", program.scratch}, {"steps", std::move(steps)}});
  }
  return json.dump(1) + "\n";
}

}  // namespace tutti::tools
