// Datagrams over loopback.
#include "transports/switch/datagrams.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

namespace tutti::in_network {
namespace {

struct Host {
  Fd fd;
  SocketAddress address;

  explicit Host(const SocketAddress& at) {
    auto opened = open_datagrams(at);
    EXPECT_TRUE(opened) << opened.error().what;
    if (!opened) return;
    fd = *std::move(opened);
    const auto found = local_address(fd.get());
    if (found) address = *found;
  }
  /// So many bytes of each datagram that comes until there are `count`, or none for long.
  std::vector<std::size_t> receive(std::size_t count, DatagramAddress* source = nullptr) const {
    DatagramReader reader;
    std::vector<std::size_t> sizes;
    while (sizes.size() < count) {
      pollfd state{.fd = fd.get(), .events = POLLIN, .revents = 0};
      if (::poll(&state, 1, 2000) != 1) break;
      for (const auto& datagram : reader.receive(fd.get())) {
        sizes.push_back(datagram.bytes.size());
        if (source != nullptr) *source = reader.source(datagram);
      }
    }
    return sizes;
  }
};

void send(const Host& from, const std::vector<std::size_t>& sizes, const DatagramAddress* to) {
  DatagramWriter writer(can_segment(from.fd.get()));
  std::vector<const DatagramAddress*> receivers;
  if (to != nullptr) receivers.push_back(to);
  for (const std::size_t bytes : sizes) {
    std::ranges::fill(writer.room(), std::byte{1});
    writer.add(bytes, receivers);
  }
  EXPECT_TRUE(writer.flush(from.fd.get()));
}

constexpr SocketAddress kLoopback{.family = 4, .address = {127, 0, 0, 1}};
constexpr SocketAddress kLoopback6{.family = 6,
                                   .address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const std::vector<std::size_t> kSizes{kMostPacketBytes, kMostPacketBytes, 100, 64,
                                      kMostPacketBytes};

/// `listens` on `port`, and a client that knows it as `at` alone.
void expect_answers_from(const SocketAddress& listens, SocketAddress at, const SocketAddress& own) {
  const Host server(listens), client(own);
  at.port = server.address.port;
  ASSERT_TRUE(connect_datagrams(client.fd.get(), at));
  send(client, kSizes, nullptr);
  DatagramAddress source;
  EXPECT_EQ(server.receive(kSizes.size(), &source), kSizes);
  send(server, kSizes, &source);
  EXPECT_EQ(client.receive(kSizes.size()), kSizes) << "not from where they were sent to";
}

TEST(Datagrams, AreAnsweredFromTheAddressThatTheyCameTo) {
  expect_answers_from(kLoopback, kLoopback, kLoopback);
  SocketAddress second = kLoopback;
  second.address[3] = 2;
  expect_answers_from(second, second, kLoopback);
  expect_answers_from({.family = 4}, second, kLoopback);
}

TEST(Datagrams, AreAnsweredOverIpv6) {
  if (!open_datagrams(kLoopback6)) GTEST_SKIP() << "no IPv6 here";
  expect_answers_from({.family = 6}, kLoopback6, kLoopback6);
}

}  // namespace
}  // namespace tutti::in_network
