// With a list of algorithms of its own: src/cost knows none by more than its name.
#include "src/cost/tuner.hpp"

#include <tuple>

#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/cost/asked.hpp"

namespace tutti {
namespace {

bool any_request(const ir::Request&) { return true; }
bool all_reduce_only(const ir::Request& request) {
  return request.collective == Collective::kAllReduce;
}
bool broadcast_only(const ir::Request& request) {
  return request.collective == Collective::kBroadcast;
}
bool two_levels_only(const ir::Request& request) { return !request.layout.empty(); }
ir::Algorithm named(std::string_view name, bool (*supports)(const ir::Request&)) {
  ir::Algorithm algorithm;
  algorithm.name = name;
  algorithm.supports = supports;
  return algorithm;
}

const std::vector<ir::Algorithm>& algorithms() {
  static const std::vector<ir::Algorithm> list = {named("one_shot", any_request),
                                                  named("two_shot", all_reduce_only),
                                                  named("ring", any_request),
                                                  named("double_binary_tree", all_reduce_only),
                                                  named("recursive_doubling", any_request),
                                                  named("circulant", any_request),
                                                  named("circulant_blocks", broadcast_only),
                                                  named("bruck", any_request),
                                                  named("pairwise", any_request),
                                                  named("spread", broadcast_only),
                                                  named("direct", broadcast_only),
                                                  named("leader_doubling", two_levels_only),
                                                  named("hierarchical_ring", two_levels_only)};
  return list;
}

Result<Choice> choice_of(const std::string& forced, Collective collective, std::size_t bytes,
                         std::vector<std::int32_t> hosts, DataType type = DataType::kFloat32,
                         ReduceOp op = ReduceOp::kSum, bool deterministic = false) {
  TUTTI_ASSIGN(const Tuner tuner, Tuner::create(algorithms(), {forced, deterministic}));
  Situation situation;
  situation.request = {collective, static_cast<std::int32_t>(hosts.size()), 0, false};
  situation.block_bytes = situation.largest_input = bytes;
  situation.type = type;
  situation.op = op;
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

TEST(Tuner, TakesTwoLevelsWhereRanksShareHostsAndKeepsTheNextBestForWhereTheyHaveNoRoom) {
  TunerPolicy policy;
  const auto tuner = Tuner::create(algorithms(), policy);
  Situation situation;
  const std::vector<std::int32_t> hosts = {0, 0, 1, 1};
  situation.request = {.ranks = 4, .layout = ir::Layout::of_hosts(hosts)};
  for (const auto& [bytes, name, next] :
       {std::tuple{std::size_t{8}, "leader_doubling", "recursive_doubling"},
        {std::size_t{1} << 24, "hierarchical_ring", "ring"}}) {
    situation.block_bytes = situation.largest_input = bytes;
    const auto choice = tuner->choose(situation, {hosts});
    ASSERT_TRUE(choice) << choice.error().what;
    EXPECT_EQ(choice->algorithm->name, name);
    ASSERT_FALSE(choice->instead.empty());
    EXPECT_EQ(choice->instead.front()->name, next);
  }
}

TEST(Tuner, LetsTwoHostsAddInRankOrderAndMoveEverythingStraight) {
  EXPECT_EQ(chosen("", Collective::kAllReduce, 128 << 10, {0, 1}), "one_shot");
  EXPECT_EQ(chosen("", Collective::kAllReduce, 256 << 10, {0, 1}), "two_shot");
  EXPECT_EQ(chosen("", Collective::kReduce, 8, {0, 1}), "one_shot");
  EXPECT_EQ(chosen("", Collective::kBroadcast, 1 << 20, {0, 1}), "direct");
}

bool all_reduce_of_four(const ir::Request& request) {
  return request.collective == Collective::kAllReduce && request.ranks == 4;
}

/// What runs where the files "a:1,2.xml", for an all_reduce of four ranks, and "b", for broadcasts,
/// were read.
std::string chosen_with_files(const std::string& forced, Collective collective,
                              std::vector<std::int32_t> hosts = {0, 0, 0, 0}) {
  const ir::Algorithm a = named("a.xml#1", all_reduce_of_four), b = named("b#2", broadcast_only);
  const auto tuner = Tuner::create(algorithms(), {forced, false, {{"a:1,2.xml", &a}, {"b", &b}}});
  if (!tuner) return tuner.error().what;
  Situation situation;
  situation.request = {collective, static_cast<std::int32_t>(hosts.size()), 0, false};
  situation.block_bytes = situation.largest_input = 1 << 20;
  const auto choice = tuner->choose(situation, {std::move(hosts)});
  return choice ? std::string(choice->algorithm->name) : choice.error().what;
}

TEST(Tuner, RunsAFileWhereItIsForTheCallAndChoosesAsBeforeElsewhere) {
  EXPECT_EQ(chosen_with_files("file:a:1,2.xml", Collective::kAllReduce), "a.xml#1");
  EXPECT_EQ(chosen_with_files("file:a:1,2.xml", Collective::kAllReduce, {0, 0, 0}), "two_shot");
  EXPECT_EQ(chosen_with_files("file:a:1,2.xml", Collective::kBroadcast), "direct");
}

TEST(Tuner, TakesFilesForACollectiveAndBesideOtherNames) {
  const std::string forced = "allreduce:file:a:1,2.xml;file:b;ring";
  EXPECT_EQ(chosen_with_files(forced, Collective::kAllReduce), "a.xml#1");
  EXPECT_EQ(chosen_with_files(forced, Collective::kAllReduce, {0, 0}), "ring");
  EXPECT_EQ(chosen_with_files(forced, Collective::kBroadcast), "b#2");
  EXPECT_EQ(chosen_with_files("broadcast:file:a:1,2.xml;ring", Collective::kAllReduce), "ring");
}

TEST(Tuner, RefusesFilesThatNobodyHasReadAndPathsOfNoLetters) {
  EXPECT_NE(chosen_with_files("file:c", Collective::kAllReduce).find("the file 'c'"),
            std::string::npos);
  for (const char* nothing : {"file:", "allreduce:file:", "ring;file:;direct"})
    EXPECT_NE(chosen_with_files(nothing, Collective::kAllReduce).find("write file:PATH"),
              std::string::npos)
        << nothing;
}

TEST(FilesOf, AreThePathsInTheirOrder) {
  const auto paths = files_of("allreduce:file:x,y.xml;ring;^tree;file:a:b;broadcast:direct");
  ASSERT_TRUE(paths) << paths.error().what;
  EXPECT_EQ(*paths, (std::vector<std::string>{"x,y.xml", "a:b"}));
  std::string many;
  for (std::size_t i = 0; i <= kMostFiles; ++i) many += "file:a;";
  const auto too_many = files_of(many);
  ASSERT_FALSE(too_many);
  EXPECT_NE(too_many.error().what.find("65 files"), std::string::npos) << too_many.error().what;
}

/// What runs and, after it, what may be tried instead.
std::vector<std::string> rivals(Collective collective, std::size_t bytes,
                                std::vector<std::int32_t> hosts, DataType type = DataType::kFloat32,
                                ReduceOp op = ReduceOp::kSum, bool deterministic = false) {
  const auto choice = choice_of("", collective, bytes, std::move(hosts), type, op, deterministic);
  if (!choice) return {choice.error().what};
  std::vector<std::string> names = {std::string(choice->algorithm->name)};
  for (const ir::Algorithm* const other : choice->others) names.emplace_back(other->name);
  return names;
}

using NameList = std::vector<std::string>;

TEST(Tuner, LetsTwoHostsTryWhatIsExactAroundTheThreshold) {
  const auto all_reduce = [](std::size_t bytes) {
    return rivals(Collective::kAllReduce, bytes, {0, 1}, DataType::kInt32);
  };
  EXPECT_EQ(all_reduce(16 << 10), NameList({"one_shot"}));
  EXPECT_EQ(all_reduce((16 << 10) + 1), NameList({"one_shot", "two_shot"}));
  EXPECT_EQ(all_reduce(1 << 20), NameList({"two_shot", "one_shot"}));
  EXPECT_EQ(all_reduce((1 << 20) + 1), NameList({"two_shot"}));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kAvg, ReduceOp::kPreMulSum})
    EXPECT_EQ(rivals(Collective::kAllReduce, 1 << 17, {0, 1}, DataType::kFloat32, op).size(), 1U);
  EXPECT_EQ(rivals(Collective::kAllReduce, 1 << 17, {0, 1}, DataType::kFloat32, ReduceOp::kMax),
            NameList({"one_shot", "two_shot"}));
}

TEST(Tuner, LetsMoreHostsTryOnlyWhatGivesTheSameBits) {
  const std::vector<std::int32_t> hosts = {0, 0, 1, 1};
  for (std::size_t bytes = 1; bytes <= 1 << 24; bytes *= 2)
    for (const DataType type : {DataType::kFloat64, DataType::kFloat16, DataType::kFloat8e5m2})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax})
        EXPECT_EQ(rivals(Collective::kAllReduce, bytes, hosts, type, op).size(), 1U) << bytes;
  EXPECT_EQ(rivals(Collective::kAllReduce, 4 << 10, hosts, DataType::kUint64),
            NameList({"recursive_doubling", "circulant"}));
  EXPECT_EQ(rivals(Collective::kAllReduce, 16 << 10, hosts, DataType::kInt8),
            NameList({"circulant", "recursive_doubling", "ring"}));
  EXPECT_EQ(rivals(Collective::kBroadcast, 4 << 10, hosts),
            NameList({"circulant_blocks", "direct"}));
}

