// Memory and bytes of an engine against those of its plan.
#include <barrier>

#include <gtest/gtest.h>
#include <malloc.h>

#include "training/test_driver.hpp"

namespace tutti::training {
namespace {

TEST(Engine, AllocatesWhatThePlanSays) {
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
      run_ranks(4, [&](Comm& comm) {
        PlanOptions options = with(strategy, 2);
        options.compute = type;
        if (strategy == Strategy::kZero3) {
          options.after_forward = AfterForward::kSecondary;
          options.secondary_ranks = 2;
        }
        const Plan plan = plan_for(4, options);
        auto made = Engine::create(plan, AdamW{}, comm);
        ASSERT_TRUE(made) << made.error().what;
        EXPECT_EQ((*made)->memory(), plan.memory());
      });
}

/// One of three units is large, and one of an odd size.
Result<Plan> large_plan(int ranks, const PlanOptions& options, int times = 1) {
  const ParameterTable large = *ParameterTable::create(
      {{"in", {times * 512, 401}}, {"hidden", {times * 256, 1024}}, {"out", {times * 77, 1024}}});
  return Plan::create(large, {{{"in", {0}}}, {{"hidden", {1}}}, {{"out", {2}}}}, ranks, options);
}

/// Every unit once forward and once backward, in each pass; gradients stay as they are.
void take_step(Engine& engine) {
  const int passes = engine.plan().options().passes;
  for (int pass = 0; pass < passes; ++pass) {
    for (const GroupId unit : {0U, 1U, 2U}) {
      ASSERT_TRUE(engine.use(unit, Pass::kForward));
      ASSERT_TRUE(engine.release(unit, Pass::kForward));
    }
    ASSERT_TRUE(engine.begin_backward(pass + 1 == passes, 1));
    for (const GroupId unit : {2U, 1U, 0U}) {
      ASSERT_TRUE(engine.use(unit, Pass::kBackward));
      ASSERT_TRUE(engine.gradient(unit));
      ASSERT_TRUE(engine.ready(unit));
      ASSERT_TRUE(engine.release(unit, Pass::kBackward));
    }
    ASSERT_TRUE(engine.end_backward());
  }
  const auto stepped = engine.step({});
  ASSERT_TRUE(stepped) << stepped.error().what;
}

class Traffic : public ::testing::TestWithParam<Shape> {};

TEST_P(Traffic, IsWhatThePlanSaysToTheByte) {
  const auto plan = large_plan(GetParam().ranks, GetParam().options);
  ASSERT_TRUE(plan) << plan.error().what;
  run_ranks(GetParam().ranks, [&](Comm& comm) {
    auto made = Engine::create(*plan, AdamW{}, comm);
    ASSERT_TRUE(made) << made.error().what;
    Engine& engine = **made;
    for (int step = 0; step < plan->options().gradients.warmup_steps; ++step) take_step(engine);
    (void)engine.take_traffic();
    const TrafficPlan planned = plan->traffic();
    for (int step = 0; step < 2; ++step) {
      take_step(engine);
      const Engine::Traffic sent = engine.take_traffic();
      EXPECT_EQ(sent.payload.gathers, planned.gathers);
      EXPECT_EQ(sent.payload.reductions, planned.reductions);
      EXPECT_EQ(sent.payload.replicas, planned.replicas);
      EXPECT_LT(sent.others, 1000);
    }
    EXPECT_EQ(engine.memory(), plan->memory());
  });
}

PlanOptions kept() {
  PlanOptions options = with(Strategy::kZero3, 2);
  options.after_forward = AfterForward::kKeep;
  return options;
}

PlanOptions whole() {
  PlanOptions options = with(Strategy::kZero2, 3);
  options.whole_gradients = true;
  return options;
}

PlanOptions in_halves(Strategy strategy, DataType reduce) {
  PlanOptions options = with(strategy);
  options.compute = DataType::kBfloat16;
  options.reduce = reduce;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Traffic,
    ::testing::Values(
        Shape{"Ddp1", 1, with(Strategy::kDdp)}, Shape{"Ddp2", 2, with(Strategy::kDdp, 2)},
        Shape{"Ddp3", 3, with(Strategy::kDdp)}, Shape{"Ddp4", 4, with(Strategy::kDdp)},
        Shape{"Ddp4InHalves", 4, in_halves(Strategy::kDdp, DataType::kBfloat16)},
        Shape{"Zero1Of3", 3, with(Strategy::kZero1, 2)},
        Shape{"Zero1Of4", 4, in_halves(Strategy::kZero1, DataType::kFloat32)},
        Shape{"Zero2Of4", 4, with(Strategy::kZero2, 3)},
        Shape{"Zero2Of4WithWholeGradients", 4, whole()},
        Shape{"Zero3Of2", 2, with(Strategy::kZero3)},
        Shape{"Zero3Of3", 3, with(Strategy::kZero3, 2)},
        Shape{"Zero3Of4InHalves", 4, in_halves(Strategy::kZero3, DataType::kFloat32)},
        Shape{"Zero3Of4Kept", 4, kept()}, Shape{"SecondaryOf4", 4, secondary(2)},
        Shape{"HybridOf4", 4, hybrid(2)},
        Shape{"Zero1Of3WithSmallWeights", 3, compressed(with(Strategy::kZero1), "", "int8")},
        Shape{"Zero2Of4WithAllSmall", 4, compressed(with(Strategy::kZero2, 3), "int4", "int8")},
        Shape{"Zero3Of2WithSmallGradients", 2,
              compressed(with(Strategy::kZero3), "int4:errors=feedback")},
        Shape{"Zero3Of3WithAllSmall", 3, compressed(with(Strategy::kZero3, 2), "fp8", "mxfp8")},
        Shape{"Zero3Of4InHalvesWithSmallWeights", 4,
              compressed(in_halves(Strategy::kZero3, DataType::kFloat32), "int4", "int8")},
        Shape{"SecondaryOf4WithAllSmall", 4, compressed(secondary(2), "int4", "int8")},
        Shape{"HybridOf4WithSmallReplicas", 4,
              compressed(hybrid(2), "int8:errors=feedback", "int8")},
        Shape{"Ddp2OfLargest", 2, compressed(with(Strategy::kDdp), "topk:0.01")},
        Shape{"Ddp3OfLargest", 3, compressed(with(Strategy::kDdp, 2), "topk:0.02")},
        Shape{"Ddp4Small", 4, compressed(with(Strategy::kDdp, 2), "int8")},
        Shape{"Ddp4OneBit", 4, compressed(with(Strategy::kDdp), "onebit")},
        Shape{"Ddp4Thin", 4, compressed(with(Strategy::kDdp), "powersgd:64")}),
    [](const auto& info) { return info.param.name; });

/// Bytes of the heap that are in use.
std::size_t heap() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Engine, TakesNoMoreOfTheHeapThanThePlanSays) {
#ifdef TUTTI_SANITIZED
  GTEST_SKIP() << "sanitizers have a heap of their own";
#endif
  constexpr int kRanks = 4;
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    PlanOptions options = with(strategy);
    options.compute = DataType::kBfloat16;
    const auto plan = large_plan(kRanks, options, 8);  // beside which communicators are small
    ASSERT_TRUE(plan);
    std::barrier together(kRanks);
    std::size_t before = 0, after = 0;
    run_ranks(kRanks, [&](Comm& comm) {
      together.arrive_and_wait();
      if (comm.rank() == 0) before = heap();
      together.arrive_and_wait();
      auto made = Engine::create(*plan, AdamW{}, comm);
      ASSERT_TRUE(made);
      for (int step = 0; step < 2; ++step) take_step(**made);
      together.arrive_and_wait();
      if (comm.rank() == 0) after = heap();
      together.arrive_and_wait();
    });
    const MemoryPlan memory = plan->memory();
    const auto planned = static_cast<double>(kRanks * (memory.moments + memory.masters));
    EXPECT_NEAR(static_cast<double>(after - before) / planned, 1, 0.05)
        << static_cast<int>(strategy);
  }
}

}  // namespace
}  // namespace tutti::training
