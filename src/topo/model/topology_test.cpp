#include "src/topo/model/topology.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Two hosts, a GPU and a NIC each, and a switch between them.
Parts two_hosts() {
  Parts parts;
  parts.hosts = {{"a", {}}, {"b", {{"vendor", "x"}}}};
  parts.nodes = {
      {NodeKind::kGpu, 0, "gpu0", {}},       {NodeKind::kNic, 0, "nic0", {}},
      {NodeKind::kGpu, 1, "gpu0", {}},       {NodeKind::kNic, 1, "nic0", {}},
      {NodeKind::kSwitch, kNoHost, "s", {}}, {NodeKind::kCpu, 1, "cpu0", {{"arch", "y"}}}};
  const auto join = [&](NodeId a, NodeId b, LinkKind kind) {
    parts.links.push_back({a, b, kind, 24, 0.5});
    parts.links.push_back({b, a, kind, 24, 0.5});
  };
  join(0, 1, LinkKind::kPci);
  join(1, 4, LinkKind::kNetwork);
  join(3, 4, LinkKind::kNetwork);
  join(2, 3, LinkKind::kPci);
  return parts;
}

/// What create() says of two_hosts() after a change.
std::string error_after(const std::function<void(Parts&)>& change) {
  Parts parts = two_hosts();
  change(parts);
  const auto topology = Topology::create(std::move(parts));
  if (topology) return "";
  EXPECT_EQ(topology.error().code, Code::kInvalidArgument);
  return topology.error().what;
}

std::uint64_t hash_after(const std::function<void(Parts&)>& change) {
  Parts parts = two_hosts();
  change(parts);
  const auto topology = Topology::create(std::move(parts));
  EXPECT_TRUE(topology) << topology.error().what;
  return topology->hash();
}

TEST(Topology, KeepsItsPartsAndKnowsWhatLeavesANodeAndWhatAHostHas) {
  const auto topology = Topology::create(two_hosts());
  ASSERT_TRUE(topology) << topology.error().what;
  EXPECT_EQ(topology->parts(), two_hosts());
  EXPECT_THAT(topology->links_from(0), ElementsAre(0));
  EXPECT_THAT(topology->links_from(4), ElementsAre(3, 5));
  EXPECT_THAT(topology->links_from(3), ElementsAre(4, 7));
  EXPECT_THAT(topology->links_from(5), IsEmpty());
  EXPECT_THAT(topology->nodes_of(1), ElementsAre(2, 3, 5));
  EXPECT_THAT(topology->nodes_of(kNoHost), ElementsAre(4));
  EXPECT_EQ(full_name(*topology, 2), "b/gpu0");
  EXPECT_EQ(full_name(*topology, 4), "s");
}

TEST(Topology, MayBeEmpty) {
  const auto topology = Topology::create({});
  ASSERT_TRUE(topology) << topology.error().what;
  EXPECT_THAT(one_rank_each(*topology).ranks, IsEmpty());
}

TEST(Topology, CopiesShareNothingAndAreEqual) {
  auto topology = Topology::create(two_hosts());
  ASSERT_TRUE(topology);
  const Topology copy = *topology;
  EXPECT_EQ(copy, *topology);
  EXPECT_NE(copy.nodes().data(), topology->nodes().data());
}

TEST(Topology, NamesALinkThatIsWrong) {
  const auto link = [](auto change) {
    return error_after([&](Parts& parts) { change(parts.links[3]); });
  };
  EXPECT_EQ(link([](Link& link) { link.to = 6; }),
            "link 3: it ends at node 6, but there are 6 nodes");
  EXPECT_EQ(link([](Link& link) { link.from = link.to; }),
            "link 3 from node 1 (`a/nic0`) to node 1 (`a/nic0`): a link joins two different nodes");
  const std::string place = "link 3 from node 4 (`s`) to node 1 (`a/nic0`): ";
  EXPECT_EQ(link([](Link& link) { link.kind = static_cast<LinkKind>(9); }),
            place + "its kind 9 does not exist");
  for (const double bandwidth : {0.0, 9e-7, 1.1e9, -3.0, kInfinity, std::nan("")})
    EXPECT_EQ(link([&](Link& link) { link.bandwidth = bandwidth; }),
              place + fmt::format("a bandwidth of {} GB/s must be from 1e-06 to 1e+09", bandwidth));
  for (const double latency : {-0.5, 1.1e9, kInfinity, std::nan("")})
    EXPECT_EQ(link([&](Link& link) { link.latency = latency; }),
              place + fmt::format("a latency of {} microseconds must be from 0 to 1e+09", latency));
}

