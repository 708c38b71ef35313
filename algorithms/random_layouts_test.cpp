// Holds what is made of two levels to its word over layouts that nobody chose: what it supports, it
// generates, and that is proved.
#include <algorithm>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/verify.hpp"

namespace tutti::algorithms {
namespace {

using ir::Layout;
using ir::Request;

/// 2 to 24 ranks on hosts of any sizes, in any order.
Layout random_hosts(std::mt19937& random) {
  const std::size_t ranks = 2 + random() % 23;
  const std::size_t hosts = 1 + random() % ranks;
  std::vector<std::int32_t> host(ranks);
  for (auto& each : host) each = static_cast<std::int32_t>(random() % hosts);
  if (random() % 2 == 0) std::ranges::sort(host);
  return Layout::of_hosts(host);
}

/// A full grid of up to 24 ranks, which lie on it in any order.
Layout random_grid(std::mt19937& random) {
  std::vector<std::int32_t> extents;
  for (std::int32_t room = 24; extents.size() < 4 && room >= 2;) {
    const auto most = static_cast<std::uint32_t>(std::min(room, 6));
    extents.push_back(1 + static_cast<std::int32_t>(random() % most));
    room /= extents.back();
  }
  Layout layout = Layout::grid(std::move(extents));
  if (random() % 2 == 0) std::ranges::shuffle(layout.cells, random);
  return layout;
}

bool needs_layout(const ir::Algorithm& algorithm) {
  const Request two_by_two{.ranks = 4, .layout = Layout::grid({2, 2})};
  for (int i = 0; i < kCollectives; ++i) {
    Request request = two_by_two;
    request.collective = static_cast<Collective>(i);
    const bool over_nodes = algorithm.supports(request);
    request.layout = {};
    if (over_nodes && !algorithm.supports(request)) return true;
  }
  return false;
}

/// Any collective, from any root, in place or not.
Request random_request(const Layout& layout, std::mt19937& random) {
  Request request{.collective = static_cast<Collective>(random() % kCollectives),
                  .ranks = static_cast<std::int32_t>(layout.cells.size()),
                  .in_place = random() % 2 == 0,
                  .layout = layout};
  if (rooted(request.collective))
    request.root = static_cast<Rank>(random() % static_cast<std::uint32_t>(request.ranks));
  return request;
}

TEST(RandomLayouts, WhateverATwoLevelAlgorithmSupportsIsGeneratedAndProved) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<ir::Algorithm> algorithms(all().begin(), all().end());
  std::erase_if(algorithms, [](const auto& algorithm) { return !needs_layout(algorithm); });
  std::vector<int> proved(algorithms.size(), 0);
  for (int round = 0; round < 1000; ++round) {
    const Layout layout = round % 4 == 0 ? random_grid(random) : random_hosts(random);
    if (layout.empty()) continue;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const Request request = random_request(layout, random);
      if (!algorithms[i].supports(request)) continue;
      SCOPED_TRACE(fmt::format("{} {} over {} root {}{}", algorithms[i].name,
                               name_of(request.collective), print(layout), request.root,
                               request.in_place ? " in place" : ""));
      const auto schedule = algorithms[i].generate(request);
      ASSERT_TRUE(schedule) << schedule.error().what;
      const auto proof = ir::verify(*schedule);
      ASSERT_TRUE(proof) << proof.error().what;
      EXPECT_EQ(schedule->request, request);
      ++proved[i];
    }
  }
  for (std::size_t i = 0; i < algorithms.size(); ++i)
    EXPECT_GT(proved[i], 10) << algorithms[i].name << " with seed " << seed;
}

}  // namespace
}  // namespace tutti::algorithms
