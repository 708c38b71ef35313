// Holds every algorithm to its proof and to its published cost, for 1 to 33 ranks.
#include "algorithms/algorithms.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"
#include "src/ir/verify.hpp"

namespace tutti::algorithms {
namespace {

using ir::Request;
using ir::Schedule;
using ir::Step;
using ir::Verb;
using Key = std::pair<std::string, Collective>;

constexpr Rank kMostRanks = 33;

/// Papers count rounds in one of two ways.
enum class Counted {
  kChain,  ///< messages on the longest chain in which each depends on the one before
  kSteps,  ///< steps in which a rank sends one message and receives one (OnePort below)
};

/// Rounds, and what the busiest rank sends: S * numerator / denominator.
struct Oracle {
  std::uint64_t rounds, numerator, denominator;
  Counted counted = Counted::kChain;
};

/// ceil(log2 n) by counting.
std::uint64_t log_up(std::uint64_t n) {
  std::uint64_t steps = 0;
  for (std::uint64_t reach = 1; reach < n; reach *= 2) ++steps;
  return steps;
}

std::uint64_t log_down(std::uint64_t n) {
  std::uint64_t steps = 0;
  while (n >>= 1) ++steps;
  return steps;
}

bool is_power_of_two(std::uint64_t n) { return log_up(n) == log_down(n); }

/// Blocks that rank 0 forwards in Bruck's all-to-all: each block for a rank i further takes as many
/// hops as i has set bits.
std::uint64_t set_bits_below(std::uint64_t n) {
  std::uint64_t bits = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    for (std::uint64_t rest = i; rest != 0; rest /= 2) bits += rest % 2;
  }
  return bits;
}

Oracle folded_doubling(std::uint64_t n) {
  const std::uint64_t steps = log_down(n);
  return is_power_of_two(n) ? Oracle{steps, steps, 1}
                            : Oracle{steps + 2, steps + 1, 1, Counted::kSteps};
}

Oracle folded_halving(std::uint64_t n) {
  const std::uint64_t p = std::uint64_t{1} << log_down(n);
  return p == n ? Oracle{2 * log_up(n), 2 * (n - 1), n}
                : Oracle{2 * log_up(p) + 2, 2 * (p - 1) + p, p};
}

/// Numbers below n whose digits in base k are all 0 but one.
std::uint64_t one_digit_below(std::uint64_t n, std::uint64_t k) {
  std::uint64_t numbers = 0;
  for (std::uint64_t i = 1; i < n; ++i) {
    std::uint64_t rest = i;
    while (rest % k == 0) rest /= k;
    if (rest < k) ++numbers;
  }
  return numbers;
}

/// The most digits other than 0 of a number below n, in base k.
std::uint64_t most_digits_below(std::uint64_t n, std::uint64_t k) {
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t digits = 0;
    for (std::uint64_t rest = i; rest != 0; rest /= k) digits += rest % k != 0 ? 1 : 0;
    most = std::max(most, digits);
  }
  return most;
}

/// The most places below n that a k-nomial tree has below one place: those that begin with its
/// digits, up to the last that is not 0.
std::uint64_t most_below(std::uint64_t n, std::uint64_t k) {
  std::uint64_t most = 0;
  for (std::uint64_t i = 1; i < n; ++i) {
    std::uint64_t unit = 1;
    while (i / unit % k == 0) unit *= k;
    most = std::max(most, std::min(unit, n - i));
  }
  return most;
}

/// Partners of a root in a Bine tree that are in the tree before their turn.
std::uint64_t already_served(std::uint64_t n) {
  static const std::set<std::uint64_t> kOneIsServed = {9, 10, 17, 18, 20, 33};
  return kOneIsServed.contains(n) ? 1 : 0;
}

/// Recursive multiplying. Its cores are worked by hand: rounds, and copies of the vector sent.
/// Other numbers of ranks take the core named, one round more for the extras, and one copy more.
Oracle multiplied(std::uint64_t n) {
  struct Core {
    std::uint64_t rounds, sent;
  };
  static const std::map<std::uint64_t, Core> kCores = {
      {2, {1, 1}},  {3, {1, 2}},  {4, {1, 3}},  {6, {2, 3}},  {8, {2, 4}},  {9, {2, 4}},
      {12, {2, 5}}, {16, {2, 6}}, {18, {3, 5}}, {24, {3, 6}}, {27, {3, 6}}, {32, {3, 7}}};
  if (kCores.contains(n)) return {kCores.at(n).rounds, kCores.at(n).sent, 1};
  const bool by_16 = n == 19 || n == 20;  // by 18 they would take a round more
  const Core core = by_16 ? kCores.at(16) : std::prev(kCores.lower_bound(n))->second;
  return {core.rounds + 1, core.sent + 1, 1};
}

