// Images of programs: what is refused and why, what is in them, and that damage is noticed.
#include "src/exec/cuda/image.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/verify.hpp"
#include "tests/device/calls.hpp"

namespace tutti::exec::cuda {
namespace {

using device::testing::lowerings_of;

constexpr device::AreaShape kLargeArea = {1 << 20, 1 << 20, 1 << 20};

lower::Lowered lowered_for(const ir::Algorithm& algorithm, const ir::Request& request,
                           const lower::Placement& placement) {
  const auto schedule = algorithm.generate(request);
  const auto proof = ir::verify(*schedule);
  auto lowered = lower::lower(*schedule, *proof, placement);
  EXPECT_TRUE(lowered) << lowered.error().what;
  return *std::move(lowered);
}

lower::Placement one_host(Rank ranks) {
  return {std::vector<std::int32_t>(static_cast<std::size_t>(ranks), 0)};
}

lower::Lowered lowered_in(lower::ProgramProtocol protocol, std::string_view algorithm,
                          Collective collective, Rank ranks) {
  for (const auto& lowering : lowerings_of(algorithm, collective, ranks))
    if (lowering.lowered.protocol == protocol && !lowering.scales_input) return lowering.lowered;
  ADD_FAILURE() << algorithm << " has no such lowering";
  return {};
}

void expect_unsupported(const Result<std::vector<std::byte>>& image, const std::string& why) {
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, Code::kUnsupported);
  EXPECT_NE(image.error().what.find(why), std::string::npos) << image.error().what;
}

TEST(Image, IsRefusedWhereMessagesGoToOtherHosts) {
  const auto lowered =
      lowered_for(algorithms::ring(), {Collective::kAllReduce, 3, 0, false, {}}, {{0, 1, 2}});
  expect_unsupported(build_image(lowered, {100}, 0, {ReduceOp::kSum, 1, kLargeArea}),
                     "messages are for host executors");
}

TEST(Image, IsRefusedWhereValuesHaveAFormat) {
  ir::Algorithm compressed = algorithms::two_shot();
  compressed.generate = [](const ir::Request& request) -> Result<ir::Schedule> {
    return ir::compress(*algorithms::two_shot().generate(request), ir::CompressedMessages::kAll);
  };
  const auto lowered =
      lowered_for(compressed, {Collective::kAllReduce, 3, 0, false, {}}, one_host(3));
  expect_unsupported(build_image(lowered, {100}, 0, {ReduceOp::kSum, 1, kLargeArea}), "formats");
}

TEST(Image, IsRefusedForMoreRanksThanShareMemory) {
  const auto lowered =
      lowered_for(algorithms::ring(), {Collective::kAllGather, 65, 0, false, {}}, one_host(65));
  expect_unsupported(build_image(lowered, {100}, 0, {ReduceOp::kSum, 1, kLargeArea}), "65 ranks");
}

TEST(Image, IsRefusedWhereAreasAreTooSmallAndSaysHowLargeTheyMustBe) {
  const auto staged =
      lowered_in(lower::ProgramProtocol::kStaged, "ring", Collective::kAllReduce, 4);
  expect_unsupported(build_image(staged, {100}, 0, {ReduceOp::kSum, 1, {1 << 20, 128, 1 << 20}}),
                     "bytes of slots per thread block, and areas have 128");
  const auto published =
      lowered_in(lower::ProgramProtocol::kPublished, "one_shot", Collective::kAllReduce, 4);
  expect_unsupported(build_image(published, {100}, 0, {ReduceOp::kSum, 1, {256, 0, 0}}),
                     "bytes of packets per thread block, and areas have 256");
}

TEST(Image, IsTheSameBytesForTheSameProgram) {
  const auto lowered =
      lowered_in(lower::ProgramProtocol::kStaged, "ring", Collective::kAllReduce, 4);
  const ImageOptions options{ReduceOp::kSum, 3, kLargeArea};
  EXPECT_EQ(*build_image(lowered, {1000}, 2, options), *build_image(lowered, {1000}, 2, options));
}

TEST(Image, PushesOnlyWhatIsRead) {
  const auto lowered =
      lowered_in(lower::ProgramProtocol::kPublished, "direct", Collective::kBroadcast, 4);
  for (Rank rank = 0; rank < 4; ++rank) {
    const auto image = build_image(lowered, {100}, rank, {ReduceOp::kSum, 2, kLargeArea});
    ASSERT_TRUE(image) << image.error().what;
    const device::Header& header = device::Image(image->data()).header();
    EXPECT_EQ(header.pushes.count, rank == 0 ? 1U : 0U);
    EXPECT_EQ(header.readers.count, rank == 0 ? 3U : 0U);
    EXPECT_EQ(header.ops.count, 1U);
  }
}

TEST(Image, OfADirectProgramKnowsWhoTouchesWhoseBuffers) {
  const auto lowered =
      lowered_in(lower::ProgramProtocol::kDirect, "direct", Collective::kScatter, 3);
  const auto of = [&](Rank rank) {
    return *build_image(lowered, {100}, rank, {ReduceOp::kSum, 1, {}});
  };
  const auto root = of(0), other = of(1);
  EXPECT_EQ(device::Image(root.data()).header().owners.count, 0U);
  EXPECT_EQ(device::Image(root.data()).header().users.count, 2U);
  EXPECT_EQ(device::Image(other.data()).header().owners.count, 1U);
  EXPECT_EQ(device::Image(other.data()).header().users.count, 0U);
}

/// One of each protocol.
std::vector<std::vector<std::byte>> some_images() {
  std::vector<std::vector<std::byte>> images;
  for (const auto& [protocol, algorithm] :
       {std::pair{lower::ProgramProtocol::kStaged, "ring"},
        std::pair{lower::ProgramProtocol::kPublished, "one_shot"},
        std::pair{lower::ProgramProtocol::kDirect, "two_shot"}}) {
    const auto lowered = lowered_in(protocol, algorithm, Collective::kAllReduce, 4);
    images.push_back(*build_image(lowered, {5000}, 1, {ReduceOp::kSum, 2, kLargeArea}));
  }
  return images;
}

TEST(Image, ThatEndsEarlyIsRefused) {
  for (const auto& image : some_images())
    for (std::size_t bytes = 0; bytes < image.size(); bytes += 4)
      EXPECT_FALSE(check_image(std::span(image).first(bytes)));
}

TEST(Image, ThatIsDamagedIsRefusedOrNamesNothingThatIsNotThere) {
  const std::uint64_t seed = device::testing::new_seed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  int refused = 0;
  for (const auto& image : some_images())
    for (int trial = 0; trial < 3000; ++trial) {
      auto damaged = image;
      const std::uint32_t values[] = {0,          1,          65,
                                      0x7fffffff, 0xffffffff, static_cast<std::uint32_t>(random())};
      const std::uint32_t value = values[random() % std::size(values)];
      std::memcpy(damaged.data() + random() % (image.size() / 4) * 4, &value, 4);
      if (!check_image(damaged)) ++refused;
    }
  EXPECT_GT(refused, 1000);
}

TEST(Image, OfAnyBytesIsRefused) {
  std::mt19937_64 random(device::testing::new_seed());
  std::vector<std::byte> bytes(4096);
  for (int trial = 0; trial < 100; ++trial) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    EXPECT_FALSE(check_image(bytes));
  }
}

}  // namespace
}  // namespace tutti::exec::cuda
