// Drives the built tutti-train as its users do.
#include <string>

#include "tools/train/program_fixture.hpp"
#include "tools/train/step_log.hpp"

namespace tutti::trainer {
namespace {

tools::Outcome train(const std::string& arguments) {
  return tools::run_shell(TUTTI_TRAIN_PROGRAM " " + arguments);
}

TEST_F(Train, SuggestsTheNearestCommandAndOption) {
  expect(train("pepare x"), tools::kExitUsage, "did you mean 'prepare'?");
  expect(train("--stratgy ddp"), tools::kExitUsage, "did you mean '--strategy'?");
  expect(train("--data x --strategy zero4"), tools::kExitUsage, "is not one of ddp|zero1|zero2");
  expect(train("--data x --lr much"), tools::kExitUsage, "--lr");
  expect(train(""), tools::kExitUsage, "--data is required: a text file");
}

TEST_F(Train, PreparesATextAndSaysHowItIsSplit) {
  write("text", std::string(1000, 'x'));
  expect(train("prepare " + file("text") + " -o " + file("data")), tools::kExitFine,
         "900 bytes to train on, 100 to validate with");
  expect(train("prepare " + file("data") + " -o " + file("again")), tools::kExitWrongData,
         "was prepared already");
  expect(train("prepare " + file("none") + " -o " + file("data")), tools::kExitEnvironment, "none");
  write("empty", "");
  expect(train("prepare " + file("empty") + " -o " + file("data")), tools::kExitWrongData,
         "it is empty");
  expect(train("prepare " + file("text") + " -o " + file("no/where")), tools::kExitEnvironment,
         "no/where");
}

TEST_F(Train, PlotsALogAndRefusesOtherFiles) {
  std::string log = json_line(RunRecord{.data = "text"});
  for (std::uint64_t step = 1; step < 5; ++step)
    log += json_line(StepRecord{.step = step, .loss = 1, .average = 1});
  write("log.jsonl", log);
  expect(train("plot " + file("log.jsonl") + " -o -"), tools::kExitFine, "</svg>");
  write("other", "hello\n");
  expect(train("plot " + file("other") + " -o -"), tools::kExitWrongData, "line 1");
}

TEST_F(Train, InspectsAndReshardsWhatIsThere) {
  expect(train("inspect " + file("none")), tools::kExitEnvironment, "there is no checkpoint in");
  write("x.safetensors", "no");
  expect(train("reshard " + file("x.safetensors") + " -o " + file("out")), tools::kExitWrongData,
         "no safetensors file");
}

}  // namespace
}  // namespace tutti::trainer
