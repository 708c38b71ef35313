// Those who come to a rank's listener and should not, and those who should and do not.
#include <functional>
#include <string>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/local_socket.hpp"
#include "transports/cuda_p2p/offer.hpp"
#include "transports/cuda_p2p/test_job.hpp"

namespace tutti::cuda_p2p {
namespace {

using Strangers = CudaP2p;
using Deadlines = CudaP2p;

/// Knocks at the listener of rank 0 before any rank does, and says something there.
class Stranger {
 public:
  explicit Stranger(std::function<void(int socket)> say) : say_(std::move(say)) {}
  ~Stranger() {
    if (speaker_.joinable()) speaker_.join();
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// For Job::listen.
  void knock(std::span<const std::byte> offer) {
    if (socket_) return;
    auto socket = dial_local(decode_offer(offer)->address.socket_name);
    ASSERT_TRUE(socket) << socket.error().what;
    socket_ = *std::move(socket);
    speaker_ = std::thread([this] { say_(socket_.get()); });
  }
  [[nodiscard]] bool has_knocked() const { return static_cast<bool>(socket_); }

 private:
  const std::function<void(int socket)> say_;
  Fd socket_;
  std::thread speaker_;
};

TEST_F(Strangers, AreNotLetIn) {
  const std::function<void(int)> mistakes[] = {
      [](int socket) { ::shutdown(socket, SHUT_RDWR); },
      [](int socket) {
        const std::string words =
            "GET / HTTP/1.1, and more than a hello would have to say about who it is";
        EXPECT_TRUE(send_with_fd(socket, as_bytes(words), STDIN_FILENO));
      },
      [](int socket) {
        HandshakeOptions options;
        options.purpose = Purpose::kData;
        options.self = {.token = 2, .rank = 1, .group = 77};
        options.key = Key{std::byte{8}};
        EXPECT_FALSE(shake_hands(socket, options, Deadline::after(kPatience)));
        ::shutdown(socket, SHUT_RDWR);
      },
      [](int) {}};  // holds the others up for a while
  for (const auto& mistake : mistakes) {
    Stranger stranger(mistake);
    expect_shared(
        share(fake, {.seats = kProcesses, .listen = [&](auto mine) { stranger.knock(mine); }}));
    EXPECT_TRUE(stranger.has_knocked());
  }
}

TEST_F(Strangers, AreThoseWhoHoldTheKeyAndClaimTheRankOfAnother) {
  Stranger stranger([](int socket) {
    HandshakeOptions options;
    options.purpose = Purpose::kData;
    options.self = {.token = 9, .rank = 1, .group = 77};
    options.key = kKey;
    EXPECT_TRUE(shake_hands(socket, options, Deadline::after(kPatience)));
    std::byte byte{};
    EXPECT_FALSE(receive_with_fd(socket, std::span(&byte, 1), 0, "a descriptor",
                                 Deadline::after(kPatience)));
  });
  expect_shared(
      share(fake, {.seats = kProcesses, .listen = [&](auto mine) { stranger.knock(mine); }}));
}

/// A rank of another process, which offers memory and then does nothing about it.
Result<std::unique_ptr<PeerMemory>> share_with_nobody(const FakeClient& fake,
                                                      const CudaP2pOptions& options,
                                                      Deadline deadline, bool answers) {
  int gathers = 0;
  const auto all_gather = [&](auto mine) -> Result<std::vector<Blob>> {
    const Blob own(mine.begin(), mine.end());
    if (gathers++ > 0)
      return answers ? Result(std::vector{own, encode_verdict("")})
                     : make_error(Code::kTimeout, "rank 1 did not come");
    auto offer = *decode_offer(mine);
    offer.uuid = "of another GPU";
    offer.process_token = 2;
    return std::vector{own, encode(offer)};
  };
  return make_cuda_p2p(fake.shared(), options)
      ->share({.ranks = 2,
               .bytes = kBytes,
               .process_token = 1,
               .key = kKey,
               .all_gather = all_gather,
               .deadline = deadline});
}

TEST_F(Deadlines, EndTheWaitForAPeerThatNeverComes) {
  const auto outcome = share_with_nobody(fake, {.swap_deadline = std::chrono::milliseconds(50)},
                                         Deadline::after(kPatience), true);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_EQ(*outcome, nullptr);
}

TEST_F(Deadlines, OfTheRequestEndAllWaits) {
  const auto outcome =
      share_with_nobody(fake, {}, Deadline::after(std::chrono::milliseconds(300)), false);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kTimeout);
}

}  // namespace
}  // namespace tutti::cuda_p2p
