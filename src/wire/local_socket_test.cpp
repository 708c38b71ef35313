#include "src/wire/local_socket.hpp"

#include <array>
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/base/bytes.hpp"
#include "src/wire/local_address.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

const auto kSoon = std::chrono::milliseconds(20);
const auto kPatience = std::chrono::seconds(10);

ino_t inode(const Fd& fd) {
  struct stat status{};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

class LocalSocket : public testing::Test {
 protected:
  Result<ReceivedWithFd> receive(Nanos patience = kPatience) {
    return receive_with_fd(accepted.get(), bytes, 3, "a descriptor", Deadline::after(patience));
  }
  const std::string name = own_local_address("")->socket_name;
  Fd listener = *listen_local(name);
  Fd dialled = *dial_local(name);
  Fd accepted = *accept_local(listener.get());
  std::array<std::byte, 8> bytes{};
};

TEST_F(LocalSocket, PassesADescriptorWithBytes) {
  ASSERT_TRUE(send_with_fd(dialled.get(), as_bytes("hello"), listener.get()));
  const auto got = receive();
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_EQ(got->bytes, 5U);
  EXPECT_EQ(static_cast<char>(bytes[4]), 'o');
  ASSERT_TRUE(got->fd);
  EXPECT_EQ(inode(got->fd), inode(listener));
}

TEST_F(LocalSocket, PassesBytesAlone) {
  ASSERT_TRUE(send_with_fd(dialled.get(), as_bytes("hello"), -1));
  const auto got = receive();
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_EQ(got->bytes, 5U);
  EXPECT_FALSE(got->fd);
}

TEST_F(LocalSocket, WaitsNoLongerThanToldFor) {
  const auto got = receive(kSoon);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kTimeout);
  EXPECT_EQ(got.error().what, "rank 3 did not send a descriptor before the deadline");
}

TEST_F(LocalSocket, TellsThatThePeerEnded) {
  dialled.reset();
  const auto got = receive();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kPeerFailed);
  EXPECT_EQ(got.error().peer, 3);
}

TEST_F(LocalSocket, KnowsWhoIsAtTheOtherEnd) {
  EXPECT_EQ(credentials(accepted.get())->pid, ::getpid());
  EXPECT_EQ(credentials(accepted.get())->uid, ::geteuid());
}

TEST_F(LocalSocket, HasNobodyAtTheNameOfAListenerThatEnded) {
  EXPECT_FALSE(*accept_local(listener.get()));
  listener.reset();
  const auto dialled_late = dial_local(name);
  ASSERT_FALSE(dialled_late);
  EXPECT_THAT(dialled_late.error().what, HasSubstr("connecting over an abstract unix socket"));
}

}  // namespace
}  // namespace tutti
