#include "tools/train/launch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/run/job.hpp"
#include "tools/train/settings.hpp"

namespace tutti::trainer {
namespace {

constexpr int kSignalled = 128;  ///< and above: exit codes of those that a signal ended

tools::JobOptions job_of(int ranks, std::vector<std::string> command) {
  tools::JobOptions job;
  job.program = "tutti train";
  job.ranks = ranks;
  job.command = std::move(command);
  job.grace = std::chrono::minutes(5);  // a checkpoint is written meanwhile
  job.inherit_output = true;
  // Those that are left say what became of the others, and end by themselves.
  job.keep_going = true;
  return job;
}

int died(const tools::JobEnd& end) {
  return static_cast<int>(
      std::ranges::count_if(end.codes, [](int code) { return code > kSignalled; }));
}

}  // namespace

std::vector<std::string> without_options(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& names) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    if (std::ranges::find(names, name) == names.end())
      left.push_back(arguments[i]);
    else if (name == arguments[i])
      ++i;  // its value
  }
  return left;
}

Result<int> launch(const Options& options, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = without_options(arguments, {"--ranks", "--restarts"});
  int ranks = options.ranks;
  for (int restarts = 0;; ++restarts) {
    const tools::JobOptions job = job_of(ranks, command);
    TUTTI_ASSIGN(const tools::JobEnd end, tools::run_job(job));
    const int dead = died(end);
    const bool all_well = std::ranges::all_of(end.codes, [](int code) { return code == 0; });
    if (all_well) return static_cast<int>(tools::kExitFine);
    if (end.interrupted || dead == 0) return end.code;
    const int left = ranks_that_fit(options, ranks - dead);
    if (restarts == options.restarts || left < 1) return static_cast<int>(tools::kExitPeer);
    tools::note(
        fmt::format("tutti train: {} of {} ranks died; going on with {} from the last "
                    "checkpoint (restart {} of {})\n",
                    dead, ranks, left, restarts + 1, options.restarts));
    ranks = left;
    command = without_options(command, {"--resume"});
    command.insert(command.end(), {"--resume", "auto"});
  }
}

}  // namespace tutti::trainer
