// For engine tests: drives an engine through a step as a program would, with a few bytes per unit.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "training/engine.hpp"
#include "training/numbers.hpp"
#include "training/test_model.hpp"

namespace tutti::training {

inline ParameterTable table() {
  return *ParameterTable::create({{"in", {20, 3}},
                                  {"bias", {20}, false},
                                  {"hidden.weight", {20, 20}},
                                  {"hidden.scale", {20}},
                                  {"out", {7, 20}}});
}

inline const std::vector<Plan::Unit>& units() {
  static const std::vector<Plan::Unit> made = {
      {{"in", {0, 1}}}, {{"hidden", {2, 3}}}, {{"out", {4}}}};
  return made;
}

inline Plan plan_for(int ranks, const PlanOptions& options, bool root_stays = false) {
  auto grouped = units();
  grouped[0].keeps_whole = root_stays;
  auto plan = Plan::create(table(), grouped, ranks, options);
  EXPECT_TRUE(plan) << plan.error().what;
  return *std::move(plan);
}

/// What a rank does in a step, as a program would drive the engine.
class Driver {
 public:
  Driver(Engine& engine, Comm& comm) : engine_(engine), comm_(comm) {}

  void fill() {
    const Status filled = try_to_fill();
    ASSERT_TRUE(filled) << filled.error().what;
  }
  Status try_to_fill() {
    return engine_.fill([](ParameterId id, std::span<float> into) {
      for (std::size_t i = 0; i < into.size(); ++i) into[i] = first_value(id, i);
    });
  }

  /// Index of the batch part (micro-batch) of a pass. A rank's parts follow each other. If sums
  /// must form one tree, parts alternate between ranks.
  [[nodiscard]] int part_of(int pass) const {
    const int passes = engine_.plan().options().passes;
    return engine_.plan().options().deterministic ? pass * comm_.size() + comm_.rank()
                                                  : comm_.rank() * passes + pass;
  }

  Status forward() {
    for (GroupId unit = 0; unit < 3; ++unit) {
      const auto used = engine_.use(unit, Pass::kForward);
      if (!used) return used.error();
      if (Status released = engine_.release(unit, Pass::kForward); !released) return released;
    }
    return ok_status();
  }

  Status backward(int step, int pass) {
    const bool is_last = pass + 1 == engine_.plan().options().passes;
    if (Status begun = engine_.begin_backward(is_last); !begun) return begun;
    for (GroupId unit = 3; unit-- > 0;) {
      const auto used = engine_.use(unit, Pass::kBackward);
      if (!used) return used.error();
      const auto parameters = units()[unit].group.parameters;
      for (auto id = parameters.rbegin(); id != parameters.rend(); ++id)
        if (Status given = give_gradient(step, pass, *id); !given) return given;
      if (Status released = engine_.release(unit, Pass::kBackward); !released) return released;
    }
    return engine_.end_backward();
  }

  Status give_gradient(int step, int pass, ParameterId id) {
    const std::vector<float> values =
        numbers(engine_.plan().options().compute, engine_.parameter(id));
    const DataType sent = engine_.plan().options().reduce;
    const auto place = engine_.gradient(id);
    if (!place) return place.error();
    std::vector<float> gradient(values.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = gradient_of(values[i], step, part_of(pass), id, i);
    if (place->adds) add_as(sent, place->data, gradient);
    write_as(sent, gradient, place->data);
    return engine_.ready(id);
  }

  Result<StepOutcome> step(int number) {
    const int passes = engine_.plan().options().passes;
    for (int pass = 0; pass < passes; ++pass) {
      if (Status done = forward(); !done) return done.error();
      if (Status done = backward(number, pass); !done) return done.error();
    }
    return engine_.step({1.0 / (passes * comm_.size()), 1e-3, clip});
  }

  static std::vector<float> numbers(DataType type, std::span<const std::byte> from) {
    std::vector<float> values(from.size() / bytes_of(type));
    read_as(type, from, values);
    return values;
  }

  std::optional<double> clip;

 private:
  Engine& engine_;
  Comm& comm_;
};

/// Everything that ranks end with: whole parameters and moments by kind and name; norms of all
/// steps.
struct Trained {
  std::map<std::string, std::vector<float>> state;
  std::vector<double> norms;
  friend bool operator==(const Trained&, const Trained&) = default;
};

/// Collects the state: each rank adds what it owns.
class Collected {
 public:
  Collected() {
    const ParameterTable all = table();
    for (ParameterId id = 0; id < all.size(); ++id)
      for (const char* const kind : {"parameter", "first", "second"})
        trained_.state[kind + (" " + all[id].name)].assign(all.elements(id),
                                                           std::numeric_limits<float>::quiet_NaN());
  }
  void add(Engine& engine, const std::vector<double>& norms) {
    const std::lock_guard lock(mutex_);
    for (const OwnedPiece& piece : engine.owned()) {
      auto& into = trained_.state[piece.kind + " " + table()[piece.parameter].name];
      std::ranges::copy(piece.data, into.begin() + static_cast<std::ptrdiff_t>(piece.begin));
    }
    if (!trained_.norms.empty()) {
      EXPECT_EQ(trained_.norms, norms);
    }
    trained_.norms = norms;
  }
  [[nodiscard]] const Trained& trained() const { return trained_; }

 private:
  std::mutex mutex_;
  Trained trained_;
};

inline Trained train(int ranks, const PlanOptions& options, int steps = kSteps,
                     bool root_stays = false) {
  Collected collected;
  run_ranks(ranks, [&](Comm& comm) {
    auto made = Engine::create(plan_for(ranks, options, root_stays), AdamW{}, comm);
    ASSERT_TRUE(made) << made.error().what;
    Driver driver(**made, comm);
    driver.fill();
    std::vector<double> norms;
    for (int step = 0; step < steps; ++step) {
      const auto stepped = driver.step(step);
      ASSERT_TRUE(stepped) << stepped.error().what;
      norms.push_back(stepped->norm);
    }
    collected.add(**made, norms);
  });
  return collected.trained();
}

inline PlanOptions with(Strategy strategy, int passes = 1) {
  PlanOptions options;
  options.strategy = strategy;
  options.passes = passes;
  return options;
}

/// With these as parse_gradient_compression() and PlanOptions::weights take them; momentum comes
/// after `warmup` steps.
inline PlanOptions compressed(PlanOptions options, const char* gradients, const char* weights = "",
                              std::int64_t warmup = 1) {
  options.gradients = *parse_gradient_compression(gradients);
  if (options.gradients.method == GradientCompression::Method::kMomentum)
    options.gradients.warmup_steps = warmup;
  options.weights = weights;
  return options;
}

struct Shape {
  const char* name;
  int ranks;
  PlanOptions options;
};

inline PlanOptions hybrid(int shard_ranks) {
  PlanOptions options = with(Strategy::kZero3);
  options.shard_ranks = shard_ranks;
  return options;
}

inline PlanOptions secondary(int ranks) {
  PlanOptions options = with(Strategy::kZero3);
  options.after_forward = AfterForward::kSecondary;
  options.secondary_ranks = ranks;
  return options;
}

}  // namespace tutti::training
