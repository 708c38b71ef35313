// Trains small models, and ends the ranks that do so in all kinds of ways.
#include <csignal>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tools/train/checkpoints.hpp"
#include "tools/train/program_fixture.hpp"
#include "tools/train/step_log.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using tools::Outcome;

Outcome train_model(const std::string& arguments) {
  return tools::run_shell(TUTTI_TRAIN_PROGRAM " " + arguments);
}

/// Trains for a moment: some thousand parameters.
class Training : public Train {
 protected:
  Training() {
    std::string text;
    for (int i = 0; i < 2000; ++i)
      text += fmt::format("the {}. fox jumps over the {} lazy dogs\n", i, i * i % 97);
    write("text", text);
  }
  [[nodiscard]] std::string options(const std::string& out, const std::string& more) const {
    return fmt::format(
        "--data {} --out {} --layers 2 --width 32 --heads 2 --context 32 --batch 8 --sample-bytes "
        "0 --threads 1 {}",
        file("text"), file(out), more);
  }
  [[nodiscard]] Outcome run(const std::string& out, const std::string& more) const {
    return train_model(options(out, more));
  }
  /// One that has to do well.
  void must_run(const std::string& out, const std::string& more) const {
    const Outcome outcome = run(out, more);
    ASSERT_EQ(outcome.code, tools::kExitFine) << outcome.output;
  }
  /// A run that the test ends by signals; what it writes can be read.
  [[nodiscard]] std::vector<std::string> command(const std::string& out,
                                                 const std::string& more) const {
    return {"/bin/sh", "-c", "exec " TUTTI_TRAIN_PROGRAM " " + options(out, more) + " 2>&1"};
  }
  [[nodiscard]] WholeCheckpoint saved(const std::string& out) const {
    const auto checkpoint = open_checkpoint(file(out));
    EXPECT_TRUE(checkpoint) << checkpoint.error().what;
    auto whole = read_whole(*checkpoint);
    EXPECT_TRUE(whole) << whole.error().what;
    return *std::move(whole);
  }
  [[nodiscard]] StepLog log(const std::string& out) const {
    std::stringstream text;
    text << std::ifstream(file(out) + "/log.jsonl").rdbuf();
    const auto parsed = parse_log(text.str());
    EXPECT_TRUE(parsed) << parsed.error().what;
    return *parsed;
  }
};

/// Parameters and moments, bit for bit.
void expect_same(const WholeCheckpoint& a, const WholeCheckpoint& b) {
  EXPECT_EQ(a.head.step, b.head.step);
  ASSERT_EQ(a.kinds.size(), b.kinds.size());
  for (std::size_t kind = 0; kind < a.kinds.size(); ++kind)
    EXPECT_EQ(a.kinds[kind].values, b.kinds[kind].values) << a.kinds[kind].name;
}

/// Reads until a line has these words; all that was read, or nothing where they do not come.
std::optional<std::string> read_until(tools::Started& job, const std::string& words) {
  std::string all;
  for (std::string line = job.read_line(); !line.empty(); line = job.read_line()) {
    all += line;
    if (line.find(words) != std::string::npos) return all;
  }
  return std::nullopt;
}

std::string read_all(tools::Started& job) {
  std::string all;
  for (std::string line = job.read_line(); !line.empty(); line = job.read_line()) all += line;
  return all;
}

/// Processes that `parent` started, in that order.
std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", parent));
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

TEST_F(Training, LowersTheLossAndLeavesAllThatTheOtherCommandsWant) {
  const Outcome outcome =
      run("out", "--ranks 2 --steps 60 --strategy zero2 --log-every 20 --sample-bytes 20");
  ASSERT_EQ(outcome.code, tools::kExitFine) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("step 60/60 | loss"), HasSubstr("validation loss"),
                                    HasSubstr("done after step 60")));
  const StepLog steps = log("out");
  ASSERT_EQ(steps.steps.size(), 60U);
  EXPECT_LT(steps.steps.back().average, 0.8 * steps.steps.front().average);
  EXPECT_TRUE(steps.steps.back().validation && steps.steps.back().sample);
  for (const StepRecord& step : steps.steps) {
    EXPECT_EQ(step.memory.counted, step.memory.planned);
    EXPECT_GT(step.bytes.reductions, 0U);
    EXPECT_GE(step.times.other(), -1e-3);
  }
  expect(train_model("inspect " + file("out")), tools::kExitFine, "2 layers, 2 heads, width 32");
  expect(train_model("plot " + file("out/log.jsonl") + " -o -"), tools::kExitFine,
         "zero2 on 2 ranks");
  expect(train_model("eval " + file("out") + " --data " + file("text")), tools::kExitFine,
         "step 60: ");
  expect(train_model("sample " + file("out") + " --prompt 'the 1' --bytes 20"), tools::kExitFine,
         "the 1");
  expect(run("out", "--steps 60"), tools::kExitFine, "nothing left to do");
}

