#include "src/topo/model/host_parts.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

using testing::ElementsAre;

std::string parent_of(const Draft& draft, NodeId node) {
  for (const Link& link : draft.parts().links)
    if (link.from == node) return draft.parts().nodes[link.to].name;
  return "";
}

TEST(HostParts, OrderNamesByTheNumbersInThem) {
  std::vector<std::string> names = {"mlx5_10", "eth1", "mlx5_2", "mlx5_1", "a1", "a01", "a", "eth"};
  std::ranges::sort(names, comes_before);
  EXPECT_THAT(names, ElementsAre("a", "a01", "a1", "eth", "eth1", "mlx5_1", "mlx5_2", "mlx5_10"));
}

TEST(HostParts, KnowPciAddresses) {
  for (const char* text : {"0000:07:00.0", "ffff:ff:1f.7", "10000:e1:00.1"})
    EXPECT_TRUE(is_bus_id(text)) << text;
  for (const char* text : {"", "07:00.0", "0000:07:00.8", "0000:07:00.0/", "0000:G7:00.0",
                           "0000:07:00", "0000:0A:00.0", "virtio2"})
    EXPECT_FALSE(is_bus_id(text)) << text;
}

TEST(HostParts, TellGpusFromTheDisplayOfAServiceProcessor) {
  EXPECT_EQ(pci_role(0x030200, 0x10de), PciRole::kGpu);
  EXPECT_EQ(pci_role(0x030000, 0x1002), PciRole::kGpu);
  EXPECT_EQ(pci_role(0x030000, 0x1a03), PciRole::kOther);
  EXPECT_EQ(pci_role(0x120000, 0x1da3), PciRole::kGpu);
  EXPECT_EQ(pci_role(0x068000, 0x10de), PciRole::kNvswitch);
  EXPECT_EQ(pci_role(0x020700, 0x15b3), PciRole::kNic);
  EXPECT_EQ(pci_role(0x060400, 0x10de), PciRole::kOther);
}

TEST(HostParts, MakeOneNodeOfEachPciSwitch) {
  Draft draft;
  const NodeId cpu = draft.add(NodeKind::kCpu, "cpu0", {});
  const NodeId near = draft.add(NodeKind::kGpu, "near", {});
  const NodeId far = draft.add(NodeKind::kGpu, "far", {});
  const NodeId lone = draft.add(NodeKind::kNic, "lone", {});
  const auto hops = [](std::vector<std::string> bus_ids) {
    std::vector<PciHop> made;
    for (const std::string& bus_id : bus_ids) made.push_back({bus_id, {24, 1}, {}});
    return made;
  };
  join_through_pci(draft, cpu, hops({"root", "up", "down0", "near"}), near);
  join_through_pci(draft, cpu, hops({"root", "up", "down1", "up2", "down2", "far"}), far);
  join_through_pci(draft, cpu, hops({"root", "lone"}), lone);
  const auto switches = draft.nodes(NodeKind::kPci);
  ASSERT_EQ(switches.size(), 2U);
  EXPECT_EQ(parent_of(draft, near), "up");
  EXPECT_EQ(parent_of(draft, far), "up2");
  EXPECT_EQ(parent_of(draft, switches[1]), "up");
  EXPECT_EQ(parent_of(draft, switches[0]), "cpu0");
  EXPECT_EQ(parent_of(draft, lone), "cpu0");
}

TEST(Draft, GroupsWhatIsAssumedForOneReason) {
  Draft draft;
  for (int i = 0; i < 10; ++i) draft.assume_of("eth" + std::to_string(i), "no speed");
  draft.assume("once");
  draft.assume("once");
  const auto noted = std::move(draft).finish();
  ASSERT_TRUE(noted) << noted.error().what;
  EXPECT_THAT(
      noted->assumptions,
      ElementsAre("eth0, eth1, eth2, eth3, eth4, eth5, eth6, eth7 and 2 more: no speed", "once"));
}

TEST(Draft, GivesEveryNodeANameOfItsOwn) {
  Draft draft;
  EXPECT_EQ(draft.add(NodeKind::kNic, "eth0", {{"b", "1"}, {"a", "2"}, {"b", "3"}, {"c", ""}}), 0U);
  draft.add(NodeKind::kNic, "eth0", {});
  draft.add(NodeKind::kNic, "\n", {});
  const auto noted = std::move(draft).finish();
  ASSERT_TRUE(noted) << noted.error().what;
  EXPECT_EQ(noted->topology.node(1).name, "eth0#2");
  EXPECT_EQ(noted->topology.node(2).name, "nic");
  EXPECT_THAT(noted->topology.node(0).attributes,
              ElementsAre(Attribute{"a", "2"}, Attribute{"b", "1"}));
}

}  // namespace
}  // namespace tutti::topo
