// Results of `tutti sim` as tables, CSV, JSON and pictures.
#pragma once

#include <span>
#include <string>

#include "tools/sim_run.hpp"

namespace tutti::simtool {

/// "14.3", "2048": four significant digits or whole, for times and bandwidths.
std::string number(double value);

std::string table_text(std::span<const Point> points, const Machine& machine);
/// The busiest links of each point, at most ten.
std::string links_text(std::span<const Point> points, const Machine& machine);
std::string csv_text(std::span<const Point> points, const Machine& machine);
std::string json_text(std::span<const Point> points, const Plan& plan, const Machine& machine);

/// Bus bandwidth over size: a line for each algorithm, and the bound. kInvalidArgument for a single
/// size.
Result<std::string> chart_svg(std::span<const Point> points, const Plan& plan,
                              const Machine& machine);
/// What each rank does when. kInvalidArgument with more ranks or steps than can be read.
Result<std::string> timeline_svg(const Traced& traced, const Machine& machine);
/// Who sends how much to whom, up to 64 ranks, and the busiest links.
Result<std::string> heat_svg(const Traced& traced, const Machine& machine);

}  // namespace tutti::simtool
