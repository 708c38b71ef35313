#include "src/topo/model/wiring_hash.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "src/topo/model/builder.hpp"
#include "src/topo/model/sample_machine.hpp"

namespace tutti::topo {
namespace {

/// Two hosts of two GPUs with their CPUs, NICs and switches, after `change`.
Topology machine(const std::function<void(Parts&)>& change = {}) {
  Parts parts = gpu_hosts(2, 2).parts();
  if (change) change(parts);
  return *Topology::create(std::move(parts));
}

TEST(WiringHash, IsTheSameWhateverThingsAreCalled) {
  const Topology renamed = machine([](Parts& parts) {
    for (Host& host : parts.hosts) {
      host.name += ".example.org";
      host.attributes = {{"affinity", "0-3"}, {"container", "docker"}};
    }
    for (Node& node : parts.nodes) {
      node.name += "'";
      node.attributes = {{"busid", "0000:17:00.0"}};
    }
  });
  EXPECT_NE(machine().hash(), renamed.hash());
  EXPECT_EQ(wiring_hash(machine()), wiring_hash(renamed));
}

TEST(WiringHash, ChangesWithWhateverIsBuiltOtherwise) {
  const std::vector<std::function<void(Parts&)>> changes = {
      [](Parts&) {},
      [](Parts& parts) { parts.hosts.push_back({"spare", {}}); },
      [](Parts& parts) { parts.nodes.push_back({NodeKind::kSwitch, kNoHost, "spare", {}}); },
      [](Parts& parts) { parts.nodes.push_back({NodeKind::kSwitch, 0, "spare", {}}); },
      [](Parts& parts) { parts.nodes.push_back({NodeKind::kNvswitch, 0, "spare", {}}); },
      [](Parts& parts) { std::swap(parts.links.front(), parts.links.back()); },
      [](Parts& parts) { std::swap(parts.links[0].from, parts.links[0].to); },
      [](Parts& parts) { parts.links.pop_back(); },
      [](Parts& parts) { parts.links[0].kind = LinkKind::kC2c; },
      [](Parts& parts) { parts.links[0].bandwidth *= 2; },
      [](Parts& parts) { parts.links[0].latency += 1; },
  };
  std::set<std::uint64_t> hashes;
  for (const auto& change : changes) hashes.insert(wiring_hash(machine(change)));
  EXPECT_EQ(hashes.size(), changes.size());
}

TEST(WiringHash, IsThisNumberOnEveryMachine) {
  Builder builder;
  const HostId host = builder.host("host");
  const NodeId cpu = builder.node(NodeKind::kCpu, host, "cpu0");
  builder.join(builder.node(NodeKind::kGpu, host, "gpu0"), cpu, LinkKind::kPci, 24, 0.5);
  EXPECT_EQ(wiring_hash(*std::move(builder).create()), 7452123286916338884U);
}

}  // namespace
}  // namespace tutti::topo
