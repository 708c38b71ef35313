#include "src/topo/forest/cables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::topo::forest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two GPUs and a switch between them: one cable from the first, of 1 GB/s; two to the second, of 1
/// and 3 GB/s.
Topology two_cables() {
  Parts parts;
  parts.hosts = {{"h", {}}};
  parts.nodes = {{NodeKind::kGpu, 0, "a", {}},
                 {NodeKind::kNvswitch, 0, "s", {}},
                 {NodeKind::kGpu, 0, "b", {}}};
  parts.links = {{0, 1, LinkKind::kNvlink, 1, 0},
                 {1, 2, LinkKind::kNvlink, 1, 0},
                 {1, 2, LinkKind::kNvlink, 3, 0},
                 {2, 1, LinkKind::kNvlink, 4, 0},
                 {1, 0, LinkKind::kNvlink, 1, 0}};
  return *Topology::create(parts);
}

TEST(Cables, AreLoadedByTheirBandwidth) {
  const Topology topology = two_cables();
  const auto network = network_of(topology, one_rank_each(topology));
  ASSERT_TRUE(network) << network.error().what;
  // Ranks are vertices 0 and 1, the switch is 2.
  Cables cables(topology, *network);
  const Route route = {{0, 2, 1}, 1};
  EXPECT_THAT(*cables.lay(route), ElementsAre(0, 2));
  EXPECT_THAT(*cables.lay(route), ElementsAre(0, 2));
  EXPECT_THAT(*cables.lay(route), ElementsAre(0, 1));
  EXPECT_THAT(*cables.lay(route), ElementsAre(0, 2));
}

TEST(Cables, AreNotNeededBetweenRanksOnOneNode) {
  const Topology topology = two_cables();
  const auto network = network_of(topology, {{0, 2, 2}});
  ASSERT_TRUE(network) << network.error().what;
  // Ranks 1 and 2 share the second GPU, which is vertex 4.
  Cables cables(topology, *network);
  EXPECT_THAT(*cables.lay({{1, 4, 2}, 1}), IsEmpty());
  EXPECT_THAT(*cables.lay({{1, 4, 3, 0}, 1}), ElementsAre(3, 4));
}

}  // namespace
}  // namespace tutti::topo::forest
