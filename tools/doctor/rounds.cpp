#include "tools/doctor/rounds.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

namespace tutti::doctor {
namespace {

Pair pair_of(std::size_t a, std::size_t b) { return {std::min(a, b), std::max(a, b)}; }

/// Each pair goes to the first round in which both are free.
std::vector<Round> in_rounds(const std::set<Pair>& pairs) {
  std::vector<Round> rounds;
  std::vector<std::set<std::size_t>> busy;  // in each round
  for (const Pair& pair : pairs) {
    std::size_t round = 0;
    while (round < rounds.size() &&
           (busy[round].contains(pair.first) || busy[round].contains(pair.second)))
      ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      busy.emplace_back();
    }
    rounds[round].push_back(pair);
    busy[round].insert({pair.first, pair.second});
  }
  return rounds;
}

}  // namespace

std::vector<Round> all_pairs(std::size_t hosts) {
  if (hosts < 2) return {};
  const std::size_t seats = hosts + hosts % 2;  // the last seat of an odd number stays empty
  const std::size_t moving = seats - 1;
  std::vector<Round> rounds(moving);
  for (std::size_t r = 0; r < moving; ++r) {
    const auto at = [&](std::size_t seat) { return (seat + r) % moving; };
    if (moving < hosts) rounds[r].push_back(pair_of(at(0), moving));
    for (std::size_t k = 1; k < seats / 2; ++k) rounds[r].push_back(pair_of(at(k), at(moving - k)));
  }
  return rounds;
}

std::vector<Round> sampled_pairs(std::size_t hosts, std::uint64_t seed) {
  if (hosts < 2) return {};
  std::set<Pair> pairs;
  for (std::size_t i = 0; i < hosts; ++i) pairs.insert(pair_of(i, (i + 1) % hosts));
  if (hosts == 2) return in_rounds(pairs);
  const std::size_t possible = hosts * (hosts - 1) / 2;
  const std::size_t wanted = std::min(2 * hosts, possible);
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::size_t> any(0, hosts - 1);
  while (pairs.size() < wanted) {
    const std::size_t a = any(random), b = any(random);
    if (a != b) pairs.insert(pair_of(a, b));
  }
  return in_rounds(pairs);
}

}  // namespace tutti::doctor
