// Engines whose gradients, or gathered parameters, are compressed.
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "training/test_driver.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Momentum begins after 10 steps.
PlanOptions small(const PlanOptions& options, const char* gradients, const char* weights = "") {
  return compressed(options, gradients, weights, 10);
}

PlanOptions whole(PlanOptions options) {
  options.whole_gradients = true;
  return options;
}

PlanOptions of_gradients(PlanOptions options) {
  options.gradients.method = GradientCompression::Method::kFormat;
  options.gradients.momentum = 0;
  return options;
}

/// Units are larger than blocks.
ParameterTable wide_table() {
  return *ParameterTable::create(
      {{"in", {64, 48}}, {"bias", {45}, false}, {"hidden", {48, 96}}, {"out", {95, 31}}});
}

Plan wide_plan(int ranks, const PlanOptions& options) {
  auto plan = Plan::create(wide_table(), {{{"in", {0, 1}}}, {{"hidden", {2}}}, {{"out", {3}}}},
                           ranks, options);
  EXPECT_TRUE(plan) << plan.error().what;
  return *std::move(plan);
}

/// A program whose gradients pull parameters to numbers of its own, with some noise.
class Program {
 public:
  Program(Engine& engine, Comm& comm) : engine_(engine), comm_(comm) {}

  Status fill() {
    return engine_.fill([](ParameterId id, std::span<float> into) {
      for (std::size_t i = 0; i < into.size(); ++i) into[i] = first_value(id, i);
    });
  }

  Result<StepOutcome> step(int number, float factor = 1) {
    constexpr std::array<GroupId, 3> kUnits = {0, 1, 2};
    const bool is_ddp = engine_.plan().options().strategy != Strategy::kZero3;
    const int passes = engine_.plan().options().passes;
    const double scale = 1.0 / (passes * comm_.size());
    for (int pass = 0; pass < passes; ++pass) {
      for (const GroupId unit : kUnits) {
        if (is_ddp) break;
        if (auto used = engine_.use(unit, Pass::kForward); !used) return used.error();
        if (Status done = engine_.release(unit, Pass::kForward); !done) return done.error();
      }
      if (Status done = engine_.begin_backward(pass + 1 == passes, scale); !done)
        return done.error();
      if (Status done = backward(number, pass, factor); !done) return done.error();
      if (Status done = engine_.end_backward(); !done) return done.error();
    }
    return engine_.step({.gradient_scale = scale, .learning_rate = 1e-2});
  }

 private:
  Status backward(int number, int pass, float factor) {
    const std::vector<std::vector<ParameterId>> parts = {{3}, {2}, {0, 1}};
    for (GroupId at = 0; at < 3; ++at) {
      const GroupId unit = 2 - at;
      const bool is_sharded = engine_.plan().options().strategy == Strategy::kZero3;
      if (is_sharded) {
        auto used = engine_.use(unit, Pass::kBackward);
        if (!used) return used.error();
      }
      for (const ParameterId id : parts[at]) {
        const std::span<const float> values = as_floats(engine_.parameter(id));
        auto place = engine_.gradient(id);
        if (!place) return place.error();
        const std::span<float> into = as_floats(place->data);
        for (std::size_t i = 0; i < into.size(); ++i) {
          const float noise = gradient_of(0, number, comm_.rank() * 8 + pass, id, i);
          const float gradient =
              (values[i] - 0.3F * first_value(id + 7, i) + 0.2F * noise) * factor;
          into[i] = place->adds ? into[i] + gradient : gradient;
        }
        if (Status done = engine_.ready(id); !done) return done;
      }
      if (is_sharded)
        if (Status done = engine_.release(unit, Pass::kBackward); !done) return done;
    }
    return ok_status();
  }

  Engine& engine_;
  Comm& comm_;
};

/// All that ranks keep, by kind, name and first element.
using KeptState = std::map<std::string, std::vector<float>>;

class States {
 public:
  void add(Engine& engine) {
    const std::lock_guard lock(mutex_);
    for (const OwnedPiece& piece : engine.owned())
      state_[fmt::format("{} {} {}", piece.kind, piece.parameter, piece.begin)].assign(
          piece.data.begin(), piece.data.end());
  }
  [[nodiscard]] const KeptState& state() const { return state_; }

 private:
  std::mutex mutex_;
  KeptState state_;
};

KeptState run(int ranks, const PlanOptions& options, int steps) {
  States states;
  run_ranks(ranks, [&](Comm& comm) {
    auto made = Engine::create(wide_plan(ranks, options), AdamW{}, comm);
    ASSERT_TRUE(made) << made.error().what;
    Program program(**made, comm);
    ASSERT_TRUE(program.fill());
    for (int step = 0; step < steps; ++step) {
      const auto done = program.step(step);
      ASSERT_TRUE(done) << done.error().what;
      EXPECT_FALSE(done->skipped);
    }
    states.add(**made);
  });
  return states.state();
}