/// The published costs, for n >= 2.
const std::map<Key, std::function<Oracle(std::uint64_t)>>& oracles() {
  using enum Collective;
  using enum Counted;
  using N = std::uint64_t;
  static const auto kBlocks = [](N n) { return 4 * log_up(n); };  // of circulant_blocks
  static const std::map<Key, std::function<Oracle(N)>> kOracles = {
      {{"one_shot", kAllReduce}, [](N n) { return Oracle{1, n - 1, 1}; }},
      {{"one_shot", kReduceScatter}, [](N n) { return Oracle{1, n - 1, n}; }},
      {{"one_shot", kReduce}, [](N) { return Oracle{1, 1, 1}; }},
      {{"two_shot", kAllReduce}, [](N n) { return Oracle{2, 2 * (n - 1), n}; }},
      {{"two_shot", kReduce}, [](N) { return Oracle{2, 1, 1}; }},
      {{"two_shot", kBroadcast}, [](N n) { return Oracle{n == 2 ? 1U : 2U, 1, 1}; }},
      {{"direct", kAllGather}, [](N n) { return Oracle{1, n - 1, n}; }},
      {{"direct", kBroadcast}, [](N n) { return Oracle{1, n - 1, 1}; }},
      {{"direct", kAllToAll}, [](N n) { return Oracle{1, n - 1, n}; }},
      {{"direct", kGather}, [](N n) { return Oracle{1, 1, n}; }},
      {{"direct", kScatter}, [](N n) { return Oracle{1, n - 1, n}; }},
      {{"spread", kBroadcast}, [](N n) { return Oracle{n == 2 ? 1U : 2U, 2 * (n - 1), n}; }},
      {{"ring", kAllReduce}, [](N n) { return Oracle{2 * (n - 1), 2 * (n - 1), n}; }},
      {{"ring", kAllGather}, [](N n) { return Oracle{n - 1, n - 1, n}; }},
      {{"ring", kReduceScatter}, [](N n) { return Oracle{n - 1, n - 1, n}; }},
      {{"ring", kBroadcast}, [](N n) { return Oracle{n - 2 + n, 1, 1, kSteps}; }},
      {{"ring", kReduce}, [](N n) { return Oracle{n - 2 + n, 1, 1, kSteps}; }},
      {{"chain", kBroadcast}, [](N n) { return Oracle{n - 1, 1, 1}; }},
      {{"chain", kReduce}, [](N n) { return Oracle{n - 1, 1, 1}; }},
      {{"neighbor_exchange", kAllGather}, [](N n) { return Oracle{n / 2, n - 1, n}; }},
      {{"binomial", kBroadcast}, [](N n) { return Oracle{log_down(n), log_up(n), 1}; }},
      {{"binomial", kReduce}, [](N n) { return Oracle{log_down(n), 1, 1}; }},
      {{"binomial", kGather}, [](N n) { return Oracle{log_down(n), most_below(n, 2), n}; }},
      {{"binomial", kScatter}, [](N n) { return Oracle{log_down(n), n - 1, n}; }},
      {{"k_nomial_4", kBroadcast},
       [](N n) { return Oracle{most_digits_below(n, 4), one_digit_below(n, 4), 1}; }},
      {{"k_nomial_4", kReduce}, [](N n) { return Oracle{most_digits_below(n, 4), 1, 1}; }},
      {{"k_nomial_4", kGather},
       [](N n) { return Oracle{most_digits_below(n, 4), most_below(n, 4), n}; }},
      {{"k_nomial_4", kScatter}, [](N n) { return Oracle{most_digits_below(n, 4), n - 1, n}; }},
      {{"bine", kBroadcast},
       [](N n) { return Oracle{log_down(n), log_up(n) - already_served(n), 1}; }},
      {{"bine", kReduce}, [](N n) { return Oracle{log_down(n), 1, 1}; }},
      {{"double_binary_tree", kAllReduce},
       [](N n) {
         return Oracle{2 * log_up(n), n == 2 ? 2U : n == 3 ? 3U : 4U, 2};
       }},
      {{"double_binary_tree", kBroadcast}, [](N n) { return Oracle{1 + log_up(n - 1), 1, 1}; }},
      {{"double_binary_tree", kReduce}, [](N n) { return Oracle{1 + log_up(n - 1), 1, 1}; }},
      {{"recursive_doubling", kAllReduce}, folded_doubling},
      {{"recursive_doubling", kAllGather}, [](N n) { return Oracle{log_up(n), n - 1, n}; }},
      {{"recursive_multiplying", kAllReduce}, multiplied},
      {{"recursive_multiplying", kAllGather},
       [](N n) { return Oracle{multiplied(n).rounds, n - 1, n}; }},
      {{"rabenseifner", kAllReduce}, folded_halving},
      {{"swing", kReduceScatter}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"swing", kAllGather}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"swing", kAllReduce}, [](N n) { return Oracle{2 * log_up(n), 2 * (n - 1), n, kSteps}; }},
      {{"swing_latency", kAllReduce}, folded_doubling},
      {{"circulant", kReduceScatter}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"circulant", kAllGather}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"circulant", kAllReduce},
       [](N n) { return Oracle{2 * log_up(n), 2 * (n - 1), n, kSteps}; }},
      {{"circulant_blocks", kBroadcast},
       [](N n) {
         const N rounds = kBlocks(n) - 1 + log_up(n);
         return Oracle{rounds, rounds, kBlocks(n), kSteps};
       }},
      {{"circulant_blocks", kReduce},
       [](N n) { return Oracle{kBlocks(n) - 1 + log_up(n), 1, 1, kSteps}; }},
      {{"pat", kReduceScatter}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"pat", kAllGather}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"pat", kAllReduce}, [](N n) { return Oracle{2 * log_up(n), 2 * (n - 1), n, kSteps}; }},
      {{"bruck", kAllToAll}, [](N n) { return Oracle{log_up(n), set_bits_below(n), n, kSteps}; }},
      {{"bruck", kAllGather}, [](N n) { return Oracle{log_up(n), n - 1, n, kSteps}; }},
      {{"pairwise", kAllToAll}, [](N n) { return Oracle{n - 1, n - 1, n, kSteps}; }},
      {{"fixed_tree", kAllReduce}, [](N n) { return Oracle{2, 2 * (n - 1), n}; }},
      {{"fixed_tree", kReduceScatter}, [](N n) { return Oracle{1, n - 1, n}; }},
      {{"fixed_tree", kReduce}, [](N) { return Oracle{2, 1, 1}; }},
  };
  return kOracles;
}

