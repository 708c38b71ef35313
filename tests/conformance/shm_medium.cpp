#include <gtest/gtest.h>

#include "tests/conformance/connected_pair.hpp"
#include "tests/conformance/meet.hpp"
#include "transports/shm/shm_transport.hpp"

namespace tutti::testing {

std::shared_ptr<Transport> shm_transport(std::uint64_t token) {
  auto heap = SharedHeap::create(64 << 20);
  EXPECT_TRUE(heap) << heap.error().what;
  auto transport = make_shm_transport(*std::move(heap), {.token = token});
  EXPECT_TRUE(transport) << transport.error().what;
  return *transport;
}

const Medium& shm_medium() {
  static const Medium kMedium{.name = "Shm",
                              .connect = [] { return meet(shm_transport(1), shm_transport(2)); }};
  return kMedium;
}

}  // namespace tutti::testing
