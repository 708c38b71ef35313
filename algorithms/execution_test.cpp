// Executes every algorithm's schedules on small vectors, in memory and in program order, and
// compares the outputs with what the collective means.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/chunking.hpp"
#include "src/ir/compress.hpp"

namespace tutti::algorithms {
namespace {

using ir::Request;
using ir::Schedule;
using ir::Space;
using ir::Step;
using ir::Verb;

/// Sums are T's own operator +=, so strings show the order in which contributions were added.
template <class T>
struct Encoding {
  std::function<T(const T&)> encode, decode;
};

/// One rank's memory; in place, input and output share it by NCCL's rules.
template <class T>
class RankMemory {
 public:
  RankMemory(const Request& request, Rank rank, std::size_t count) {
    const ir::BlockCounts blocks = ir::block_counts(request, rank);
    const ir::Aliasing alias = ir::aliasing(request, rank);
    input_.resize(static_cast<std::size_t>(blocks.input) * count);
    output_.resize(static_cast<std::size_t>(blocks.output) * count);
    in_ = input_;
    out_ = output_;
    if (!alias.exists) return;
    const auto at = [&](std::int32_t block) { return static_cast<std::size_t>(block) * count; };
    if (blocks.input > blocks.output) {
      out_ = in_.subspan(at(alias.input_block), out_.size());
    } else {
      in_ = out_.subspan(at(alias.output_block), in_.size());
    }
  }

  std::span<T> input() { return in_; }
  std::span<T> output() { return out_; }

 private:
  std::vector<T> input_, output_;
  std::span<T> in_, out_;
};

template <class T>
class Execution {
 public:
  Execution(const Schedule& schedule, std::size_t count, Encoding<T> encoding)
      : schedule_(schedule),
        chunking_(count, 8, schedule.chunks_per_block),
        encoding_(std::move(encoding)) {
    for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
      memory_.emplace_back(schedule.request, rank, count);
      scratch_.emplace_back();
      for (const std::uint32_t like : schedule.programs[at(rank)].scratch) {
        scratch_.back().emplace_back(chunking_.size(like));
      }
    }
    done_.assign(at(schedule.request.ranks), 0);
  }

  std::span<T> input(Rank rank) { return memory_[at(rank)].input(); }
  std::span<T> output(Rank rank) { return memory_[at(rank)].output(); }

  /// Runs every program to its end, each in order; false if they wait for each other.
  bool run() {
    bool all_done = false;
    for (bool moved = true; moved && !all_done;) {
      moved = false;
      all_done = true;
      for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
        while (!finished(rank) && step(rank)) moved = true;
        all_done &= finished(rank);
      }
    }
    return all_done;
  }

 private:
  using Message = std::vector<std::vector<T>>;  // by chunk

  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

  bool finished(Rank rank) const {
    return done_[at(rank)] == schedule_.programs[at(rank)].steps.size();
  }

  std::span<T> chunk(Rank rank, Space space, std::uint32_t index) {
    if (space == Space::kScratch) return scratch_[at(rank)].at(index);
    const ir::ElementRange range = chunking_.elements(index);
    const std::span<T> buffer = space == Space::kInput ? input(rank) : output(rank);
    return buffer.subspan(range.begin, range.size());
  }

  /// False when the step must wait for a message.
  bool step(Rank rank) {
    const Step& step = schedule_.programs[at(rank)].steps[done_[at(rank)]];
    if (step.verb == Verb::kSend) {
      send(rank, step);
    } else if (step.verb == Verb::kRecv) {
      if (!receive(rank, step)) return false;
    } else {
      compute(rank, step);
    }
    ++done_[at(rank)];
    return true;
  }

  void send(Rank rank, const Step& step) {
    Message message;
    for (std::uint32_t i = 0; i < step.src.count; ++i) {
      const std::span<T> from = chunk(rank, step.src.space, step.src.at(i));
      message.emplace_back(from.begin(), from.end());
    }
    wires_[{rank, step.peer, step.lane}].push_back(std::move(message));
  }

