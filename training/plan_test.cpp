#include "training/plan.hpp"

#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace tutti::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Twelve blocks of GPT-2's smallest model and what surrounds them: 124,439,808 parameters.
constexpr std::size_t kGpt2 = 124'439'808;
ParameterTable gpt2() {
  std::vector<Parameter> parameters = {{"tokens", {50257, 768}}, {"positions", {1024, 768}}};
  for (int block = 0; block < 12; ++block)
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, std::vector<std::int64_t>>>{{"norm1", {2, 768}},
                                                                        {"qkv", {2304, 769}},
                                                                        {"out", {768, 769}},
                                                                        {"norm2", {2, 768}},
                                                                        {"up", {3072, 769}},
                                                                        {"down", {768, 3073}}})
      parameters.push_back({fmt::format("blocks.{}.{}", block, name), shape});
  parameters.push_back({"norm", {2, 768}});
  return *ParameterTable::create(std::move(parameters));
}

std::vector<Plan::Unit> units_of(const ParameterTable& table, bool root_stays) {
  std::vector<Plan::Unit> units = {{{"root", {0, 1}}, root_stays}};
  for (ParameterId block = 0; block < 12; ++block) {
    std::vector<ParameterId> parameters(6);
    std::iota(parameters.begin(), parameters.end(), 2 + 6 * block);
    units.push_back({{fmt::format("blocks.{}", block), parameters}});
  }
  units[0].group.parameters.push_back(static_cast<ParameterId>(table.size()) - 1);
  return units;
}

Plan plan(int ranks, const PlanOptions& options, bool root_stays = false) {
  const ParameterTable table = gpt2();
  auto made = Plan::create(table, units_of(table, root_stays), ranks, options);
  EXPECT_TRUE(made) << made.error().what;
  return *std::move(made);
}

PlanOptions with(Strategy strategy, int passes = 1) {
  PlanOptions options;
  options.strategy = strategy;
  options.passes = passes;
  return options;
}

/// What is sent beside padding is, to a rounded byte for each group.
void expect_near(std::uint64_t sent, double expected) {
  EXPECT_NEAR(static_cast<double>(sent), expected, 128);
}

TEST(PlanTraffic, IsThatOfTheFormulas) {
  ASSERT_EQ(gpt2().elements(), kGpt2);
  for (const int ranks : {2, 4, 8}) {
    const double p = kGpt2, f = (ranks - 1.0) / ranks;
    const auto useful = [&](const PlanOptions& options) {
      const TrafficPlan traffic = plan(ranks, options).traffic();
      return traffic.all() - traffic.padding;
    };
    expect_near(useful(with(Strategy::kDdp)), 2 * f * p * 4);
    expect_near(useful(with(Strategy::kDdp, 3)), 2 * f * p * 4);  // sent once
    expect_near(useful(with(Strategy::kZero1, 3)), f * p * 8);
    expect_near(useful(with(Strategy::kZero2)), f * p * 8);
    expect_near(useful(with(Strategy::kZero2, 3)), f * p * (3 * 4 + 4));
    expect_near(useful(with(Strategy::kZero3)), f * p * 12);
    expect_near(useful(with(Strategy::kZero3, 3)), 3 * f * p * 12);
    PlanOptions halves = with(Strategy::kZero3);
    halves.compute = DataType::kBfloat16;
    expect_near(useful(halves), f * p * (2 * 2 + 4));
    PlanOptions kept = with(Strategy::kZero3);
    kept.after_forward = AfterForward::kKeep;
    expect_near(useful(kept), f * p * 8);
    PlanOptions whole = with(Strategy::kZero2, 3);
    whole.whole_gradients = true;
    expect_near(useful(whole), f * p * 8);
  }
}

TEST(PlanTraffic, OfReplicasOfShardsIsThatOfTheFormulas) {
  PlanOptions options = with(Strategy::kZero3);
  options.shard_ranks = 4;
  const TrafficPlan traffic = plan(8, options).traffic();
  const double p = kGpt2;
  EXPECT_NEAR(static_cast<double>(traffic.gathers + traffic.reductions), 0.75 * p * 12, 4096);
  EXPECT_NEAR(static_cast<double>(traffic.replicas), 2 * 0.5 * p / 4 * 4, 4096);
}

TEST(PlanTraffic, OfSecondaryShardsStaysAmongNeighboursInTheBackwardPass) {
  PlanOptions options = with(Strategy::kZero3);
  options.after_forward = AfterForward::kSecondary;
  options.secondary_ranks = 2;
  const TrafficPlan traffic = plan(8, options).traffic();
  const double p = kGpt2;
  EXPECT_NEAR(static_cast<double>(traffic.gathers), (7.0 / 8 + 1.0 / 2) * p * 4, 4096);
}

