// tutti train: trains a byte-level transformer over ranks, and works on what that leaves.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/base/nearest.hpp"
#include "tools/program/cli.hpp"
#include "tools/train/commands.hpp"

namespace {

using namespace tutti::tools;    // NOLINT(google-build-using-namespace): the programs' vocabulary
using namespace tutti::trainer;  // NOLINT(google-build-using-namespace)

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
};
constexpr Command kCommands[] = {
    {"train", train_command},     {"eval", eval_command}, {"sample", sample_command},
    {"prepare", prepare_command}, {"plot", plot_command}, {"inspect", inspect_command},
    {"reshard", reshard_command},
};

int unknown(std::string_view word) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string meant = tutti::nearest(word, names);
  return fail("tutti train", kExitUsage,
              fmt::format("unknown command '{}'{}", word,
                          meant.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                        : fmt::format("; did you mean '{}'?", meant)));
}

}  // namespace

/// Without a command's name: trains.
int main(int argc, char** argv) {
  hold_standard_descriptors();
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.starts_with('-')) return train_command(argc, argv);
  const auto* const command = std::ranges::find(kCommands, word, &Command::name);
  return command == std::end(kCommands) ? unknown(word) : command->run(argc - 1, argv + 1);
}
