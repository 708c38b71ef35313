#include "tests/conformance/meet.hpp"

#include <future>
#include <utility>

#include <gtest/gtest.h>

namespace tutti::testing {

Key test_key() {
  Key key;
  key.fill(std::byte{7});
  return key;
}

ConnectedPair meet(std::shared_ptr<Transport> a, std::shared_ptr<Transport> b) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  const Key key = test_key();
  auto accepted = std::async(std::launch::async, [&] {
    return b->connect({.token = 1, .rank = 0, .address = a->address()}, key, deadline);
  });
  auto dialled = a->connect({.token = 2, .rank = 1, .address = b->address()}, key, deadline);
  auto answered = accepted.get();
  EXPECT_TRUE(dialled) << dialled.error().what;
  EXPECT_TRUE(answered) << answered.error().what;
  return {*dialled, *answered, nullptr,
          std::make_shared<std::pair<decltype(a), decltype(b)>>(a, b)};
}

}  // namespace tutti::testing
