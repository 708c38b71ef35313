// Which ports are used, by which address, and which meet which.
#include "transports/verbs/rails.hpp"

#include <algorithm>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::verbs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

Gid gid_of(const char* text) {
  Gid gid{};
  EXPECT_EQ(::inet_pton(AF_INET6, text, gid.data()), 1) << text;
  return gid;
}

std::uint8_t slash_24(const std::string&, const Gid& gid) { return is_ipv4(gid) ? 120 : 64; }

PortFacts ethernet(std::vector<GidEntry> gids) {
  return {.number = 1,
          .active = true,
          .state = "ACTIVE",
          .link = LinkLayer::kEthernet,
          .mtu = 4096,
          .mbit_per_s = 100000,
          .gids = std::move(gids)};
}

DeviceFacts device(const char* name, PortFacts port) {
  DeviceFacts facts;
  facts.name = name;
  facts.ports.push_back(std::move(port));
  return facts;
}

const std::vector<GidEntry> kUsualTable = {
    {.gid = gid_of("fe80::1"), .index = 0, .type = GidType::kRoceV1, .interface = "eth0"},
    {.gid = gid_of("fe80::1"), .index = 1, .type = GidType::kRoceV2, .interface = "eth0"},
    {.gid = gid_of("::ffff:10.0.0.1"), .index = 2, .type = GidType::kRoceV1, .interface = "eth0"},
    {.gid = gid_of("::ffff:10.0.0.1"), .index = 3, .type = GidType::kRoceV2, .interface = "eth0"},
    {.gid = gid_of("fd00::1"), .index = 4, .type = GidType::kRoceV2, .interface = "eth0"}};

ChosenRails choose(const std::vector<DeviceFacts>& devices, const PortWishes& wishes = {}) {
  auto chosen = choose_rails(devices, wishes, &slash_24);
  EXPECT_TRUE(chosen) << chosen.error().what;
  return *std::move(chosen);
}

TEST(Rails, OfTheUsualTableTheMappedIpv4AddressOfVersion2IsTaken) {
  const auto chosen = choose({device("mlx5_0", ethernet(kUsualTable))});
  ASSERT_THAT(chosen.rails, SizeIs(1));
  EXPECT_EQ(chosen.rails[0].gid_index, 3U);
  EXPECT_EQ(describe(chosen.rails[0]), "mlx5_0:1 (10.0.0.1, RoCE v2, MTU 4096)");
}

TEST(Rails, WithoutIpv4AGlobalAddressIsTakenThenALinkLocalOne) {
  auto table = kUsualTable;
  table.erase(table.begin() + 2, table.begin() + 4);
  EXPECT_EQ(choose({device("bnxt_re0", ethernet(table))}).rails.at(0).gid_index, 4U);
  table.pop_back();
  EXPECT_EQ(choose({device("bnxt_re0", ethernet(table))}).rails.at(0).gid_index, 1U);
}

TEST(Rails, APortWithoutAnAddressOfUseIsLeftOutAndSaid) {
  const auto chosen = choose({device("mlx5_0", ethernet({kUsualTable[0]}))});
  EXPECT_THAT(chosen.rails, IsEmpty());
  EXPECT_THAT(chosen.left_out, ElementsAre(HasSubstr("mlx5_0:1 is not used: its GID table has no "
                                                     "RoCE v2 address")));
}

TEST(Rails, APortThatIsDownIsLeftOutAndSaid) {
  auto port = ethernet(kUsualTable);
  port.active = false;
  port.state = "DOWN";
  const auto chosen = choose({device("mlx5_0", port)});
  EXPECT_THAT(chosen.left_out, ElementsAre("mlx5_0:1 is not used: its state is DOWN"));
}

TEST(Rails, TheIndexThatIsAskedForIsTakenOrThePortLeftOut) {
  EXPECT_EQ(choose({device("mlx5_0", ethernet(kUsualTable))}, {.gid_index = 1}).rails[0].gid_index,
            1U);
  const auto none = choose({device("mlx5_0", ethernet(kUsualTable))}, {.gid_index = 9});
  EXPECT_THAT(none.left_out, ElementsAre(HasSubstr("nothing at index 9")));
}

