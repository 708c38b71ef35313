// tutti doctor: checks hosts, and pairs of them, before a job runs there.
#include <csignal>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "src/bootstrap/launcher.hpp"
#include "src/wire/service.hpp"
#include "tools/doctor/examine.hpp"
#include "tools/doctor/findings.hpp"
#include "tools/doctor/hosts.hpp"
#include "tools/doctor/report.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tutti/tutti.h"

namespace {

using namespace tutti::tools;   // NOLINT(google-build-using-namespace): the programs' vocabulary
using namespace tutti::doctor;  // NOLINT(google-build-using-namespace): this is its program
using tutti::Result;
using tutti::Status;

constexpr std::string_view kProgram = "tutti doctor";
constexpr std::size_t kTerminalWidth = 100;

struct Options {
  std::vector<std::string> hosts;
  std::string ssh = "ssh", program, json;
  double patience = 30;
  bool all_pairs = false, strict = false;
  // Of the ranks that start_on_hosts() starts.
  bool go = false, variables_from_input = false;
  std::vector<std::string> names;
};

tutti::Nanos duration_of(double seconds) {
  return std::chrono::duration_cast<tutti::Nanos>(std::chrono::duration<double>(seconds));
}

/// What every rank on a host is given.
std::vector<std::string> arguments_of_rank(const Options& options) {
  std::vector<std::string> words = {fmt::format("--timeout={}", options.patience),
                                    fmt::format("--names={}", fmt::join(options.hosts, ","))};
  if (options.all_pairs) words.emplace_back("--all-pairs");
  if (options.strict) words.emplace_back("--strict");
  if (!options.json.empty()) words.emplace_back("--json=-");
  return words;
}

HostsOptions hosts_options(const Options& options) {
  HostsOptions of_hosts{.hosts = options.hosts,
                        .ssh = options.ssh,
                        .program = options.program,
                        .arguments = arguments_of_rank(options),
                        .json = options.json};
  // Each round of pairs takes a minute at most.
  of_hosts.limit = duration_of(options.patience) +
                   std::chrono::minutes(2 + static_cast<int>(options.hosts.size()));
  return of_hosts;
}

int start(const Options& options) {
  std::vector<std::string> self = {"--go", "--ssh=" + options.ssh,
                                   fmt::format("--timeout={}", options.patience)};
  if (!options.program.empty()) self.push_back("--program=" + options.program);
  if (!options.json.empty()) self.push_back("--json=" + options.json);
  if (options.all_pairs) self.emplace_back("--all-pairs");
  if (options.strict) self.emplace_back("--strict");
  self.insert(self.end(), options.hosts.begin(), options.hosts.end());
  const auto code = start_on_hosts(hosts_options(options), self);
  return code ? *code : fail(kProgram, code.error());
}

/// Text on standard output, unless the JSON goes there: then on standard error.
Result<int> report(const JobFacts& job, const Options& options) {
  const std::vector<Finding> findings = all_findings(job);
  const int shown_on = options.json == "-" ? STDERR_FILENO : STDOUT_FILENO;
  const std::string text = text_of(job, findings, ::isatty(shown_on) != 0 ? kTerminalWidth : 0);
  if (options.json == "-") note(text);
  TUTTI_TRY(write_results(options.json, text, [&] {
    return json_of(job, findings).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n";
  }));
  return exit_code_of(job, findings, options.strict);
}

Result<int> examine_alone(const tutti::Settings& settings, const std::string& version,
                          const Options& options) {
  TUTTI_ASSIGN(const auto station,
               Station::open(settings, std::random_device()(), tutti::random_key(), version));
  JobFacts job;
  job.hosts.push_back(station->facts());
  return report(job, options);
}

Result<int> take_part(const Options& options) {
  TUTTI_ASSIGN(const tutti::Settings settings, tutti::Settings::load(tutti::process_environment()));
  TUTTI_ASSIGN(const tutti::Job job, tutti::detect_job(tutti::process_environment()));
  const std::string version = tuttiVersion();
  if (job.meeting == tutti::Meeting::kAlone || job.size == 1)
    return examine_alone(settings, version, options);

  TUTTI_ASSIGN(const auto service, tutti::Service::create());
  ExamineOptions how{.patience = duration_of(options.patience),
                     .all_pairs = options.all_pairs,
                     .names = options.names};
  how.join.interfaces = {settings.text("SOCKET_IFNAME"), settings.text("SOCKET_FAMILY")};
  how.join.liveness = duration_of(settings.seconds("LIVENESS"));
  TUTTI_ASSIGN(const tutti::MeetingPoint point,
               tutti::meet_job(service, job, how.join, tutti::Deadline::after(how.patience)));
  how.join
      .interfaces = {};  // the interface that reaches rank 0: faults of the chosen one are found
  auto station = Station::open(settings, service->token(), point.id.key, version);
  if (point.rank != 0) {
    TUTTI_TRY(be_examined(service, point, std::move(station), how));
    return int{kExitFine};
  }
  if (!station) return station.error();
  return report(examine(service, point, **station, how), options);
}

int run(Options& options) {
  if (options.variables_from_input)
    if (const Status taken = take_variables_from_input(); !taken)
      return fail(kProgram, taken.error());
  if (options.go) return fail(kProgram, go_to_host(hosts_options(options)));
  if (!options.json.empty() && options.names.empty())
    if (const Status writable = check_writable(options.json); !writable)
      return fail(kProgram, writable.error());
  if (!options.hosts.empty()) {
    options.hosts = hosts_to_check(options.hosts);
    if (options.hosts.size() > 1) return start(options);
  }
  const auto code = take_part(options);
  return code ? *code : fail(kProgram, code.error());
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that left is an error of the write
  CommandLine app(
      "tutti doctor [OPTIONS] [HOST...]\n\n"
      "Checks this machine, the hosts that are named (through ssh), or those of the job that a\n"
      "launcher started (mpirun, srun, tutti run): versions, clocks, limits, RDMA ports; and for\n"
      "pairs of hosts whether they reach each other, and how fast. Says what is wrong and what to\n"
      "do.",
      kProgram);
  Options options;
  app.add_option("HOST", options.hosts,
                 "a host that ssh reaches without a password; one alone is checked together with "
                 "this machine");
  app.add_option("--json", options.json,
                 "also write the result as JSON to FILE; '-': standard output")
      .value_name("FILE");
  app.add_option("--timeout", options.patience, "seconds that hosts may take to come")
      .shows_default()
      .in_range(1, 3600);
  app.add_flag("--all-pairs", options.all_pairs,
               "all pairs, however many hosts; else more than 32 hosts are checked by a sample");
  app.add_flag("--strict", options.strict, "exit 5 for warnings, too");
  app.add_option("--ssh", options.ssh, "the command that reaches a host").shows_default();
  app.add_option("--program", options.program, "tutti-doctor on the other hosts (the same path)")
      .value_name("FILE");
  app.add_flag("--go", options.go).hidden();
  app.add_flag("--variables-from-input", options.variables_from_input).hidden();
  app.add_option("--names", options.names, "").comma_separated().hidden();
  app.set_footer(
      "Exits with 0 if nothing is wrong or there are only warnings, 5 with errors, 6 if a host "
      "did\n"
      "not answer.");
  if (const auto code = app.parse(argc, argv)) return *code;
  return within_memory(kProgram, [&] { return run(options); });
}
