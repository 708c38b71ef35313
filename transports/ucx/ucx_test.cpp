// UCX's seam, and a link over it that loses its channel, its peer, or meets a hostile one. Where
// libucp is missing, all but what says so is skipped.
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "src/base/sanitized.hpp"
#include "transports/ucx/ucx_link.hpp"

namespace tutti::ucx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kRing = 64 << 10;

TEST(UcxLibrary, AMissingLibraryIsNamedWithTheRemedy) {
  const auto library = Library::open("libno-such-ucp.so.0");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kUnsupported);
  EXPECT_THAT(library.error().what, HasSubstr("libno-such-ucp.so.0 cannot be opened"));
  EXPECT_THAT(library.error().what, HasSubstr("libucx0"));
}

TEST(UcxLibrary, AMissingFunctionIsNamedWithTheLibrary) {
  const auto library = Library::open("libm.so.6");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kUnsupported);
  EXPECT_THAT(library.error().what, HasSubstr("libm.so.6 has no ucp_get_version_string"));
}

TEST(UcxContext, TransportsAreReadFromUcxsReport) {
  constexpr const char* kReport =
      "# UCP context\n#            md 0  :  component 0  self \n"
      "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
      "#      resource 1  :  md 1  dev 1  flags -- tcp/lo\n"
      "#      resource 2  :  md 1  dev 2  flags -- tcp/eth0\n"
      "#      resource 3  :  md 4  dev 3  flags a- -- rc_mlx5/mlx5_0:1\n"
      "#      resource 4  :  md 4  dev 3  flags -- \n";
  EXPECT_THAT(transports_in(kReport), ElementsAre("rc_mlx5", "self", "tcp"));
  EXPECT_TRUE(transports_in("").empty());
}

TEST(UcxContext, LanesAreReadFromUcxsReport) {
  constexpr const char* kReport =
      "# UCP endpoint \n#\n#               peer: <no debug data>\n"
      "#                 lane[0]:  1:tcp/lo.0 md[1]                -> md[1]/tcp/sysdev[255] am\n"
      "#                 lane[1]:  5:rc_verbs/rxe0:1.0 md[4]       -> md[4]/ib/sysdev[255] rma\n"
      "#\n#                 am_send: 0..<egr/short>..8185\n";
  EXPECT_THAT(lanes_in(kReport), ElementsAre("tcp/lo", "rc_verbs/rxe0:1"));
  EXPECT_TRUE(lanes_in("lane[").empty());
}

TEST(UcxContext, WhatIsFasterThanTcpIsKnownByName) {
  for (const char* name : {"rc_mlx5", "dc_mlx5", "ud_verbs", "srd", "ugni_rdma"})
    EXPECT_TRUE(is_fast_network(name)) << name;
  for (const char* name : {"tcp", "self", "posix", "sysv", "cma", "cuda_ipc", "gdr_copy"})
    EXPECT_FALSE(is_fast_network(name)) << name;
}

TEST(UcxControl, MessagesSurviveTheJourney) {
  const Hello hello{.generation = 3,
                    .notices_failures = true,
                    .cookie = 7,
                    .ring_bytes = kRing,
                    .arrived = 9,
                    .read = 8,
                    .worker = Blob(100, std::byte{5})};
  for (const ControlMessage& message :
       {ControlMessage(hello), ControlMessage(Ready{3}), ControlMessage(Bye{1000})}) {
    const Blob bytes = encode(message);
    for (std::size_t part = 0; part < bytes.size(); ++part) {
      const auto early = decode_control(std::span(bytes).first(part));
      EXPECT_TRUE(early && !*early) << part;
    }
    const auto decoded = decode_control(bytes);
    ASSERT_TRUE(decoded && *decoded);
    EXPECT_EQ((*decoded)->message, message);
    EXPECT_EQ((*decoded)->bytes, bytes.size());
  }
}

TEST(UcxControl, WhatMakesNoSenseIsRefused) {
  const Hello good{.generation = 1, .arrived = 9, .read = 8, .worker = Blob(1)};
  Hello none = good;
  none.generation = 0;
  Hello ahead = good;
  ahead.read = 10;
  Hello nowhere = good;
  nowhere.worker.clear();
  EXPECT_TRUE(decode_control(encode(good)));
  for (const Hello& bad : {none, ahead, nowhere}) EXPECT_FALSE(decode_control(encode(bad)));
  Blob unknown = encode(Ready{1});
  unknown[0] = std::byte{99};
  EXPECT_FALSE(decode_control(unknown));
}