TEST(Rails, ListsOfDevicesAreReadAsNcclReadsThem) {
  const std::vector<DeviceFacts> three = {device("mlx5_1", ethernet(kUsualTable)),
                                          device("mlx5_10", ethernet(kUsualTable)),
                                          device("bnxt_0", ethernet(kUsualTable))};
  const auto names = [&](const char* list) {
    std::vector<std::string> found;
    for (const Rail& rail : choose(three, {.devices = list}).rails) found.push_back(rail.device);
    return found;
  };
  EXPECT_THAT(names(""), ElementsAre("mlx5_1", "mlx5_10", "bnxt_0"));
  EXPECT_THAT(names("mlx5_1"), ElementsAre("mlx5_1", "mlx5_10"));
  EXPECT_THAT(names("=mlx5_1"), ElementsAre("mlx5_1"));
  EXPECT_THAT(names("^mlx5_1"), ElementsAre("bnxt_0"));
  EXPECT_THAT(names("^=mlx5_1"), ElementsAre("mlx5_10", "bnxt_0"));
  EXPECT_THAT(names("mlx5_1:2"), IsEmpty());
  EXPECT_THAT(names("bnxt:1,=x"), ElementsAre("bnxt_0"));
}

TEST(Rails, ListsThatCannotBeReadAreRefused) {
  for (const char* list : {"mlx5_0:", "mlx5_0:x", "mlx5_0:12", ",mlx5_0", "a,,b"}) {
    const auto chosen = choose_rails({}, {.devices = list}, &slash_24);
    ASSERT_FALSE(chosen) << list;
    EXPECT_EQ(chosen.error().code, Code::kInvalidArgument);
    EXPECT_THAT(chosen.error().what, HasSubstr(list));
  }
}

Rail rail(const char* name, const char* address, std::uint8_t bits = 120) {
  return {.device = name, .gid = gid_of(address), .prefix_bits = bits, .mtu = 4096};
}

TEST(Rails, RailsOfOneSubnetMeetWhateverTheirOrder) {
  const std::vector<Rail> own = {rail("a0", "::ffff:10.0.0.1"), rail("a1", "::ffff:10.0.1.1")};
  const std::vector<Rail> peer = {rail("b0", "::ffff:10.0.1.2"), rail("b1", "::ffff:10.0.0.2")};
  const auto pairs = match_rails(own, peer);
  ASSERT_TRUE(pairs);
  EXPECT_THAT(*pairs, ElementsAre(Pair(0, 1), Pair(1, 0)));
}

TEST(Rails, RailsOfTheSameSubnetMeetInOrder) {
  const std::vector<Rail> own = {rail("a0", "::ffff:10.0.0.1"), rail("a1", "::ffff:10.0.0.2")};
  const std::vector<Rail> peer = {rail("b0", "::ffff:10.0.0.3"), rail("b1", "::ffff:10.0.0.4")};
  EXPECT_THAT(*match_rails(own, peer), ElementsAre(Pair(0, 0), Pair(1, 1)));
}

TEST(Rails, TheShorterSideIsUsedSeveralTimes) {
  const std::vector<Rail> own = {rail("a0", "::ffff:10.0.0.1")};
  const std::vector<Rail> peer = {rail("b0", "::ffff:10.0.0.3"), rail("b1", "::ffff:10.0.0.4")};
  EXPECT_THAT(*match_rails(own, peer), ElementsAre(Pair(0, 0), Pair(0, 1)));
  EXPECT_THAT(*match_rails(peer, own), ElementsAre(Pair(0, 0), Pair(1, 0)));
}

TEST(Rails, WithoutACommonSubnetRoutableOnesMeet) {
  const std::vector<Rail> own = {rail("a0", "::ffff:10.0.0.1")};
  const std::vector<Rail> peer = {rail("b0", "::ffff:10.0.1.1")};
  EXPECT_THAT(*match_rails(own, peer), ElementsAre(Pair(0, 0)));
}

TEST(Rails, ThoseThatCannotMeetAreRefusedWithBothSides) {
  const std::vector<Rail> own = {rail("a0", "::ffff:10.0.0.1")};
  for (Rail other :
       {rail("b0", "fe80::2", 64), rail("b0", "::ffff:10.0.0.2"), rail("b0", "::ffff:10.0.0.2")}) {
    static int kind = 0;
    if (kind == 1) other.type = GidType::kRoceV1;
    if (kind == 2) other.link = LinkLayer::kInfiniBand;
    ++kind;
    const auto pairs = match_rails(own, std::span(&other, 1));
    ASSERT_FALSE(pairs);
    EXPECT_EQ(pairs.error().code, Code::kUnsupported);
    EXPECT_THAT(pairs.error().what, HasSubstr("a0:1 (10.0.0.1, RoCE v2"));
    EXPECT_THAT(pairs.error().what, HasSubstr("b0:1"));
  }
}

