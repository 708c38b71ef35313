#include "tools/tune/run.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/cost/measured_store.hpp"
#include "tools/bench/launch.hpp"
#include "tools/program/cli.hpp"
#include "tools/tune/report.hpp"

namespace tutti::tune {
namespace {

/// While a table is made, neither the one before nor trials are to choose, nor is anything forced.
/// The library reads these when its first function is called.
void leave_to_the_rules() {
  ::setenv("TUTTI_DEVICE", "host", 1);  // tables are of host memory
  ::setenv("TUTTI_TUNING", "off", 1);
  ::setenv("TUTTI_TUNING_TABLE", "none", 1);
  for (const char* const name : {"TUTTI_ALGO", "NCCL_ALGO"}) ::unsetenv(name);
}

Result<std::vector<bench::Shape>> shapes_of(const bench::Options& options, Collective test,
                                            Rank ranks) {
  TUTTI_ASSIGN(const std::vector<std::size_t> sizes, tools::sizes_of(options.sizes));
  std::vector<bench::Shape> shapes;
  for (const std::size_t size : sizes) {
    const bench::Shape shape{test,
                             DataType::kFloat32,
                             ReduceOp::kSum,
                             ranks,
                             0,
                             bench::count_for(test, DataType::kFloat32, ranks, size)};
    if (shapes.empty() || !(shapes.back() == shape)) shapes.push_back(shape);
  }
  return shapes;
}

class Walk {
 public:
  Walk(bench::Crew& crew, const Options& options)
      : crew_(crew), options_(options), progress_(crew.leads()) {}

  Status run() {
    TUTTI_ASSIGN(const bench::Crew::Placement placement, crew_.placement());
    arrangement_ = arrangement_of(placement.host);
    arrangement_.topology = placement.topology;
    std::size_t largest = 0;
    for (const Collective test : options_.bench.tests) {
      TUTTI_ASSIGN(auto shapes, shapes_of(options_.bench, test, crew_.job_size()));
      for (const bench::Shape& shape : shapes)
        largest = std::max(largest, bench::shown_bytes(shape));
      count_ += shapes.size();
      shapes_.push_back(std::move(shapes));
    }
    TUTTI_ASSIGN(const bench::CrewBuffers buffers,
                 bench::allocate_buffers(crew_, options_.bench, largest));
    Meter meter(crew_, buffers, options_.meter, placement.host);
    say(table_head(options_.check, arrangement_));
    for (const auto& shapes : shapes_)
      for (const bench::Shape& shape : shapes) TUTTI_TRY(measure(meter, shape));
    progress_.clear();
    return ok_status();
  }

  [[nodiscard]] const std::vector<Cell>& cells() const { return cells_; }
  [[nodiscard]] const Arrangement& arrangement() const { return arrangement_; }

  /// What the cells say, by collective.
  [[nodiscard]] MeasuredTable table() const {
    MeasuredTable table;
    const std::int64_t now = seconds_since_1970();
    for (auto begin = cells_.begin(); begin != cells_.end();) {
      const auto end = std::find_if(begin, cells_.end(), [&](const Cell& cell) {
        return cell.collective != begin->collective;
      });
      for (const MeasuredRange& range : ranges_of({begin, end}, arrangement_, now))
        table.add(range);
      begin = end;
    }
    return table;
  }

 private:
  Status measure(Meter& meter, const bench::Shape& shape) {
    progress_.show(cells_.size(), count_,
                   fmt::format("{} {}", bench::test_name(shape.test),
                               tools::size_text(bench::shown_bytes(shape))));
    TUTTI_ASSIGN(Cell cell, meter.measure(shape));
    progress_.clear();
    say(table_row(options_.check, cell));
    cells_.push_back(std::move(cell));
    return ok_status();
  }

  /// A table that nobody can read is no reason to stop measuring.
  void say(const std::string& text) const {
    if (!crew_.leads()) return;
    if (options_.json == "-")
      tools::note(text);
    else
      (void)tools::print(text);
  }

  bench::Crew& crew_;
  const Options& options_;
  tools::ProgressBar progress_;
  Arrangement arrangement_;
  std::vector<std::vector<bench::Shape>> shapes_;
  std::size_t count_ = 0;
  std::vector<Cell> cells_;
};

Status store(const MeasuredTable& measured, const std::string& path) {
  TUTTI_ASSIGN(MeasuredTable all, table_in(path));
  all.merge(measured);
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // what is missing then shows at once
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  return tools::write_output(path, all.text());
}

/// What rank 0 does with what was measured; the exit code.
Result<int> conclude(const Walk& walk, const Options& options, const std::string& path) {
  if (!options.json.empty())
    TUTTI_TRY(tools::write_output(options.json, json_text(walk.arrangement(), walk.cells())));
  if (!options.check) {
    const MeasuredTable measured = walk.table();
    TUTTI_TRY(store(measured, path));
    tools::note(
        fmt::format("{}: {} ranges were added to {}\n", kProgram, measured.ranges().size(), path));
    return tools::kExitFine;
  }
  const std::string text = regret_text(walk.cells());
  if (options.json == "-")
    tools::note(text);
  else
    TUTTI_TRY(tools::print(text));
  const double percent = 100 * summary_of(walk.cells()).geometric_mean;
  const bool slow = options.expected_percent >= 0 && percent > options.expected_percent;
  return slow ? tools::kExitSlow : tools::kExitFine;
}

}  // namespace

Result<std::string> output_path(const Options& options) {
  if (!options.output.empty()) return options.output;
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  std::string path = store_of_table(settings)->path();
  if (path.empty())
    return make_error(Code::kInvalidArgument,
                      "there is no file for the table: name one with -o or TUTTI_TUNING_TABLE");
  return path;
}

Result<MeasuredTable> table_in(const std::string& path) {
  std::error_code ignored;
  if (path == "-" || !std::filesystem::exists(path, ignored)) return MeasuredTable();
  TUTTI_ASSIGN(const std::string text, read_file(path, kMostTableBytes));
  auto known = MeasuredTable::parse(text);
  if (known && !known->machine.empty())
    return make_error(Code::kInvalidArgument,
                      "{} has verdicts of trials (TUTTI_TUNING_FILE), and stays as it is: name "
                      "another file",
                      path);
  if (known) return known;
  return make_error(Code::kInvalidArgument,
                    "{} is no table and stays as it is: name another file with -o, or remove it "
                    "({})",
                    path, known.error().what);
}

int run_rank(const Options& options, bool launched) {
  std::string path;
  if (!options.check) {
    auto known = output_path(options);
    if (!known) return tools::fail(kProgram, known.error());
    path = *std::move(known);
    leave_to_the_rules();
  }
  auto meeting = bench::meet(options.bench, launched);
  if (!meeting) return tools::fail(kProgram, meeting.error());
  auto crew = bench::Crew::join(*meeting, options.bench, 0);
  if (!crew) return tools::fail(kProgram, crew.error());
  bench::bind_crew(options.bench, 0);
  Walk walk(*crew, options);
  if (const Status walked = walk.run(); !walked) {
    crew->abort();
    return tools::fail(kProgram, walked.error());
  }
  if (!crew->leads()) return tools::kExitFine;
  const auto code = conclude(walk, options, path);
  return code ? *code : tools::fail(kProgram, code.error());
}

}  // namespace tutti::tune