TEST(UcxAddress, HostileOnesAreRefused) {
  const auto control = parse_address("10.0.0.1:99");
  ASSERT_TRUE(control);
  const Blob good = encode(UcxAddress{*control, {"rc_mlx5", "tcp"}});
  const auto decoded = decode_address(good);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(to_text(decoded->control), "10.0.0.1:99");
  EXPECT_THAT(decoded->transports, ElementsAre("rc_mlx5", "tcp"));
  EXPECT_FALSE(decode_address({}));
  EXPECT_FALSE(decode_address(std::span(good).first(good.size() - 1)));
  EXPECT_FALSE(decode_address(Blob(10000, std::byte{255})));
  EXPECT_FALSE(decode_address(encode(UcxAddress{*control, {"a b"}})));
}

/// Two links of this process over UCX's TCP.
class Link : public ::testing::Test {
 protected:
  void SetUp() override {
    // UCX's hooks of mmap and the sanitizers' are not made for each other.
    if (kSanitized) ::setenv("UCX_MEM_EVENTS", "n", 0);  // NOLINT(concurrency-mt-unsafe)
    auto library = Library::open();
    if (!library) GTEST_SKIP() << library.error().what;
    ::setenv("UCX_TLS", "tcp,self", 1);  // NOLINT(concurrency-mt-unsafe)
    auto context = Context::create(*library);
    ASSERT_TRUE(context) << context.error().what;
    context_ = *context;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    a_ = make(Fd(ends[0]));
    b_ = make(Fd(ends[1]));
    drive([&] {
      const bool a = a_->await_channel(Deadline::after(Nanos(0))).ok();
      const bool b = b_->await_channel(Deadline::after(Nanos(0))).ok();
      return a && b;
    });
  }
  std::unique_ptr<UcxLink> make(Fd control) {
    auto link = UcxLink::create({.context = context_,
                                 .control = std::move(control),
                                 .peer = "rank 1",
                                 .ring_bytes = kRing,
                                 .random = [this] { return random_(); },
                                 .now = [] { return Clock::now(); }});
    EXPECT_TRUE(link) << link.error().what;
    return *std::move(link);
  }
  // Calls both links until `done`; a test that would hang fails instead.
  template <class Done>
  void drive(Done done) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (!done()) ASSERT_FALSE(deadline.passed());
  }
  /// Passes `data` from a to b. `disturb` is called before each step.
  template <class Disturb>
  Bytes pass(const Bytes& data, Disturb disturb) {
    std::size_t sent = 0;
    Bytes got(data.size());
    std::size_t come = 0;
    drive([&] {
      disturb(come);
      const iovec out{const_cast<std::byte*>(data.data()) + sent, data.size() - sent};
      if (sent < data.size()) {
        const auto written = a_->write({&out, 1});
        EXPECT_TRUE(written) << written.error().what;
        sent += written ? *written : 0;
      }
      (void)a_->check();
      Bytes nothing(1);
      const iovec back{nothing.data(), nothing.size()};
      EXPECT_TRUE(a_->read({&back, 1}));
      const iovec in{got.data() + come, std::min<std::size_t>(10000, got.size() - come)};
      const auto read = b_->read({&in, 1});
      EXPECT_TRUE(read) << read.error().what;
      come += read ? *read : 0;
      (void)b_->check();
      return come == got.size() || HasFailure();
    });
    return got;
  }
  static Bytes pattern(std::size_t bytes) {
    Bytes data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 >> 3);
    return data;
  }

  std::mt19937_64 random_{5};
  SharedContext context_;
  std::unique_ptr<UcxLink> a_;
  std::unique_ptr<UcxLink> b_;
};
using UcxLinks = Link;