/// Root of the mean square of what parameters are away from where gradients pull them.
double distance(const KeptState& state) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& [name, values] : state) {
    if (!name.starts_with("parameter ")) continue;
    const auto id = static_cast<ParameterId>(name[10] - '0');
    const std::size_t begin = std::stoul(name.substr(12));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double away = values[i] - 0.3 * first_value(id + 7, begin + i);
      sum += away * away;
    }
    count += values.size();
  }
  return std::sqrt(sum / static_cast<double>(count));
}

std::vector<Shape> shapes() {
  const PlanOptions ddp = with(Strategy::kDdp);
  return {{"Zero1WithSmallWeights", 2, small(with(Strategy::kZero1), "", "int8")},
          {"Zero2WithAllSmall", 4, small(with(Strategy::kZero2), "int4", "int8")},
          {"Zero2WithFeedback", 3, small(with(Strategy::kZero2, 2), "int4:errors=feedback")},
          {"Zero3WithAllSmall", 4, small(with(Strategy::kZero3), "int4", "int8")},
          {"Zero3RoundedAtRandom", 2,
           small(with(Strategy::kZero3), "int4:rounding=random:seed=5", "int8:rounding=random")},
          {"Zero3WithFeedback", 4, small(with(Strategy::kZero3), "int4:errors=feedback", "int8")},
          {"Zero1RoundedAtRandom", 2, small(with(Strategy::kZero1), "", "int8:rounding=random")},
          {"Secondary", 4, small(secondary(2), "int4", "int8")},
          {"Hybrid", 4, small(hybrid(2), "int8:errors=feedback", "int8")},
          {"HybridWithWholeGradients", 4, whole(small(hybrid(2), "int8:errors=feedback"))},
          {"DdpSmall", 3, small(ddp, "int8")},
          {"DdpOfLargest", 4, small(ddp, "topk:0.1")},
          {"DdpOfLargestGradients", 2, of_gradients(small(ddp, "topk:0.1"))},
          {"DdpOneBit", 4, small(ddp, "onebit")},
          {"DdpThin", 4, small(ddp, "powersgd:2")}};
}