constexpr Collective kWholeCollectives[] = {Collective::kAllReduce,     Collective::kAllGather,
                                            Collective::kReduceScatter, Collective::kBroadcast,
                                            Collective::kReduce,        Collective::kAllToAll,
                                            Collective::kGather,        Collective::kScatter};

std::vector<Rank> roots_of(Collective collective, Rank ranks) {
  if (!rooted(collective)) return {0};
  if (ranks > 8) return {0, ranks / 2, ranks - 1};
  std::vector<Rank> roots(static_cast<std::size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

/// Products of 2 and 3.
bool is_smooth(std::uint64_t n) {
  while (n % 2 == 0) n /= 2;
  while (n % 3 == 0) n /= 3;
  return n == 1;
}

/// Whether the algorithm promises the collective for n ranks, if it has it at all.
bool promised_for(std::string_view algorithm, Collective collective, std::uint64_t n) {
  if (algorithm == "neighbor_exchange" || algorithm == "swing") return n == 1 || n % 2 == 0;
  if (collective != Collective::kAllGather) return true;
  if (algorithm == "recursive_doubling") return is_power_of_two(n);
  if (algorithm == "recursive_multiplying") return is_smooth(n);
  return true;
}

/// Whether the table promises this request.
bool promised(const ir::Algorithm& algorithm, const Request& request) {
  if (!oracles().contains({std::string(algorithm.name), request.collective})) return false;
  const auto n = static_cast<std::uint64_t>(request.ranks);
  if (!promised_for(algorithm.name, request.collective, n)) return false;
  return !(request.in_place && request.collective == Collective::kAllToAll);
}

std::string name_of_case(const ir::Algorithm& algorithm, const Request& request) {
  return fmt::format("{} {} n={} root={}{}", algorithm.name, name_of(request.collective),
                     request.ranks, request.root, request.in_place ? " in place" : "");
}

/// Chunks in S, the size by which costs are counted.
std::uint64_t chunks_of_block(const Schedule& schedule) {
  const bool one_vector = schedule.request.collective == Collective::kAllReduce ||
                          schedule.request.collective == Collective::kBroadcast ||
                          schedule.request.collective == Collective::kReduce;
  const auto n = static_cast<std::uint64_t>(schedule.request.ranks);
  return schedule.chunks_per_block * (one_vector ? 1 : n);
}

void visit_requests(Rank least, Rank most, const std::function<void(const Request&)>& visit) {
  for (const Collective collective : kWholeCollectives) {
    for (Rank ranks = least; ranks <= most; ++ranks) {
      for (const Rank root : roots_of(collective, ranks)) {
        for (const bool in_place : {false, true}) visit({collective, ranks, root, in_place});
      }
    }
  }
}

/// Rounds of a machine in which every rank can send one message and receive one message at a time,
/// each in program order, a message taking one round. What a run of blocks that wraps sends on lane
/// 1 belongs to the message on lane 0.
class OnePort {
 public:
  explicit OnePort(const Schedule& schedule) : schedule_(schedule) {
    for (const ir::Program& program : schedule.programs) {
      times_.emplace_back(program.steps.size(), 0);
    }
    pair_messages();
  }

  /// Longest path, by relaxing until nothing changes. More rounds than messages mean a cycle.
  std::uint64_t rounds() {
    while (last_round() <= messages_.size() && relax()) {
    }
    return last_round();
  }

 private:
  [[nodiscard]] std::uint64_t last_round() const {
    std::uint64_t last = 0;
    for (const auto& times : times_) {
      for (const std::uint64_t time : times) last = std::max(last, time);
    }
    return last;
  }

  struct End {
    Rank rank;
    ir::StepId step;
  };
  using Channel = std::tuple<Rank, Rank, Lane>;

  void pair_messages() {
    std::map<Channel, std::vector<End>> sends, receives;
    for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
      const auto& steps = schedule_.programs[static_cast<std::size_t>(rank)].steps;
      for (ir::StepId id = 0; id < steps.size(); ++id) {
        const Step& step = steps[id];
        if (step.verb == Verb::kSend) sends[{rank, step.peer, step.lane}].push_back({rank, id});
        if (step.verb == Verb::kRecv) receives[{step.peer, rank, step.lane}].push_back({rank, id});
      }
    }
    for (const auto& [channel, ends] : sends) {
      for (std::size_t i = 0; i < ends.size(); ++i) {
        messages_.emplace_back(ends[i], receives.at(channel).at(i));
      }
    }
  }

  std::uint64_t& time(End end) { return times_[static_cast<std::size_t>(end.rank)][end.step]; }

  /// When the step's dependencies are met and its port, if it has one, is free.
  std::uint64_t ready(End end) {
    const auto& steps = schedule_.programs[static_cast<std::size_t>(end.rank)].steps;
    std::uint64_t when = 0;
    for (const ir::StepId dep : steps[end.step].deps) {
      when = std::max(when, time({end.rank, dep}));
    }
    if (!uses_peer(steps[end.step].verb) || steps[end.step].lane != 0) return when;
    for (ir::StepId id = end.step; id-- > 0;) {
      if (steps[id].verb != steps[end.step].verb || steps[id].lane != 0) continue;
      return std::max(when, time({end.rank, id}));
    }
    return when;
  }

  bool raise(End end, std::uint64_t when) {
    if (time(end) >= when) return false;
    time(end) = when;
    return true;
  }

  bool relax() {
    bool changed = false;
    for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
      const auto& steps = schedule_.programs[static_cast<std::size_t>(rank)].steps;
      for (ir::StepId id = 0; id < steps.size(); ++id) {
        if (!uses_peer(steps[id].verb)) changed |= raise({rank, id}, ready({rank, id}));
      }
    }
    for (const auto& [send, receive] : messages_) {
      const std::uint64_t when = std::max(ready(send), ready(receive)) + 1;
      const bool sent = raise(send, when);
      changed |= raise(receive, when) || sent;
    }
    return changed;
  }

  const Schedule& schedule_;
  std::vector<std::vector<std::uint64_t>> times_;
  std::vector<std::pair<End, End>> messages_;
};

