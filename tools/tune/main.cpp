// tutti-tune: measures which algorithms are the fastest on some ranks and stores a table of it,
// judges the library's own choice, or puts tables together.
#include <csignal>

#include "src/base/result.hpp"
#include "src/cost/measured_table.hpp"
#include "tools/bench/launch.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/machine.hpp"
#include "tools/tune/options.hpp"
#include "tools/tune/run.hpp"

namespace {

using tutti::Result;
using tutti::Status;
using tutti::bench::Launch;
using namespace tutti::tune;  // NOLINT(google-build-using-namespace): the program's own vocabulary

int ranks_that_fit(const Options& options) {
  constexpr std::size_t kOverhead = 32 << 20;  // of a process and its connections
  const std::size_t per_rank = 2 * std::min(options.bench.sizes.max, SIZE_MAX / 4) + kOverhead;
  return tutti::bench::fitting_ranks(tutti::bench::usable_processors(),
                                     tutti::tools::this_machine().memory_available_bytes, per_rank);
}

Status merge(const Options& options) {
  tutti::MeasuredTable all;
  for (const std::string& path : options.merge) {
    TUTTI_ASSIGN(const std::string text, tutti::read_file(path, tutti::kMostTableBytes));
    const auto table = tutti::MeasuredTable::parse(text);
    if (!table) return tutti::tools::wrong_file(path, table.error());
    all.merge(*table);
  }
  return tutti::tools::write_output(options.output, all.text());
}

/// Before a long run, not after it.
Status check_outputs(const Options& options) {
  if (!options.json.empty()) TUTTI_TRY(tutti::tools::check_writable(options.json));
  if (options.check) return tutti::ok_status();
  TUTTI_ASSIGN(const std::string path, output_path(options));
  if (const auto known = table_in(path); !known) return known.error();
  return options.output.empty() ? tutti::ok_status() : tutti::tools::check_writable(path);
}

/// This program as every process of the job it starts.
int start(int processes, std::vector<std::string> arguments) {
  arguments.emplace_back(tutti::bench::kJoinedFlag);
  const auto code = tutti::bench::start_job(processes, std::move(arguments), kProgram);
  return code ? *code : tutti::tools::fail(kProgram, code.error());
}

int fail(const tutti::Error& error) { return tutti::tools::fail(kProgram, error); }

}  // namespace

int main(int argc, char** argv) {
  tutti::tools::hold_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the table that left is an error of the write
  const std::vector<std::string> arguments(argv, argv + argc);
  Options options;
  if (const auto code = parse_options(arguments, options)) return *code;
  if (!options.merge.empty()) {
    const Status merged = merge(options);
    return merged ? tutti::tools::kExitFine : fail(merged.error());
  }
  const auto launch = tutti::bench::plan_launch(options.bench, tutti::process_environment(),
                                                ranks_that_fit(options));
  if (!launch) return fail(launch.error());
  if (launch->role != Launch::Role::kRank) {
    if (const Status sound = check_outputs(options); !sound) return fail(sound.error());
  }
  if (launch->role == Launch::Role::kStarter) return start(launch->processes, arguments);
  return run_rank(options, launch->role == Launch::Role::kRank);
}
