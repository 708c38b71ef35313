// tutti calibrate: measures on the ranks of a job what predictions have to know of a machine.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "tools/bench/launch.hpp"
#include "tools/calibrate/measure.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/program/machine.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using tutti::Calibration;
using tutti::Result;
using tutti::Status;
using tutti::bench::Launch;

constexpr std::string_view kProgram = "tutti calibrate";

struct Options {
  int ranks = 0;  ///< to be started here; 0: one for each processor
  bool joined = false;
  double seconds = 0.5;
  std::string output;
};

std::string table_text(const Calibration& calibration) {
  Table table({"CONSTANT", "VALUE", "UNIT", "OF"});
  const auto add = [&](std::string name, double value, std::string unit, std::string of) {
    table.add({std::move(name), fmt::format("{:.4g}", value), std::move(unit), std::move(of)});
  };
  add("call_us", calibration.call_us, "us", "a call, whatever it does");
  add("step_us", calibration.step_us, "us", "a copy or reduction, however short");
  add("copy_ps_per_byte", calibration.copy_ps_per_byte, "ps/byte", "a copy");
  add("reduce_ps_per_byte", calibration.reduce_ps_per_byte, "ps/byte", "a reduction");
  add("cpus_per_host", calibration.cpus_per_host, "", "ranks of a host that work at a time");
  for (const bool inside : {true, false}) {
    const auto& message = inside ? calibration.inside : calibration.between;
    const std::string where = inside ? "inside a host" : "between hosts";
    const std::string group = inside ? "inside." : "between.";
    add(group + "send_us", message.send_us, "us", "work to send a message " + where);
    add(group + "receive_us", message.receive_us, "us", "work to receive one " + where);
    add(group + "latency_us", message.latency_us, "us", "its way");
  }
  add("between.bandwidth_gbs", calibration.between_gbs, "GB/s",
      "a host's interface, both directions at once");
  return fmt::format("{}\n\n{}", calibration.measured_on, table.text({1}));
}

Status run_rank(const Options& options) {
  TUTTI_ASSIGN(const tutti::calibrate::Member member, tutti::calibrate::join());
  if (member.ranks < 2)
    return make_error(tutti::Code::kInvalidArgument,
                      "a single rank has no messages to measure: start at least 2");
  TUTTI_ASSIGN(const Calibration calibration, tutti::calibrate::measure(member, options.seconds));
  if (member.rank != 0) return tutti::ok_status();
  TUTTI_TRY(print(table_text(calibration)));
  if (options.output.empty()) return tutti::ok_status();
  return write_output(options.output, calibration_json(calibration));
}

/// This program as every rank of the job it starts.
int start(int ranks, std::vector<std::string> arguments) {
  arguments.emplace_back(tutti::bench::kJoinedFlag);
  const auto code = tutti::bench::start_job(ranks, std::move(arguments), std::string(kProgram));
  return code ? *code : fail(kProgram, code.error());
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app(
      "Measures on the ranks of a job what a prediction has to know of a machine: what calls,\n"
      "copies, reductions and messages cost, inside a host and between hosts. Started by mpirun,\n"
      "srun or torchrun it joins their job; otherwise it starts ranks here.",
      kProgram);
  Options options;
  app.add_option("-n,--ranks", options.ranks, "ranks to start here (one for each processor)")
      .in_range(2, 4096);
  app.add_option("-o,--output", options.output, "FILE for tutti sim --calibration; '-': print it");
  app.add_option("--seconds", options.seconds, "time for each of a dozen measurements (0.5)")
      .in_range(0.01, 60);
  app.add_flag(tutti::bench::kJoinedFlag, options.joined).hidden();
  if (const auto code = app.parse(argc, argv)) return *code;

  tutti::bench::Options job;
  job.program = kProgram;
  job.ranks = options.ranks;
  job.joined = options.joined;
  constexpr std::size_t kBytesPerRank = std::size_t{256} << 20U;
  const int fitting = tutti::bench::fitting_ranks(
      tutti::bench::usable_processors(), this_machine().memory_available_bytes, kBytesPerRank);
  const auto launch = plan_launch(job, tutti::process_environment(), fitting);
  if (!launch) return fail(kProgram, launch.error());
  if (launch->role == Launch::Role::kStarter) {
    if (!options.output.empty())
      if (const Status writable = check_writable(options.output); !writable)
        return fail(kProgram, writable.error());
    return start(launch->processes, {argv, argv + argc});
  }
  const Status done = run_rank(options);
  return done ? kExitFine : fail(kProgram, done.error());
}
