#include "src/comm/gpu_offer.hpp"

#include <vector>

#include <gmock/gmock.h>

namespace tutti {
namespace {

using ::testing::HasSubstr;
using topo::LinkKind;
using topo::NodeKind;
using topo::PathKind;

/// Two GPUs on different sides of a CPU.
topo::Topology machine_of_offer() {
  topo::Parts parts;
  parts.hosts.push_back({"host", {}});
  parts.nodes.push_back({NodeKind::kCpu, 0, "cpu0", {}});
  for (topo::NodeId gpu = 0; gpu < 2; ++gpu) {
    const std::string number = std::to_string(gpu);
    parts.nodes.push_back({NodeKind::kGpu, 0, "gpu" + number, {{"busid", number}}});
    parts.links.push_back({1 + gpu, 0, LinkKind::kPci, 10, 1});
    parts.links.push_back({0, 1 + gpu, LinkKind::kPci, 10, 1});
  }
  return *topo::Topology::create(std::move(parts));
}

std::string problem(const std::vector<GpuOffer>& offers) {
  return problem_among(offers, machine_of_offer(), std::vector<std::int32_t>(offers.size(), 0));
}

TEST(GpuOffer, TravelsAsBytes) {
  const GpuOffer offer{.problem = "no", .bus_id = "0000:07:00.0", .level = PathKind::kSystem};
  const auto back = decode_gpu_offer(encode(offer), 3);
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(*back, offer);
}

TEST(GpuOffer, IsRefusedWhereItIsMalformed) {
  Blob bytes = encode({.problem = "", .bus_id = "x", .level = PathKind::kSystem});
  bytes.pop_back();
  EXPECT_THAT(decode_gpu_offer(bytes, 3).error().what, HasSubstr("rank 3"));
  bytes = encode({.problem = "", .bus_id = "x", .level = PathKind::kSystem});
  bytes.front() = std::byte{topo::kPathKinds};
  EXPECT_FALSE(decode_gpu_offer(bytes, 3));
}

TEST(GpuOffers, NameTheRankThatCannotTakePart) {
  EXPECT_THAT(problem({{.problem = "", .bus_id = "0"}, {.problem = "no nvcc", .bus_id = "1"}}),
              HasSubstr("rank 1 cannot take part: no nvcc"));
}

TEST(GpuOffers, KeepToTheNearestLevelThatARankHas) {
  const GpuOffer near{.problem = "", .bus_id = "0", .level = PathKind::kPciSwitches};
  const GpuOffer far{.problem = "", .bus_id = "1", .level = PathKind::kSystem};
  EXPECT_THAT(problem({near, far}), HasSubstr("ranks 0 and 1 lies PHB"));
  EXPECT_EQ(problem({{.problem = "", .bus_id = "0", .level = PathKind::kSystem}, far}), "");
}

TEST(GpuOffers, OfUnknownGpusAreWorthATry) {
  const GpuOffer unknown{.problem = "", .bus_id = "9", .level = PathKind::kNvlink};
  EXPECT_EQ(problem({unknown, unknown}), "");
}

TEST(GpuOffers, MayBeToNobody) {
  const GpuOffer unknown{.problem = "", .bus_id = "9", .level = PathKind::kLocal};
  EXPECT_EQ(problem({unknown, unknown}), "P2P_LEVEL=LOC");
}

TEST(GpuOffers, OfAllDistancesReachOtherHosts) {
  const std::vector<GpuOffer> offers(2, {.problem = "", .bus_id = "0", .level = PathKind::kSystem});
  EXPECT_EQ(problem_among(offers, machine_of_offer(), std::vector<std::int32_t>{0, 1}), "");
}

}  // namespace
}  // namespace tutti
