// What a link by hosts_relay does to packets. Run by tests/hosts/with_latency, with --rate 100.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>

#include "src/wire/net.hpp"
#include "tests/hosts/on_host.hpp"

namespace tutti::testing {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class RelayedLink : public ::testing::Test {
 protected:
  static constexpr double kBytesPerMicrosecond = 100.0 / 8;

  void SetUp() override {
    std::istringstream(from_environment("HOSTS")) >> here_ >> there_;
    const long us = std::strtol(from_environment("LATENCY_US").c_str(), nullptr, 10);
    ASSERT_GT(us, 0) << "run this by tests/hosts/with_latency";
    latency_ = std::chrono::microseconds(us);
    std::string first, second;
    std::istringstream(from_environment("ADDRESSES")) >> first >> second;
    const auto any_port = parse_address(second + ":0");
    ASSERT_TRUE(any_port) << any_port.error().what;
    const Fd listener = on_host(there_, [&] { return listen_on(*any_port); });
    ASSERT_TRUE(listener);
    const SocketAddress address = *local_address(listener.get());
    near_ = on_host(here_, [&] { return connect_once(address, soon()); });
    pollfd visitor{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&visitor, 1, 5000), 1);
    far_ = *accept_on(listener.get());
  }

  static Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }
  static void expect_ok(const Status& status) { EXPECT_TRUE(status) << status.error().what; }

  /// From a byte's departure until another one has come back.
  Nanos round_trip() {
    std::byte byte{};
    const TimePoint start = Clock::now();
    expect_ok(send_all(near_.get(), {&byte, 1}, soon()));
    expect_ok(recv_all(far_.get(), {&byte, 1}, soon()));
    expect_ok(send_all(far_.get(), {&byte, 1}, soon()));
    expect_ok(recv_all(near_.get(), {&byte, 1}, soon()));
    return Clock::now() - start;
  }

  std::string here_, there_;
  Nanos latency_{};
  Fd near_, far_;
};

TEST_F(RelayedLink, TakesTwiceTheLatencyForARoundTripAndAtBestLittleMore) {
  constexpr int kTrips = 200;
  Nanos least = Nanos::max();
  for (int i = 0; i < kTrips; ++i) {
    const Nanos taken = round_trip();
    ASSERT_GE(taken, 2 * latency_) << "round trip " << i;
    least = std::min(least, taken);
  }
  RecordProperty("least_us", static_cast<int>(least / std::chrono::microseconds(1)));
  EXPECT_LE(least, 3 * latency_);
}

TEST_F(RelayedLink, CarriesEveryByteInOrderNoFasterThanItsRate) {
  std::vector<std::byte> sent(std::size_t{2} << 20U), received(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  const TimePoint start = Clock::now();
  std::thread sender([&] { expect_ok(send_all(near_.get(), sent, soon())); });
  expect_ok(recv_all(far_.get(), received, soon()));
  const Nanos taken = Clock::now() - start;
  sender.join();
  EXPECT_EQ(sent, received);
  const double least_us = static_cast<double>(sent.size()) / kBytesPerMicrosecond;
  using Microseconds = std::chrono::duration<double, std::micro>;
  EXPECT_GE(Microseconds(taken - latency_).count(), least_us);
}

/// The exit status of the relay with these arguments, and what it says.
std::pair<int, std::string> relay(const std::string& arguments) {
  const std::string command = from_environment("HOSTS_RELAY") + " " + arguments + " 2>&1";
  FILE* output = ::popen(command.c_str(), "r");
  std::string said;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output))
    said.push_back(static_cast<char>(c));
  const int status = ::pclose(output);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, said};
}

TEST(Relay, NamesTheHostThatDoesNotExist) {
  const auto [status, said] = relay("no-such-host ttx no-such-host tty 10");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(said, ::testing::HasSubstr("cannot open /var/run/netns/no-such-host"));
}

TEST(Relay, RefusesADeviceNameThatIsTooLong) {
  const auto [status, said] = relay("a sixteen-letters- b tty 10");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(said, ::testing::HasSubstr("`sixteen-letters-` cannot name a device"));
}

}  // namespace
}  // namespace tutti::testing