  bool receive(Rank rank, const Step& step) {
    auto& wire = wires_[{step.peer, rank, step.lane}];
    if (wire.empty()) return false;
    for (std::uint32_t i = 0; i < step.dst.count; ++i) {
      const std::span<T> to = chunk(rank, step.dst.space, step.dst.at(i));
      const std::vector<T>& from = wire.front().at(i);
      EXPECT_EQ(from.size(), to.size());
      std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
    }
    wire.pop_front();
    return true;
  }

  void compute(Rank rank, const Step& step) {
    for (std::uint32_t i = 0; i < step.dst.count; ++i) {
      const std::span<T> from = chunk(rank, step.src.space, step.src.at(i));
      const std::span<T> to = chunk(rank, step.dst.space, step.dst.at(i));
      ASSERT_EQ(from.size(), to.size());
      for (std::size_t j = 0; j < to.size(); ++j) {
        const T plain = step.src.format == ir::kPlain ? from[j] : encoding_.decode(from[j]);
        if (step.verb == Verb::kReduce) to[j] += plain;
        if (step.verb == Verb::kCopy)
          to[j] = step.dst.format == ir::kPlain ? plain : encoding_.encode(plain);
      }
    }
  }

  const Schedule& schedule_;
  ir::Chunking chunking_;
  Encoding<T> encoding_;
  std::vector<RankMemory<T>> memory_;
  std::vector<std::vector<std::vector<T>>> scratch_;
  std::vector<std::size_t> done_;
  std::map<std::tuple<Rank, Rank, Lane>, std::deque<Message>> wires_;
};

template <class T>
using Vectors = std::vector<std::vector<T>>;  // by rank

/// Elements from `first` on, `count` of them, added over all ranks in rank order.
template <class T>
std::vector<T> sum_of(const Vectors<T>& inputs, std::size_t first, std::size_t count) {
  std::vector<T> sum(inputs[0].begin() + static_cast<std::ptrdiff_t>(first),
                     inputs[0].begin() + static_cast<std::ptrdiff_t>(first + count));
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += inputs[rank][first + i];
  }
  return sum;
}

/// What the collective means: the output of `rank`, empty where it has none.
template <class T>
std::vector<T> meaning(const Request& request, Rank rank, const Vectors<T>& inputs,
                       std::size_t count) {
  const auto me = static_cast<std::size_t>(rank);
  const auto& from_root = inputs[static_cast<std::size_t>(request.root)];
  const bool is_root = rank == request.root;
  std::vector<T> result;
  const auto append = [&](const std::vector<T>& from, std::size_t block) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(block * count);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  switch (request.collective) {
    case Collective::kAllReduce:
      return sum_of(inputs, 0, count);
    case Collective::kReduceScatter:
      return sum_of(inputs, me * count, count);
    case Collective::kReduce:
      return is_root ? sum_of(inputs, 0, count) : result;
    case Collective::kBroadcast:
      return from_root;
    case Collective::kAllGather:
      for (const auto& input : inputs) append(input, 0);
      return result;
    case Collective::kGather:
      for (const auto& input : inputs) {
        if (is_root) append(input, 0);
      }
      return result;
    case Collective::kAllToAll:
      for (const auto& input : inputs) append(input, me);
      return result;
    case Collective::kScatter:
      append(from_root, me);
      return result;
    default:
      return result;
  }
}

constexpr Collective kExecuted[] = {Collective::kAllReduce,     Collective::kAllGather,
                                    Collective::kReduceScatter, Collective::kBroadcast,
                                    Collective::kReduce,        Collective::kAllToAll,
                                    Collective::kGather,        Collective::kScatter};

std::string name_of_case(const ir::Algorithm& algorithm, const Request& request,
                         std::size_t count) {
  return fmt::format("{} {} n={} root={}{} count={}", algorithm.name, name_of(request.collective),
                     request.ranks, request.root, request.in_place ? " in place" : "", count);
}

/// Supported requests of up to nine ranks, every root, in place and not.
void visit_requests(const ir::Algorithm& algorithm,
                    const std::function<void(const Request&)>& visit) {
  for (const Collective collective : kExecuted) {
    for (Rank ranks = 1; ranks <= 9; ++ranks) {
      for (Rank root = 0; root < (rooted(collective) ? ranks : 1); ++root) {
        for (const bool in_place : {false, true}) {
          const Request request{collective, ranks, root, in_place};
          if (algorithm.supports(request)) visit(request);
        }
      }
    }
  }
}

