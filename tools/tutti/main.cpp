// tutti NAME ARGUMENTS...: runs the program tutti-NAME that lies beside this one.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/nearest.hpp"
#include "tools/program/cli.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary

struct Summary {
  std::string_view name;
  std::string_view text;
};

constexpr Summary kSummaries[] = {
    {"run", "start ranks of a program on this machine"},
    {"bench", "time and check collectives"},
    {"topo", "show the topology of this machine or another"},
    {"algo", "list, draw and prove schedules"},
    {"sim", "predict times on a topology"},
    {"calibrate", "measure what predictions need"},
    {"tune", "measure and store tuning tables"},
    {"explain", "say what would run for a size, and why"},
    {"dropin", "run a program with Tutti in NCCL's place, or check one"},
    {"doctor", "check hosts and pairs of hosts before a job runs"},
    {"env", "show every setting and what this machine offers"},
    {"train", "train with sharded data parallelism"},
};

std::string_view summary_of(std::string_view name) {
  const auto* at = std::ranges::find(kSummaries, name, &Summary::name);
  return at == std::end(kSummaries) ? "" : at->text;
}

/// Names of the tutti-NAME programs beside this one, sorted.
std::vector<std::string> commands_in(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "tutti-";
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix) && ::access(entry.path().c_str(), X_OK) == 0)
      names.push_back(name.substr(kPrefix.size()));
  }
  std::ranges::sort(names);
  return names;
}

std::string help_text(const std::vector<std::string>& commands) {
  std::string text =
      "tutti: collective communication, proved before it runs\n\n"
      "Usage: tutti COMMAND [OPTIONS]\n\nCommands:\n";
  for (const std::string& name : commands)
    text += fmt::format("  {:<10}{}\n", name, summary_of(name));
  return text + "\n'tutti COMMAND --help' says more; 'tutti --version' prints the version.\n";
}

/// What is wrong with a name that is no command.
std::string describe_unknown(const std::string& name, std::vector<std::string> names) {
  if (!summary_of(name).empty())
    return fmt::format(
        "the program tutti-{0}, which runs '{0}', is not beside this one: build the target "
        "tutti-{0}",
        name);
  names.insert(names.end(), {"help", "--help", "--version"});
  const std::string meant = tutti::nearest(name, names);
  return fmt::format("unknown {} '{}'{}", name.starts_with('-') ? "option" : "command", name,
                     meant.empty() ? "; 'tutti --help' lists what there is"
                                   : fmt::format("; did you mean '{}'?", meant));
}

int run_command(const std::filesystem::path& folder, const std::vector<std::string>& commands,
                const std::string& name, char** arguments) {
  if (std::ranges::find(commands, name) == commands.end())
    return fail("tutti", kExitUsage, describe_unknown(name, commands));
  std::string program = folder / ("tutti-" + name);
  arguments[0] = program.data();  // so that it finds itself
  ::execv(program.c_str(), arguments);
  return fail("tutti", tutti::Error{tutti::Code::kUnavailable,
                                    fmt::format("cannot run {}: {}", program,
                                                std::generic_category().message(errno))});
}

int say(std::string_view text) {
  const tutti::Status printed = print(text);
  return printed ? kExitFine : fail("tutti", printed.error());
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail("tutti", kExitEnvironment, "cannot read /proc/self/exe; is /proc mounted?");
  const std::filesystem::path folder = self.parent_path();
  const std::vector<std::string> commands = commands_in(folder);

  std::string name = argc > 1 ? argv[1] : "";
  if (name == "help" && argc > 2) {  // tutti help NAME
    name = argv[2];
    std::string help = "--help";
    char* arguments[] = {argv[2], help.data(), nullptr};
    return run_command(folder, commands, name, arguments);
  }
  if (name.empty()) {
    note(help_text(commands));
    return kExitUsage;
  }
  if (name == "help" || name == "--help" || name == "-h") return say(help_text(commands));
  if (name == "--version") return say(version_line() + "\n");
  return run_command(folder, commands, name, argv + 1);
}
