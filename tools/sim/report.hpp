// Results of `tutti sim` as tables, CSV, JSON and pictures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/sim/run.hpp"

namespace tutti::simtool {

/// "14.3", "2048": four significant digits or whole, for times and bandwidths.
std::string number(double value);

/// The table as it grows: its columns are wide enough for every row of the plan from the start.
class LiveTable {
 public:
  LiveTable(const Plan& plan, const Machine& machine);
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string row(const Point& point) const;

 private:
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;

  const Machine* machine_;
  std::vector<std::size_t> widths_;
};

/// Links that are as busy as each other, and alike but for the numbers in their names.
struct LinkGroup {
  sim::LinkId first = 0;
  std::size_t links = 0;
  std::string name;  ///< of a single link its own, of several "64 alike: gpu -> nic"
};
/// All links in use, the busiest first.
std::vector<LinkGroup> link_groups(const Point& point, const Machine& machine);

/// The busiest links of each point, at most ten groups.
std::string links_text(std::span<const Point> points, const Machine& machine);
std::string csv_text(std::span<const Point> points, const Machine& machine);
std::string json_text(std::span<const Point> points, const Plan& plan, const Machine& machine);

/// Bus bandwidth over size: a line for each algorithm, and the bound. kInvalidArgument for a single
/// size.
Result<std::string> chart_svg(std::span<const Point> points, const Plan& plan,
                              const Machine& machine);
/// Most ranks of a timeline.
inline constexpr Rank kMostTimelineRanks = 32;
/// What each rank does when. kInvalidArgument with more ranks or steps than can be read.
Result<std::string> timeline_svg(const Traced& traced, const Machine& machine);
/// Who sends how much to whom, up to 64 ranks, and the busiest links.
Result<std::string> heat_svg(const Traced& traced, const Machine& machine);

}  // namespace tutti::simtool
