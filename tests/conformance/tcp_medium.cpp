#include <future>

#include <gtest/gtest.h>

#include "src/wire/crypto.hpp"
#include "tests/conformance/connected_pair.hpp"
#include "tests/conformance/meet.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace tutti::testing {

std::shared_ptr<Transport> tcp_transport(std::uint64_t token) {
  auto transport =
      make_tcp_transport({.token = token, .interfaces = {.ifname = "lo", .family = ""}});
  EXPECT_TRUE(transport) << transport.error().what;
  return *transport;
}

std::shared_ptr<Transport> striped_tcp_transport(std::uint64_t token) {
  auto transport = make_tcp_transport(
      {.token = token, .interfaces = {.ifname = "lo", .family = ""}, .sockets = 3});
  EXPECT_TRUE(transport) << transport.error().what;
  return *transport;
}

const Medium& striped_tcp_medium() {
  static const Medium kMedium{.name = "StripedTcp", .connect = [] {
                                return meet(striped_tcp_transport(1), striped_tcp_transport(2));
                              }};
  return kMedium;
}

const Medium& tcp_medium() {
  static const Medium kMedium{.name = "Tcp",
                              .connect = [] { return meet(tcp_transport(1), tcp_transport(2)); }};
  return kMedium;
}

}  // namespace tutti::testing
