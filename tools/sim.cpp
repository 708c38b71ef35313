// tutti sim: predicts what collectives take on a machine that nobody has to own.
#include <chrono>
#include <cstdlib>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "tools/cli.hpp"
#include "tools/sim_options.hpp"
#include "tools/sim_report.hpp"
#include "tools/sim_run.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using namespace tutti::simtool;  // NOLINT(google-build-using-namespace)
using tutti::Result;
using tutti::Status;

constexpr std::string_view kProgram = "tutti sim";

/// A bar on standard error, of runs that take longer than a second; none but on a terminal.
class ProgressBar {
 public:
  ProgressBar() : shows_(::isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {}
  ~ProgressBar() {
    if (drawn_) note("\r\x1b[K");
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

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

Status check_outputs(const Options& options) {
  for (const std::string& path : {options.csv_path, options.json_path, options.svg_path,
                                  options.timeline_path, options.heat_path})
    if (!path.empty()) TUTTI_TRY(check_writable(path));
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
  std::string text = table_text(points, machine);
  if (options.links) text += "\n" + links_text(points, machine);
  TUTTI_TRY(
      write_results(options.json_path, text, [&] { return json_text(points, plan, machine); }));
  if (!options.csv_path.empty())
    TUTTI_TRY(write_output(options.csv_path, csv_text(points, machine)));
  if (!options.svg_path.empty()) {
    TUTTI_ASSIGN(const std::string svg, chart_svg(points, plan, machine));
    TUTTI_TRY(write_output(options.svg_path, svg));
  }
  return draw_one(options, plan, machine);
}

Status simulate(const Options& options) {
  TUTTI_TRY(check_outputs(options));
  TUTTI_ASSIGN(Machine machine, make_machine(options.machine));
  for (const std::string& assumption : machine.assumptions)
    note(fmt::format("{}: {}\n", kProgram, assumption));
  TUTTI_ASSIGN(const Plan plan, make_plan(options, machine));
  std::vector<Point> points;
  {
    ProgressBar bar;
    TUTTI_ASSIGN(points, run(plan, machine, [&](double share, const std::string& what) {
                   bar.show(share, what);
                 }));
  }
  return report(options, plan, machine, points);
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CLI::App app("Predicts what collectives take on a machine, and what limits them.",
               std::string(kProgram));
  Options options;
  add_options(app, options);
  if (const auto code = parse(app, argc, argv)) return *code;
  const Status done = simulate(options);
  return done ? kExitFine : fail(kProgram, done.error());
}
