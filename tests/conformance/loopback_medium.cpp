#include <iostream>
#include <random>

#include "tests/conformance/connected_pair.hpp"
#include "transports/loopback/loopback_transport.hpp"

namespace tutti::testing {

namespace {

ConnectedPair connect_over(std::size_t wires) {
  const auto seed = std::random_device{}();
  std::cout << "loopback seed " << seed << "\n";
  LoopbackPair pair = make_loopback_pair(seed, {.wires = wires});
  return ConnectedPair{pair.a, pair.b, pair.kill, nullptr};
}

}  // namespace

const Medium& loopback_medium() {
  static const Medium kMedium{
      .name = "Loopback", .connect = [] { return connect_over(1); }, .largest = 4 << 20};
  return kMedium;
}

const Medium& striped_loopback_medium() {
  static const Medium kMedium{
      .name = "StripedLoopback", .connect = [] { return connect_over(3); }, .largest = 4 << 20};
  return kMedium;
}

}  // namespace tutti::testing