TEST(PlanMemory, IsThatOfTheFormulas) {
  const double p = kGpt2;
  const auto per_parameter = [&](int ranks, const PlanOptions& options) {
    const MemoryPlan memory = plan(ranks, options).memory();
    return static_cast<double>(memory.all() - memory.windows) / p;
  };
  for (const int ranks : {1, 4, 8}) {
    const double n = ranks;
    EXPECT_NEAR(per_parameter(ranks, with(Strategy::kDdp)), 16, 1e-3);
    EXPECT_NEAR(per_parameter(ranks, with(Strategy::kZero1)), 8 + 8 / n, 1e-3);
    EXPECT_NEAR(per_parameter(ranks, with(Strategy::kZero2)), 4 + 12 / n, 1e-3);
    EXPECT_NEAR(per_parameter(ranks, with(Strategy::kZero3)), 16 / n, 1e-3);
  }
}

TEST(PlanMemory, HasAWindowMoreThanWhatIsGatheredAhead) {
  PlanOptions options = with(Strategy::kZero3);
  const std::size_t unit = plan(4, options, true).window_elements() * 4;
  for (const int ahead : {0, 1, 3, 11, 50}) {
    options.prefetch_bytes = static_cast<std::size_t>(ahead) * unit;
    EXPECT_EQ(plan(4, options, true).parameter_windows(), 1 + std::min(ahead, 11));
  }
}

TEST(Plan, NamesWhatDoesNotFit) {
  const auto refused = [](int ranks, const PlanOptions& options) {
    const ParameterTable table = gpt2();
    const auto made = Plan::create(table, units_of(table, false), ranks, options);
    return made ? "" : made.error().what;
  };
  PlanOptions options = with(Strategy::kZero3);
  options.shard_ranks = 3;
  EXPECT_THAT(refused(8, options), AllOf(HasSubstr("3 shards"), HasSubstr("2 or 4")));
  options = with(Strategy::kDdp);
  options.shard_ranks = 2;
  EXPECT_THAT(refused(8, options), HasSubstr("DDP has no shards"));
  options = with(Strategy::kZero2);
  options.after_forward = AfterForward::kKeep;
  EXPECT_THAT(refused(8, options), HasSubstr("only ZeRO-3"));
  options = with(Strategy::kZero1);
  options.whole_gradients = true;
  EXPECT_THAT(refused(8, options), HasSubstr("in any case"));
  options = with(Strategy::kDdp);
  options.deterministic = true;
  EXPECT_THAT(refused(6, options), AllOf(HasSubstr("not 6"), HasSubstr("give 4")));
  options.reduce = DataType::kBfloat16;
  EXPECT_THAT(refused(4, options), HasSubstr("float32"));
  options = with(Strategy::kDdp, 0);
  EXPECT_THAT(refused(4, options), HasSubstr("0 passes"));
  options = with(Strategy::kDdp);
  options.compute = DataType::kInt32;
  EXPECT_THAT(refused(4, options), HasSubstr("bfloat16"));
  options = with(Strategy::kZero3);
  options.after_forward = AfterForward::kSecondary;
  options.secondary_ranks = 3;
  EXPECT_THAT(refused(8, options), HasSubstr("a divisor of 8"));
  options.after_forward = AfterForward::kShard;
  EXPECT_THAT(refused(8, options), HasSubstr("not asked for"));
}

PlanOptions small(Strategy strategy, const char* gradients, const char* weights = "") {
  PlanOptions options = with(strategy);
  options.gradients = *parse_gradient_compression(gradients);
  options.gradients.warmup_steps = 1;
  options.weights = weights;
  return options;
}

// Of float32: weights are a quarter and their scales, gradients an eighth and theirs, and the
// gathers of the backward pass stay on the host.
TEST(PlanTraffic, OfZeroPlusPlusIsThatOfTheFormulas) {
  constexpr int kRanks = 4, kHosts = 2;
  const double p = kGpt2;
  PlanOptions options =
      small(Strategy::kZero3, "int4:block=256:scale=fp32", "int8:block=1024:scale=fp32");
  const auto crossing = [&] {
    return static_cast<double>(kRanks / kHosts * plan(kRanks, options).traffic(kHosts).other_hosts);
  };
  // Each host sends its half once for each of two gathers, and its sums of the other half.
  const double weights = p / 2 * (1 + 4.0 / 1024), gradients = p / 2 * (0.5 + 4.0 / 256);
  EXPECT_NEAR(crossing(), 2 * weights + gradients, 1e-4 * p);
  options.after_forward = AfterForward::kSecondary;
  options.secondary_ranks = 2;
  EXPECT_NEAR(crossing(), weights + gradients, 1e-4 * p);
  EXPECT_NEAR(static_cast<double>(plan(kRanks, options).traffic(kHosts).shared * 2),
              p / 2 * (4.0 / 1024 + 4.0 / 256), 1e-4 * p);
  options = with(Strategy::kZero3);
  EXPECT_NEAR(crossing(), 3 * p / 2 * 4, 1e-4 * p);
  EXPECT_EQ(plan(kRanks, options).traffic(kHosts).all(), plan(kRanks, options).traffic().all());
}

