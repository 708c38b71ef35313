// The command line of `tutti sim`.
#pragma once

#include <string>
#include <vector>

#include "tools/program/command_line.hpp"
#include "tools/sim/machine.hpp"
#include "tools/sim/run.hpp"
#include "tutti/error.hpp"

namespace tutti::simtool {

struct Options {
  std::string collective;
  MachineOptions machine;
  std::vector<std::string> algorithms;  ///< empty or "all": all that can
  std::string min_bytes = "1K", max_bytes = "1G", step_bytes = "0";
  std::size_t step_factor = 4;
  std::vector<std::string> sizes;  ///< instead of a range
  Rank root = 0;
  std::string slice;
  std::string costs_file;
  double message_us = 0, step_us = 0;
  double reduce_gbs = 0, copy_gbs = 0;  ///< 0: free
  std::uint32_t ports = 0;
  std::vector<std::string> slow_ranks, slow_links;  ///< "NAME=FACTOR"
  bool stale_plan = false;
  std::string compress;  ///< "": data travels plain
  bool links = false;
  std::string csv_path, json_path, svg_path, timeline_path, heat_path;
};

void add_options(tools::CommandLine& app, Options& options);

/// What to simulate on the machine. kInvalidArgument names the option that is wrong.
Result<Plan> make_plan(const Options& options, const Machine& machine);

}  // namespace tutti::simtool
