#include "src/wire/handshake.hpp"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/fd.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;
using State = Handshake::State;
using namespace std::chrono_literals;

HandshakeOptions initiator(const Key& key) {
  return {.role = HandshakeRole::kInitiator,
          .self = {.token = 11, .rank = 3, .group = 7},
          .key = key,
          .peer_name = "the responder"};
}
HandshakeOptions responder(const Key& key) {
  return {.role = HandshakeRole::kResponder,
          .self = {.token = 22, .rank = 0, .group = 7},
          .key = key,
          .peer_name = "the initiator"};
}

Blob take(Handshake& from) {
  const auto out = from.output();
  Blob bytes(out.begin(), out.end());
  from.sent(bytes.size());
  return bytes;
}

/// Carries bytes both ways until neither side has any left.
void run(Handshake& a, Handshake& b) {
  while (!a.output().empty() || !b.output().empty()) {
    b.feed(take(a));
    a.feed(take(b));
  }
}

TEST(Handshake, TellsEachSideWhoTheOtherIs) {
  const Key key = random_key();
  Handshake a(initiator(key));
  Handshake b(responder(key));
  run(a, b);
  ASSERT_EQ(a.state(), State::kDone) << a.error().what;
  ASSERT_EQ(b.state(), State::kDone) << b.error().what;
  EXPECT_EQ(a.peer(), (Identity{.token = 22, .rank = 0, .group = 7}));
  EXPECT_EQ(b.peer(), (Identity{.token = 11, .rank = 3, .group = 7}));
}

TEST(Handshake, WorksByteByByteAndTakesNoneOfWhatFollows) {
  const Key key = random_key();
  Handshake a(initiator(key));
  Handshake b(responder(key));
  for (const std::byte byte : take(a)) EXPECT_EQ(b.feed(std::span(&byte, 1)), 1u);
  for (const std::byte byte : take(b)) EXPECT_EQ(a.feed(std::span(&byte, 1)), 1u);
  ASSERT_EQ(a.state(), State::kDone);
  Blob last = take(a);
  const std::size_t proof = last.size();
  last.resize(proof + 5, std::byte{9});
  EXPECT_EQ(b.feed(last), proof);
  EXPECT_EQ(b.state(), State::kDone);
}

TEST(Handshake, FailsOnAnotherKey) {
  Handshake a(initiator(random_key()));
  Handshake b(responder(random_key()));
  run(a, b);
  ASSERT_EQ(a.state(), State::kFailed);
  EXPECT_NE(b.state(), State::kDone);
  EXPECT_THAT(a.error().what, HasSubstr("does not hold this job's key"));
}

TEST(Handshake, AResponderRefusesAForgedProof) {
  const Key key = random_key();
  Handshake a(initiator(key));
  Handshake b(responder(key));
  b.feed(take(a));
  a.feed(take(b));
  Blob proof = take(a);
  proof[5] ^= std::byte{1};
  b.feed(proof);
  ASSERT_EQ(b.state(), State::kFailed);
  EXPECT_THAT(b.error().what, HasSubstr("does not hold this job's key"));
}

TEST(Handshake, EveryFlippedBitIsNoticed) {
  const Key key = random_key();
  for (std::size_t at = 0; at < 72; ++at) {
    Handshake a(initiator(key));
    Handshake b(responder(key));
    Blob hello = take(a);
    hello[at] ^= std::byte{4};
    b.feed(hello);
    a.feed(take(b));
    b.feed(take(a));
    EXPECT_NE(b.state(), State::kDone) << "byte " << at;
    EXPECT_NE(a.state(), State::kDone) << "byte " << at;
  }
}

TEST(Handshake, ShowsBothVersionsOnBothSides) {
  const Key key = random_key();
  Handshake a(initiator(key));
  Handshake b(responder(key));
  Blob hello = take(a);
  hello[4] = std::byte{9};
  b.feed(hello);
  ASSERT_EQ(b.state(), State::kFailed);
  EXPECT_THAT(b.error().what, HasSubstr("version 9"));
  EXPECT_THAT(b.error().what, HasSubstr("process version " + std::to_string(kWireVersion)));
  Blob answer = take(b);
  ASSERT_FALSE(answer.empty()) << "the initiator must learn why";
  answer[4] = std::byte{8};  // the initiator sees a responder of another version
  a.feed(answer);
  EXPECT_THAT(a.error().what, HasSubstr("version 8"));
}

TEST(Handshake, NamesGarbage) {
  Handshake b(responder(random_key()));
  b.feed(as_bytes("GET / HTTP/1.1\r\n"));
  ASSERT_EQ(b.state(), State::kFailed);
  EXPECT_THAT(b.error().what, HasSubstr("another program"));
  EXPECT_TRUE(b.output().empty()) << "a stranger learns nothing";
}

TEST(Handshake, RefusesAReflection) {
  Handshake a(initiator(random_key()));
  Blob hello = take(a);
  a.feed(hello);
  ASSERT_EQ(a.state(), State::kFailed);
  EXPECT_THAT(a.error().what, HasSubstr("malformed"));
}

