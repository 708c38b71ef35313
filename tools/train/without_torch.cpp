// What a build without LibTorch answers where a model is needed.
#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/train/commands.hpp"
#include "tools/train/with_model.hpp"

namespace tutti::trainer {

Status check_can_train() {
  return make_error(Code::kUnsupported,
                    "this program was built without LibTorch, which computes the model: "
                    "'tools/quickstart --train' installs it (Debian's libtorch-dev) and builds "
                    "again; prepare, plot, inspect, reshard and --dry-run work without");
}

Status train_here(const Options& /*options*/) { return check_can_train(); }

int eval_command(int /*argc*/, char** /*argv*/) {
  return tools::fail("tutti train eval", check_can_train().error());
}

int sample_command(int /*argc*/, char** /*argv*/) {
  return tools::fail("tutti train sample", check_can_train().error());
}

}  // namespace tutti::trainer
