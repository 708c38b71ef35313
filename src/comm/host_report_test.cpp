#include "src/comm/host_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/job/fuse.hpp"
#include "src/topo/model/sample_machine.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kMost = most_report_bytes(2);

/// One host of `gpus` GPUs, each node with an attribute of `bytes` bytes.
topo::Noted host(int gpus, std::size_t bytes) {
  topo::Parts parts = topo::gpu_hosts(1, gpus).parts();
  for (topo::Node& node : parts.nodes) node.attributes = {{"model", std::string(bytes, 'x')}};
  return {*topo::Topology::create(std::move(parts)), {"one", "two"}};
}

std::string report_error(const Blob& bytes) {
  const auto report = decode_host_report(bytes, kMost, 5);
  if (report) return "";
  EXPECT_EQ(report.error().peer, 5);
  return report.error().what;
}

TEST(HostReport, ComesBackAsItWasSent) {
  const topo::Noted sent = host(4, 10);
  const auto back = decode_host_report(encode_host_report(sent, kMost), kMost, 5);
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->topology, sent.topology);
  EXPECT_EQ(back->assumptions, sent.assumptions);
}

TEST(HostReport, LosesDetailsAndThenAllButOneCpuWhereItIsTooLarge) {
  const topo::Noted large = host(8, 1 << 14);
  const Blob less = encode_host_report(large, kMost);
  EXPECT_LE(less.size(), kMost);
  const auto back = decode_host_report(less, kMost, 5);
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->topology, topo::without_details(large).topology);
  EXPECT_THAT(back->assumptions,
              ElementsAre(AllOf(HasSubstr("more than the 65536"), HasSubstr("attributes are left")),
                          "one", "two"));
  const auto least = decode_host_report(encode_host_report(large, 1024), 1024, 5);
  ASSERT_TRUE(least) << least.error().what;
  EXPECT_EQ(least->topology.nodes().size(), 1U);
  EXPECT_EQ(least->topology.hosts()[0].name, large.topology.hosts()[0].name);
  EXPECT_THAT(least->assumptions, ElementsAre(HasSubstr("one CPU is assumed")));
}

TEST(HostReport, IsSmallerTheMoreRanksThereAre) {
  EXPECT_EQ(most_report_bytes(1), 65536U);
  EXPECT_EQ(most_report_bytes(1024), 16384U);
  EXPECT_EQ(most_report_bytes(1 << 20), 1024U);
}

TEST(HostReport, TellsAllWhyAHostIsNotDescribed) {
  const Error why = make_error(Code::kInvalidArgument, "NCCL_TOPO_FILE='x': line 3 column 5");
  const auto back = decode_host_report(encode_host_report(why, kMost), kMost, 5);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Code::kInvalidArgument);
  EXPECT_EQ(back.error().what, "rank 5: NCCL_TOPO_FILE='x': line 3 column 5");
}

TEST(HostReport, CutAnywhereIsRefused) {
  const Blob whole = encode_host_report(host(1, 3), kMost);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(report_error(Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))),
              "")
        << bytes;
}

TEST(HostReport, RefusesWhatNoHostIs) {
  const auto report_of = [](std::string_view text, std::uint8_t kind = 1) {
    Blob blob;
    ByteWriter(blob).put(kind).sized(as_bytes(text)).put(std::uint32_t{0});
    return blob;
  };
  EXPECT_THAT(report_error(report_of("{")), HasSubstr("rank 5 describes its host wrongly: line 1"));
  EXPECT_THAT(report_error(report_of(topo::topology_json(topo::gpu_hosts(2, 2)))),
              HasSubstr("2 hosts"));
  EXPECT_THAT(report_error(report_of("", 2)), HasSubstr("malformed"));
  EXPECT_THAT(report_error(report_of(std::string(kMost, ' '))), HasSubstr("malformed"));
}

TEST(HostReport, ShowsWhatAPeerAssumesWithoutItsControlCharacters) {
  topo::Noted sent = host(1, 1);
  sent.assumptions = {"a\nb"};
  EXPECT_THAT(decode_host_report(encode_host_report(sent, kMost), kMost, 5)->assumptions,
              ElementsAre("a\\x0ab"));
}

}  // namespace
}  // namespace tutti
