// Jobs in which one rank makes other calls than its peers. They end, and the error shows the calls.
//
// MISMATCHED_JOBS: how many random ones. MISMATCHED_SEED: of the first.
#include <cstdlib>
#include <deque>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "tests/faults/faults.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int kAtOnce = 8;
// Ranks tell what they wait in after 2 seconds, and the hub looks every second.
const Seconds kPatience(30 * kSlack);

struct Step {
  std::string call;
  int count = 0;
  int rank = 0;  ///< root, peer, or distance
  friend bool operator==(const Step&, const Step&) = default;
};
using Steps = std::vector<Step>;

std::string text_of(const Steps& steps) {
  std::string text;
  for (const auto& [call, count, rank] : steps)
    text +=
        (text.empty() ? "" : ",") + call + ":" + std::to_string(count) + ":" + std::to_string(rank);
  return text;
}

/// What each rank plays.
using Program = std::vector<Steps>;

/// The same calls on all ranks, but for one rank that leaves one out, adds one, makes another one
/// in its place, or makes two in the other order.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  Program make() {
    Steps common;
    for (int i = 0; i < 6; ++i) common.push_back(step());
    Program program(kRanks, common);
    const int rank = static_cast<int>(below(kRanks));
    while (program[rank] == common) deviate(program[rank], rank);
    return program;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  Step step() {
    static const std::vector<std::string> kCalls = {
        "reduce", "broadcast", "collect",  "allgather", "reducescatter",
        "gather", "scatter",   "alltoall", "alltoallv", "shift"};
    static const std::vector<int> kCounts = {1, 100, 5000, 300'000};
    return {kCalls[below(kCalls.size())], kCounts[below(kCounts.size())],
            static_cast<int>(below(kRanks - 1))};
  }

  void deviate(Steps& steps, int rank) {
    const auto at = steps.begin() + static_cast<std::ptrdiff_t>(below(steps.size() - 1));
    switch (below(5)) {
      case 0:
        steps.erase(at);
        break;
      case 1:
        steps.insert(at, step());
        break;
      case 2:
        steps.insert(at, {below(2) == 0 ? "send" : "receive", 5000,
                          (rank + 1 + static_cast<int>(below(kRanks - 1))) % kRanks});
        break;
      case 3:
        *at = step();
        break;
      default:
        std::swap(*at, *(at + 1));
    }
  }

  std::mt19937 random_;
};

struct Playing {
  unsigned seed = 0;
  Program program;
  std::unique_ptr<Job> job;
};

class MismatchedCalls : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static Variables variables() {
    return {{"TUTTI_SHM", std::string(GetParam()) == "tcp" ? "0" : "1"}, {"TUTTI_DEBUG", "NONE"}};
  }

  /// The ranks have begun to play.
  std::unique_ptr<Job> begin(const Program& program) {
    const std::vector<Place> places(program.size());
    auto job = std::make_unique<Job>(places, variables());
    for (const Answer& answer : job->init()) EXPECT_TRUE(answer.ok()) << answer;
    for (std::size_t r = 0; r < program.size(); ++r)
      (*job)[static_cast<int>(r)].tell("play " + text_of(program[r]));
    return job;
  }

  static std::vector<Answer> end(Job& job) { return job.hear(job.all(), "play", kPatience); }

  std::vector<Answer> play(const Program& program) { return end(*begin(program)); }

  /// All ranks end with kInvalidUsage, and show `calls`.
  void expect_shown(const Program& program, const std::vector<std::string>& calls) {
    for (const Answer& answer : play(program)) {
      EXPECT_EQ(answer.result, ncclInvalidUsage) << answer;
      for (const std::string& call : calls) EXPECT_THAT(answer.text, HasSubstr(call));
    }
  }
};

TEST_P(MismatchedCalls, OfARankInMessagesAndTheOthersInACollective) {
  Program program(kRanks, {{"reduce", 300'000}, {"reduce", 300'000}});
  program[2] = {{"reduce", 300'000}, {"receive", 10, 0}};
  expect_shown(program, {"all_reduce(count=300000", "recv(count=10"});
}

TEST_P(MismatchedCalls, OfARankThatSendsWhereOthersReceive) {
  Program program(kRanks, {{"shift", 300'000, 0}, {"alltoallv", 10}});
  program[1] = {{"send", 300'000, 0}};
  program[0] = {{"send", 300'000, 1}};
  for (const Answer& answer : play(program)) EXPECT_FALSE(answer.ok()) << answer;
}

TEST_P(MismatchedCalls, InTheOtherOrder) {
  Program program(kRanks, {{"gather", 5000, 1}, {"scatter", 5000, 2}, {"reduce", 1}});
  std::swap(program[3][0], program[3][1]);
  // Over tcp who compares has the number of the peer's operation alone.
  const bool tcp = std::string(GetParam()) == "tcp";
  expect_shown(program, {tcp ? "as operation 2" : "gather(count=5000", "scatter(count=5000"});
}

TEST_P(MismatchedCalls, AtRandomEndAndShowTheCalls) {
  const char* const count = std::getenv("MISMATCHED_JOBS");
  const char* const first = std::getenv("MISMATCHED_SEED");
  const int jobs = count != nullptr ? std::atoi(count) : kSanitized ? 8 : 24;
  unsigned seed =
      first != nullptr ? static_cast<unsigned>(std::atoi(first)) : std::random_device{}();
  std::deque<Playing> playing;
  int failed = 0, shown = 0;
  for (int begun = 0; begun < jobs || !playing.empty();) {
    while (begun < jobs && playing.size() < kAtOnce) {
      Program program = RandomProgram(seed).make();
      auto job = begin(program);
      playing.push_back({seed++, std::move(program), std::move(job)});
      ++begun;
    }
    Playing& oldest = playing.front();
    std::string trace = "MISMATCHED_SEED=" + std::to_string(oldest.seed);
    for (const Steps& steps : oldest.program) trace += "\n  " + text_of(steps);
    SCOPED_TRACE(trace);
    std::string said;
    for (const Answer& answer : end(*oldest.job)) {
      EXPECT_NE(answer.result, Answer::kNone) << "hangs";
      if (answer.ok()) continue;
      ++failed;
      said += "\n  " + answer.text;
      static const std::regex kCall("[a-z_]+\\((count=[0-9]+|[0-9]+ elements)");
      const auto found = std::sregex_iterator(answer.text.begin(), answer.text.end(), kCall);
      const auto calls = std::distance(found, std::sregex_iterator());
      shown += calls >= 2 ? 1 : 0;
      if (answer.result == ncclInvalidUsage) {
        EXPECT_GE(calls, 2) << answer;
      }
    }
    if (std::getenv("MISMATCHED_SHOW") != nullptr) std::cout << trace << said << std::endl;
    playing.pop_front();
  }
  RecordProperty("failed", failed);
  RecordProperty("show_both_calls", shown);
  std::cout << failed << " ranks failed, " << shown << " of them show two calls\n";
}

INSTANTIATE_TEST_SUITE_P(Over, MismatchedCalls, ::testing::Values("shm", "tcp"), transport_name);

}  // namespace
}  // namespace tutti::testing
