#include "tools/doctor/measure.hpp"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"
#include "tools/doctor/station.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace tutti::doctor {
namespace {

using testing::HasSubstr;

/// Two processes' ends of a TCP connection, in this process.
class Measure : public ::testing::Test {
 protected:
  void SetUp() override {
    const Key key = random_key();
    std::thread other([&] { ends_[1] = connect(1, key); });
    ends_[0] = connect(0, key);
    other.join();
    ASSERT_TRUE(ends_[0] && ends_[1]);
  }

  std::shared_ptr<Connection> connect(std::size_t self, const Key& key) {
    const std::size_t peer = 1 - self;
    const auto connection =
        transports_[self]->connect({.token = peer + 1,
                                    .rank = static_cast<Rank>(peer),
                                    .address = transports_[peer]->address()},
                                   key, Deadline::after(std::chrono::seconds(5)));
    return connection ? *connection : nullptr;
  }
  static std::shared_ptr<Transport> transport(std::uint64_t token) {
    return *make_tcp_transport({.token = token, .interfaces = {.ifname = "=lo", .family = ""}});
  }

  const std::array<std::shared_ptr<Transport>, 2> transports_{transport(1), transport(2)};
  std::array<std::shared_ptr<Connection>, 2> ends_;
};

TEST_F(Measure, FindsLatencyAndBandwidthBothWays) {
  Status followed;
  std::thread follower([&] { followed = follow(*ends_[1], {1, 0}); });
  const LinkFacts link = lead(*ends_[0], {0, 1});
  follower.join();
  EXPECT_TRUE(followed) << followed.error().what;
  EXPECT_TRUE(link.connected);
  EXPECT_EQ(link.error, "");
  EXPECT_FALSE(link.large_hangs);
  EXPECT_GT(link.latency_us, 0);
  EXPECT_GT(link.there_mb_s, 0);
  EXPECT_GT(link.back_mb_s, 0);
}

TEST_F(Measure, EndsWhenThePeerIsGone) {
  ends_[1].reset();
  const LinkFacts link = lead(*ends_[0], {0, 1});
  EXPECT_NE(link.error, "");
  EXPECT_FALSE(link.large_hangs);
  EXPECT_EQ(link.there_mb_s, 0);
}

TEST_F(Measure, AFollowerRefusesWhatMakesNoSense) {
  const std::pair<std::array<std::uint64_t, 2>, const char*> kCases[] = {
      {{2, std::uint64_t{1} << 40}, "bytes"}, {{77, 0}, "step 77"}};
  for (const auto& [request, what] : kCases) {
    if (!ends_[0]) SetUp();
    Status followed;
    std::thread follower([&, connection = ends_[1]] { followed = follow(*connection, {1, 0}); });
    Transfer transfer;
    MessageTag tag;
    tag.call.count = sizeof request;
    ends_[0]->send({0x646f63746f72, 0, 1, 0}, tag, std::as_bytes(std::span(request)), transfer);
    while (ends_[0]->wants_write()) ends_[0]->progress();
    follower.join();
    ASSERT_FALSE(followed);
    EXPECT_EQ(followed.error().code, Code::kWrongData) << followed.error().what;
    EXPECT_THAT(followed.error().what, HasSubstr(what));
    ends_ = {};
  }
}

TEST(ReachOfAnAddress, IsToldByItsOutcome) {
  const Fd listener = *listen_on(*parse_address("127.0.0.1:0"));
  const std::string address = to_text(*local_address(listener.get()));
  EXPECT_EQ(reach(address).outcome, Reach::Outcome::kReached);
  const std::string refusing = [] {  // a port that nobody listens on any more
    const Fd gone = *listen_on(*parse_address("127.0.0.1:0"));
    return to_text(*local_address(gone.get()));
  }();
  EXPECT_EQ(reach(refusing).outcome, Reach::Outcome::kRefused);
  EXPECT_EQ(reach("nowhere").outcome, Reach::Outcome::kFailed);
}

}  // namespace
}  // namespace tutti::doctor