template <class T>
struct Outcome {
  Vectors<T> inputs;  ///< as they were before
  Vectors<T> inputs_after, outputs;
};

/// Fills the inputs from `next`, runs, and returns what there was and what there is.
template <class T>
Outcome<T> execute(const Schedule& schedule, std::size_t count, const Encoding<T>& encoding,
                   const std::function<T(Rank)>& next) {
  Execution<T> execution(schedule, count, encoding);
  Outcome<T> outcome;
  const auto copy_of = [](std::span<T> from) { return std::vector<T>(from.begin(), from.end()); };
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    for (T& element : execution.input(rank)) element = next(rank);
    outcome.inputs.push_back(copy_of(execution.input(rank)));
  }
  EXPECT_TRUE(execution.run()) << "the programs wait for each other";
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    outcome.inputs_after.push_back(copy_of(execution.input(rank)));
    outcome.outputs.push_back(copy_of(execution.output(rank)));
  }
  return outcome;
}

class ExecutedAlgorithm : public testing::TestWithParam<ir::Algorithm> {};

TEST_P(ExecutedAlgorithm, YieldsWhatTheCollectiveMeansAndKeepsItsInput) {
  const ir::Algorithm& algorithm = GetParam();
  const std::uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  // An exact code that is far from the value, so that nothing encoded passes for a number.
  const Encoding<std::int64_t> exact{[](const std::int64_t& x) { return x * 3 + 1000003; },
                                     [](const std::int64_t& x) { return (x - 1000003) / 3; }};
  visit_requests(algorithm, [&](const Request& request) {
    const auto schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    for (const std::size_t count : {0, 1, 5, 150}) {
      SCOPED_TRACE(name_of_case(algorithm, request, count) + fmt::format(" seed={}", seed));
      const auto outcome = execute<std::int64_t>(*schedule, count, exact, [&](Rank) {
        return static_cast<std::int64_t>(random() % 2001) - 1000;
      });
      if (!request.in_place) {
        EXPECT_EQ(outcome.inputs_after, outcome.inputs);
      }
      for (Rank rank = 0; rank < request.ranks; ++rank) {
        EXPECT_EQ(outcome.outputs[static_cast<std::size_t>(rank)],
                  meaning(request, rank, outcome.inputs, count))
            << "rank " << rank;
      }
    }
  });
}

/// float32 rounded to the nearest bfloat16, ties to even; finite values only.
float to_bfloat16(const float& value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits += 0x7FFF + ((bits >> 16) & 1);
  bits &= 0xFFFF0000;
  float rounded = 0;
  std::memcpy(&rounded, &bits, sizeof bits);
  return rounded;
}

/// A bfloat16 kept in a float.
Encoding<float> bfloat16() {
  return {to_bfloat16, [](const float& x) { return x; }};
}

class ExecutedAllReduce : public testing::TestWithParam<ir::Algorithm> {};

TEST_P(ExecutedAllReduce, GivesAllRanksTheSameBits) {
  const ir::Algorithm& algorithm = GetParam();
  const std::uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto check = [&](const Request& request) {
    if (request.collective != Collective::kAllReduce) return;
    SCOPED_TRACE(name_of_case(algorithm, request, 60) + fmt::format(" seed={}", seed));
    const auto schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    const auto outcome = execute<float>(*schedule, 60, bfloat16(), [&](Rank) {
      return normal(random) * std::exp2(static_cast<float>(random() % 30));
    });
    for (const auto& output : outcome.outputs) {
      ASSERT_EQ(output.size(), outcome.outputs[0].size());
      EXPECT_EQ(
          std::memcmp(output.data(), outcome.outputs[0].data(), output.size() * sizeof(float)), 0);
    }
  };
  visit_requests(algorithm, check);
  check({.ranks = 16});  // where partners at many distances are added to one another
}

std::vector<ir::Algorithm> all_reducing() {
  std::vector<ir::Algorithm> chosen;
  for (const ir::Algorithm& algorithm : all()) {
    if (algorithm.supports({.collective = Collective::kAllReduce, .ranks = 2})) {
      chosen.push_back(algorithm);
    }
  }
  return chosen;
}

