// Decides where ranks run: joins a launcher's job or starts ranks here, and binds them to
// processors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/settings.hpp"
#include "tools/bench/options.hpp"
#include "tutti/error.hpp"

namespace tutti::bench {

/// The variable that shows that a launcher started this process ("MASTER_ADDR", "PMI_RANK" ...), or
/// "" when it is alone. Variables of a Slurm allocation alone do not count, those of a step do.
std::string launcher_variable(const Environment& environment);

/// Processors that this process may use.
int usable_processors();

/// Restricts the calling thread to the index-th (from 0) processor that it may use.
Status bind_to_processor(int index);

/// A whole number from the environment of this process, -1 without one.
int environment_number(const char* name);

/// Gives a thread that drives one rank a core of its own where all of this host fit, unless the
/// options say otherwise; says so where that fails. To be called after the library has seen how
/// many processors the process has: it decides by that how to wait.
void bind_crew(const Options& options, int thread);

/// Ranks for a job that nobody gave a size: one for each processor, fewer when their buffers would
/// fill more than half of the available memory, at least 2.
int fitting_ranks(int processors, std::size_t available_bytes, std::size_t bytes_per_rank);

/// How this process takes part.
struct Launch {
  enum class Role {
    kStarter,  ///< starts `processes` copies of this program and waits for them
    kRank,     ///< joins the job of the environment
    kAlone,    ///< all ranks are threads of this process, or driven by one
  };
  Role role = Role::kAlone;
  int processes = 1;
};

/// Decides it. An error when the options start a job inside a launcher's.
Result<Launch> plan_launch(const Options& options, const Environment& environment,
                           int ranks_that_fit);

/// kStarter: runs `arguments` (program first) as every process of a job, as `tutti run` does, and
/// returns the exit code: 128 + signal when this process was told to end, 6 when a signal ended a
/// rank. `program` is for messages. The survivors of a failed process run to their own end, so that
/// they can say what the library reports.
Result<int> start_job(int processes, std::vector<std::string> arguments,
                      const std::string& program);

}  // namespace tutti::bench