class CompressedCheckpoint : public ::testing::Test {
 protected:
  CompressedCheckpoint() {
    std::string name = ::testing::TempDir() + "tutti_compressed_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~CompressedCheckpoint() override { fs::remove_all(folder_); }
  fs::path folder_;
};
class Compressed : public CompressedCheckpoint, public ::testing::WithParamInterface<Shape> {};

TEST_P(Compressed, LearnsAndRepeatsBitForBit) {
  const PlanOptions& options = GetParam().options;
  const int ranks = GetParam().ranks;
#ifdef TUTTI_SANITIZED
  constexpr int kMany = 40;
#else
  constexpr int kMany = 150;
#endif
  const KeptState first = run(ranks, options, kMany);
  EXPECT_EQ(run(ranks, options, kMany), first);
  PlanOptions plain = options;
  plain.gradients = {};
  plain.weights = "";
  const KeptState exact = run(ranks, plain, kMany);
  EXPECT_NE(exact, first);
  if (kMany < 150) return;  // too few to learn much
  const double begin = distance(run(ranks, options, 0));
  EXPECT_LT(begin - distance(exact), 2 * (begin - distance(first)));
}

TEST_P(Compressed, GoesOnFromACheckpointWithTheSameBits) {
  const int ranks = GetParam().ranks;
  const PlanOptions& options = GetParam().options;
  constexpr int kBefore = 15, kAfter = 25;
  const KeptState whole = run(ranks, options, kAfter);
  States resumed;
  run_ranks(ranks, [&](Comm& comm) {
    {
      auto made = Engine::create(wide_plan(ranks, options), AdamW{}, comm);
      ASSERT_TRUE(made);
      Program program(**made, comm);
      ASSERT_TRUE(program.fill());
      for (int step = 0; step < kBefore; ++step) ASSERT_TRUE(program.step(step));
      const auto owned = (*made)->owned();
      const Status saved = save_checkpoint(folder_, {kBefore, {}}, wide_table(), owned, comm);
      ASSERT_TRUE(saved) << saved.error().what;
    }
    auto made = Engine::create(wide_plan(ranks, options), AdamW{}, comm);
    ASSERT_TRUE(made);
    const auto found = Checkpoint::open(folder_);
    ASSERT_TRUE(found) << found.error().what;
    const auto notes = (*made)->load(*found, kBefore);
    ASSERT_TRUE(notes) << notes.error().what;
    EXPECT_THAT(*notes, ::testing::IsEmpty());
    Program program(**made, comm);
    for (int step = kBefore; step < kAfter; ++step) ASSERT_TRUE(program.step(step));
    resumed.add(**made);
  });
  EXPECT_EQ(resumed.state(), whole);
}

TEST_P(Compressed, SkipsWhatIsNoNumberAndOwesAsBefore) {
  const int ranks = GetParam().ranks;
  run_ranks(ranks, [&](Comm& comm) {
    auto made = Engine::create(wide_plan(ranks, GetParam().options), AdamW{}, comm);
    ASSERT_TRUE(made);
    Program program(**made, comm);
    ASSERT_TRUE(program.fill());
    for (int step = 0; step < 12; ++step) ASSERT_TRUE(program.step(step));
    States before, after;
    before.add(**made);
    const float factor = comm.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1;
    const auto skipped = program.step(12, factor);
    ASSERT_TRUE(skipped) << skipped.error().what;
    EXPECT_TRUE(skipped->skipped);
    after.add(**made);
    EXPECT_EQ(after.state(), before.state());
    const auto next = program.step(13);
    ASSERT_TRUE(next);
    EXPECT_FALSE(next->skipped);
  });
}

/// Both as integers: multiples of the least float, and so exact.
using Exact = __int128;
Exact exact(float value) {
  constexpr int kLeast = 149 - 60;  // 2^-89: what is smaller is none of these numbers
  return static_cast<Exact>(std::ldexp(static_cast<double>(value), kLeast));
}

/// What ranks owe of each element in all, exactly.
std::map<std::pair<ParameterId, std::uint64_t>, Exact> owed(const std::vector<OwnedPiece>& owned) {
  std::map<std::pair<ParameterId, std::uint64_t>, Exact> sums;
  for (const OwnedPiece& piece : owned)
    if (piece.kind.starts_with("owed_"))
      for (std::size_t i = 0; i < piece.data.size(); ++i)
        if (piece.data[i] != 0) sums[{piece.parameter, piece.begin + i}] += exact(piece.data[i]);
  std::erase_if(sums, [](const auto& sum) { return sum.second == 0; });
  return sums;
}

/// Which part of the ranks owes together.
int part_of(const PlanOptions& options, Comm& comm) {
  return options.shard_ranks == 0 ? comm.rank() : comm.rank() / options.shard_ranks;
}

TEST_F(CompressedCheckpoint, OtherRanksGoOnWithTheSameDebt) {
  const PlanOptions ddp = small(with(Strategy::kDdp), "int4:errors=feedback"),
                    zero = small(with(Strategy::kZero3), "int8:errors=feedback"),
                    replicas = small(hybrid(2), "int4:errors=feedback"),
                    whole_replicas = whole(replicas);
  const std::vector<std::pair<int, PlanOptions>> all = {
      {4, ddp}, {1, ddp}, {2, zero}, {3, zero}, {4, replicas}, {2, ddp}, {4, whole_replicas}};
  std::map<std::pair<ParameterId, std::uint64_t>, Exact> before;
  for (std::uint64_t at = 0; at < all.size(); ++at) {
    const auto& [ranks, options] = all[at];
    std::mutex mutex;
    std::map<std::pair<ParameterId, std::uint64_t>, Exact> loaded, after;
    const auto collect = [&](auto& into, Engine& engine) {
      const std::lock_guard lock(mutex);
      for (const auto& [place, value] : owed(engine.owned())) into[place] += value;
      std::erase_if(into, [](const auto& sum) { return sum.second == 0; });
    };
    run_ranks(ranks, [&](Comm& comm) {
      auto made = Engine::create(wide_plan(ranks, options), AdamW{}, comm);
      ASSERT_TRUE(made) << made.error().what;
      Program program(**made, comm);
      if (at == 0) {
        ASSERT_TRUE(program.fill());
      } else {
        const auto found = Checkpoint::open(folder_);
        ASSERT_TRUE(found) << found.error().what;
        const auto notes = (*made)->load(*found, 5);
        ASSERT_TRUE(notes) << notes.error().what;
        collect(loaded, **made);
      }
      for (int step = 0; step < 5; ++step) ASSERT_TRUE(program.step(step));
      collect(after, **made);
      for (const OwnedPiece& piece : (*made)->owned())
        if (piece.kind.starts_with("owed_")) {
          EXPECT_TRUE(
              piece.kind.starts_with("owed_" + std::to_string(part_of(options, comm)) + "_"))
              << piece.kind << " was not paid";
        }
      const Status saved =
          save_checkpoint(folder_, {at + 1, {}}, wide_table(), (*made)->owned(), comm);
      ASSERT_TRUE(saved) << saved.error().what;
    });
    if (at > 0) {
      EXPECT_EQ(loaded, before) << ranks << " ranks after " << all[at - 1].first;
    }
    EXPECT_EQ(after.empty(), ranks == 1) << ranks;
    before = after;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Compressed, ::testing::ValuesIn(shapes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::training
