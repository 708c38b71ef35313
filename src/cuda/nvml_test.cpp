#include "src/cuda/nvml.hpp"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/cuda/nvml_abi.hpp"
#if __has_include(<nvml.h>)
#include <nvml.h>
// Where NVIDIA's header is at hand, our reading of the layouts is held to it.
static_assert(sizeof(nvmlPciInfo_t) == sizeof(tutti::cuda::nvml_abi::PciInfo));
static_assert(sizeof(nvmlFieldValue_t) == sizeof(tutti::cuda::nvml_abi::FieldValue));
static_assert(sizeof(nvmlGpuFabricInfo_t) == sizeof(tutti::cuda::nvml_abi::FabricInfo));
#endif

namespace tutti::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Nvml, ReadsNamesPlacesAndComputeCapabilities) {
  const auto gpus = read_gpus(FAKE_NVML);
  ASSERT_TRUE(gpus) << gpus.error().what;
  ASSERT_EQ(gpus->size(), 2U);
  EXPECT_EQ(gpus->at(0).bus_id, "0000:07:00.0");
  EXPECT_EQ(gpus->at(1).bus_id, "0000:c1:00.0");
  EXPECT_EQ(gpus->at(1).name, "Fake H100");
  EXPECT_EQ(gpus->at(1).compute_major, 9);
  EXPECT_EQ(gpus->at(1).compute_minor, 0);
}

TEST(Nvml, BundlesActiveLinksByTheirOtherEnds) {
  const auto gpus = read_gpus(FAKE_NVML);
  ASSERT_TRUE(gpus) << gpus.error().what;
  EXPECT_THAT(gpus->at(0).nvlinks,
              ElementsAre(NvlinkBundle{NvlinkEnd::kSwitch, "0000:e0:00.0", 6}));
  EXPECT_THAT(gpus->at(1).nvlinks, ElementsAre(NvlinkBundle{NvlinkEnd::kGpu, "0000:07:00.0", 2},
                                               NvlinkBundle{NvlinkEnd::kCpu, "", 2}));
}

TEST(Nvml, AddsUpTheChipToChipLinksThatAreUp) {
  const auto gpus = read_gpus(FAKE_NVML);
  ASSERT_TRUE(gpus) << gpus.error().what;
  EXPECT_EQ(gpus->at(0).c2c_mb_per_s, 0);
  EXPECT_EQ(gpus->at(1).c2c_mb_per_s, 2 * 40000);
}

TEST(Nvml, TellsTheFabricOfAGpuThatBelongsToOne) {
  const auto gpus = read_gpus(FAKE_NVML);
  ASSERT_TRUE(gpus) << gpus.error().what;
  const NvlinkFabric expected{.cluster = "ab000000000000000000000000000001", .clique = 5};
  EXPECT_EQ(gpus->at(0).fabric, expected);
  EXPECT_EQ(gpus->at(1).fabric, std::nullopt);
}

TEST(Nvml, IsUnsupportedWhereThereIsNoLibrary) {
  const auto gpus = read_gpus("libno-such-nvml.so.1");
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().code, Code::kUnsupported);
  EXPECT_THAT(gpus.error().what, HasSubstr("libno-such-nvml.so.1"));
}

TEST(Nvml, IsUnsupportedWhereTheLibraryIsAnother) {
  const auto gpus = read_gpus("libc.so.6");
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().code, Code::kUnsupported);
  EXPECT_THAT(gpus.error().what, HasSubstr("lacks an entry point"));
}

TEST(Nvml, PassesOnWhyItDoesNotStart) {
  ::setenv("FAKE_NVML_BROKEN", "1", 1);  // NOLINT(concurrency-mt-unsafe): the test has one thread
  const auto gpus = read_gpus(FAKE_NVML);
  ::unsetenv("FAKE_NVML_BROKEN");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().code, Code::kUnavailable);
  EXPECT_THAT(gpus.error().what, HasSubstr("Driver Not Loaded"));
}

}  // namespace
}  // namespace tutti::cuda