TEST(Rails, LinkLocalAddressesMeetOnTheirSubnetAlone) {
  const std::vector<Rail> own = {rail("a0", "fe80::1", 64)};
  const std::vector<Rail> peer = {rail("b0", "fe80::2", 64)};
  EXPECT_TRUE(match_rails(own, peer));
}

TEST(Rails, APrefixIsReadFromTheSystem) {
  EXPECT_EQ(system_prefix("lo", gid_of("::ffff:127.0.0.1")), 96 + 8);
  EXPECT_EQ(system_prefix("lo", gid_of("::ffff:127.0.0.9")), 0);
  EXPECT_EQ(system_prefix("", gid_of("::ffff:127.0.0.1")), 0);
}

TEST(Rails, OfABondHaveSeveralQueuePairsSinceEachTakesOneCable) {
  PortFacts port = ethernet(kUsualTable);
  EXPECT_EQ(pairs_of_each_rail(choose({device("mlx5_0", port)}).rails, 1), 1);
  port.bonded = true;
  const auto chosen = choose({device("mlx5_bond_0", port)});
  EXPECT_EQ(pairs_of_each_rail(chosen.rails, 1), 2);
  EXPECT_EQ(pairs_of_each_rail(chosen.rails, 4), 4);
}

TEST(Rails, ThoseNearTheProcessAreKnownByDeviceOrPort) {
  const std::vector<DeviceFacts> devices = {device("mlx5_0", ethernet(kUsualTable)),
                                            device("mlx5_1", ethernet(kUsualTable)),
                                            device("mlx5_10", ethernet(kUsualTable))};
  std::vector<Rail> rails = choose(devices).rails;
  const NearPorts near{.ports = {"mlx5_1:1"}, .place = "on a switch of gpu3", .seen_from = "gpu3"};
  mark_far(rails, near);
  EXPECT_THAT(rails, ElementsAre(Field(&Rail::far, true), Field(&Rail::far, false),
                                 Field(&Rail::far, true)));
  EXPECT_THAT(describe_choice(rails, near),
              AllOf(HasSubstr("mlx5_0:1 (10.0.0.1, RoCE v2, MTU 4096), far from gpu3: one"),
                    HasSubstr("mlx5_1:1 (10.0.0.1, RoCE v2, MTU 4096), on a switch of gpu3; ")));
}

TEST(Rails, AreAllAlikeWhereNoneIsNear) {
  std::vector<Rail> rails = choose({device("mlx5_0", ethernet(kUsualTable))}).rails;
  for (const NearPorts& near : {NearPorts{}, NearPorts{.ports = {"eth0:1"}}}) {
    mark_far(rails, near);
    EXPECT_FALSE(rails[0].far);
    EXPECT_EQ(describe_choice(rails, near), "mlx5_0:1 (10.0.0.1, RoCE v2, MTU 4096)");
  }
}

std::vector<Rail> rails_with_distances(const std::vector<bool>& far) {
  std::vector<Rail> rails(far.size());
  for (std::size_t i = 0; i < far.size(); ++i) rails[i].far = far[i];
  return rails;
}

TEST(Rails, TheNearestPairsAreUsedAndOneMoreIsInReserve) {
  const std::vector<std::pair<std::size_t, std::size_t>> pairs = {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  const auto own = rails_with_distances({true, false, false, true});
  const auto peer = rails_with_distances({true, true, false, false});
  // Distances 2, 1, 0, 1.
  EXPECT_THAT(nearest_pairs(own, peer, pairs),
              ElementsAre(RailPair{2, 2, false}, RailPair{1, 1, true}));
  const auto all_alike = rails_with_distances({true, true, true, true});
  EXPECT_THAT(nearest_pairs(all_alike, all_alike, pairs), SizeIs(4));
  EXPECT_THAT(nearest_pairs(own, peer, {}), IsEmpty());
}

}  // namespace
}  // namespace tutti::verbs
