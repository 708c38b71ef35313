#include "src/cost/predict_messages.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr std::size_t kMegabyte = 1'000'000;

Calibration simple() {
  Calibration calibration;
  calibration.call_us = 1;
  calibration.copy_ps_per_byte = 100;  // 100 us for 1 MB
  calibration.inside = {.send_us = 2, .receive_us = 3, .latency_us = 5};
  calibration.between = {.send_us = 20, .receive_us = 30, .latency_us = 50};
  calibration.between_gbs = 1;  // 1000 us for 1 MB
  return calibration;
}

TEST(PredictMessages, TakesNothingForNone) { EXPECT_EQ(predict({}, simple()), 0); }

TEST(PredictMessages, AddsTheCopiesOfOneHost) {
  const std::vector<MessageOfRank> both = {{true, true, kMegabyte}, {false, true, kMegabyte}};
  EXPECT_DOUBLE_EQ(predict(both, simple()), 1 + 5 + (2 + 100) + (3 + 100));
}

TEST(PredictMessages, SendsAndReceivesOverANetworkAtOnce) {
  const std::vector<MessageOfRank> both = {{true, false, kMegabyte}, {false, false, 2 * kMegabyte}};
  EXPECT_DOUBLE_EQ(predict(both, simple()), 1 + 50 + 2000);
}

TEST(PredictMessages, CountsTheWorkOfManySmallOnes) {
  const std::vector<MessageOfRank> many(10, {true, false, 8});
  EXPECT_DOUBLE_EQ(predict(many, simple()), 1 + 50 + 200);
}

}  // namespace
}  // namespace tutti
