// tutti sim: predicts what collectives take on a machine that nobody has to own.
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/sim/options.hpp"
#include "tools/sim/report.hpp"
#include "tools/sim/run.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using namespace tutti::simtool;  // NOLINT(google-build-using-namespace)
using tutti::Code;
using tutti::make_error;
using tutti::Result;
using tutti::Status;

constexpr std::string_view kProgram = "tutti sim";

/// A bar on standard error, of runs that take longer than a second; none but on a terminal.
class ProgressBar {
 public:
  ProgressBar() : shows_(::isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {}
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void erase() {
    if (std::exchange(drawn_, false)) note("\r\x1b[K");
  }

  void show(double share, const std::string& what) {
    const auto now = tutti::Clock::now();
    if (!shows_ || now < next_) return;
    constexpr std::size_t kWidth = 30;
    const auto full = static_cast<std::size_t>(share * kWidth);
    note(fmt::format("\r\x1b[K[{:#<{}}{:.<{}}] {:3.0f} %  {}", "", full, "", kWidth - full,
                     100 * share, what));
    drawn_ = true;
    next_ = now + std::chrono::milliseconds(100);
  }

 private:
  bool shows_;
  bool drawn_ = false;
  tutti::Clock::time_point next_ = tutti::Clock::now() + std::chrono::seconds(1);
};

std::vector<Output> outputs_of(const Options& options) {
  return {{"--csv", options.csv_path},
          {"--json", options.json_path},
          {"--svg", options.svg_path},
          {"--timeline", options.timeline_path},
          {"--heat", options.heat_path}};
}

/// Whether the table is printed: standard output may be taken by a file.
bool prints_table(const Options& options) {
  return option_on_standard_output(outputs_of(options)).empty();
}

Status check_all(const Options& options) {
  TUTTI_TRY(check_outputs(outputs_of(options)));
  if (options.links && !prints_table(options))
    return make_error(Code::kInvalidArgument,
                      "{} - leaves no room for --links on standard output: give it a file",
                      option_on_standard_output(outputs_of(options)));
  return tutti::ok_status();
}

Status draw_one(const Options& options, const Plan& plan, Machine& machine) {
  if (options.timeline_path.empty() && options.heat_path.empty()) return tutti::ok_status();
  TUTTI_ASSIGN(const Traced traced, trace(plan, machine));
  if (!options.timeline_path.empty()) {
    TUTTI_ASSIGN(const std::string svg, timeline_svg(traced, machine));
    TUTTI_TRY(write_output(options.timeline_path, svg));
  }
  if (!options.heat_path.empty()) {
    TUTTI_ASSIGN(const std::string svg, heat_svg(traced, machine));
    TUTTI_TRY(write_output(options.heat_path, svg));
  }
  return tutti::ok_status();
}

Status report(const Options& options, const Plan& plan, Machine& machine,
              const std::vector<Point>& points) {
  if (options.links) TUTTI_TRY(print("\n" + links_text(points, machine)));
  if (!options.json_path.empty())
    TUTTI_TRY(write_output(options.json_path, json_text(points, plan, machine)));
  if (!options.csv_path.empty())
    TUTTI_TRY(write_output(options.csv_path, csv_text(points, machine)));
  if (!options.svg_path.empty()) {
    TUTTI_ASSIGN(const std::string svg, chart_svg(points, plan, machine));
    TUTTI_TRY(write_output(options.svg_path, svg));
  }
  return draw_one(options, plan, machine);
}

/// Prints each row of the table as it comes.
Result<std::vector<Point>> run_all(const Options& options, const Plan& plan, Machine& machine) {
  const bool prints = prints_table(options);
  const LiveTable table(plan, machine);
  std::string before = table.header();  // with the first row: what fails before it prints none
  ProgressBar bar;
  return run(
      plan, machine, [&](double share, const std::string& what) { bar.show(share, what); },
      [&](const Point& point) {
        bar.erase();
        return prints ? print(std::exchange(before, "") + table.row(point)) : tutti::ok_status();
      });
}

Status simulate(const Options& options) {
  TUTTI_TRY(check_all(options));
  TUTTI_ASSIGN(Machine machine, make_machine(options.machine));
  for (const std::string& assumption : machine.assumptions)
    note(fmt::format("{}: {}\n", kProgram, assumption));
  TUTTI_ASSIGN(const Plan plan, make_plan(options, machine));
  TUTTI_ASSIGN(const std::vector<Point> points, run_all(options, plan, machine));
  return report(options, plan, machine, points);
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app("Predicts what collectives take on a machine, and what limits them.", kProgram);
  Options options;
  add_options(app, options);
  if (const auto code = app.parse(argc, argv)) return *code;
  return within_memory(kProgram, [&] {
    const Status done = simulate(options);
    return done ? static_cast<int>(kExitFine) : fail(kProgram, done.error());
  });
}