void check_against_oracle(const ir::Algorithm& algorithm, const Schedule& schedule,
                          const ir::Proof& proof) {
  const Request& request = schedule.request;
  const auto n = static_cast<std::uint64_t>(request.ranks);
  const Oracle none{0, 0, 1};
  const Oracle oracle =
      n == 1 ? none : oracles().at({std::string(algorithm.name), request.collective})(n);
  if (oracle.counted == Counted::kChain) {
    EXPECT_EQ(proof.rounds, oracle.rounds);
  } else {
    EXPECT_LE(proof.rounds, oracle.rounds);
    EXPECT_EQ(OnePort(schedule).rounds(), oracle.rounds);
  }
  EXPECT_EQ(proof.max_chunks_sent * oracle.denominator,
            chunks_of_block(schedule) * oracle.numerator);
}

class EveryAlgorithm : public testing::TestWithParam<ir::Algorithm> {};

TEST_P(EveryAlgorithm, IsProvedAndCostsWhatIsPublishedAt1To33Ranks) {
  const ir::Algorithm& algorithm = GetParam();
  visit_requests(1, kSanitized ? 12 : kMostRanks, [&](const Request& request) {
    if (!promised(algorithm, request)) return;
    SCOPED_TRACE(name_of_case(algorithm, request));
    ASSERT_TRUE(algorithm.supports(request));
    const auto schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    EXPECT_EQ(schedule->request, request);
    EXPECT_EQ(schedule->algorithm, algorithm.name);
    const auto proof = ir::verify(*schedule, {.fifo_depth = 1});
    ASSERT_TRUE(proof) << proof.error().what;
    check_against_oracle(algorithm, *schedule, *proof);
  });
}