TEST(Handshake, RefusesAReplay) {
  const Key key = random_key();
  Blob hello;
  Blob proof;
  {
    Handshake a(initiator(key));
    Handshake b(responder(key));
    hello = take(a);
    b.feed(hello);
    a.feed(take(b));
    proof = take(a);
    b.feed(proof);
    ASSERT_EQ(b.state(), State::kDone);
  }
  Handshake b(responder(key));
  b.feed(hello);
  b.feed(proof);
  EXPECT_EQ(b.state(), State::kFailed);
}

TEST(Handshake, RefusesAnotherPurposeAndAnotherGroup) {
  const Key key = random_key();
  auto data = initiator(key);
  data.purpose = Purpose::kData;
  Handshake a(data);
  Handshake b(responder(key));
  b.feed(take(a));
  EXPECT_THAT(b.error().what, HasSubstr("purpose"));

  auto stranger = initiator(key);
  stranger.self.group = 8;
  Handshake c(stranger);
  Handshake d(responder(key));
  d.feed(take(c));
  EXPECT_THAT(d.error().what, HasSubstr("0000000000000008"));
  EXPECT_THAT(d.error().what, HasSubstr("0000000000000007"));
}

TEST(Handshake, RefusesAnotherProcessThanTheExpectedOne) {
  const Key key = random_key();
  auto options = initiator(key);
  options.expected_token = 99;
  Handshake a(options);
  Handshake b(responder(key));
  run(a, b);
  ASSERT_EQ(a.state(), State::kFailed);
  EXPECT_THAT(a.error().what, HasSubstr("stale address"));
}

TEST(Handshake, AResponderMayChooseTheKeyByWhatThePeerClaims) {
  const Key key = random_key();
  Handshake a(initiator(key));
  auto options = responder(key);
  options.key.reset();
  Handshake b(options);
  b.feed(take(a));
  ASSERT_EQ(b.state(), State::kNeedsKey);
  EXPECT_EQ(b.claimed().rank, 3);
  b.choose(key, {.token = 22, .rank = 0, .group = b.claimed().group});
  run(a, b);
  EXPECT_EQ(a.state(), State::kDone);
  EXPECT_EQ(b.state(), State::kDone);
}

TEST(Handshake, AnInitiatorLearnsThatItsGroupIsNotKnown) {
  Handshake a(initiator(random_key()));
  auto options = responder({});
  options.key.reset();
  Handshake b(options);
  b.feed(take(a));
  b.refuse(make_error(Code::kPeerFailed, "no such group"));
  a.feed(take(b));
  ASSERT_EQ(a.state(), State::kFailed);
  EXPECT_THAT(a.error().what, HasSubstr("does not know group 0000000000000007"));
}

struct Pair {
  Fd left;
  Fd right;
};
Pair socket_pair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

TEST(ShakeHands, WorksOverASocket) {
  const Key key = random_key();
  Pair pair = socket_pair();
  Result<Identity> theirs = make_error(Code::kInternal, "did not run");
  std::thread peer(
      [&] { theirs = shake_hands(pair.right.get(), responder(key), Deadline::after(5s)); });
  const auto mine = shake_hands(pair.left.get(), initiator(key), Deadline::after(5s));
  peer.join();
  ASSERT_TRUE(mine) << mine.error().what;
  ASSERT_TRUE(theirs) << theirs.error().what;
  EXPECT_EQ(mine->token, 22u);
  EXPECT_EQ(theirs->token, 11u);
}

TEST(ShakeHands, EndsAtTheDeadlineWithASilentPeer) {
  Pair pair = socket_pair();
  const auto result = shake_hands(pair.left.get(), initiator(random_key()), Deadline::after(30ms));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kTimeout);
}

TEST(ShakeHands, SaysThatThePeerHungUp) {
  Pair pair = socket_pair();
  pair.right.reset();
  const auto result = shake_hands(pair.left.get(), initiator(random_key()), Deadline::after(5s));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kPeerFailed);
  EXPECT_THAT(result.error().what, HasSubstr("ended the connection"));
}

TEST(Crypto, DerivedKeysDiffer) {
  const Key key = random_key();
  EXPECT_EQ(derive_key(key, "a"), derive_key(key, "a"));
  EXPECT_NE(derive_key(key, "a"), derive_key(key, "b"));
  EXPECT_NE(derive_key(key, "a", as_bytes("b")), derive_key(key, "ab"));
  EXPECT_NE(derive_key(key, "a"), derive_key(random_key(), "a"));
}

TEST(Crypto, HexRoundTripsAndRefusesWhatIsNotHex) {
  const Key key = random_key();
  Key back{};
  ASSERT_TRUE(from_hex(to_hex(key), back));
  EXPECT_EQ(back, key);
  EXPECT_FALSE(from_hex("12", back));
  EXPECT_FALSE(from_hex(std::string(64, 'x'), back));
}

TEST(ByteReader, NeverReadsPastTheEnd) {
  const Blob data(6, std::byte{1});
  ByteReader reader(data);
  EXPECT_EQ(reader.get<std::uint32_t>(), 0x01010101u);
  EXPECT_EQ(reader.get<std::uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<std::uint8_t>(), 0u);
}

}  // namespace
}  // namespace tutti