TEST(Topology, NamesANodeThatIsWrong) {
  const auto node = [](auto change) {
    return error_after([&](Parts& parts) { change(parts.nodes[2]); });
  };
  EXPECT_EQ(node([](Node& node) { node.host = 7; }),
            "node 2 (`gpu0`): it is part of host 7, but there are 2 hosts");
  EXPECT_EQ(node([](Node& node) { node.host = kNoHost; }),
            "node 2 (`gpu0`): a gpu must be part of a host");
  EXPECT_EQ(node([](Node& node) { node.kind = static_cast<NodeKind>(6); }),
            "node 2 (`b/gpu0`): its kind 6 does not exist");
  EXPECT_EQ(node([](Node& node) { node.name = "nic0"; }),
            "node 3 (`b/nic0`): node 2 of the same host has the same name");
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string("\xFF"),
                                  std::string(257, 'n'), std::string(1, '\0')})
    EXPECT_THAT(node([&](Node& node) { node.name = name; }),
                HasSubstr("the name must be 1 to 256 bytes of UTF-8 without control characters"));
  EXPECT_EQ(node([](Node& node) { node.name = std::string(256, 'n'); }), "");
}

TEST(Topology, AllowsAnNvswitchBetweenHosts) {
  EXPECT_EQ(error_after([](Parts& parts) { parts.nodes[4].kind = NodeKind::kNvswitch; }), "");
}

TEST(Topology, NamesAHostThatIsWrong) {
  EXPECT_EQ(error_after([](Parts& parts) { parts.hosts[1].name = "a"; }),
            "host 1 (`a`): host 0 has the same name");
  EXPECT_THAT(error_after([](Parts& parts) { parts.hosts[1].name = "\t"; }),
              HasSubstr("host 1 (`\\x09`): the name must be"));
}

TEST(Topology, NamesAnAttributeThatIsWrong) {
  const auto attributes = [](std::vector<Attribute> attributes) {
    return error_after([&](Parts& parts) { parts.nodes[0].attributes = attributes; });
  };
  EXPECT_EQ(attributes({{"a", ""}, {"b", "\xC3\xA4\n"}}), "");
  EXPECT_EQ(attributes({{"", "1"}}), "node 0 (`a/gpu0`): attribute 0 has an empty key");
  EXPECT_EQ(attributes({{"a", "\xC0\x80"}}), "node 0 (`a/gpu0`): attribute `a` is not valid UTF-8");
  EXPECT_EQ(attributes({{"b", "1"}, {"a", "1"}}),
            "node 0 (`a/gpu0`): attribute `a` stands after `b`: keys are unique and ascending");
  EXPECT_THAT(attributes({{"a", "1"}, {"a", "2"}}), HasSubstr("attribute `a` stands after `a`"));
  EXPECT_THAT(error_after([](Parts& parts) { parts.hosts[1].attributes = {{"", ""}}; }),
              HasSubstr("host 1 (`b`): attribute 0"));
}

TEST(Topology, RefusesMorePartsThanItHasRoomFor) {
  EXPECT_EQ(error_after([](Parts& parts) { parts.nodes.resize(Topology::kMostNodes + 1); }),
            "1048577 nodes are too many: at most 1048576 are accepted");
  EXPECT_EQ(error_after([](Parts& parts) { parts.links.resize(Topology::kMostLinks + 1); }),
            "8388609 links are too many: at most 8388608 are accepted");
  EXPECT_EQ(error_after([](Parts& parts) { parts.hosts.resize(Topology::kMostNodes + 1); }),
            "1048577 hosts are too many: at most 1048576 are accepted");
}

TEST(Topology, RefusesMoreAttributesThanItHasRoomFor) {
  std::vector<Attribute> many;
  for (int i = 0; i < 1024; ++i) many.push_back({fmt::format("{:04}", i), ""});
  const auto change = [&](Parts& parts) { parts.nodes[0].attributes = many; };
  EXPECT_EQ(error_after(change), "");
  many.push_back({"x", ""});
  EXPECT_EQ(error_after(change),
            "node 0 (`a/gpu0`): 1025 attributes are too many: at most 1024 are accepted");
}

