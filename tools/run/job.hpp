// Starts the ranks of a job as child processes, watches them, and ends them together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

struct JobOptions {
  std::string program = "tutti run";  ///< how the user called it, for messages
  std::int32_t ranks = 1;
  std::vector<std::string> command;       ///< program and arguments; looked up in PATH
  std::string bootstrap;                  ///< TUTTI_BOOTSTRAP of the ranks; "" leaves it unset
  Nanos timeout = Nanos::zero();          ///< zero: none
  Nanos grace = std::chrono::seconds(5);  ///< from SIGTERM to SIGKILL
  bool prefix = true;                     ///< "[rank] " before every line
  bool inherit_output = false;            ///< ranks write where this process writes; no prefix
  bool keep_going = false;                ///< let the other ranks run to their end when one fails
  bool ranks_explain = false;  ///< say nothing of a rank that exits with a status: it did itself
};

/// How a job ended. `code`: 0, the status of the first rank that failed (128 + signal when a signal
/// ended it), 6 after the timeout, 5 when the ranks' output could not be written (128 + SIGPIPE
/// when nobody reads it any more), 128 + signal when this process was told to end.
struct JobEnd {
  int code = 0;
  bool interrupted = false;     ///< this process was told to end
  std::vector<int> codes = {};  ///< of each rank: its status, 128 + signal when one ended it
};

/// Runs the job to its end, in this thread. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to
/// the ranks; nothing of the job outlives this call, and the ranks die with this process however it
/// ends.
///
/// An error when the job could not be started: no rank runs then. Takes over the signal mask of the
/// process for its duration; call it from a process without other threads.
Result<JobEnd> run_job(const JobOptions& options);

}  // namespace tutti::tools
