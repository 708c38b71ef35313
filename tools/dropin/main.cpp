// tutti dropin: runs a program with Tutti in NCCL's place, or shows what that would mean for it.

#include "tools/dropin/events.hpp"
#include "tools/dropin/report.hpp"
#include "tools/dropin/run.hpp"
#include "tools/dropin/users.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary

constexpr std::string_view kProgram = "tutti dropin";

int check(const DropinLibraries& libraries, const std::vector<std::string>& command,
          const std::string& json_path) {
  const auto run = run_audited(libraries.auditor, command, json_path == "-");
  if (!run) return fail(kProgram, run.error());
  const std::vector<AuditedProcess> processes = parse_events(run->events);
  Checked checked{.command = command,
                  .status = run->status,
                  .processes = processes.size(),
                  .users = nccl_users(processes),
                  .our_library = libraries.nccl};
  for (NcclUser& user : checked.users) add_named_calls(user);
  const Verdict verdict = judge(checked);
  const tutti::Status written = write_results(json_path, report_text(checked, verdict),
                                              [&] { return report_json(checked, verdict); });
  return written ? verdict.code : fail(kProgram, written.error());
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app(
      "tutti dropin [--check [--json FILE]] -- COMMAND...\n\n"
      "Runs a program with Tutti's libnccl.so.2 in NCCL's place (LD_PRELOAD).\n"
      "With --check the program runs as it is, and when it has ended you see which libnccl it and\n"
      "all that it started mapped and how that was found, which calls they need, and which of\n"
      "them Tutti has: native, refused (an error that says so) or missing.",
      kProgram);
  bool checks = false;
  std::string json_path;
  app.add_flag("--check", checks, "change nothing, and report");
  app.add_option("--json", json_path,
                 "also write the report as JSON to FILE; '-': standard output, and the program's\n"
                 "own goes to standard error")
      .value_name("FILE");
  app.set_footer(
      "Exits with the program's status (128 + signal). --check: 3 when a call that the program\n"
      "needs is missing in Tutti, 5 when no libnccl was mapped.");
  std::vector<std::string> command;
  if (const auto code = app.parse_with_command(argc, argv, "tutti dropin --check", command))
    return *code;
  if (!checks && !json_path.empty())
    return fail(kProgram, kExitUsage, "--json goes with --check: there is no report without it");
  const std::vector<Output> outputs = {{"--json", json_path}};
  if (const tutti::Status writable = check_outputs(outputs); !writable)
    return fail(kProgram, writable.error());

  const auto libraries = find_libraries();
  if (!libraries) return fail(kProgram, libraries.error());
  if (!checks) return fail(kProgram, become_with(libraries->nccl, command));
  return within_memory(kProgram, [&] { return check(*libraries, command, json_path); });
}
