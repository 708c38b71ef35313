// tutti train, without another command's name: trains.
#include "src/base/result.hpp"
#include "tools/cli.hpp"
#include "tools/train/commands.hpp"
#include "tools/train/options.hpp"
#include "tools/train/with_model.hpp"

namespace tutti::trainer {
namespace {

constexpr std::string_view kProgram = "tutti train";

Status run(const Options& options) {
  TUTTI_TRY(check_can_train());
  return train_here(options);
}

}  // namespace

int train_command(int argc, char** argv) {
  CLI::App app("Trains a transformer on the bytes of a text, over as many ranks as there are.",
               std::string(kProgram));
  Options options;
  add_options(app, options);
  app.footer(
      "Other commands: tutti train prepare|eval|sample|plot|inspect|reshard --help.\n"
      "Several ranks: tutti train --ranks 2 ..., tutti run -n 2 -- tutti train ..., mpirun, srun,\n"
      "torchrun.");
  if (const auto code = tools::parse(app, argc, argv)) return *code;
  return tools::within_memory(kProgram, [&] {
    const Status done = run(options);
    return done ? static_cast<int>(tools::kExitFine) : tools::fail(kProgram, done.error());
  });
}

}  // namespace tutti::trainer
