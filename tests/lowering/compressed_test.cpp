// Holds every algorithm, made to send compressed data, to its proof: over one host and over two, in
// place and not. The lowered programs are held to the same proof.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/builder.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/check.hpp"
#include "src/lower/lower.hpp"

namespace tutti::lower {
namespace {

using ir::CompressedMessages;
using ir::Request;

/// All ranks on one host; the first half, rounded up, on the first of two.
std::vector<ir::Layout> layouts_of(Rank ranks) {
  std::vector<ir::Layout> layouts(1);
  std::vector<std::int32_t> host;
  for (Rank rank = 0; rank < ranks; ++rank) host.push_back(rank < (ranks + 1) / 2 ? 0 : 1);
  if (ranks > 2) layouts.push_back(ir::Layout::of_hosts(host));
  return layouts;
}

std::vector<Request> requests_of(const ir::Algorithm& algorithm, Rank ranks) {
  std::vector<Request> requests;
  for (int kind = 0; kind <= static_cast<int>(Collective::kScatter); ++kind)
    for (const ir::Layout& layout : layouts_of(ranks))
      for (const bool in_place : {false, true}) {
        const auto collective = static_cast<Collective>(kind);
        const Request request{collective, ranks, rooted(collective) ? ranks / 2 : 0, in_place,
                              layout};
        if (algorithm.supports(request)) requests.push_back(request);
      }
  return requests;
}

Placement placement_of(const Request& request, bool two_hosts) {
  Placement placement;
  for (Rank rank = 0; rank < request.ranks; ++rank)
    placement.host.push_back(two_hosts && rank >= (request.ranks + 1) / 2 ? 1 : 0);
  return placement;
}

/// Where the number of ranks is no power of theirs, these first fold ranks into others, and hand
/// those the result in the end. What is handed on is rounded once more, and other ranks keep it as
/// it was.
bool folds(std::string_view algorithm) {
  return algorithm == "recursive_doubling" || algorithm == "recursive_multiplying" ||
         algorithm == "swing_latency" || algorithm == "leader_doubling";
}

/// Copies are rounded once, where they come from; sums at most in each round. What these algorithms
/// do better than that, they are chosen for.
std::uint32_t most_lossy_steps(std::string_view algorithm, const Request& request,
                               const ir::Proof& proof, bool all) {
  if (!reduces(request.collective)) return all ? 1 : proof.rounds;
  if (algorithm == "one_shot") return 1;
  if (algorithm == "two_shot" || algorithm == "fixed_tree") return 2;
  if (algorithm.starts_with("hierarchical") && request.collective == Collective::kReduceScatter)
    return all ? 2 : 1;
  if (algorithm.starts_with("hierarchical") && request.collective == Collective::kAllReduce &&
      request.ranks <= 8)
    return all ? 3 : 2;
  return proof.rounds + (folds(algorithm) ? 1 : 0);
}

class Compressed : public testing::TestWithParam<ir::Algorithm> {
 protected:
  /// The proof, after it was checked that every host can run the schedule.
  static ir::Proof prove(const ir::Schedule& schedule) {
    const auto proof = ir::verify(schedule);
    EXPECT_TRUE(proof) << proof.error().what;
    if (!proof) return {};
    for (const bool two_hosts : {false, true}) {
      const auto lowered = lower(schedule, *proof, placement_of(schedule.request, two_hosts), {});
      EXPECT_TRUE(lowered) << lowered.error().what;
    }
    return *proof;
  }
};

TEST_P(Compressed, IsProved) {
  const ir::Algorithm& algorithm = GetParam();
  for (Rank ranks = 1; ranks <= 9; ++ranks)
    for (const Request& request : requests_of(algorithm, ranks))
      for (const auto messages : {CompressedMessages::kAll, CompressedMessages::kBetweenHosts}) {
        SCOPED_TRACE(fmt::format(
            "{} of {} over {} ranks{}{}, {}", algorithm.name, name_of(request.collective), ranks,
            request.in_place ? " in place" : "", request.layout.empty() ? "" : " of two hosts",
            messages == CompressedMessages::kAll ? "all" : "between hosts"));
        const auto plain = algorithm.generate(request);
        ASSERT_TRUE(plain) << plain.error().what;
        if (!plain->formats.empty()) continue;
        const ir::Schedule schedule = ir::compress(*plain, messages);
        const ir::Proof proof = prove(schedule);
        if (HasFailure()) return;
        const bool all = messages == CompressedMessages::kAll || request.layout.empty();
        EXPECT_LE(proof.lossy_steps, most_lossy_steps(algorithm.name, request, proof, all));
        EXPECT_EQ(proof.lossy_steps > 0, ranks > 1);
        if (all && !(folds(algorithm.name) && reduces(request.collective))) {
          EXPECT_TRUE(*proof.same_bits);
        }
      }
}

std::string name_when_compressed(const testing::TestParamInfo<ir::Algorithm>& info) {
  return std::string(info.param.name);
}
/// An all-reduce over two ranks of which rank 0 owns all. Rounds the contribution of rank 1 (twice,
/// or in the other format), that of rank 0, and the sum.
ir::Schedule small_all_reduce(bool remote, bool own, bool twice, bool sum, bool other_format) {
  ir::Builder build({Collective::kAllReduce, 2}, "small", 1);
  auto owner = build.rank(0), other = build.rank(1);
  const ir::FormatId format = build.format("wire"), second = build.format("other");
  const auto through = [](ir::Builder::RankBuilder& me, ir::ChunkSet plain, ir::FormatId format) {
    const ir::ChunkSet code = me.scratch(plain, format);
    me.copy(plain, code);
    return code;
  };
  const auto back = [](ir::Builder::RankBuilder& me, ir::ChunkSet code) {
    const ir::ChunkSet plain = me.scratch(code);
    me.copy(code, plain);
    return plain;
  };
  ir::ChunkSet sent = ir::in(0);
  if (twice) sent = back(other, through(other, sent, second));
  if (remote) sent = through(other, sent, other_format ? second : format);
  other.send(sent, 0);
  const ir::ChunkSet arrived = owner.scratch(ir::in(0), sent.format);
  owner.recv(arrived, 1);
  owner.copy(own ? through(owner, ir::in(0), format) : ir::in(0), ir::out(0));
  owner.reduce(arrived, ir::out(0));
  if (!sum) {
    owner.send(ir::out(0), 1);
    other.recv(ir::out(0), 0);
  } else {
    const ir::ChunkSet code = through(owner, ir::out(0), format);
    owner.send(code, 1).copy(code, ir::out(0));
    const ir::ChunkSet result = other.scratch(ir::out(0), format);
    other.recv(result, 0).copy(result, ir::out(0));
  }
  return std::move(build).finish();
}

/// A program that rounds otherwise than its schedule is refused: an encode that is dropped,
/// doubled, in another format, on another contribution, or moved behind the sum.
TEST(CheckedRecipes, TellEveryOtherRounding) {
  std::vector<ir::Schedule> schedules;
  schedules.push_back(small_all_reduce(true, false, false, true, false));
  schedules.push_back(small_all_reduce(false, false, false, true, false));  // dropped
  schedules.push_back(small_all_reduce(true, false, true, true, false));    // doubled
  schedules.push_back(small_all_reduce(true, true, false, true, false));    // one more
  schedules.push_back(small_all_reduce(true, false, false, true, true));    // other format
  schedules.push_back(small_all_reduce(true, false, false, false, false));  // not of the sum
  schedules.push_back(small_all_reduce(false, true, false, true, false));   // of the other one
  const Placement hosts[] = {{{0, 0}}, {{0, 1}}};
  for (const Placement& placement : hosts)
    for (std::size_t made = 0; made < schedules.size(); ++made) {
      const auto proof = ir::verify(schedules[made]);
      ASSERT_TRUE(proof) << proof.error().what;
      const auto lowered = lower(schedules[made], *proof, placement, {});
      ASSERT_TRUE(lowered) << lowered.error().what;
      for (std::size_t wanted = 0; wanted < schedules.size(); ++wanted) {
        const auto other = ir::verify(schedules[wanted]);
        ASSERT_TRUE(other) << other.error().what;
        const Status status = check(*lowered, placement, {.recipes = &other->recipes});
        EXPECT_EQ(static_cast<bool>(status), made == wanted) << made << " as " << wanted;
        if (!status) {
          EXPECT_NE(status.error().what.find("not rounded and added up as in the schedule"),
                    std::string::npos)
              << status.error().what;
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Compressed, testing::ValuesIn(algorithms::all()),
                         name_when_compressed);

}  // namespace
}  // namespace tutti::lower
