#include "src/wire/net.hpp"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

SocketAddress address(std::string_view text) {
  const auto parsed = parse_address(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : SocketAddress{};
}

TEST(SocketAddress, RoundTripsThroughText) {
  for (const char* text :
       {"10.0.0.1:29500", "127.0.0.1:0", "[2001:db8::1]:65535", "[fe80::1%2]:7"}) {
    EXPECT_EQ(to_text(address(text)), text);
  }
}

TEST(SocketAddress, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "10.0.0.1", "10.0.0:1", "10.0.0.1:65536", "10.0.0.1:-1", "::1:5",
                           "[::1]", "[::1:5", "10.0.0.1:1x", "[fe80::1%x]:1", "host:80"}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
  EXPECT_FALSE(parse_address(std::string_view("10.0.0.1\0x:5", 12)));
}

std::vector<NetInterface> machine() {
  return {{"lo", address("127.0.0.1:0")},       {"docker0", address("172.17.0.1:0")},
          {"eth0", address("[2001:db8::5]:0")}, {"eth0", address("10.0.0.5:0")},
          {"eth1", address("10.1.0.5:0")},      {"ib0", address("10.2.0.5:0")}};
}

std::vector<std::string> chosen(const InterfaceChoice& choice,
                                const std::vector<NetInterface>& all = machine()) {
  const auto result = select_interfaces(all, choice);
  std::vector<std::string> texts;
  if (!result) return {"error: " + result.error().what};
  for (const auto& each : *result) texts.push_back(each.name + " " + to_text(each.address));
  return texts;
}

TEST(SelectInterfaces, PrefersWhatReachesOtherHosts) {
  EXPECT_THAT(chosen({}), testing::ElementsAre("eth0 10.0.0.5:0", "eth1 10.1.0.5:0",
                                               "ib0 10.2.0.5:0", "eth0 [2001:db8::5]:0"));
  EXPECT_THAT(chosen({"^eth,ib", ""}), testing::ElementsAre("docker0 172.17.0.1:0"));
  EXPECT_THAT(chosen({"^eth,ib,docker", ""}), testing::ElementsAre("lo 127.0.0.1:0"));
  EXPECT_THAT(chosen({"lo,docker", ""}),
              testing::ElementsAre("lo 127.0.0.1:0", "docker0 172.17.0.1:0"));
}

TEST(SelectInterfaces, TakesOneWithoutALinkOnlyWhereNoneHasOne) {
  std::vector<NetInterface> all = machine();
  all[3].has_link = all[4].has_link = false;  // the IPv4 addresses of eth0 and eth1
  EXPECT_THAT(chosen({"", "AF_INET"}, all), testing::ElementsAre("ib0 10.2.0.5:0"));
  EXPECT_THAT(chosen({"^ib", "AF_INET"}, all),  // not what only reaches this host
              testing::ElementsAre("eth0 10.0.0.5:0", "eth1 10.1.0.5:0"));
  EXPECT_THAT(chosen({"eth1,ib0", ""}, all), testing::ElementsAre("ib0 10.2.0.5:0"));
  EXPECT_THAT(chosen({"eth1", ""}, all), testing::ElementsAre("eth1 10.1.0.5:0"));
}

TEST(SelectInterfaces, FollowsPrefixExactAndExclude) {
  EXPECT_THAT(chosen({"eth", "AF_INET"}),
              testing::ElementsAre("eth0 10.0.0.5:0", "eth1 10.1.0.5:0"));
  EXPECT_THAT(chosen({"=eth1", ""}), testing::ElementsAre("eth1 10.1.0.5:0"));
  EXPECT_THAT(chosen({"^eth,docker,lo", ""}), testing::ElementsAre("ib0 10.2.0.5:0"));
  EXPECT_THAT(chosen({"^=eth0,lo,docker0", ""}),
              testing::ElementsAre("eth1 10.1.0.5:0", "ib0 10.2.0.5:0"));
  EXPECT_THAT(chosen({"lo", ""}), testing::ElementsAre("lo 127.0.0.1:0"));
  EXPECT_THAT(chosen({"", "AF_INET6"}), testing::ElementsAre("eth0 [2001:db8::5]:0"));
}

TEST(Interfaces, HaveTheSpeedThatTheirDriversSayOrNone) {
  EXPECT_EQ(mbit_per_s("lo"), 0U);
  EXPECT_EQ(mbit_per_s("no such interface"), 0U);
}

TEST(SelectInterfaces, ListsWhatThereIsWhenNothingFits) {
  EXPECT_THAT(chosen({"wlan", ""}).front(), HasSubstr("eth0"));
  EXPECT_THAT(chosen({"", "AF_X25"}).front(), HasSubstr("AF_X25"));
}

TEST(Net, ConnectsToAListenerAndCarriesBytes) {
  const auto listener = listen_on(address("127.0.0.1:0"));
  ASSERT_TRUE(listener);
  const auto where = local_address(listener->get());
  ASSERT_TRUE(where);
  auto near = connect_to(*where, Deadline::after(5s));
  ASSERT_TRUE(near) << near.error().what;
  auto far = accept_on(listener->get());
  ASSERT_TRUE(far && *far);
  const Blob sent(100'000, std::byte{42});
  std::thread sender([&] { EXPECT_TRUE(send_all(near->get(), sent, Deadline::after(5s))); });
  Blob got(sent.size());
  EXPECT_TRUE(recv_all(far->get(), got, Deadline::after(5s)));
  sender.join();
  EXPECT_EQ(got, sent);
  near->reset();
  EXPECT_EQ(recv_all(far->get(), got, Deadline::after(5s)).error().code, Code::kPeerFailed);
}

TEST(Net, WaitsForAListenerThatComesLate) {
  SocketAddress where;
  {
    const auto first = listen_on(address("127.0.0.1:0"));
    ASSERT_TRUE(first);
    where = *local_address(first->get());
  }
  Result<Fd> late = make_error(Code::kInternal, "not yet");
  std::thread server([&] {
    std::this_thread::sleep_for(30ms);  // so that the first attempt is refused
    late = listen_on(where);
  });
  const auto fd = connect_to(where, Deadline::after(10s));
  server.join();
  EXPECT_TRUE(fd) << fd.error().what;
}

TEST(Net, GivesUpAtTheDeadlineAndSaysWhere) {
  SocketAddress where;
  {
    const auto first = listen_on(address("127.0.0.1:0"));
    where = *local_address(first->get());
  }
  const auto fd = connect_to(where, Deadline::after(50ms));
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, Code::kTimeout);
  EXPECT_THAT(fd.error().what, HasSubstr(to_text(where)));
}

TEST(Net, ABusyPortIsNamed) {
  const auto first = listen_on(address("127.0.0.1:0"));
  const auto second = listen_on(*local_address(first->get()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().what, HasSubstr("127.0.0.1"));
}

}  // namespace
}  // namespace tutti