TEST(TopologyHash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(hash_after([](Parts&) {}), 17543712415755909642U);
  EXPECT_EQ(Topology::create({})->hash(), 2558736989570252433U);
}

TEST(TopologyHash, DiffersWhereAnyPartDiffers) {
  const std::vector<std::function<void(Parts&)>> changes = {
      [](Parts&) {},
      [](Parts& parts) { parts.hosts[0].name = "c"; },
      [](Parts& parts) { parts.hosts[1].attributes[0].value = "z"; },
      [](Parts& parts) { parts.hosts[1].attributes[0].key = "z"; },
      [](Parts& parts) { parts.hosts[1].attributes.clear(); },
      [](Parts& parts) { parts.nodes[5].attributes.clear(); },
      [](Parts& parts) { parts.nodes[4].kind = NodeKind::kNvswitch; },
      [](Parts& parts) { parts.nodes[4].host = 0; },
      [](Parts& parts) { parts.nodes[4].name = "longer than eight bytes"; },
      [](Parts& parts) { parts.nodes[4].name = "longer than eight byteZ"; },
      [](Parts& parts) { std::swap(parts.nodes[0], parts.nodes[1]); },
      [](Parts& parts) { parts.links[0].to = 4; },
      [](Parts& parts) { parts.links[0].from = 4; },
      [](Parts& parts) { parts.links[0].kind = LinkKind::kC2c; },
      [](Parts& parts) { parts.links[0].bandwidth = std::nextafter(24, 25); },
      [](Parts& parts) { parts.links[0].latency = 0; },
      [](Parts& parts) { std::swap(parts.links[0], parts.links[1]); },
      [](Parts& parts) { parts.links.pop_back(); },
  };
  std::map<std::uint64_t, std::size_t> seen;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto [other, is_new] = seen.try_emplace(hash_after(changes[i]), i);
    EXPECT_TRUE(is_new) << "changes " << other->second << " and " << i;
  }
}

TEST(TopologyHash, OfEqualTopologiesIsEqualThoughZeroHasTwoSigns) {
  EXPECT_EQ(hash_after([](Parts& parts) { parts.links[0].latency = 0.0; }),
            hash_after([](Parts& parts) { parts.links[0].latency = -0.0; }));
}

TEST(TopologyHash, SpreadsSingleBitsOverAllBits) {
  constexpr int kTrials = 2000;
  std::array<int, 64> flips{};
  const std::uint64_t plain = hash_after([](Parts&) {});
  for (int i = 0; i < kTrials; ++i) {
    const std::uint64_t other =
        hash_after([&](Parts& parts) { parts.links.back().bandwidth = 25 + i; });
    for (std::size_t bit = 0; bit < 64; ++bit) flips[bit] += ((plain ^ other) >> bit & 1U) != 0;
  }
  for (std::size_t bit = 0; bit < 64; ++bit)
    EXPECT_NEAR(flips[bit], kTrials / 2, kTrials / 8) << "bit " << bit;
}

TEST(Placement, PutsOneRankOnEveryGpuAndWithoutGpusOnEveryCpu) {
  EXPECT_THAT(one_rank_each(*Topology::create(two_hosts())).ranks, ElementsAre(0, 2));
  Parts parts = two_hosts();
  parts.nodes[0].kind = parts.nodes[2].kind = NodeKind::kPci;
  EXPECT_THAT(one_rank_each(*Topology::create(parts)).ranks, ElementsAre(5));
}

TEST(Placement, IsRefusedWhereARankHasNoMemory) {
  const auto topology = Topology::create(two_hosts());
  EXPECT_TRUE(check({{0, 2, 2, 5}}, *topology));
  EXPECT_EQ(check({{0, 6}}, *topology).error().what,
            "rank 1 is placed on node 6, but there are 6 nodes");
  EXPECT_EQ(check({{3}}, *topology).error().what,
            "rank 0 is placed on node 3 (`b/nic0`), a nic: place it on a gpu or cpu");
}

TEST(TopologyNames, AreAllDifferent) {
  std::set<std::string_view> nodes, links;
  for (int i = 0; i < kNodeKinds; ++i) nodes.insert(name_of(static_cast<NodeKind>(i)));
  for (int i = 0; i < kLinkKinds; ++i) links.insert(name_of(static_cast<LinkKind>(i)));
  EXPECT_EQ(nodes.size(), kNodeKinds);
  EXPECT_EQ(links.size(), kLinkKinds);
}

}  // namespace
}  // namespace tutti::topo