constexpr auto kNameOfParam = [](const testing::TestParamInfo<ir::Algorithm>& info) {
  return std::string(info.param.name);
};
INSTANTIATE_TEST_SUITE_P(Algorithms, ExecutedAlgorithm,
                         testing::ValuesIn(all().begin(), all().end()), kNameOfParam);
INSTANTIATE_TEST_SUITE_P(Algorithms, ExecutedAllReduce, testing::ValuesIn(all_reducing()),
                         kNameOfParam);

TEST(Algorithms, ThatPromiseItAddContributionsInTheOrderOfRanks) {
  const Encoding<std::string> none{[](const std::string& x) { return x; },
                                   [](const std::string& x) { return x; }};
  for (const ir::Algorithm& algorithm : {one_shot(), two_shot()}) {
    visit_requests(algorithm, [&](const Request& request) {
      if (!reduces(request.collective)) return;
      const std::size_t count = 9;
      SCOPED_TRACE(name_of_case(algorithm, request, count));
      const auto schedule = algorithm.generate(request);
      ASSERT_TRUE(schedule) << schedule.error().what;
      const auto outcome = execute<std::string>(*schedule, count, none, [](Rank rank) {
        return std::string(1, static_cast<char>('0' + rank));
      });
      for (Rank rank = 0; rank < request.ranks; ++rank) {
        EXPECT_EQ(outcome.outputs[static_cast<std::size_t>(rank)],
                  meaning(request, rank, outcome.inputs, count));
      }
    });
  }
}

/// A sum that remembers what was added to what.
struct Expression {
  std::string text;
  Expression& operator+=(const Expression& other) {
    text = "(" + text + "+" + other.text + ")";
    return *this;
  }
};

TEST(FixedTree, AddsAlongOneTreeWhateverTheCollectiveTheRootAndThePlace) {
  const std::vector<std::string> trees = {"0",
                                          "(0+1)",
                                          "((0+1)+2)",
                                          "((0+1)+(2+3))",
                                          "(((0+1)+(2+3))+4)",
                                          "(((0+1)+(2+3))+(4+5))",
                                          "(((0+1)+(2+3))+((4+5)+6))",
                                          "(((0+1)+(2+3))+((4+5)+(6+7)))",
                                          "((((0+1)+(2+3))+((4+5)+(6+7)))+8)"};
  const auto same = [](const Expression& x) { return x; };
  visit_requests(fixed_tree(), [&](const Request& request) {
    const std::size_t count = 9;
    SCOPED_TRACE(name_of_case(fixed_tree(), request, count));
    const auto schedule = fixed_tree().generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    const auto outcome = execute<Expression>(
        *schedule, count, {same, same}, [](Rank rank) { return Expression{std::to_string(rank)}; });
    for (Rank rank = 0; rank < request.ranks; ++rank) {
      if (request.collective == Collective::kReduce && rank != request.root) continue;
      for (const Expression& sum : outcome.outputs[static_cast<std::size_t>(rank)])
        EXPECT_EQ(sum.text, trees[static_cast<std::size_t>(request.ranks - 1)]);
    }
  });
}

TEST(CompressedTwoShot, ErrsByOneRoundingOfEachContributionAndOneOfTheSum) {
  const std::uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const float half_ulp = std::exp2(-8.0F);
  for (Rank ranks = 2; ranks <= 9; ++ranks) {
    SCOPED_TRACE(fmt::format("n={} seed={}", ranks, seed));
    const auto plain = two_shot().generate({.ranks = ranks});
    ASSERT_TRUE(plain) << plain.error().what;
    const Schedule schedule = ir::compress(*plain, ir::CompressedMessages::kAll);
    const auto outcome =
        execute<float>(schedule, 100, bfloat16(), [&](Rank) { return normal(random); });
    for (std::size_t i = 0; i < 100; ++i) {
      float sum = 0;
      float magnitude = 0;
      for (const auto& input : outcome.inputs) {
        sum += input[i];
        magnitude += std::abs(input[i]);
      }
      // 2 roundings, their product, and the float32 additions.
      EXPECT_NEAR(outcome.outputs[0][i], sum, 2.02F * half_ulp * magnitude);
    }
  }
}

}  // namespace
}  // namespace tutti::algorithms
