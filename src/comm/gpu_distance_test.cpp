#include "src/comm/gpu_distance.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using topo::LinkKind;
using topo::NodeKind;
using topo::PathKind;

/// Two CPUs with two GPUs each, of which the first two have an NVLink. Its file writes bus ids in
/// capitals; the driver does not.
topo::Topology machine() {
  topo::Parts parts;
  parts.hosts.push_back({"host", {}});
  const auto join = [&](topo::NodeId a, topo::NodeId b, LinkKind kind) {
    parts.links.push_back({a, b, kind, 10, 1});
    parts.links.push_back({b, a, kind, 10, 1});
  };
  for (const char* const name : {"cpu0", "cpu1"})
    parts.nodes.push_back({NodeKind::kCpu, 0, name, {}});
  join(0, 1, LinkKind::kSystem);
  for (topo::NodeId gpu = 0; gpu < 4; ++gpu) {
    const std::string number = std::to_string(gpu);
    parts.nodes.push_back(
        {NodeKind::kGpu, 0, "gpu" + number, {{"busid", "0000:0" + number + ":0A.0"}}});
    join(2 + gpu, gpu / 2, LinkKind::kPci);
  }
  join(2, 3, LinkKind::kNvlink);
  return *topo::Topology::create(std::move(parts));
}

std::optional<GpuDistance> distance(std::vector<std::string> bus_ids) {
  const std::vector<std::int32_t> hosts(bus_ids.size(), 0);
  return farthest_gpus(machine(), bus_ids, hosts);
}

TEST(GpuDistance, IsThatOfTheFarthestPair) {
  EXPECT_EQ(distance({"0000:00:0a.0", "0000:01:0a.0"}), (GpuDistance{PathKind::kNvlink, 0, 1}));
  EXPECT_EQ(distance({"0000:02:0a.0", "0000:03:0a.0"}), (GpuDistance{PathKind::kHostBridge, 0, 1}));
  EXPECT_EQ(distance({"0000:00:0a.0", "0000:01:0a.0", "0000:03:0a.0"}),
            (GpuDistance{PathKind::kSystem, 0, 2}));
}

TEST(GpuDistance, IsNotKnownOfGpusThatTheTopologyLacks) {
  EXPECT_EQ(distance({"0000:00:0a.0", "0000:09:0a.0"}), std::nullopt);
  const std::vector<std::string> bus_ids = {"0000:00:0a.0", "0000:01:0a.0"};
  EXPECT_EQ(farthest_gpus(machine(), bus_ids, std::vector<std::int32_t>{0, 1}), std::nullopt);
}

TEST(GpuDistance, HasLevelsByNcclsNames) {
  EXPECT_EQ(path_kind_of("NVL"), PathKind::kNvlink);
  EXPECT_EQ(path_kind_of("PHB"), PathKind::kHostBridge);
  EXPECT_EQ(path_kind_of("SYS"), PathKind::kSystem);
}

}  // namespace
}  // namespace tutti
