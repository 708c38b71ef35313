// The link over a network plugin: what closes well, what does not, and peers that lie.
#include <array>
#include <future>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "src/plugin/test_plugins.hpp"
#include "src/wire/net.hpp"
#include "transports/nccl_net/nccl_net_link.hpp"
#include "transports/nccl_net/nccl_net_transport.hpp"

namespace tutti::nccl_net {
namespace {

using plugin::testing::FreshPlugin;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr auto kPatience = std::chrono::seconds(20);

// --- what travels ---

TEST(NcclNetControl, MessagesSurviveTheJourney) {
  Hello hello{.cookie = 7, .slot_bytes = 4096, .data_slots = 12};
  hello.listener.fill(std::byte{9});
  for (const ControlMessage& message : {ControlMessage(hello), ControlMessage(Ready{}),
                                        ControlMessage(Bye{1000}), ControlMessage(Posted{77})}) {
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

TEST(NcclNetControl, WhatMakesNoSenseIsRefused) {
  const Hello good{.cookie = 1, .slot_bytes = 4096, .data_slots = 4};
  Hello tiny = good;
  tiny.slot_bytes = kWordsBytes;
  Hello huge = good;
  huge.slot_bytes = 1U << 31U;
  Hello deaf = good;
  deaf.data_slots = 0;
  Hello wide = good;
  wide.data_slots = 1000;
  EXPECT_TRUE(decode_control(encode(good)));
  for (const Hello& bad : {tiny, huge, deaf, wide}) EXPECT_FALSE(decode_control(encode(bad)));
  Blob unknown = encode(Ready{});
  unknown[0] = std::byte{99};
  EXPECT_FALSE(decode_control(unknown));
}

TEST(NcclNetWords, AreReadOnlyByWhoToldTheSecret) {
  std::array<std::byte, kWordsBytes + 1> message{};
  const auto words = std::span(message).first<kWordsBytes>();
  encode(Words{.cookie = 5, .consumed = 6, .kind = Words::Kind::kData}, words);
  ASSERT_TRUE(decode_words(message, 5));
  EXPECT_EQ(decode_words(message, 5)->consumed, 6u);
  EXPECT_THAT(decode_words(message, 4).error().what, HasSubstr("does not show the secret"));
  EXPECT_FALSE(decode_words(words, 5)) << "data without data";
  EXPECT_FALSE(decode_words(words.first(kWordsBytes - 1), 5));
  encode(Words{.cookie = 5, .kind = Words::Kind::kEnd}, words);
  EXPECT_FALSE(decode_words(message, 5)) << "data after the end";
  EXPECT_TRUE(decode_words(words, 5));
  words[16] = std::byte{4};
  EXPECT_FALSE(decode_words(words, 5)) << "no such kind";
}

TEST(NcclNetAddressText, HostileOnesAreRefused) {
  const auto control = parse_address("10.0.0.1:99");
  ASSERT_TRUE(control);
  const Blob good = encode(NcclNetAddress{*control, "AWS Libfabric"});
  const auto decoded = decode_address(good);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(to_text(decoded->control), "10.0.0.1:99");
  EXPECT_EQ(decoded->plugin, "AWS Libfabric");
  EXPECT_FALSE(decode_address({}));
  EXPECT_FALSE(decode_address(std::span(good).first(good.size() - 1)));
  EXPECT_FALSE(decode_address(Blob(10000, std::byte{255})));
}

// --- links ---

std::array<Fd, 2> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Two links of this process over a mock plugin.
class NcclNetLinks : public ::testing::TestWithParam<int> {
 protected:
  void load(const std::string& options = "") {
    mock_ = std::make_unique<FreshPlugin>(GetParam(), options);
    auto opened = plugin::NetPlugin::open(mock_->file(), {.trial = Nanos::zero()});
    ASSERT_TRUE(opened) << opened.error().what;
    plugin_ = *opened;
  }
  [[nodiscard]] LinkOptions options_of(std::uint64_t cookie) const {
    return {.plugin = plugin_,
            .device = 1,
            .peer = "rank 1",
            .graveyard = graveyard_,
            .slot_bytes = 4096,
            .cookie = cookie};
  }
  void connect(const std::string& options = "") {
    load(options);
    auto ends = socket_pair();
    const Deadline deadline = Deadline::after(kPatience);
    auto other = std::async(std::launch::async, [&] {
      return NcclNetLink::connect(options_of(2), std::move(ends[1]), deadline);
    });
    auto first = NcclNetLink::connect(options_of(1), std::move(ends[0]), deadline);
    auto second = other.get();
    ASSERT_TRUE(first) << first.error().what;
    ASSERT_TRUE(second) << second.error().what;
    a_ = *std::move(first);
    b_ = *std::move(second);
  }
  static std::size_t write(NcclNetLink& link, std::span<const std::byte> bytes) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto written = link.write(std::span(&piece, 1));
    EXPECT_TRUE(written) << written.error().what;
    return written ? *written : 0;
  }
  static Result<std::size_t> read(NcclNetLink& link, std::span<std::byte> bytes) {
    const iovec piece{bytes.data(), bytes.size()};
    return link.read(std::span(&piece, 1));
  }
  /// Until it ends: the bytes that came, and why it ended.
  static std::pair<std::size_t, Error> read_to_the_end(NcclNetLink& link) {
    Bytes buffer(5000);
    std::size_t total = 0;
    for (const Deadline deadline = Deadline::after(kPatience); !deadline.passed();) {
      const auto got = read(link, buffer);
      if (!got) return {total, got.error()};
      total += *got;
      (void)link.check();
    }
    return {total, Error{Code::kTimeout, "it does not end"}};
  }
  static bool finish_both(NcclNetLink& a, NcclNetLink& b) {
    for (const Deadline deadline = Deadline::after(kPatience); !deadline.passed();) {
      const bool first = a.finish();
      if (b.finish() && first) return true;
    }
    return false;
  }

  std::unique_ptr<FreshPlugin> mock_;
  std::shared_ptr<plugin::NetPlugin> plugin_;
  std::shared_ptr<Graveyard> graveyard_ = std::make_shared<Graveyard>();
  std::unique_ptr<NcclNetLink> a_, b_;
};

/// One direction of a stream, by random pieces.
struct Stream {
  Bytes data;
  std::size_t written = 0;
  std::size_t read = 0;
  Bytes got = Bytes(data.size());
  [[nodiscard]] bool over() const { return read == data.size(); }
};

Bytes random_bytes(std::mt19937_64& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(NcclNetLinks, CarryBothDirectionsByPiecesOfAnySize) {
  const std::uint64_t seed = std::random_device{}() % 100000 + 1;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (const std::uint64_t mood : {std::uint64_t{0}, seed}) {
    connect(fmt::format("seed={}", mood));
    std::mt19937_64 random(seed);
    std::array<Stream, 2> streams{Stream{random_bytes(random, 300000)},
                                  Stream{random_bytes(random, 200000)}};
    const std::array<NcclNetLink*, 2> ends{a_.get(), b_.get()};
    const Deadline deadline = Deadline::after(kPatience);
    while (!streams[0].over() || !streams[1].over()) {
      ASSERT_FALSE(deadline.passed());
      const std::size_t from = random() % 2;
      Stream& stream = streams[from];
      const std::size_t piece = 1 + random() % (random() % 2 == 0 ? 100 : 20000);
      const auto rest = std::span(stream.data).subspan(stream.written);
      stream.written += write(*ends[from], rest.first(std::min(piece, rest.size())));
      const auto room = std::span(stream.got).subspan(stream.read);
      Bytes beyond(1);  // a side that has all of it goes on reading
      const auto into = room.empty() ? std::span(beyond) : room.first(std::min(piece, room.size()));
      const auto got = read(*ends[1 - from], into);
      ASSERT_TRUE(got) << got.error().what;
      stream.read += *got;
      ASSERT_LE(stream.read, stream.data.size());
    }
    for (const Stream& stream : streams) EXPECT_EQ(stream.got, stream.data);
    EXPECT_TRUE(finish_both(*a_, *b_));
    a_.reset();
    b_.reset();
    EXPECT_EQ(graveyard_->size(), 0u);
  }
}

TEST_P(NcclNetLinks, ManySmallWritesDoNotUseUpTheReceivesOfAPeerThatMakesNoCall) {
  connect();
  const Bytes byte(1);
  for (int i = 0; i < 4000; ++i) ASSERT_EQ(write(*a_, byte), 1u) << i;
  const Deadline deadline = Deadline::after(kPatience);
  while (!a_->finish() && !deadline.passed()) {
  }
  EXPECT_FALSE(deadline.passed());
  a_.reset();
  const auto [bytes, why] = read_to_the_end(*b_);
  EXPECT_EQ(bytes, 4000u);
  EXPECT_EQ(why.code, Code::kPeerFailed);
}

TEST_P(NcclNetLinks, TakeNoMoreThanThePeerHasRoomFor) {
  connect();
  const Bytes much(1 << 20);
  std::size_t taken = 0;
  for (int i = 0; i < 1000; ++i) taken += write(*a_, much);
  EXPECT_GT(taken, 4u * 4000);
  EXPECT_LT(taken, 20u * 4096);
  EXPECT_TRUE(a_->holds_back());
}

TEST_P(NcclNetLinks, GiveAllMemoryBackWhenBothClose) {
  connect("seed=77");
  const Bytes data(10000);
  ASSERT_GT(write(*a_, data), 0u);
  EXPECT_TRUE(finish_both(*a_, *b_));
  a_.reset();
  b_.reset();
  EXPECT_EQ(graveyard_->size(), 0u);
}

TEST_P(NcclNetLinks, LeaveToTheGraveyardWhatAPeerThatMakesNoCallHasNotFilled) {
  connect();
  const Deadline deadline = Deadline::after(kPatience);
  while (!a_->finish() && !deadline.passed()) {
  }
  a_.reset();
  EXPECT_EQ(graveyard_->size(), 1u);  // what receives: nobody sends there any more
  const auto [bytes, why] = read_to_the_end(*b_);
  EXPECT_EQ(bytes, 0u);
  EXPECT_THAT(why.what, HasSubstr("it closed its connections"));
  while (!b_->finish()) {
  }
  b_.reset();
  graveyard_->tend();
  EXPECT_EQ(graveyard_->size(), 0u);
}

TEST_P(NcclNetLinks, EndWithTheSocketBesideThem) {
  connect();
  const Bytes data(100);
  ASSERT_EQ(write(*a_, data), 100u);
  a_->shutdown();
  const auto [bytes, why] = read_to_the_end(*b_);
  EXPECT_LE(bytes, 100u);
  EXPECT_EQ(why.code, Code::kPeerFailed);
  Bytes rest(1);
  EXPECT_FALSE(read(*a_, rest));
}

TEST_P(NcclNetLinks, DoNotInsistOnReceivesThatWaitForTheFirstMessage) {
  connect("shy=1");
  const Bytes data(10000);
  std::size_t written = 0;
  Bytes buffer(10000);
  std::size_t got = 0;
  for (const Deadline deadline = Deadline::after(kPatience); got < data.size();) {
    ASSERT_FALSE(deadline.passed());
    written += write(*a_, std::span(data).subspan(written));
    const auto some = read(*b_, buffer);
    ASSERT_TRUE(some) << some.error().what;
    got += *some;
    ASSERT_TRUE(read(*a_, buffer));
  }
  EXPECT_EQ(got, data.size());
}

TEST_P(NcclNetLinks, ReportWhatThePluginSays) {
  connect("fail=isend:20:2");
  const Bytes data(100);
  Status failed = ok_status();
  for (int i = 0; i < 1000 && failed; ++i) {
    const iovec piece{const_cast<std::byte*>(data.data()), data.size()};
    const auto written = a_->write(std::span(&piece, 1));
    if (!written) failed = written.error();
    Bytes buffer(1000);
    (void)read(*b_, buffer);
    (void)read(*a_, buffer);
  }
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kPeerFailed);
  EXPECT_THAT(failed.error().what, HasSubstr("failed in isend: a system error (2)"));
}

TEST_P(NcclNetLinks, BelongToATransportThatReachesThePluginOfTheSameName) {
  load();
  const auto transport =
      make_nccl_net_transport(plugin_, {.token = 1, .interfaces = {.ifname = "lo", .family = ""}});
  ASSERT_TRUE(transport) << transport.error().what;
  EXPECT_EQ((*transport)->name(), "nccl_net");
  EXPECT_EQ((*transport)->caps().mbit_per_s, 10000u);
  const Blob own = (*transport)->address();
  EXPECT_TRUE((*transport)->reaches(own));
  const auto where = decode_address(own);
  ASSERT_TRUE(where);
  EXPECT_FALSE((*transport)->reaches(encode(NcclNetAddress{where->control, "another"})));
  EXPECT_FALSE((*transport)->reaches(std::span(own).first(3)));
  EXPECT_TRUE((*transport)->prepare_for(513)) << "the mock states 1024 comms, which is no limit";
}

// --- peers that lie ---

/// Speaks the protocol by hand, from the other end of a link.
class Liar {
 public:
  Liar(std::shared_ptr<plugin::NetPlugin> plugin, Fd control)
      : plugin_(std::move(plugin)), control_(std::move(control)) {}

  /// Connects as a peer does.
  void meet() {
    listener_ = *plugin_->listen(0);
    control_.say(
        Hello{.cookie = 2, .slot_bytes = 4096, .data_slots = 4, .listener = listener_->address()});
    while (!peer_) hear();
    auto dialler = plugin_->dial(0, peer_->listener);
    while (!sender_) sender_ = *dialler.advance();
    while (!receiver_) receiver_ = *listener_->accept();
    control_.say(Ready{});
    while (!is_ready_) hear();
  }
  void hear() {
    (void)control_.listen([this](const ControlMessage& message) {
      if (const auto* hello = std::get_if<Hello>(&message)) peer_ = *hello;
      is_ready_ = is_ready_ || std::holds_alternative<Ready>(message);
      return ok_status();
    });
  }
  void say(const ControlMessage& message) { control_.say(message); }
  void send(Words words, std::size_t data_bytes) {
    auto bytes = std::make_shared<Bytes>(kWordsBytes + data_bytes);
    encode(words, std::span(*bytes).first<kWordsBytes>());
    const auto memory = *sender_->register_memory({std::span(*bytes), bytes});
    auto request = *sender_->send({std::span(*bytes), memory}, 0);
    ASSERT_TRUE(request);
    while (!*request->test()) {
    }
  }
  [[nodiscard]] std::uint64_t secret() const { return peer_->cookie; }

 private:
  const std::shared_ptr<plugin::NetPlugin> plugin_;
  ControlSocket control_;
  std::unique_ptr<plugin::NetListener> listener_;
  std::optional<Hello> peer_;
  bool is_ready_ = false;
  std::shared_ptr<plugin::NetSender> sender_;
  std::shared_ptr<plugin::NetReceiver> receiver_;
};

class NcclNetLies : public NcclNetLinks {
 protected:
  /// The error of a link whose peer does `lie` once both have met.
  Error error_after(const std::function<void(Liar&)>& lie) {
    load();
    auto ends = socket_pair();
    Liar liar(plugin_, std::move(ends[1]));
    auto other = std::async(std::launch::async, [&] { liar.meet(); });
    auto link = NcclNetLink::connect(options_of(1), std::move(ends[0]), Deadline::after(kPatience));
    other.get();
    EXPECT_TRUE(link) << link.error().what;
    if (!link) return {};
    lie(liar);
    return read_to_the_end(**link).second;
  }
};

TEST_P(NcclNetLies, AMessageWithoutTheSecretEndsTheLink) {
  const Error why = error_after([](Liar& liar) { liar.send({.cookie = 3}, 10); });
  EXPECT_EQ(why.code, Code::kPeerFailed);
  EXPECT_THAT(why.what, HasSubstr("does not show the secret"));
}

TEST_P(NcclNetLies, AMessageTooShortEndsTheLink) {
  const Error why = error_after([](Liar& liar) { liar.send({.cookie = liar.secret()}, 0); });
  EXPECT_EQ(why.code, Code::kPeerFailed);
}

TEST_P(NcclNetLies, MoreReadThanWasSentEndsTheLink) {
  const Error why =
      error_after([](Liar& liar) { liar.send({.cookie = liar.secret(), .consumed = 1000}, 10); });
  EXPECT_THAT(why.what, HasSubstr("says that it has read 1000 of 0 messages"));
}

TEST_P(NcclNetLies, ASecondHelloEndsTheLink) {
  const Error why = error_after(
      [](Liar& liar) { liar.say(Hello{.cookie = 9, .slot_bytes = 4096, .data_slots = 4}); });
  EXPECT_THAT(why.what, HasSubstr("out of turn"));
}

TEST_P(NcclNetLies, AbsurdNumbersOfReceivesEndTheLink) {
  const Error why = error_after([](Liar& liar) { liar.say(Posted{1U << 30U}); });
  EXPECT_THAT(why.what, HasSubstr("out of turn"));
}

TEST_P(NcclNetLies, AByeWithFewerMessagesThanCameEndsTheLink) {
  const Error why = error_after([](Liar& liar) {
    liar.send({.cookie = liar.secret()}, 10);
    liar.say(Bye{0});
  });
  EXPECT_EQ(why.code, Code::kPeerFailed);
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclNetLinks,
                         ::testing::ValuesIn(plugin::testing::all_versions()),
                         [](const auto& info) { return "V" + std::to_string(info.param); });
INSTANTIATE_TEST_SUITE_P(Versions, NcclNetLies, ::testing::Values(6, 12),
                         [](const auto& info) { return "V" + std::to_string(info.param); });

}  // namespace
}  // namespace tutti::nccl_net
