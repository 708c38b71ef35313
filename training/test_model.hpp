// For tests: a model small enough to compare every bit of it, trained by ranks that are threads.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "training/parameters.hpp"
#include "tutti/communicator.hpp"

namespace tutti::training {

inline constexpr int kSteps = 50;

inline ParameterTable model() {
  return *ParameterTable::create({{"in", {20, 3}}, {"bias", {20}, false}, {"out", {7, 20}}});
}

inline float first_value(ParameterId id, std::size_t element) {
  return std::sin(static_cast<float>(100 * id + element));
}

/// A gradient that depends on parameters and samples, as a model's would. `part` is the part of the
/// step's batch.
inline float gradient_of(float parameter, int step, int part, ParameterId id, std::size_t element) {
  std::minstd_rand random(
      static_cast<unsigned>(1 + step * 7919 + part * 104729 + static_cast<int>(id * 31 + element)));
  random.discard(3);
  return parameter * 0.1F + static_cast<float>(random()) / static_cast<float>(random.max()) - 0.5F;
}

/// Everything that a rank ends with.
struct Outcome {
  std::vector<float> parameters;
  std::vector<double> norms;  ///< of each step
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Runs each rank in a thread of this process.
inline void run_ranks(int ranks, const std::function<void(Comm&)>& each) {
  auto comms = Comm::all(ranks);
  ASSERT_TRUE(comms) << comms.error().what;
  std::vector<std::jthread> threads;
  for (Comm& comm : *comms) threads.emplace_back([&comm, &each] { each(comm); });
}

/// The outcome, which must be equal on all ranks.
inline Outcome outcome_of_all(int ranks, const std::function<Outcome(Comm&)>& train) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Comm& comm) { outcomes[static_cast<std::size_t>(comm.rank())] = train(comm); });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
  return outcomes[0];
}

}  // namespace tutti::training
