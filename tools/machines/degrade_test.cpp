#include "tools/machines/degrade.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/machines/synthetic.hpp"

namespace tutti::topo {
namespace {

using ::testing::HasSubstr;

/// Hosts of 2 GPUs and 2 NICs on leaf0 and leaf1, which spine0 joins.
Topology machine() { return *synthetic_topology("gpu:2x2"); }

double bandwidth(const Topology& topology, std::string_view from, std::string_view to) {
  for (const Link& link : topology.links())
    if (full_name(topology, link.from) == from && full_name(topology, link.to) == to)
      return link.bandwidth;
  return 0;
}

Topology slowed(std::string node, std::string other, double factor) {
  return *degraded(machine(), {std::move(node), std::move(other)}, factor);
}

TEST(Matching, TakesAStarForAnyCharacters) {
  EXPECT_TRUE(matches("leaf3", "leaf3"));
  EXPECT_FALSE(matches("leaf3", "leaf33"));
  EXPECT_FALSE(matches("leaf33", "leaf3"));
  EXPECT_TRUE(matches("h*/nic3", "h12/nic3"));
  EXPECT_FALSE(matches("h*/nic3", "h12/nic3x"));
  EXPECT_TRUE(matches("*a*b*", "xaaxbbx"));
  EXPECT_FALSE(matches("*a*b", "xbxa"));
  EXPECT_TRUE(matches("**", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Degrading, SlowsAllLinksOfANodeInBothDirectionsAndNoOthers) {
  const Topology slow = slowed("leaf0", "", 0.5);
  EXPECT_EQ(bandwidth(slow, "h0/nic0", "leaf0"), 25);
  EXPECT_EQ(bandwidth(slow, "leaf0", "h1/nic0"), 25);
  EXPECT_EQ(bandwidth(slow, "leaf0", "spine0"), bandwidth(machine(), "leaf0", "spine0") / 2);
  EXPECT_EQ(bandwidth(slow, "h0/nic1", "leaf1"), 50);
  EXPECT_EQ(slow.links().size(), machine().links().size());
}

TEST(Degrading, SlowsOnlyLinksBetweenTheTwoWhereBothAreNamed) {
  const Topology slow = slowed("h*/nic0", "leaf0", 0.1);
  EXPECT_EQ(bandwidth(slow, "h1/nic0", "leaf0"), 5);
  EXPECT_EQ(bandwidth(slow, "leaf0", "h1/nic0"), 5);
  EXPECT_EQ(bandwidth(slow, "h1/pci0", "h1/nic0"), bandwidth(machine(), "h1/pci0", "h1/nic0"));
}

TEST(Degrading, ToNothingTakesTheLinksOut) {
  const Topology cut = slowed("h0/nic0", "leaf*", 0);
  EXPECT_EQ(cut.links().size(), machine().links().size() - 2);
  EXPECT_EQ(bandwidth(cut, "h0/nic0", "leaf0"), 0);
}

TEST(Degrading, RefusesUnknownNodesMissingLinksAndFactorsBeyondOne) {
  const auto what = [](LinkSelector links, double factor) {
    const auto topology = degraded(machine(), links, factor);
    return topology ? "accepted" : topology.error().what;
  };
  EXPECT_THAT(what({"laef0", ""}, 0.5), HasSubstr("no node is named `laef0`; did you mean leaf0?"));
  EXPECT_THAT(what({"leaf0", "leaf1"}, 0.5), HasSubstr("no link joins `leaf0` and `leaf1`"));
  EXPECT_THAT(what({"leaf0", ""}, 1.5), HasSubstr("1.5"));
  EXPECT_THAT(what({"leaf0", ""}, -0.5), HasSubstr("-0.5"));
}

}  // namespace
}  // namespace tutti::topo
