// tutti-bench: times and checks collectives. Also all_reduce_perf and nccl-tests' other names.
#include <csignal>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"
#include "src/cost/asked.hpp"
#include "src/cost/tuner.hpp"
#include "tools/bench/launch.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/run.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/machine.hpp"

namespace {

using tutti::Status;
using tutti::bench::Launch;
using tutti::bench::Options;

/// The ranks of a job that nobody gave a size.
int ranks_that_fit(const Options& options) {
  constexpr std::size_t kOverhead = 32 << 20;  // of a process and its connections
  const std::size_t per_rank = 2 * std::min(options.sizes.max, SIZE_MAX / 4) + kOverhead;
  return tutti::bench::fitting_ranks(tutti::bench::usable_processors(),
                                     tutti::tools::this_machine().memory_available_bytes, per_rank);
}

/// The library would refuse it too, once on every rank.
Status check_algorithm(const std::string& name) {
  if (name.empty()) return tutti::ok_status();
  const auto known = tutti::algorithms::all();
  const std::vector<tutti::ir::Algorithm> algorithms(known.begin(), known.end());
  tutti::TunerPolicy policy{.forced = name};
  TUTTI_ASSIGN(const std::vector<std::string> paths, tutti::files_of(name));
  for (const std::string& path : paths)  // the library reads them: any algorithm will do
    policy.files[path] = &algorithms.front();
  const auto tuner = tutti::Tuner::create(algorithms, policy);
  if (tuner) return tutti::ok_status();
  return make_error(tuner.error().code, "--algo {}: {}", name, tuner.error().what);
}

/// Before a long run, not after it. Ranks of a launcher may be where the files are not.
Status check_files(const Options& options) {
  if (!options.json.empty()) TUTTI_TRY(tutti::tools::check_writable(options.json));
  if (options.compare.empty()) return tutti::ok_status();
  TUTTI_ASSIGN(const std::string text,
               tutti::read_file(options.compare, tutti::bench::kLongestJson));
  return tutti::bench::check_comparable(nlohmann::json::parse(text, nullptr, false),
                                        options.compare);
}

/// Where --compress says nothing: results are then checked within bounds.
Status take_compress_setting(std::string_view setting, Options& options) {
  TUTTI_ASSIGN(const auto asked, tutti::parse_compress_setting(setting));
  for (const tutti::AskedCompression& one : asked)
    options.compressions.emplace(one.collective, one.compression);
  return tutti::ok_status();
}

Status check_before_start(const Options& options) {
  TUTTI_TRY(check_algorithm(options.algorithm));
  return check_files(options);
}

/// This program as every process of the job it starts.
int start(int processes, std::vector<std::string> arguments, const std::string& program) {
  arguments.emplace_back(tutti::bench::kJoinedFlag);
  const auto code = tutti::bench::start_job(processes, std::move(arguments), program);
  return code ? *code : tutti::tools::fail(program, code.error());
}

int say(const std::string& text, const std::string& program) {
  const Status printed = tutti::tools::print(text);
  return printed ? tutti::tools::kExitFine : tutti::tools::fail(program, printed.error());
}

}  // namespace

int main(int argc, char** argv) {
  tutti::tools::hold_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the table that left is an error of the write
  const std::vector<std::string> arguments(argv, argv + argc);
  const std::string program = tutti::bench::program_name(arguments);
  const auto parsed = tutti::bench::parse_options(arguments);
  if (!parsed) {
    const int code = tutti::tools::fail(program, parsed.error());
    tutti::tools::note("'" + program + " --help' lists what there is.\n");
    return code;
  }
  if (!parsed->run) return say(parsed->text, program);
  Options options = *parsed->run;
  if (const char* const setting = std::getenv("TUTTI_COMPRESS");
      setting != nullptr && !options.sets_compression)
    if (const Status taken = take_compress_setting(setting, options); !taken)
      return tutti::tools::fail(program, taken.error());
  const auto launch =
      tutti::bench::plan_launch(options, tutti::process_environment(), ranks_that_fit(options));
  if (!launch) return tutti::tools::fail(options.program, launch.error());
  if (launch->role != Launch::Role::kRank) {
    if (const auto sound = check_before_start(options); !sound) {
      return tutti::tools::fail(options.program, sound.error());
    }
  }
  if (launch->role == Launch::Role::kStarter) {
    return start(launch->processes, arguments, options.program);
  }
  return tutti::bench::run_ranks(options, arguments, launch->role == Launch::Role::kRank);
}
