#include "src/comm/peer_info.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/comm/setup_version.hpp"
#include "src/cost/asked.hpp"

namespace tutti {
namespace {

PeerInfo sample_info() {
  PeerInfo info;
  info.process_token = 0x0123456789abcdef;
  info.block_offset = 4096;
  info.block_address = 0x7f0000001000;
  info.pid = 77;
  info.host = "node7";
  info.boot = "boot 7";
  info.mbit_per_s = 25'000;
  info.cpus = {{0b0110, 1}, {1500, 99}};
  info.device = "GPU 0";
  info.file_hashes = {7, 0xfedcba9876543210};
  info.file_problem = "none";
  info.addresses = {{"shm", Blob(3, std::byte{1})}, {"tcp", {}}};
  return info;
}

std::string error_of_info(const Blob& bytes) {
  const auto info = decode_peer_info(bytes, 5);
  if (info) return "";
  EXPECT_EQ(info.error().peer, 5);
  return info.error().what;
}

TEST(PeerInfo, ComesBackAsItWasSent) {
  const auto info = decode_peer_info(encode(sample_info()), 5);
  ASSERT_TRUE(info) << info.error().what;
  EXPECT_EQ(info->process_token, 0x0123456789abcdefu);
  EXPECT_EQ(info->block_offset, 4096u);
  EXPECT_EQ(info->block_address, 0x7f0000001000u);
  EXPECT_EQ(info->pid, 77u);
  EXPECT_EQ(info->host, "node7");
  EXPECT_EQ(info->boot, "boot 7");
  EXPECT_EQ(info->mbit_per_s, 25'000u);
  EXPECT_EQ(info->cpus, sample_info().cpus);
  EXPECT_EQ(info->device, "GPU 0");
  EXPECT_EQ(info->file_hashes, sample_info().file_hashes);
  EXPECT_EQ(info->file_problem, "none");
  ASSERT_EQ(info->addresses.size(), 2u);
  EXPECT_EQ(info->addresses[0].transport, "shm");
  EXPECT_EQ(info->addresses[0].address, Blob(3, std::byte{1}));
  EXPECT_EQ(encode(*info), encode(sample_info()));
}

TEST(PeerInfo, CutAnywhereIsRefused) {
  const Blob whole = encode(sample_info());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(
        error_of_info(Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))), "")
        << bytes;
}

TEST(PeerInfo, WithBytesLeftOverIsRefused) {
  Blob bytes = encode(sample_info());
  bytes.push_back({});
  EXPECT_NE(error_of_info(bytes).find("malformed"), std::string::npos);
}

TEST(PeerInfo, OfAnotherVersionNamesBothVersions) {
  Blob bytes = encode(sample_info());
  bytes[0] = static_cast<std::byte>(kSetupVersion + 1);
  const std::string versions =
      fmt::format("set-up version {}, here {}", kSetupVersion + 1, kSetupVersion);
  EXPECT_NE(error_of_info(bytes).find(versions), std::string::npos);
}

TEST(PeerInfo, WithMoreAddressesThanThereAreTransportsIsRefused) {
  PeerInfo info = sample_info();
  info.addresses.resize(1000);
  EXPECT_NE(error_of_info(encode(info)).find("1000 addresses"), std::string::npos);
}

TEST(PeerInfo, WithMoreFilesThanASettingNamesIsRefused) {
  PeerInfo info = sample_info();
  info.file_hashes.resize(kMostFiles + 1);
  EXPECT_NE(error_of_info(encode(info)).find("65 files"), std::string::npos);
}

TEST(PeerInfo, WithMoreCpusThanAnyMachineHasIsRefused) {
  PeerInfo info = sample_info();
  info.cpus.mask.assign(kMostCpus / 64, ~std::uint64_t{0});
  EXPECT_EQ(error_of_info(encode(info)), "");
  info.cpus.mask.push_back(0);
  EXPECT_NE(error_of_info(encode(info)).find("257 x 64 CPUs"), std::string::npos);
}

/// What ranks are told whose files have these hashes.
std::string told_of_files(const std::vector<std::vector<std::uint64_t>>& hashes) {
  std::vector<PeerInfo> peers(hashes.size());
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) peers[rank].file_hashes = hashes[rank];
  const std::string paths[] = {"a.xml", "b.xml"};
  const Status same = check_files(peers, paths);
  return same ? "" : same.error().what;
}

TEST(CheckFiles, NamesTheFileAndAllRanksThatHaveAnotherThanRank0) {
  EXPECT_EQ(told_of_files({{1, 2}, {1, 2}, {1, 2}}), "");
  EXPECT_EQ(told_of_files({{1, 2}, {1, 3}, {1, 2}, {1, 4}}),
            "TUTTI_ALGO: 'b.xml' has other contents on the ranks 1, 3 than on rank 0; give all "
            "ranks the same file");
}

TEST(CheckFiles, RefusesARankThatReadAnotherNumberOfFiles) {
  EXPECT_EQ(told_of_files({{1, 2}, {1}}), "rank 1 announces 1 files instead of 2");
}

TEST(CheckFiles, TellsAllWhyOneRankDidNotGetOnWithItsFile) {
  std::vector<PeerInfo> peers(3);
  peers[2].file_problem = "TUTTI_ALGO: cannot read 'a.xml'";
  const std::string paths[] = {"a.xml"};
  const Status same = check_files(peers, paths);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().peer, 2);
  EXPECT_EQ(same.error().what, "rank 2: TUTTI_ALGO: cannot read 'a.xml'");
}

TEST(ArrangementOfPeers, HasTheHostsTheirMachinesAndTheSlowestInterface) {
  std::vector<PeerInfo> peers(4);
  peers[0].boot = peers[1].boot = peers[2].boot = "a";
  peers[3].boot = "b";
  for (PeerInfo& peer : peers) peer.mbit_per_s = 25'000;
  peers[2].mbit_per_s = 10'000;
  lower::Placement placement;
  placement.host = {0, 0, 1, 2};
  EXPECT_EQ(arrangement_of(peers, placement), (Arrangement{4, 3, 2, 0, 2, 10'000}));
  peers[3].mbit_per_s = 0;  // unknown
  EXPECT_EQ(arrangement_of(peers, placement).mbit_per_s, 0u);
  placement.host = {0, 0, 0, 0};  // where no network is between them
  EXPECT_EQ(arrangement_of(peers, placement), (Arrangement{4, 1, 4}));
}

}  // namespace
}  // namespace tutti
