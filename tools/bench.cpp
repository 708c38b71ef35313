// tutti-bench: times and checks collectives. Also all_reduce_perf and nccl-tests' other names.
#include <cstdio>

#include "src/base/result.hpp"
#include "tools/bench_launch.hpp"
#include "tools/bench_options.hpp"
#include "tools/bench_run.hpp"
#include "tools/cli.hpp"
#include "tools/machine.hpp"

namespace {

using tutti::bench::Launch;

/// The ranks of a job that nobody gave a size.
int ranks_that_fit(const tutti::bench::Options& options) {
  constexpr std::size_t kOverhead = 32 << 20;  // of a process and its connections
  const std::size_t per_rank = 2 * options.sizes.max + kOverhead;
  return tutti::bench::fitting_ranks(tutti::bench::usable_processors(),
                                     tutti::tools::this_machine().memory_available_bytes, per_rank);
}

/// Before a long run, not after it. Ranks of a launcher may be where the file is not.
tutti::Status check_files(const tutti::bench::Options& options) {
  if (options.compare.empty()) return tutti::ok_status();
  TUTTI_TRY(tutti::tools::read_file(options.compare, tutti::bench::kLongestJson));
  return tutti::ok_status();
}

/// This program as every process of the job it starts.
int start(int processes, std::vector<std::string> arguments, const std::string& program) {
  arguments.emplace_back(tutti::bench::kJoinedFlag);
  const auto code = tutti::bench::start_job(processes, std::move(arguments));
  return code ? *code : tutti::tools::fail(program, code.error());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  const auto parsed = tutti::bench::parse_options(arguments);
  if (!parsed) return tutti::tools::fail("tutti bench", parsed.error());
  if (!parsed->run) {
    fmt::print("{}", parsed->text);
    return tutti::tools::kExitFine;
  }
  const tutti::bench::Options& options = *parsed->run;
  const auto launch =
      tutti::bench::plan_launch(options, tutti::process_environment(), ranks_that_fit(options));
  if (!launch) return tutti::tools::fail(options.program, launch.error());
  if (launch->role != Launch::Role::kRank) {
    if (const auto readable = check_files(options); !readable) {
      return tutti::tools::fail(options.program, readable.error());
    }
  }
  if (launch->role == Launch::Role::kStarter) {
    return start(launch->processes, arguments, options.program);
  }
  return tutti::bench::run_ranks(options, arguments, launch->role == Launch::Role::kRank);
}
