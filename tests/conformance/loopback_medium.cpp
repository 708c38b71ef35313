#include <iostream>
#include <random>

#include "tests/conformance/connected_pair.hpp"
#include "transports/loopback/loopback_transport.hpp"

namespace tutti::testing {

const Medium& loopback_medium() {
  static const Medium kMedium{.name = "Loopback",
                              .connect =
                                  [] {
                                    const auto seed = std::random_device{}();
                                    std::cout << "loopback seed " << seed << "\n";
                                    LoopbackPair pair = make_loopback_pair(seed);
                                    return ConnectedPair{pair.a, pair.b, pair.kill, nullptr};
                                  },
                              .largest = 4 << 20};
  return kMedium;
}

}  // namespace tutti::testing
