// What `tutti topo --rdma` says, beyond what a job on devices in memory shows (tests/rdma/job).
#include "tools/topo/rdma.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

verbs::DeviceFacts mlx5() {
  verbs::DeviceFacts device;
  device.name = "mlx5_0";
  device.pci = "0000:17:00.0";
  return device;
}

TEST(RdmaText, NoDeviceMeansTcp) { EXPECT_THAT(rdma_text({}, {}), HasSubstr("reached by TCP")); }

TEST(RdmaText, ADeviceSaysWhetherItTakesGpuMemory) {
  const verbs::DeviceFacts device = mlx5();
  EXPECT_THAT(rdma_text({&device, 1}, {}), HasSubstr("GPU memory by DMA-BUF: yes"));
  RdmaSurroundings around;
  around.no_dma_buf["mlx5_0"] = "this libibverbs is older than version 34";
  EXPECT_THAT(rdma_text({&device, 1}, around), HasSubstr("DMA-BUF: no: this libibverbs is older"));
}

TEST(RdmaText, LittleLockedMemoryHasItsRemedy) {
  const verbs::DeviceFacts device = mlx5();
  EXPECT_THAT(rdma_text({&device, 1}, {.lock_limit = 64 << 10}),
              AllOf(HasSubstr("64 KiB, too little"), HasSubstr("--ulimit memlock=-1")));
  EXPECT_THAT(rdma_text({&device, 1}, {.lock_limit = -1}), HasSubstr("without limit"));
}

TEST(RdmaText, BridgesThatRedirectAreNamedWithTheRemedy) {
  EXPECT_THAT(acs_text({}), IsEmpty());
  const std::string text =
      acs_text({.redirecting = {"0000:00:01.0", "0000:01:00.0"}, .hidden = {}});
  EXPECT_THAT(text, AllOf(HasSubstr("0000:00:01.0, 0000:01:00.0"), HasSubstr("(ACS)"),
                          HasSubstr("setpci -s 0000:00:01.0 ECAP_ACS+6.w=0"),
                          Not(HasSubstr("root to read"))));
  EXPECT_THAT(acs_text({.redirecting = {}, .hidden = {"0000:02:08.0"}}),
              HasSubstr("0000:02:08.0 redirect traffic between devices (ACS) is for root to read"));
  verbs::DeviceFacts device = mlx5();
  RdmaSurroundings around;
  around.bridges["mlx5_0"] = text;
  EXPECT_THAT(rdma_text({&device, 1}, around), HasSubstr(text));
}

}  // namespace
}  // namespace tutti::tools
