#include "src/bootstrap/local_meeting.hpp"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/fd.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kName = fmt::format("test {}", ::getpid());

UniqueId some_id() {
  return {.job = 5, .key = Key{std::byte{3}}, .addresses = {*parse_address("127.0.0.1:99")}};
}

/// A process that holds the first name and says nothing; ended with this object.
class Holder {
 public:
  Holder(uid_t user, int backlog) {
    const uid_t owner = ::geteuid();
    std::array<int, 2> ready{};
    if (::pipe(ready.data()) != 0) return;
    process_ = ::fork();
    if (process_ == 0) {
      const std::string name = fmt::format("tutti-{}-{:016x}-0", owner, checksum(as_bytes(kName)));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
      const bool holds = ::setuid(user) == 0 &&
                         ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                         ::listen(listener, backlog) == 0;
      const char said = holds ? 'y' : 'n';
      if (::write(ready[1], &said, 1) == 1) ::pause();
      ::_exit(0);
    }
    char said = 'n';
    holds_ = ::read(ready[0], &said, 1) == 1 && said == 'y';
    for (const int end : ready) ::close(end);
  }
  ~Holder() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  [[nodiscard]] bool holds() const { return holds_; }
  [[nodiscard]] std::string process() const { return fmt::format("process {}", process_); }

 private:
  pid_t process_ = -1;
  bool holds_ = false;
};

TEST(LocalMeeting, HandsOutTheId) {
  const auto service = Service::create();
  ASSERT_TRUE(service);
  const auto offer = LocalOffer::open(*service, kName, some_id());
  ASSERT_TRUE(offer) << offer.error().what;
  const auto id = fetch_local(kName, Deadline::after(5s));
  ASSERT_TRUE(id) << id.error().what;
  EXPECT_EQ(id->job, 5U);
}

TEST(LocalMeeting, PassesOverNamesThatOtherUsersHold) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root, to be another user";
  const Holder holder(65534, 0);
  ASSERT_TRUE(holder.holds());
  const auto service = Service::create();
  ASSERT_TRUE(service);
  const auto offer = LocalOffer::open(*service, kName, some_id());
  ASSERT_TRUE(offer) << offer.error().what;
  for (int rank = 1; rank < 6; ++rank) {  // more than wait at the holder's door
    const auto id = fetch_local(kName, Deadline::after(5s));
    ASSERT_TRUE(id) << id.error().what;
  }
}

TEST(LocalMeeting, NamesOnBothSidesTheProcessThatHoldsItsPlace) {
  const Holder holder(::geteuid(), 64);
  ASSERT_TRUE(holder.holds());
  const auto service = Service::create();
  ASSERT_TRUE(service);
  const auto offer = LocalOffer::open(*service, kName, some_id());
  ASSERT_FALSE(offer);
  EXPECT_THAT(offer.error().what, HasSubstr(holder.process() + " holds its place"));
  const auto id = fetch_local(kName, Deadline::after(1s));
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, Code::kTimeout);
  EXPECT_THAT(id.error().what, HasSubstr(holder.process() + " of this user holds its place"));
}

}  // namespace
}  // namespace tutti
