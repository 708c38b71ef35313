// With a list of algorithms of its own: src/cost knows none by more than its name.
#include "src/cost/tuner.hpp"

#include <gtest/gtest.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

bool any(const ir::Request&) { return true; }
bool all_reduce_only(const ir::Request& request) {
  return request.collective == Collective::kAllReduce;
}
bool broadcast_only(const ir::Request& request) {
  return request.collective == Collective::kBroadcast;
}
ir::Algorithm named(std::string_view name, bool (*supports)(const ir::Request&)) {
  ir::Algorithm algorithm;
  algorithm.name = name;
  algorithm.supports = supports;
  return algorithm;
}

const std::vector<ir::Algorithm>& algorithms() {
  static const std::vector<ir::Algorithm> list = {named("one_shot", any),
                                                  named("two_shot", all_reduce_only),
                                                  named("ring", any),
                                                  named("double_binary_tree", all_reduce_only),
                                                  named("recursive_doubling", any),
                                                  named("spread", broadcast_only),
                                                  named("direct", broadcast_only)};
  return list;
}

Result<Choice> choice_of(const std::string& forced, Collective collective, std::size_t bytes,
                         std::vector<std::int32_t> hosts) {
  TUTTI_ASSIGN(const Tuner tuner, Tuner::create(algorithms(), {forced, false}));
  Situation situation;
  situation.request = {collective, static_cast<std::int32_t>(hosts.size()), 0, false};
  situation.block_bytes = bytes;
  return tuner.choose(situation, {std::move(hosts)});
}

/// What runs under the setting `forced`; the text of the error when it is refused.
std::string chosen(const std::string& forced, Collective collective, std::size_t bytes = 1 << 20,
                   std::vector<std::int32_t> hosts = {0, 0, 0, 0}) {
  const auto choice = choice_of(forced, collective, bytes, std::move(hosts));
  return choice ? std::string(choice->algorithm->name) : choice.error().what;
}

/// What runs where every rank maps all buffers.
std::string chosen_for_mapped(const std::string& forced, Collective collective, std::size_t bytes,
                              std::vector<std::int32_t> hosts = {0, 0, 0, 0}) {
  const auto choice = choice_of(forced, collective, bytes, std::move(hosts));
  return choice ? std::string(choice->mapped->name) : choice.error().what;
}

TEST(Tuner, ChoosesBySizeOnOneHost) {
  EXPECT_EQ(chosen("", Collective::kAllReduce, 8), "one_shot");
  EXPECT_EQ(chosen("", Collective::kAllReduce, 1 << 20), "two_shot");
}

TEST(Tuner, ChoosesOtherwiseBetweenHosts) {
  EXPECT_EQ(chosen("", Collective::kAllReduce, 8, {0, 0, 1, 1}), "recursive_doubling");
  EXPECT_EQ(chosen("", Collective::kAllReduce, 1 << 20, {0, 0, 1, 1}), "ring");
}

TEST(Tuner, LetsTwoHostsAddInRankOrderAndMoveEverythingStraight) {
  EXPECT_EQ(chosen("", Collective::kAllReduce, 128 << 10, {0, 1}), "one_shot");
  EXPECT_EQ(chosen("", Collective::kAllReduce, 256 << 10, {0, 1}), "two_shot");
  EXPECT_EQ(chosen("", Collective::kReduce, 8, {0, 1}), "one_shot");
  EXPECT_EQ(chosen("", Collective::kBroadcast, 1 << 20, {0, 1}), "direct");
}

TEST(Tuner, LetsTheRootOfALargeBroadcastWorkWhereAllBuffersAreMapped) {
  EXPECT_EQ(chosen("", Collective::kBroadcast), "direct");
  EXPECT_EQ(chosen_for_mapped("", Collective::kBroadcast, 1 << 20), "spread");
  EXPECT_EQ(chosen_for_mapped("", Collective::kBroadcast, 64 << 10), "direct");
  EXPECT_EQ(chosen_for_mapped("", Collective::kBroadcast, 64 << 10, {0, 0}), "spread");
  EXPECT_EQ(chosen_for_mapped("direct", Collective::kBroadcast, 1 << 20), "direct");
  EXPECT_EQ(chosen_for_mapped("^spread", Collective::kBroadcast, 1 << 20), "direct");
  EXPECT_EQ(chosen_for_mapped("", Collective::kAllReduce, 1 << 20), "two_shot");
}

TEST(Tuner, ObeysAForcedName) { EXPECT_EQ(chosen("ring", Collective::kAllReduce), "ring"); }

TEST(Tuner, UnderstandsTheSpellingsOfNccl) {
  EXPECT_EQ(chosen("Ring", Collective::kAllReduce), "ring");
  EXPECT_EQ(chosen("RING", Collective::kAllReduce), "ring");
  EXPECT_EQ(chosen("Tree", Collective::kAllReduce), "double_binary_tree");
  EXPECT_EQ(chosen("Recursive-Doubling", Collective::kAllReduce), "recursive_doubling");
}

TEST(Tuner, ForcesOnlyWhereTheAlgorithmSupportsTheCollective) {
  EXPECT_EQ(chosen("tree", Collective::kReduceScatter), "one_shot");
  EXPECT_EQ(chosen("tree,ring", Collective::kReduceScatter), "ring");
}

TEST(Tuner, ForcesPerCollective) {
  EXPECT_EQ(chosen("allreduce:ring", Collective::kAllReduce), "ring");
  EXPECT_EQ(chosen("all_reduce:ring", Collective::kAllReduce), "ring");
  EXPECT_EQ(chosen("allreduce:ring", Collective::kReduceScatter), "one_shot");
  EXPECT_EQ(chosen("reducescatter:ring;allreduce:tree", Collective::kAllReduce),
            "double_binary_tree");
}

TEST(Tuner, AListBelongsToTheCollectiveBeforeIt) {
  EXPECT_EQ(chosen("allreduce:tree,ring", Collective::kReduceScatter), "one_shot");
}

TEST(Tuner, DoesNotUseWhatIsExcluded) {
  EXPECT_EQ(chosen("^two_shot", Collective::kAllReduce), "one_shot");
  EXPECT_EQ(chosen("^NVLS,CollnetDirect", Collective::kAllReduce), "two_shot");
}

TEST(Tuner, NamesTheUnknownAlgorithmAndTheKnownOnes) {
  const std::string error = chosen("rign", Collective::kAllReduce);
  EXPECT_NE(error.find("'rign'"), std::string::npos) << error;
  EXPECT_NE(error.find(" ring"), std::string::npos) << error;
}

TEST(Tuner, NamesTheUnknownCollective) {
  const std::string error = chosen("alreduce:ring", Collective::kAllReduce);
  EXPECT_NE(error.find("'alreduce'"), std::string::npos) << error;
}

TEST(Tuner, SaysWhenNoAlgorithmIsLeft) {
  EXPECT_NE(chosen("", Collective::kAllToAll).find("no algorithm"), std::string::npos);
}

}  // namespace
}  // namespace tutti