TEST_F(Training, SendsAndKeepsWhatWasPredicted) {
  const Outcome outcome = run("out", "--ranks 4 --steps 2 --strategy hsdp --shard-size 2");
  ASSERT_EQ(outcome.code, tools::kExitFine) << outcome.output;
  std::istringstream lines(outcome.output.substr(outcome.output.find("BYTES OF RANK 0")));
  std::string line;
  std::getline(lines, line);
  int rows = 0;
  while (std::getline(lines, line) && line.find(": ") != std::string::npos) {
    std::istringstream words(line.substr(line.find(": ") + 2));
    std::string name;
    std::uint64_t predicted = 0, counted = 1;
    words >> name >> predicted >> counted;
    EXPECT_EQ(predicted, counted) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 8) << outcome.output;
}

TEST_F(Training, GoesOnAsIfItHadNotBeenInterrupted) {
  const std::string how = "--ranks 2 --steps 10 --save-every 5 --keep 0 --strategy zero3";
  ASSERT_NO_FATAL_FAILURE(must_run("out", how));
  const WholeCheckpoint whole = saved("out");
  ASSERT_EQ(whole.head.step, 10U);
  fs::remove_all(file("out/step_10"));
  expect(run("out", how), tools::kExitFine, "goes on after step 5");
  expect_same(saved("out"), whole);
  EXPECT_EQ(log("out").steps.size(), 10U);
}

TEST_F(Training, WithFewerBytesGoesOnAsIfItHadNotBeenInterrupted) {
  int number = 0;
  for (const char* const compression :
       {"--strategy zero3 --quantize-weights int8 --quantize-gradients int4 --error-feedback on",
        "--strategy zero2 --quantize-gradients int4:rounding=random --accumulate 2",
        "--compress topk:0.05 --compress-warmup 3", "--compress onebit --compress-warmup 3",
        "--compress powersgd:2"}) {
    const std::string out = fmt::format("out{}", number++);
    const std::string how =
        fmt::format("--ranks 2 --steps 10 --save-every 5 --keep 0 {}", compression);
    ASSERT_NO_FATAL_FAILURE(must_run(out, how));
    const WholeCheckpoint whole = saved(out);
    fs::remove_all(file(out + "/step_10"));
    expect(run(out, how), tools::kExitFine, "goes on after step 5");
    expect_same(saved(out), whole);
    const StepRecord last = log(out).steps.back();
    EXPECT_GT(last.bytes.uncompressed, last.bytes.all()) << compression;
    EXPECT_GT(last.times.coding, 0) << compression;
    // Also as other ranks would have written it.
    fs::remove_all(file(out + "/step_10"));
    fs::rename(file(out + "/step_5"), file(out + "/other"));
    fs::create_directories(file(out + "-5"));
    fs::rename(file(out + "/other"), file(out + "-5/step_5"));
    expect(train_model("reshard " + file(out + "-5") + " -o " + file(out) + " --ranks 3"),
           tools::kExitFine, "");
    expect(run(out, how), tools::kExitFine, "goes on after step 5");
    expect_same(saved(out), whole);
  }
}

TEST_F(Training, WithFewerBytesGoesOnAtOtherRanksAndSaysWhatItLeavesOut) {
  const std::string how = "--save-every 5 --keep 0 --compress int4 --error-feedback ";
  ASSERT_NO_FATAL_FAILURE(must_run("out", how + "on --ranks 4 --steps 10"));
  ASSERT_NO_FATAL_FAILURE(must_run("out", how + "on --ranks 2 --steps 20"));
  EXPECT_LT(log("out").steps.back().average, log("out").steps.front().average);
  expect(run("out", how + "off --ranks 2 --steps 30"), tools::kExitFine,
         "is left out, since this run compresses none, or otherwise: owed_0_");
  expect(run("out", how + "on --ranks 2 --steps 40"), tools::kExitFine, "nothing that ranks owe");
  fs::resize_file(file("out/step_40/rank_0.bin"),
                  fs::file_size(file("out/step_40/rank_0.bin")) - 4);
  const Outcome damaged = run("out", how + "on --ranks 2 --steps 50");
  EXPECT_NE(damaged.code, tools::kExitFine);
  EXPECT_THAT(damaged.output, HasSubstr("was cut short"));
}

TEST_F(Training, IsTheSameForAnyNumberOfRanksWhereThatIsAskedFor) {
  const std::string how = "--steps 6 --deterministic --ranks ";
  ASSERT_NO_FATAL_FAILURE(must_run("one", how + "1"));
  ASSERT_NO_FATAL_FAILURE(must_run("two", how + "2 --strategy zero2"));
  ASSERT_NO_FATAL_FAILURE(must_run("four", how + "4 --strategy zero3"));
  expect_same(saved("two"), saved("one"));
  expect_same(saved("four"), saved("one"));
}

