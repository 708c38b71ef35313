#include "src/wire/peer_listener.hpp"

#include <deque>
#include <future>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

/// The accepting side. A dialler says one letter on each socket once that has proved the key.
class Acceptor : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kDialler = 1;  // the lower token dials
  static constexpr std::uint64_t kSelf = 2;

  Result<Fd> accept() {
    std::scoped_lock lock(mutex_);
    if (knocking_.empty()) return Fd();
    Fd next = std::move(knocking_.front());
    knocking_.pop_front();
    return next;
  }
  // The letters of the sockets that became a connection, in their order.
  std::string wait_for_connection() {
    std::string said;
    PeerListener listener(
        Fd(::eventfd(0, EFD_CLOEXEC)), kSelf, "test",
        {.accept = [this](int) { return accept(); },
         .dial = {},
         .greet = [](int) -> Result<std::shared_ptr<void>> { return std::shared_ptr<void>(); },
         .make = [&](const PeerProcess&, PeerSockets sockets,
                     Deadline) -> Result<std::shared_ptr<Connection>> {
           for (const PeerSocket& socket : sockets) {
             pollfd input{socket.fd.get(), POLLIN, 0};
             ::poll(&input, 1, 5000);
             char letter = '?';
             (void)::recv(socket.fd.get(), &letter, 1, MSG_DONTWAIT);
             said += letter;
           }
           return make_error(Code::kInternal, "seen");
         }});
    (void)listener.connect({.token = kDialler, .rank = 1, .address = {}}, key_,
                           Deadline::after(10s));
    return said;
  }
  void dial(std::uint8_t part, std::uint64_t attempt, char letter) {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    {
      std::scoped_lock lock(mutex_);
      knocking_.emplace_back(fds[1]);
    }
    dialled_.emplace_back(fds[0]);
    const auto met = shake_hands(fds[0],
                                 {.role = HandshakeRole::kInitiator,
                                  .purpose = Purpose::kData,
                                  .self = {.token = kDialler,
                                           .group = derive_id(key_, "tutti data group"),
                                           .part = part,
                                           .parts = 2,
                                           .attempt = attempt},
                                  .key = key_},
                                 Deadline::after(2s));
    ASSERT_TRUE(met) << met.error().what;
    ASSERT_EQ(::send(fds[0], &letter, 1, MSG_NOSIGNAL), 1);
  }

  const Key key_ = random_key();
  std::mutex mutex_;
  std::deque<Fd> knocking_;
  std::vector<Fd> dialled_;
};

TEST_F(Acceptor, TakesThePartsOfOneAttemptInAnyOrder) {
  auto said = std::async(std::launch::async, [this] { return wait_for_connection(); });
  dial(1, 7, 'b');
  dial(0, 7, 'a');
  EXPECT_EQ(said.get(), "ab");
}

TEST_F(Acceptor, DoesNotMixThePartsOfTwoAttempts) {
  auto said = std::async(std::launch::async, [this] { return wait_for_connection(); });
  dial(1, 7, 'x');
  dial(0, 8, 'a');
  dial(1, 8, 'b');
  EXPECT_EQ(said.get(), "ab");
}

TEST_F(Acceptor, TakesAPartThatComesAgain) {
  auto said = std::async(std::launch::async, [this] { return wait_for_connection(); });
  dial(0, 7, 'x');
  dial(0, 7, 'a');
  dial(1, 7, 'b');
  EXPECT_EQ(said.get(), "ab");
}

}  // namespace
}  // namespace tutti
