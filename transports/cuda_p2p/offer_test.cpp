#include "transports/cuda_p2p/offer.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::cuda_p2p {
namespace {

using testing::HasSubstr;

Offer offer_of(const std::string& gpu, MemoryKind kind = MemoryKind::kDescriptor) {
  Offer offer;
  offer.gpu = gpu;
  offer.uuid = "uuid of " + gpu;
  offer.process_token = 4;
  offer.address.boot_id = "boot";
  offer.address.socket_name = "tutti-1";
  offer.area_bytes = 100;
  offer.allocated_bytes = 4096;
  offer.kind = kind;
  offer.handle.fill(std::byte{5});
  return offer;
}

TEST(Offer, ReadsWhatItWrote) {
  const Offer offer = offer_of("a", MemoryKind::kIpc);
  const auto read = decode_offer(encode(offer));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(*read, offer);
  Offer problem;
  problem.problem = "no memory";
  EXPECT_EQ(*decode_offer(encode(problem)), problem);
}

TEST(Offer, CutsProblemsThatAreTooLong) {
  Offer offer;
  offer.problem = std::string(5000, 'x');
  EXPECT_EQ(decode_offer(encode(offer))->problem, std::string(1024, 'x'));
  EXPECT_EQ(*decode_verdict(encode_verdict(offer.problem)), std::string(1024, 'x'));
}

TEST(Offer, RefusesWhatNobodyOffers) {
  const std::vector<void (*)(Offer&)> mistakes{
      [](Offer& offer) { offer.uuid.clear(); },
      [](Offer& offer) { offer.address.socket_name = "elsewhere"; },
      [](Offer& offer) { offer.area_bytes = kMostAreaBytes + 1; },
      [](Offer& offer) { offer.allocated_bytes = offer.area_bytes; },
      [](Offer& offer) { offer.allocated_bytes = 2 * kMostAreaBytes + 1; },
      [](Offer& offer) { offer.kind = static_cast<MemoryKind>(3); }};
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    Offer offer = offer_of("a");
    mistakes[i](offer);
    const auto read = decode_offer(encode(offer));
    ASSERT_FALSE(read) << "mistake " << i;
    EXPECT_THAT(read.error().what, HasSubstr("is malformed"));
  }
}

TEST(Offer, RefusesAnythingCutOffAndAnythingLonger) {
  Blob whole = encode(offer_of("a"));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_offer(std::span(whole).first(size))) << size;
  whole.push_back(std::byte{0});
  EXPECT_FALSE(decode_offer(whole));
}

TEST(Obstacle, IsNoneForRanksOfOneHost) {
  const std::vector offers{offer_of("a"), offer_of("b", MemoryKind::kIpc),
                           offer_of("c", MemoryKind::kFabric)};
  EXPECT_FALSE(find_obstacle(offers));
}

TEST(Obstacle, IsARankWhoseMemoryOtherHostsDoNotReach) {
  std::vector offers{offer_of("a", MemoryKind::kFabric), offer_of("b", MemoryKind::kFabric)};
  offers[1].address.boot_id = "another";
  EXPECT_FALSE(find_obstacle(offers));
  offers[1].kind = MemoryKind::kDescriptor;
  const auto obstacle = find_obstacle(offers);
  ASSERT_TRUE(obstacle);
  EXPECT_TRUE(obstacle->expected);
  EXPECT_EQ(obstacle->what,
            "rank 0 is not on the host of rank 1, whose GPU b has no memory handles for the "
            "fabric");
}

TEST(Obstacle, IsAProblemBeforeAllElse) {
  std::vector offers{offer_of("a"), offer_of("a")};
  EXPECT_TRUE(find_obstacle(offers)->expected);
  offers[0].problem = "no memory";
  const auto obstacle = find_obstacle(offers);
  EXPECT_FALSE(obstacle->expected);
  EXPECT_EQ(obstacle->what, "rank 0: no memory");
}

}  // namespace
}  // namespace tutti::cuda_p2p
