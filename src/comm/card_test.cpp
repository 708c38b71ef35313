#include "src/comm/card.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/cost/asked.hpp"

namespace tutti {
namespace {

Card sample() {
  Card card;
  card.version = kCardVersion;
  card.process_token = 0x0123456789abcdef;
  card.block_offset = 4096;
  card.pid = 77;
  card.host = "node7";
  card.boot = "boot 7";
  card.mbit_per_s = 25'000;
  card.cpus = {{0b0110, 1}, {1500, 99}};
  card.agreement = {"ring", 1 << 20, true, false};
  card.file_hashes = {7, 0xfedcba9876543210};
  card.file_problem = "none";
  card.addresses = {{"shm", Blob(3, std::byte{1})}, {"tcp", {}}};
  card.verdicts = {{{Collective::kAllToAll, 4, 18, 2, 3, 2, 100}, {"direct", true}, 1'800'000'000}};
  card.measured = {{Collective::kAllGather,
                    {4, 2, 3, 0x1234},
                    100,
                    2000,
                    {"direct", true},
                    1000,
                    77,
                    88,
                    1'800'000'001}};
  card.calibration = Calibration{.between_gbs = 12.25};
  return card;
}

std::string error_of(const Blob& bytes) {
  const auto card = decode_card(bytes, 5);
  if (card) return "";
  EXPECT_EQ(card.error().peer, 5);
  return card.error().what;
}

TEST(Card, ComesBackAsItWasSent) {
  const auto card = decode_card(encode(sample()), 5);
  ASSERT_TRUE(card) << card.error().what;
  EXPECT_EQ(card->process_token, 0x0123456789abcdefu);
  EXPECT_EQ(card->block_offset, 4096u);
  EXPECT_EQ(card->pid, 77u);
  EXPECT_EQ(card->host, "node7");
  EXPECT_EQ(card->boot, "boot 7");
  EXPECT_EQ(card->mbit_per_s, 25'000u);
  EXPECT_EQ(card->cpus, sample().cpus);
  EXPECT_EQ(card->agreement, sample().agreement);
  EXPECT_EQ(card->file_hashes, sample().file_hashes);
  EXPECT_EQ(card->file_problem, "none");
  EXPECT_EQ(card->calibration, sample().calibration);
  ASSERT_EQ(card->addresses.size(), 2u);
  EXPECT_EQ(card->addresses[0].transport, "shm");
  EXPECT_EQ(card->addresses[0].address, Blob(3, std::byte{1}));
  EXPECT_EQ(card->verdicts, sample().verdicts);
  EXPECT_EQ(card->measured, sample().measured);
  EXPECT_EQ(encode(*card), encode(sample()));
}

TEST(Card, CutAnywhereIsRefused) {
  const Blob whole = encode(sample());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(error_of(Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))), "")
        << bytes;
}

TEST(Card, WithBytesLeftOverIsRefused) {
  Blob bytes = encode(sample());
  bytes.push_back({});
  EXPECT_NE(error_of(bytes).find("malformed"), std::string::npos);
}

TEST(Card, OfAnotherVersionNamesBothVersions) {
  Card card = sample();
  card.version = kCardVersion + 1;
  const std::string versions =
      fmt::format("card version {}, here {}", kCardVersion + 1, kCardVersion);
  EXPECT_NE(error_of(encode(card)).find(versions), std::string::npos);
}

TEST(Card, WithARangeThatCannotBeIsRefused) {
  Card card = sample();
  card.measured[0].arrangement.hosts = 5;
  EXPECT_NE(error_of(encode(card)).find("4 ranks on 5 hosts"), std::string::npos);
  card = sample();
  card.measured.resize(kMostCardRanges + 1, card.measured[0]);
  EXPECT_NE(error_of(encode(card)).find("1025 measured ranges"), std::string::npos);
}

TEST(Card, WithACalibrationThatCannotBeIsRefused) {
  Card card = sample();
  card.calibration->between_gbs = -1;
  EXPECT_NE(error_of(encode(card)).find("between.bandwidth_gbs"), std::string::npos);
  card.calibration.reset();
  EXPECT_EQ(decode_card(encode(card), 5)->calibration, std::nullopt);
}

TEST(Card, WithMoreAddressesThanThereAreTransportsIsRefused) {
  Card card = sample();
  card.addresses.resize(1000);
  EXPECT_NE(error_of(encode(card)).find("1000 addresses"), std::string::npos);
}

TEST(Card, WithMoreVerdictsThanThereAreClassesIsRefused) {
  Card card = sample();
  card.verdicts.resize(kMostCardVerdicts + 1);
  EXPECT_NE(error_of(encode(card)).find("1025 verdicts"), std::string::npos);
}

TEST(Card, WithMoreFilesThanASettingNamesIsRefused) {
  Card card = sample();
  card.file_hashes.resize(kMostFiles + 1);
  EXPECT_NE(error_of(encode(card)).find("65 files"), std::string::npos);
}

TEST(Card, WithAVerdictOnWhatIsNoCollectiveIsRefused) {
  Card card = sample();
  card.verdicts.front().of.collective = static_cast<Collective>(kCollectives);
  EXPECT_NE(error_of(encode(card)).find("collective 10"), std::string::npos);
}

TEST(Card, WithMoreCpusThanAnyMachineHasIsRefused) {
  Card card = sample();
  card.cpus.mask.assign(kMostCpus / 64, ~std::uint64_t{0});
  EXPECT_EQ(error_of(encode(card)), "");
  card.cpus.mask.push_back(0);
  EXPECT_NE(error_of(encode(card)).find("257 x 64 CPUs"), std::string::npos);
}

TEST(Card, WithStagingThatNoSettingAllowsIsRefused) {
  // Twice 2^63 is 0: a region of no bytes that plans would take for an endless one.
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63}) {
    Card card = sample();
    card.agreement.staging_bytes = bytes;
    EXPECT_NE(error_of(encode(card)).find("STAGING_BYTES"), std::string::npos) << bytes;
  }
}

/// What ranks are told whose files have these hashes.
std::string told_of_files(const std::vector<std::vector<std::uint64_t>>& hashes) {
  std::vector<Card> cards(hashes.size());
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) cards[rank].file_hashes = hashes[rank];
  const std::string paths[] = {"a.xml", "b.xml"};
  const Status same = check_files(cards, paths);
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
  std::vector<Card> cards(3);
  cards[2].file_problem = "TUTTI_ALGO: cannot read 'a.xml'";
  const std::string paths[] = {"a.xml"};
  const Status same = check_files(cards, paths);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().peer, 2);
  EXPECT_EQ(same.error().what, "rank 2: TUTTI_ALGO: cannot read 'a.xml'");
}

TEST(ClassOfCalls, HasTheHostsTheirMachinesAndTheSlowestInterface) {
  std::vector<Card> cards(4);
  cards[0].boot = cards[1].boot = cards[2].boot = "a";
  cards[3].boot = "b";
  for (Card& card : cards) card.mbit_per_s = 25'000;
  cards[2].mbit_per_s = 10'000;
  lower::Placement placement;
  placement.host = {0, 0, 1, 2};
  EXPECT_EQ(class_of_calls(cards, placement), (CallClass{{}, 4, 0, 3, 2, 2, 10'000}));
  cards[3].mbit_per_s = 0;  // unknown
  EXPECT_EQ(class_of_calls(cards, placement).mbit_per_s, 0u);
  placement.host = {0, 0, 0, 0};  // where no network is between them
  EXPECT_EQ(class_of_calls(cards, placement), (CallClass{{}, 4, 0, 1, 4}));
}

}  // namespace
}  // namespace tutti