TEST(Tuner, LetsNobodyTryLargeCallsOrMoreThanThreeWaysBetweenHosts) {
  for (const std::int32_t ranks : {2, 3, 5, 64}) {
    std::vector<std::int32_t> hosts(ranks);
    for (std::int32_t rank = 0; rank < ranks; ++rank) hosts[rank] = rank;
    for (int c = 0; c < 8; ++c)
      for (int size = 0; size <= 26; ++size) {
        const auto names =
            rivals(static_cast<Collective>(c), std::size_t{1} << size, hosts, DataType::kInt32);
        EXPECT_LE(names.size(), size > 20 ? 1U : 3U) << c << " " << size;
      }
  }
}

TEST(Tuner, LetsNobodyTryWhereOneOrderIsAskedFor) {
  const std::vector<std::string> names =
      rivals(Collective::kAllReduce, 1 << 17, {0, 1}, DataType::kInt32, ReduceOp::kSum, true);
  EXPECT_EQ(names.size(), 1U);
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

// ---- what was measured, and what was asked for

MeasuredRange range(Collective collective, const std::string& algorithm,
                    const Arrangement& arrangement = {4, 1, 4}) {
  return {collective, arrangement, 1000, 2000, {algorithm, true}, 1500, 10'000, 20'000, 1};
}

Result<Tuner> tuner_with(const std::vector<MeasuredRange>& ranges, const std::string& forced = "",
                         bool deterministic = false, const Arrangement& arrangement = {4, 1, 4}) {
  TunerPolicy policy{.forced = forced, .deterministic = deterministic};
  for (const MeasuredRange& each : ranges) policy.table.add(each);
  policy.arrangement = arrangement;
  return Tuner::create(algorithms(), std::move(policy));
}

Situation all_reduce_of(std::size_t bytes) {
  Situation situation;
  situation.request = {Collective::kAllReduce, 4, 0, false};
  situation.block_bytes = situation.largest_input = bytes;
  return situation;
}
const lower::Placement& one_host() {
  static const lower::Placement placement{{0, 0, 0, 0}};
  return placement;
}

TEST(Tuner, ChoosesWhatWasMeasuredForTheseSizesAndSaysSo) {
  const auto tuner = tuner_with({range(Collective::kAllReduce, "ring")});
  const auto inside = tuner->choose(all_reduce_of(1000), one_host());
  EXPECT_EQ(inside->algorithm->name, "ring");
  EXPECT_EQ(inside->by, Choice::By::kTable);
  EXPECT_EQ(inside->kernel_reads, true);
  EXPECT_TRUE(inside->others.empty());
  EXPECT_EQ(inside->reason, "measured: 10.0 us at 1500 bytes, the next best way 20.0 us");
  for (const std::size_t bytes : {999, 2001}) {
    const auto outside = tuner->choose(all_reduce_of(bytes), one_host());
    EXPECT_EQ(outside->algorithm->name, "one_shot");
    EXPECT_EQ(outside->by, Choice::By::kRules);
  }
}

TEST(Tuner, LeavesMemoryThatAllMapToTheRules) {
  const auto tuner = tuner_with({range(Collective::kAllReduce, "ring")});
  EXPECT_EQ(tuner->choose(all_reduce_of(1500), one_host())->mapped->name, "one_shot");
}

TEST(Tuner, PassesOverMeasurementsOfOtherArrangements) {
  const auto tuner = tuner_with({range(Collective::kAllReduce, "ring", {4, 2, 2})});
  EXPECT_EQ(tuner->choose(all_reduce_of(1500), one_host())->by, Choice::By::kRules);
}

TEST(Tuner, PassesOverMeasuredAlgorithmsThatCannotBeAndNamesThem) {
  const auto tuner = tuner_with(
      {range(Collective::kAllReduce, "lost"), range(Collective::kAllGather, "two_shot"),
       range(Collective::kReduce, "ring"), range(Collective::kAllToAll, "elsewhere", {4, 2, 2})});
  EXPECT_EQ(tuner->choose(all_reduce_of(1500), one_host())->algorithm->name, "one_shot");
  EXPECT_EQ(tuner->unusable_in_table({}),
            (std::vector<std::string>{"lost (all_reduce)", "two_shot (all_gather)"}));
}

TEST(Tuner, LetsSettingsGoBeforeTheTableAndTheCallerBeforeSettings) {
  const std::vector<MeasuredRange> table = {range(Collective::kAllReduce, "circulant")};
  auto tuner = tuner_with(table, "two_shot");
  EXPECT_EQ(tuner->choose(all_reduce_of(1500), one_host())->by, Choice::By::kSetting);
  const ir::Request request{Collective::kAllReduce, 4};
  ASSERT_TRUE(tuner->ask_for(request, "ring", false));
  const auto asked = tuner->choose(all_reduce_of(1500), one_host());
  EXPECT_EQ(asked->algorithm->name, "ring");
  EXPECT_EQ(asked->by, Choice::By::kCaller);
  EXPECT_EQ(asked->kernel_reads, false);
  ASSERT_TRUE(tuner->ask_for(request, "", {}));
  EXPECT_EQ(tuner->choose(all_reduce_of(1500), one_host())->algorithm->name, "two_shot");
}

TEST(Tuner, IgnoresTheTableWhereResultsAreToBeDeterministicOrItsChoiceIsExcluded) {
  const std::vector<MeasuredRange> table = {range(Collective::kAllReduce, "ring")};
  EXPECT_EQ(tuner_with(table, "", true)->choose(all_reduce_of(1500), one_host())->by,
            Choice::By::kRules);
  EXPECT_EQ(tuner_with(table, "^ring")->choose(all_reduce_of(1500), one_host())->by,
            Choice::By::kRules);
}

TEST(Tuner, SaysWhyItCannotRunWhatIsAskedFor) {
  auto tuner = tuner_with({}, "all_gather:two_shot;ring");
  const ir::Request gather{Collective::kAllGather, 4};
  const Status unknown = tuner->ask_for(gather, "rign", {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  const Status unable = tuner->ask_for(gather, "two_shot", {});
  ASSERT_FALSE(unable);
  EXPECT_EQ(unable.error().code, Code::kUnsupported);
  const Status setting = tuner->check_setting(gather);
  ASSERT_FALSE(setting);
  EXPECT_EQ(setting.error().what,
            "TUTTI_ALGO (or NCCL_ALGO) asks for all_gather by two_shot, which cannot do that over "
            "4 ranks here: name another one (`tutti algo list`), or none");
  EXPECT_TRUE(tuner->check_setting({Collective::kBroadcast, 4}));
}

TEST(Protocols, AreUnderstoodInNcclsWordsAndNoOthers) {
  for (const char* const asked : {"LL", "simple,ll128", "^LL128", "allreduce:^LL;broadcast:Simple"})
    EXPECT_TRUE(check_protocols(asked)) << asked;
  EXPECT_EQ(check_protocols("LL,LL64").error().what,
            "TUTTI_PROTO (or NCCL_PROTO) names the protocol 'LL64', which does not exist; there "
            "are: LL LL128 Simple");
  EXPECT_FALSE(check_protocols("allreduced:LL"));
}

}  // namespace
}  // namespace tutti
