// tutti run: starts ranks of a program on this machine.

#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/run/job.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary

constexpr std::string_view kProgram = "tutti run";
constexpr int kMostRanks = 4096;

tutti::Nanos seconds(double value) {
  return std::chrono::duration_cast<tutti::Nanos>(std::chrono::duration<double>(value));
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app(
      "tutti run -n N [OPTIONS] -- COMMAND...\n\n"
      "Starts N ranks of a program on this machine and ends them together.\n"
      "For several hosts use mpirun, srun or torchrun: the library reads their environments.",
      kProgram);
  JobOptions options;
  double timeout = 0, grace = 5;
  bool no_prefix = false;
  app.add_option("-n,--ranks", options.ranks, "number of ranks").required().in_range(1, kMostRanks);
  app.add_option("--bootstrap", options.bootstrap, "URL of the rendezvous (sets TUTTI_BOOTSTRAP)");
  app.add_option("--timeout", timeout, "seconds after which the job is ended, exit 6; 0: never")
      .in_range(0, 1e7);
  app.add_option("--grace", grace, "seconds between SIGTERM and SIGKILL")
      .shows_default()
      .in_range(0, 1e5);
  app.add_flag("--keep-going", options.keep_going, "when a rank fails, let the others finish");
  app.add_flag("--no-prefix", no_prefix, "do not put the rank before each line of output");
  app.set_footer(
      "The ranks find RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT\n"
      "and TUTTI_JOB_KEY in their environment. Exits with the status of the first rank that\n"
      "fails (128 + signal).");
  if (const auto code = app.parse_with_command(argc, argv, "tutti run -n 4", options.command))
    return *code;
  options.timeout = seconds(timeout);
  options.grace = seconds(grace);
  options.prefix = !no_prefix;

  const auto end = run_job(options);
  return end ? end->code : fail(kProgram, end.error());
}
