// Times of all-reduces that NVSwitches or InfiniBand switches added, as others measured and
// published them, predicted from constants that others published: nothing is fitted.
//
//   a     README of github.com/Azure/msccl: NCCL 2.18.3, 8 H100 of an Azure ND H100 v5, in place
//   b, c  github.com/Azure/AI-benchmarking-guide, results of ND H100 v5 (NCCL 2.18.5) and ND H200
//         v5 (NCCL 2.20.5): bus bandwidths
//   d     NVIDIA/nccl issue 1807: 8 B200
//   e     Graham et al., "SHARP streaming-aggregation hardware design and evaluation", ISC 2020:
//         an HDR network
//
// The constants: a call by NVLS costs 25 us, and NVLS gets 0.85 of the bandwidth of the links on
// Hopper and 0.74 on Blackwell (NCCL 2.18, src/graph/tuning.cc). A ring gets 370 GB/s from the
// NVLinks of an H100 (NVIDIA/nccl-tests issue 212), and 680 GB/s from those of a GB200 (the guide
// above). That is taken for what the links have.
//
// NCCL copies into buffers that NVSwitches reach, lets these add and multicast, and copies out. The
// three overlap, a loop of data at a time, but in the first loop and the last: so two loops more
// than the data pass. The loops are NCCL's (src/enqueue.cc): 128 KiB for each of 16 channels and 8
// GPUs, less for small calls. Without them, predictions of 4 to 64 MB are 17 to 32 % too short.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/sim/simulate.hpp"

namespace tutti::sim {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kNvlsCallUs = 25, kHopperShare = 0.85, kBlackwellShare = 0.74;
constexpr double kH100Gbs = 370, kGb200Gbs = 680;

struct Row {
  char source;
  double megabytes;
  double us;  ///< published
};
/// Of 8 GPUs: what nccl-tests' bus bandwidth in GB/s says.
constexpr double us_of(double megabytes, double bus_gbs) {
  return megabytes * kMebibyte * 2 * 7 / 8 / bus_gbs / 1e3;
}
constexpr Row kHopper[] = {
    {'a', 1, 31.94},
    {'a', 4, 49.28},
    {'a', 16, 116},
    {'a', 64, 317.4},
    {'a', 256, 1079},
    {'a', 1024, 4028.7},
    {'b', 1, us_of(1, 43.70)},
    {'b', 4, us_of(4, 128.73)},
    {'b', 16, us_of(16, 234.45)},
    {'b', 64, us_of(64, 361.78)},
    {'b', 256, us_of(256, 423.38)},
    {'b', 1024, us_of(1024, 466.35)},
    {'b', 8192, us_of(8192, 478.87)},
    {'c', 1, us_of(1, 52.96)},
    {'c', 4, us_of(4, 138.44)},
    {'c', 16, us_of(16, 240.41)},
    {'c', 64, us_of(64, 368.11)},
    {'c', 256, us_of(256, 432.24)},
    {'c', 1024, us_of(1024, 467.58)},
    {'c', 8192, us_of(8192, 479.98)},
};

double time_of(std::string_view name, const UniformSwitch::Shape& shape, double bytes) {
  for (const ir::Algorithm& algorithm : algorithms::with_in_network()) {
    if (algorithm.name != name) continue;
    const auto schedule = algorithm.generate({Collective::kAllReduce, shape.ranks, 0, false});
    EXPECT_TRUE(schedule) << schedule.error().what;
    UniformSwitch fabric(shape);
    const auto outcome = simulate(*schedule, {static_cast<std::size_t>(bytes), 1}, fabric);
    EXPECT_TRUE(outcome) << outcome.error().what;
    return outcome->time_us;
  }
  ADD_FAILURE() << "there is no " << name;
  return 0;
}

/// us in which NVSwitches add so many bytes for 8 GPUs.
double switch_time(double link_gbs, double share, double bytes) {
  return time_of(
      "in_network",
      {.ranks = 8,
       .bandwidth = link_gbs,
       .latency = 0,
       .aggregation = topo::Aggregation{.rate = link_gbs * share, .sums_in_parts = true}},
      bytes);
}

/// Bytes of one loop of NCCL's. A chunk is halved for calls of less than so many loops.
double loop_of(double bytes) {
  constexpr double kPieces = 16 * 8, kKibibyte = 1024;
  double chunk = 128 * kKibibyte;
  for (const double loops : {64, 8, 2})
    if (bytes < loops * kPieces * chunk) chunk /= 2;
  return std::min(bytes, kPieces * chunk);
}

/// us of NVLS on 8 GPUs.
double nvls_time(double link_gbs, double share, double bytes) {
  return kNvlsCallUs + switch_time(link_gbs, share, bytes) +
         2 * switch_time(link_gbs, share, loop_of(bytes));
}

TEST(PublishedInNetworkTimes, OfNvlsOnHopperArePredictedWithinFifteenPercent) {
  for (const Row& row : kHopper) {
    const double bytes = row.megabytes * kMebibyte;
    const double us = nvls_time(kH100Gbs, kHopperShare, bytes);
    const double error = 100 * (us / row.us - 1);
    const double whole = kNvlsCallUs + switch_time(kH100Gbs, kHopperShare, bytes);
    RecordProperty(fmt::format("{}_{}MB", row.source, row.megabytes),
                   fmt::format("published {:.1f} us, predicted {:.1f} us, {:+.1f} %, without loops "
                               "{:+.1f} %",
                               row.us, us, error, 100 * (whole / row.us - 1)));
    EXPECT_LT(std::abs(error), row.megabytes >= 256 ? 6 : 15) << row.source << row.megabytes;
  }
}

TEST(PublishedInNetworkTimes, OfNvlsOnBlackwellArePredictedWithinTenPercentAtTheirPeak) {
  constexpr double kBytes = 8192 * kMebibyte, kPublishedBusGbs = 830;
  const double bus_gbs = kBytes * 2 * 7 / 8 / nvls_time(kGb200Gbs, kBlackwellShare, kBytes) / 1e3;
  RecordProperty("bus_gbs", std::to_string(bus_gbs));
  EXPECT_NEAR(bus_gbs / kPublishedBusGbs, 1, 0.10);
}

TEST(PublishedInNetworkTimes, OfARingAreLongerByAsMuchAsMeasured) {
  // H100: 480 GB/s of bus bandwidth with NVLS, and 370 with a ring.
  constexpr double kBytes = 8192 * kMebibyte;
  const double ring = time_of("ring", {.ranks = 8, .bandwidth = kH100Gbs, .latency = 3.4}, kBytes);
  EXPECT_NEAR(ring / nvls_time(kH100Gbs, kHopperShare, kBytes), 480.0 / 370, 0.05);
}

TEST(PublishedInNetworkTimes, OfSharpAreThoseOfTheNetwork) {
  // Measured: 95 % of the network's bandwidth, and 2 to 5 times that of hosts that add.
  constexpr double kBytes = 512 * kMebibyte, kHdrGbs = 25;
  const UniformSwitch::Shape network = {
      .ranks = 32, .bandwidth = kHdrGbs, .latency = 2, .aggregation = topo::Aggregation{}};
  const double sharp = time_of("in_network", network, kBytes);
  const double share = kBytes / sharp / 1e3 / kHdrGbs;
  RecordProperty("share_of_network", std::to_string(share));
  EXPECT_NEAR(share, 0.95, 0.06);
  EXPECT_GT(time_of("ring", network, kBytes) / sharp, 1.9);
}

}  // namespace
}  // namespace tutti::sim