TEST_F(Training, ChangesTheNumberOfRanksFromOneCheckpointToTheNext) {
  const std::string how = "--deterministic --warmup 2 --save-every 3 --keep 0 ";
  ASSERT_NO_FATAL_FAILURE(must_run("whole", how + "--steps 6 --ranks 1"));
  ASSERT_NO_FATAL_FAILURE(must_run("cut", how + "--steps 6 --ranks 4 --strategy zero3"));
  fs::remove_all(file("cut/step_6"));
  ASSERT_NO_FATAL_FAILURE(must_run("cut", how + "--steps 6 --ranks 2 --strategy zero1"));
  expect_same(saved("cut"), saved("whole"));
}

TEST_F(Training, SavesAndEndsWellWhenAskedToEnd) {
  tools::Started job(command("out", "--ranks 2 --steps 1000000 --log-every 1"));
  ASSERT_TRUE(read_until(job, "step 3/"));
  job.signal(SIGTERM);
  const std::string rest = read_all(job);
  const int status = job.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << rest;
  EXPECT_THAT(rest, HasSubstr("asked to end after step"));
  EXPECT_GE(saved("out").head.step, 3U);
}

TEST_F(Training, GoesOnWithoutARankThatWasKilled) {
  tools::Started job(
      command("out", "--ranks 2 --restarts 1 --steps 120 --save-every 10 --log-every 1"));
  ASSERT_TRUE(read_until(job, "step 30/"));
  const std::vector<pid_t> ranks = children_of(job.pid());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGKILL);
  const std::string rest = read_all(job);
  const int status = job.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << rest;
  EXPECT_THAT(rest, AllOf(HasSubstr("rank 1"), HasSubstr("was ended by signal 9"),
                          HasSubstr("1 of 2 ranks died; going on with 1"),
                          HasSubstr("goes on after step"), HasSubstr("done after step 120")));
  EXPECT_EQ(saved("out").head.step, 120U);
  EXPECT_EQ(log("out").runs.size(), 2U);
}

TEST_F(Training, NamesARankThatWasKilledAndExitsSix) {
  tools::Started job(command("out", "--ranks 2 --steps 1000000 --log-every 1"));
  ASSERT_TRUE(read_until(job, "step 2/"));
  const std::vector<pid_t> ranks = children_of(job.pid());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGKILL);
  const std::string rest = read_all(job);
  const int status = job.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == tools::kExitPeer) << rest;
  EXPECT_THAT(rest, HasSubstr("rank 1 died"));
}

TEST_F(Training, NamesARankThatHasOtherOptions) {
  const Outcome outcome =
      tools::run_shell(TUTTI_RUN_PROGRAM " -n 2 -- /bin/sh -c 'exec " TUTTI_TRAIN_PROGRAM " " +
                       options("out", "--steps 2 --seed 1$RANK'"));
  expect(outcome, tools::kExitPeer, "rank 0 has --seed 10, and rank 1 has --seed 11");
}

TEST_F(Training, EndsWhereGradientsAreNoNumbers) {
  // Gradients grow with each layer, until bf16 has no such number.
  expect(run("out",
             "--ranks 2 --layers 8 --steps 200 --lr 1000 --min-lr 1000 --warmup 0 --clip 0 "
             "--precision bf16 --max-bad-steps 3 --weight-decay 0"),
         tools::kExitWrongData, "gradients were infinite or no numbers");
}

TEST_F(Training, ComputesOnAGpuOrSaysWhyNot) {
  const Outcome outcome = run("out", "--ranks 2 --steps 2 --device cuda");
  if (outcome.code == tools::kExitFine) return;
  EXPECT_THAT(outcome.output, HasSubstr("use --device cpu"));
}

TEST_F(Training, SaysWhatIsWrongWithItsInputs) {
  write("short", "too short");
  const std::string shape = "--layers 2 --width 32 --heads 2 --context 32 ";
  expect(train_model(shape + "--data " + file("short") + " --out " + file("out")),
         tools::kExitWrongData, "a sample takes 33");
  expect(train_model(shape + "--batch 100000 --data " + file("text") + " --out " + file("out")),
         tools::kExitWrongData, "a batch takes 3200000");
  expect(train_model("--data " + file("none")), tools::kExitEnvironment, "tools/get-text");
  expect(run("text/out", "--steps 1"), tools::kExitEnvironment, "cannot create --out");
  expect(run("out", "--ranks 3 --deterministic"), tools::kExitUsage, "among 3 ranks");
  expect(tools::run_shell(
             "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " TUTTI_TRAIN_PROGRAM " " +
             options("out", "--ranks 2")),
         tools::kExitUsage, "MASTER_ADDR says that a launcher");
  ASSERT_NO_FATAL_FAILURE(must_run("out", "--steps 1"));
  expect(run("out", "--steps 2 --resume never"), tools::kExitUsage, "give another --out");
  expect(run("out", "--steps 2 --heads 4"), tools::kExitUsage, "give the same, or another --out");
  std::ofstream(file("out/step_1/rank_0.bin"), std::ios::app).close();
  fs::resize_file(file("out/step_1/rank_0.bin"), 100);
  expect(run("out", "--steps 2"), tools::kExitWrongData, "was cut short");
}

}  // namespace
}  // namespace tutti::trainer
