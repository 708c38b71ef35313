#include "tools/bench/launch.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include <sched.h>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/run/job.hpp"

namespace tutti::bench {

std::string launcher_variable(const Environment& environment) {
  for (const char* name : {"TUTTI_BOOTSTRAP", "MASTER_ADDR", "PMIX_RANK", "PMI_RANK", "PMI_FD",
                           "OMPI_COMM_WORLD_RANK"}) {
    if (environment(name)) return name;
  }
  // A batch script has SLURM_PROCID too; only a step has its id.
  if (environment("SLURM_STEP_ID") && environment("SLURM_PROCID")) return "SLURM_PROCID";
  return "";
}

int usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Status bind_to_processor(int index) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) {
    return system_error(Code::kUnavailable, errno, "asking for this thread's processors");
  }
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &usable) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) return ok_status();
    return system_error(Code::kUnavailable, errno,
                        fmt::format("binding to processor {}", processor));
  }
  return make_error(Code::kInvalidArgument, "this thread may use only {} processors",
                    CPU_COUNT(&usable));
}

int environment_number(const char* name) {
  const char* const text = std::getenv(name);
  int number = -1;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), number);
  return number;
}

void bind_crew(const Options& options, int thread) {
  const int local_rank = std::max(0, environment_number("LOCAL_RANK"));
  const int local_size = std::max(1, environment_number("LOCAL_WORLD_SIZE"));
  const bool fits = local_size * options.threads <= usable_processors();
  if (options.binding == Binding::kNone || !fits || options.ranks_per_thread > 1) return;
  if (const Status bound = bind_to_processor(local_rank * options.threads + thread); !bound) {
    tools::note(fmt::format("# not bound: {}\n", bound.error().what));
  }
}

int fitting_ranks(int processors, std::size_t available_bytes, std::size_t bytes_per_rank) {
  const std::size_t by_memory = available_bytes / 2 / std::max<std::size_t>(1, bytes_per_rank);
  const auto processors_wide = static_cast<std::size_t>(processors);
  return std::max(2, static_cast<int>(std::min(processors_wide, by_memory)));
}

Result<Launch> plan_launch(const Options& options, const Environment& environment,
                           int ranks_that_fit) {
  if (options.joined) return Launch{Launch::Role::kRank, 1};
  const std::string launcher = launcher_variable(environment);
  if (!launcher.empty()) {
    if (options.ranks == 0) return Launch{Launch::Role::kRank, 1};
    return make_error(Code::kInvalidArgument,
                      "--ranks {} starts ranks of its own, but {} says that a launcher started "
                      "this process: leave out --ranks, or unset {}",
                      options.ranks, launcher, launcher);
  }
  const int per_process = options.ranks_per_process();
  if (options.ranks == 0 && per_process > 1) return Launch{Launch::Role::kAlone, 1};
  const int ranks = options.ranks != 0 ? options.ranks : ranks_that_fit;
  if (ranks == per_process) return Launch{Launch::Role::kAlone, 1};
  return Launch{Launch::Role::kStarter, ranks / per_process};
}

Result<int> start_job(int processes, std::vector<std::string> arguments,
                      const std::string& program) {
  constexpr int kPeerFailed = 6;
  constexpr int kSignalled = 128;
  tools::JobOptions job;
  job.program = program;
  job.ranks = processes;
  job.command = std::move(arguments);
  job.inherit_output = true;
  job.keep_going = true;
  TUTTI_ASSIGN(const tools::JobEnd end, tools::run_job(job));
  return end.code > kSignalled && !end.interrupted ? kPeerFailed : end.code;
}

}  // namespace tutti::bench