TEST_P(EveryAlgorithm, RefusesWhatItCannotDoAndSaysSo) {
  const ir::Algorithm& algorithm = GetParam();
  const auto expect_refusal = [&](const Request& request) {
    SCOPED_TRACE(name_of_case(algorithm, request));
    EXPECT_FALSE(algorithm.supports(request));
    const auto schedule = algorithm.generate(request);
    ASSERT_FALSE(schedule);
    EXPECT_EQ(schedule.error().code, Code::kUnsupported);
    EXPECT_NE(schedule.error().what.find(algorithm.name), std::string::npos);
  };
  visit_requests(1, 9, [&](const Request& request) {
    if (!promised(algorithm, request)) expect_refusal(request);
  });
  for (const Collective collective : kWholeCollectives) {
    expect_refusal({.collective = collective, .ranks = 0});
    expect_refusal({.collective = collective, .ranks = -4});
    expect_refusal({.collective = collective, .ranks = 4, .root = 4});
    expect_refusal({.collective = collective, .ranks = 4, .root = -1});
  }
  expect_refusal({.collective = Collective::kSend, .ranks = 2});
  expect_refusal({.collective = Collective::kRecv, .ranks = 2});
}

TEST_P(EveryAlgorithm, DoesNothingForOneRankInPlaceAndCopiesOnceOtherwise) {
  const ir::Algorithm& algorithm = GetParam();
  visit_requests(1, 1, [&](const Request& request) {
    if (!promised(algorithm, request)) return;
    SCOPED_TRACE(name_of_case(algorithm, request));
    const auto schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    const std::vector<Step>& steps = schedule->programs[0].steps;
    ASSERT_EQ(steps.size(), request.in_place ? 0U : 1U);
    for (const Step& step : steps) EXPECT_EQ(step.verb, Verb::kCopy);
  });
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(all().begin(), all().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Algorithms, HaveDistinctNamesAndTogetherCoverEveryCollective) {
  std::set<std::string_view> names;
  std::set<Collective> covered;
  for (const ir::Algorithm& algorithm : all()) {
    EXPECT_TRUE(names.insert(algorithm.name).second) << algorithm.name;
    EXPECT_FALSE(algorithm.summary.empty()) << algorithm.name;
    for (const Collective collective : kWholeCollectives) {
      if (!algorithm.lossy && algorithm.supports({.collective = collective, .ranks = 7})) {
        covered.insert(collective);
      }
    }
  }
  EXPECT_EQ(covered.size(), std::size(kWholeCollectives));
}

/// The sets that a rank sends, one entry for each that differs.
std::size_t publications(const ir::Program& program) {
  std::set<std::tuple<ir::Space, std::uint32_t, std::uint32_t, std::uint32_t>> sets;
  for (const Step& step : program.steps) {
    if (step.verb != Verb::kSend) continue;
    sets.insert({step.src.space, step.src.first, step.src.count, step.src.stride});
  }
  return sets.size();
}

TEST(Algorithms, NameWhatGoesToSeveralPeersByOneOperandSoThatItIsPublishedOnce) {
  const Rank ranks = 6;
  const auto most_publications = [](const Schedule& schedule) {
    std::size_t most = 0;
    for (const ir::Program& program : schedule.programs) {
      most = std::max(most, publications(program));
    }
    return most;
  };
  const Request all_reduce{.collective = Collective::kAllReduce, .ranks = ranks};
  const Request all_gather{.collective = Collective::kAllGather, .ranks = ranks};
  EXPECT_EQ(most_publications(*one_shot().generate(all_reduce)), 1U);
  EXPECT_EQ(most_publications(*direct().generate(all_gather)), 1U);
  EXPECT_EQ(most_publications(*two_shot().generate(all_reduce)), 6U);  // 5 parts, then the sum
}

}  // namespace
}  // namespace tutti::algorithms