// Channels that end in the middle of a stream, on either side and on both at once, lose and repeat
// nothing.
TEST_F(UcxLinks, AStreamSurvivesTheEndOfItsChannels) {
  const Bytes data = pattern(3 << 20);
  std::size_t next = 100000;
  int ended = 0;
  const Bytes got = pass(data, [&](std::size_t come) {
    if (come < next) return;
    next += 300000;
    if (ended % 3 != 1) a_->reopen();
    if (ended % 3 != 0) b_->reopen();
    ++ended;
  });
  EXPECT_TRUE(got == data);
  EXPECT_GE(ended, 10);
  EXPECT_GT(a_->generation(), 10U);
  EXPECT_EQ(a_->generation(), b_->generation());
}

// What others send to its port shows no cookie.
TEST_F(UcxLinks, AStrangersMessagesAreDropped) {
  auto stranger = Channel::open(context_, [](auto, auto) {});
  ASSERT_TRUE(stranger);
  ASSERT_TRUE((*stranger)->connect(b_->channel()->address(), true));
  const Bytes data(100, std::byte{1});
  for (std::uint64_t number = 0; number < 20; ++number) {
    Channel::Header header{};
    std::memcpy(header.data() + 8, &number, sizeof number);
    (*stranger)->send(header, data, 0);
  }
  const Bytes good = pattern(100000);
  const Bytes got = pass(good, [&](std::size_t) { (*stranger)->progress(); });
  EXPECT_TRUE(got == good);
  Bytes nothing(1);
  const iovec in{nothing.data(), nothing.size()};
  drive([&] {
    (*stranger)->flush();
    (*stranger)->progress();
    const auto read = b_->read({&in, 1});
    EXPECT_TRUE(read && *read == 0);
    return ((*stranger)->under_way() == 0 && (*stranger)->is_at_rest()) || HasFailure();
  });
}

/// What b says once a, which holds b's cookie, sends it such a message.
std::string said_to(UcxLink& liar, UcxLink& link, const Channel::Header& header,
                    const Bytes& data) {
  liar.channel()->send(header, data, 0);
  Bytes some(10);
  const iovec in{some.data(), some.size()};
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  for (;;) {
    liar.channel()->progress();
    const auto read = link.read({&in, 1});
    if (!read) return read.error().what;
    if (deadline.passed()) return "nothing in time";
  }
}

class Lies : public Link {
 protected:
  /// A header that b accepts: `number` counts from 1, since the greeting is 0.
  [[nodiscard]] Channel::Header header(std::uint64_t number, std::uint64_t consumed) const {
    const std::array<std::uint64_t, 3> words = {b_->cookie(), number, consumed};
    Channel::Header made;
    std::memcpy(made.data(), words.data(), made.size());
    return made;
  }
};
using UcxLies = Lies;

TEST_F(UcxLies, MoreThanThereIsRoomForIsRefused) {
  EXPECT_THAT(said_to(*a_, *b_, header(1, 0), Bytes(kRing + 1)), HasSubstr("where there was room"));
}

TEST_F(UcxLies, AMessageThatComesTwiceIsRefused) {
  EXPECT_THAT(said_to(*a_, *b_, header(0, 0), {}), HasSubstr("sent message 0 twice"));
}

TEST_F(UcxLies, MessagesFarAheadAreRefused) {
  EXPECT_THAT(said_to(*a_, *b_, header(5000, 0), {}), HasSubstr("sent message 5000 before 1"));
}

TEST_F(UcxLies, WhoHasReadMoreThanWasSentIsRefused) {
  EXPECT_THAT(said_to(*a_, *b_, header(1, 77), {}), HasSubstr("has read 77 bytes of a stream"));
}

TEST_F(UcxLies, MessagesThatComeInAnotherOrderAreRead) {
  const Bytes data = pattern(30);
  for (const std::uint64_t number : {3, 1, 2}) {
    const auto part = std::span(data).subspan(10 * (number - 1), 10);
    a_->channel()->send(header(number, 0), part, 0);
  }
  Bytes got(30);
  std::size_t come = 0;
  drive([&] {
    a_->channel()->progress();
    const iovec in{got.data() + come, got.size() - come};
    const auto read = b_->read({&in, 1});
    EXPECT_TRUE(read) << read.error().what;
    come += read ? *read : 0;
    return come == got.size() || HasFailure();
  });
  EXPECT_TRUE(got == data);
}

}  // namespace
}  // namespace tutti::ucx
