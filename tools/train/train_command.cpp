// tutti train, without another command's name: trains.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "tools/bench/launch.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/train/commands.hpp"
#include "tools/train/dry_run.hpp"
#include "tools/train/launch.hpp"
#include "tools/train/settings.hpp"
#include "tools/train/with_model.hpp"

namespace tutti::trainer {
namespace {

constexpr std::string_view kProgram = "tutti train";

Status predict(Options options) {
  const int ranks = std::max(1, options.ranks), hosts = std::max(1, options.hosts);
  if (ranks % hosts != 0)
    return make_error(Code::kInvalidArgument,
                      "--hosts {}: {} ranks do not spread over them in equal blocks", hosts, ranks);
  TUTTI_TRY(choose_secondary(options, ranks, hosts));
  TUTTI_ASSIGN(const Settings settings, settings_of(options, ranks));
  TUTTI_ASSIGN(const training::Plan plan, plan_of(settings, ranks));
  if (!options.link.empty() && hosts == 1)
    return make_error(Code::kInvalidArgument,
                      "--link {}: nothing crosses a link with one host; give --hosts",
                      options.link);
  const Where where{hosts, options.link, options.compute_ms / 1e3};
  TUTTI_ASSIGN(const std::string text, prediction_text(settings, plan, where));
  TUTTI_ASSIGN(const std::string json, prediction_json(settings, plan, where));
  return tools::write_results(options.json_path, text, [&] { return json; });
}

/// Starts the ranks of --ranks, with these arguments, the program left out.
Result<int> start(const Options& options, const std::vector<std::string>& arguments) {
  const std::string launcher = bench::launcher_variable(process_environment());
  if (!launcher.empty())
    return make_error(Code::kInvalidArgument,
                      "--ranks {} starts ranks of its own, but {} says that a launcher started "
                      "this process: leave out --ranks, or unset {}",
                      options.ranks, launcher, launcher);
  Options chosen = options;
  TUTTI_TRY(choose_secondary(chosen, options.ranks, 1));
  TUTTI_ASSIGN(const Settings settings, settings_of(chosen, options.ranks));
  TUTTI_TRY(plan_of(settings, options.ranks));
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return make_error(Code::kUnavailable, "cannot read /proc/self/exe; is /proc mounted?");
  std::vector<std::string> command = {self.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (options.restarts > 0 && options.tokens_per_batch == 0) {
    // With fewer ranks, too.
    command.insert(command.end(), {"--batch", std::to_string(settings.batch)});
  }
  return launch(options, command);
}

Result<int> run(const Options& options, const std::vector<std::string>& arguments) {
  if (options.restarts > 0 && options.ranks == 0)
    return make_error(Code::kInvalidArgument,
                      "--restarts {} is of the ranks that --ranks starts: give that, too",
                      options.restarts);
  TUTTI_TRY(resume_of(options));
  if (options.dry_run) {
    TUTTI_TRY(predict(options));
    return static_cast<int>(tools::kExitFine);
  }
  if (options.data.empty())
    return make_error(Code::kInvalidArgument,
                      "--data is required: a text file of some MB, as 'tools/get-text FILE' "
                      "fetches one");
  TUTTI_TRY(check_can_train());
  if (options.ranks > 0) return start(options, arguments);
  TUTTI_TRY(train_here(options));
  return static_cast<int>(tools::kExitFine);
}

}  // namespace

int train_command(int argc, char** argv) {
  tools::CommandLine app(
      "Trains a transformer on the bytes of a text, over as many ranks as there are.", kProgram);
  Options options;
  add_options(app, options);
  app.set_footer(
      "Other commands: tutti train prepare|eval|sample|plot|inspect|reshard --help.\n"
      "Several ranks: tutti train --ranks 2 ..., tutti run -n 2 -- tutti train ..., mpirun, srun,\n"
      "torchrun.");
  if (const auto code = app.parse(argc, argv)) return *code;
  return tools::within_memory(kProgram, [&] {
    const auto code = run(options, {argv + std::min(argc, 1), argv + argc});
    return code ? *code : tools::fail(kProgram, code.error());
  });
}

}  // namespace tutti::trainer