TEST(PlanTraffic, WithoutCompressionIsThatOfAPlanWithoutIt) {
  const Plan plain = plan(4, with(Strategy::kZero3));
  const Plan made = plan(4, small(Strategy::kZero3, "int4", "int8"));
  EXPECT_EQ(made.uncompressed().traffic(2), plain.traffic(2));
  EXPECT_EQ(made.uncompressed().hash(), plain.hash());
  EXPECT_NE(made.hash(), plain.hash());
}

TEST(PlanMemory, ListsWhatIsOwed) {
  const double p = kGpt2;
  const auto owed = [&](const PlanOptions& options) {
    return static_cast<double>(plan(4, options).memory().owed) / (4 * p);
  };
  EXPECT_EQ(owed(small(Strategy::kZero3, "int4", "int8")), 0);
  EXPECT_NEAR(owed(small(Strategy::kZero3, "int4:errors=feedback")), 2, 0.01);
  EXPECT_NEAR(owed(small(Strategy::kDdp, "onebit")), 2, 0.01);
  EXPECT_NEAR(owed(small(Strategy::kDdp, "topk:0.01")), 4, 0.01);
  EXPECT_NEAR(owed(small(Strategy::kDdp, "powersgd:1")), 2, 0.05);
  PlanOptions options = small(Strategy::kZero2, "", "int8");
  EXPECT_NEAR(static_cast<double>(plan(4, options).memory().masters), p, 1e-3 * p);
  options.strategy = Strategy::kZero3;
  EXPECT_EQ(plan(4, options).memory().masters, 0U) << "its shards are the masters";
}

TEST(Plan, NamesCompressionThatMeansNothing) {
  const auto refused = [](const PlanOptions& options, const ParameterTable& table) {
    std::vector<ParameterId> every(table.size());
    std::iota(every.begin(), every.end(), 0);
    const auto made = Plan::create(table, {{{"all", every}}}, 8, options);
    return made ? "" : made.error().what;
  };
  const auto of_gpt2 = [&](const PlanOptions& options) { return refused(options, gpt2()); };
  EXPECT_THAT(of_gpt2(small(Strategy::kDdp, "", "int8")), HasSubstr("gathers no parameters"));
  EXPECT_THAT(of_gpt2(small(Strategy::kZero3, "", "topk")), HasSubstr("would become 0"));
  EXPECT_THAT(of_gpt2(small(Strategy::kZero3, "", "int8:errors=feedback")),
              HasSubstr("exact masters"));
  EXPECT_THAT(of_gpt2(small(Strategy::kZero3, "", "int7")), HasSubstr("int7"));
  EXPECT_THAT(of_gpt2(small(Strategy::kZero2, "onebit")), HasSubstr("choose DDP"));
  EXPECT_THAT(of_gpt2(small(Strategy::kZero2, "powersgd:2")), HasSubstr("choose DDP"));
  EXPECT_THAT(of_gpt2(small(Strategy::kZero1, "int8a")), HasSubstr("keeps no zeros"));
  PlanOptions options = small(Strategy::kDdp, "int8");
  options.deterministic = true;
  EXPECT_THAT(of_gpt2(options), HasSubstr("depends on how ranks cut"));
  options = small(Strategy::kDdp, "bf16");
  options.reduce = DataType::kBfloat16;
  EXPECT_THAT(of_gpt2(options), HasSubstr("no fewer bytes"));
  options.gradients = *parse_gradient_compression("int8:errors=feedback");
  EXPECT_THAT(of_gpt2(options), HasSubstr("is float32"));
  options = small(Strategy::kDdp, "onebit");
  options.gradients.warmup_steps = 0;
  EXPECT_THAT(of_gpt2(options), HasSubstr("at least 1 warm-up step"));
  options = small(Strategy::kDdp, "powersgd:2");
  options.gradients.rank = 0;
  EXPECT_THAT(of_gpt2(options), HasSubstr("a rank of 0"));
  options = small(Strategy::kDdp, "int8");
  options.gradients.format = "int8:errors=feedback";
  EXPECT_THAT(of_gpt2(options), HasSubstr("GradientCompression::feedback"));
  options.gradients.format = "";
  EXPECT_THAT(of_gpt2(options), HasSubstr("need one"));
  const auto vectors = *ParameterTable::create({{"a", {4096}}, {"b", {4096}}});
  EXPECT_THAT(refused(small(Strategy::kDdp, "powersgd:1"), vectors), HasSubstr("is a matrix"));
  const auto tiny = *ParameterTable::create({{"a", {16, 8}}});
  EXPECT_THAT(refused(small(Strategy::kZero3, "int4"), tiny),
              AllOf(HasSubstr("16 elements"), HasSubstr("a block of 32")));
}

}  // namespace
}  // namespace tutti::training
