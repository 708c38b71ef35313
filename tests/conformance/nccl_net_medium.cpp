#include <deque>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"
#include "src/plugin/net_plugin.hpp"
#include "src/plugin/test_plugins.hpp"
#include "tests/conformance/connected_pair.hpp"
#include "tests/conformance/meet.hpp"
#include "transports/nccl_net/nccl_net_transport.hpp"

namespace tutti::testing {
namespace {

/// A mock of NCCL's network plugins over TCP, loaded once.
std::shared_ptr<plugin::NetPlugin> mock_plugin(int version, const std::string& options) {
  static std::map<std::pair<int, std::string>, std::shared_ptr<plugin::NetPlugin>> opened;
  auto& known = opened[{version, options}];
  if (known != nullptr) return known;
  const plugin::testing::FreshPlugin mock(version, options);
  auto plugin = plugin::NetPlugin::open(mock.file(), {.trial = Nanos::zero()});
  EXPECT_TRUE(plugin) << plugin.error().what;
  known = *plugin;
  return known;
}

std::shared_ptr<Transport> nccl_net_transport_over(int version, const std::string& options,
                                                   std::uint64_t token) {
  auto transport =
      make_nccl_net_transport(mock_plugin(version, options),
                              {.token = token, .interfaces = {.ifname = "lo", .family = ""}});
  EXPECT_TRUE(transport) << transport.error().what;
  return *transport;
}

Medium medium_over(int version, const std::string& options, const std::string& name) {
  return {.name = name, .connect = [=] {
            return meet(nccl_net_transport_over(version, options, 1),
                        nccl_net_transport_over(version, options, 2));
          }};
}

}  // namespace

std::shared_ptr<Transport> nccl_net_transport(std::uint64_t token) {
  return nccl_net_transport_over(11, "", token);
}

std::shared_ptr<Transport> hostile_nccl_net_transport(std::uint64_t token) {
  return nccl_net_transport_over(6, "seed=21", token);
}

std::vector<const Medium*> nccl_net_media() {
  static const std::deque<Medium> kMedia = [] {
    std::deque<Medium> media;
    for (const int version : plugin::testing::all_versions()) {
      // Of versions with the same functions, one: the unit tests have all.
      if (kSanitized && version != 6 && version != 8 && version != 11) continue;
      media.push_back(medium_over(version, "", fmt::format("NcclNetV{}", version)));
      Medium hostile = medium_over(version, fmt::format("seed={}", 100 + version),
                                   fmt::format("HostileNcclNetV{}", version));
      hostile.largest = 1 << 20;  // in very small steps
      media.push_back(std::move(hostile));
    }
    return media;
  }();
  std::vector<const Medium*> media;
  for (const Medium& medium : kMedia) media.push_back(&medium);
  return media;
}

}  // namespace tutti::testing
