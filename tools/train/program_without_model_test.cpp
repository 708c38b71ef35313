// What tutti-train says where it was built without LibTorch.
#include "tools/train/program_fixture.hpp"

namespace tutti::trainer {
namespace {

tools::Outcome train_model(const std::string& arguments) {
  return tools::run_shell(TUTTI_TRAIN_PROGRAM " " + arguments);
}

TEST_F(Train, SaysHowToGetLibTorchWhereItIsNeeded) {
  for (const char* arguments : {"--data x", "eval x --data y", "sample x"})
    expect(train_model(arguments), tools::kExitEnvironment,
           "'tools/quickstart --train' installs it");
}

}  // namespace
}  // namespace tutti::trainer
