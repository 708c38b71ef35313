#include "src/wire/handshake.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::uint32_t kMagic = 0x54545554;  // "TUTT"
constexpr std::size_t kProofBytes = 32;

std::string_view name_of(HandshakeRole role) {
  return role == HandshakeRole::kInitiator ? "initiator" : "responder";
}
HandshakeRole other(HandshakeRole role) {
  return role == HandshakeRole::kInitiator ? HandshakeRole::kResponder : HandshakeRole::kInitiator;
}

}  // namespace

Handshake::Handshake(HandshakeOptions options) : options_(std::move(options)) {
  if (options_.role == HandshakeRole::kInitiator) say_hello();
}

Handshake::~Handshake() {
  if (options_.key) wipe(*options_.key);
}

std::size_t Handshake::target() const {
  switch (expect_) {
    case Expect::kPrefix:
      return kPrefixBytes;
    case Expect::kHello:
      return kHelloBytes;
    case Expect::kProof:
      return kProofBytes;
  }
  return 0;
}

std::size_t Handshake::wanted() const { return state_ == State::kMore ? target() - received_ : 0; }

std::size_t Handshake::feed(std::span<const std::byte> received) {
  std::size_t used = 0;
  while (state_ == State::kMore && used < received.size()) {
    const std::size_t take = std::min(wanted(), received.size() - used);
    std::ranges::copy(received.subspan(used, take), input_.begin() + received_);
    received_ += take;
    used += take;
    if (received_ == target()) advance();
  }
  return used;
}

void Handshake::advance() {
  switch (expect_) {
    case Expect::kPrefix:
      return check_prefix();
    case Expect::kHello:
      return read_hello();
    case Expect::kProof:
      return check_proof();
  }
}

// The first eight bytes are the same in every version, so that a later one can be named.
void Handshake::check_prefix() {
  ByteReader reader({input_.data(), kPrefixBytes});
  const auto magic = reader.get<std::uint32_t>();
  const auto version = reader.get<std::uint16_t>();
  const auto size = reader.get<std::uint16_t>();
  if (magic != kMagic) {
    return fail(make_error(Code::kPeerFailed,
                           "{} does not speak Tutti's protocol (it began with {:#010x}): another "
                           "program, or the wrong port",
                           options_.peer_name, magic));
  }
  if (version != kWireVersion) {
    if (options_.role == HandshakeRole::kResponder) say_hello();  // so that it can say both, too
    return fail(make_error(Code::kPeerFailed,
                           "{} speaks version {} of Tutti's protocol, this process version {}: run "
                           "one release of Tutti on all ranks",
                           options_.peer_name, version, kWireVersion));
  }
  if (size != kHelloBytes) {
    return fail(make_error(Code::kPeerFailed, "{} sent a malformed greeting (size {}, not {})",
                           options_.peer_name, size, kHelloBytes));
  }
  expect_ = Expect::kHello;  // of which the prefix is the beginning: received_ stays
}

void Handshake::read_hello() {
  theirs_ = input_;
  ByteReader reader(theirs_);
  reader.bytes(kPrefixBytes);
  const auto role = reader.get<std::uint8_t>();
  const auto purpose = reader.get<std::uint8_t>();
  peer_.part = reader.get<std::uint8_t>();
  peer_.parts = reader.get<std::uint8_t>();
  peer_.rank = reader.get<Rank>();
  peer_.token = reader.get<std::uint64_t>();
  peer_.group = reader.get<std::uint64_t>();
  peer_.attempt = reader.get<std::uint64_t>();
  if (role != to_underlying(other(options_.role)) || peer_.part >= peer_.parts ||
      peer_.rank < kNoRank) {
    return fail(make_error(Code::kPeerFailed,
                           "{} sent a malformed greeting (role {}, rank {}, part {} of {})",
                           options_.peer_name, role, peer_.rank, peer_.part, peer_.parts));
  }
  if (purpose != to_underlying(options_.purpose)) {
    return fail(make_error(Code::kPeerFailed,
                           "{} wants a connection for purpose {}, but this port serves purpose {}: "
                           "the wrong port",
                           options_.peer_name, purpose, to_underlying(options_.purpose)));
  }
  expect_ = Expect::kProof;
  received_ = 0;
  if (!options_.key) {
    state_ = State::kNeedsKey;
    return;
  }
  answer_hello();
}

void Handshake::choose(const Key& key, const Identity& self) {
  options_.key = key;
  options_.self = self;
  state_ = State::kMore;
  answer_hello();
}

void Handshake::answer_hello() {
  if (peer_.group == 0 && options_.self.group != 0) {  // what refuse() says
    return fail(make_error(Code::kPeerFailed,
                           "{} does not know group {:016x}: the id is stale (its group has ended), "
                           "or it is the address of another job",
                           options_.peer_name, options_.self.group));
  }
  if (peer_.group != options_.self.group) {
    return fail(make_error(Code::kPeerFailed,
                           "{} belongs to group {:016x}, this process to group {:016x}: an id or "
                           "an address of another job",
                           options_.peer_name, peer_.group, options_.self.group));
  }
  if (options_.role == HandshakeRole::kResponder) {
    say_hello();
    say_proof();
  }
}

void Handshake::check_proof() {
  const auto role = other(options_.role);
  if (!equal_secrets(std::span(input_).first(kProofBytes), proof_of(role))) {
    return fail(make_error(Code::kPeerFailed, "{} does not hold this job's key: {}",
                           options_.peer_name, options_.remedy));
  }
  if (options_.expected_token && peer_.token != *options_.expected_token) {
    return fail(peer_error(Code::kPeerFailed, peer_.rank,
                           "{} is process {:016x}, but process {:016x} was expected there: a stale "
                           "address",
                           options_.peer_name, peer_.token, *options_.expected_token));
  }
  if (options_.role == HandshakeRole::kInitiator) say_proof();
  state_ = State::kDone;
}

void Handshake::say_hello() {
  Blob hello;
  ByteWriter(hello)
      .put(kMagic)
      .put(kWireVersion)
      .put(static_cast<std::uint16_t>(kHelloBytes))
      .put(to_underlying(options_.role))
      .put(to_underlying(options_.purpose))
      .put(options_.self.part)
      .put(options_.self.parts)
      .put(options_.self.rank)
      .put(options_.self.token)
      .put(options_.self.group)
      .put(options_.self.attempt);
  Key nonce;
  random_bytes(nonce);
  ByteWriter(hello).bytes(nonce);
  std::ranges::copy(hello, mine_.begin());
  output_.insert(output_.end(), mine_.begin(), mine_.end());
}

void Handshake::say_proof() {
  const Digest proof = proof_of(options_.role);
  output_.insert(output_.end(), proof.begin(), proof.end());
}

Digest Handshake::proof_of(HandshakeRole role) const {
  const auto purpose = static_cast<std::byte>(options_.purpose);
  const Key key = derive_key(*options_.key, "tutti handshake", std::span(&purpose, 1));
  const bool initiator = options_.role == HandshakeRole::kInitiator;
  const Hello& first = initiator ? mine_ : theirs_;
  const Hello& second = initiator ? theirs_ : mine_;
  const std::span<const std::byte> parts[] = {as_bytes(name_of(role)), first, second};
  return keyed_hash(key, parts);
}

void Handshake::refuse(Error error) {
  if (state_ == State::kNeedsKey) {
    options_.self = {};
    say_hello();
  }
  fail(std::move(error));
}

void Handshake::fail(Error error) {
  error_ = std::move(error);
  state_ = State::kFailed;
}

namespace {

Status wait_for(int fd, short events, const std::string& peer_name, Deadline deadline) {
  for (;;) {
    if (deadline.passed()) {
      return make_error(Code::kTimeout,
                        "{} did not finish the handshake in time: it is stopped, overloaded, or "
                        "not a Tutti process",
                        peer_name);
    }
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_ms(60'000));
    if (ready > 0) return ok_status();
    if (ready < 0 && errno != EINTR) {
      return system_error(Code::kInternal, errno, "poll failed during a handshake");
    }
  }
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Status flush_output(int fd, Handshake& handshake, const std::string& peer_name, Deadline deadline) {
  while (!handshake.output().empty()) {
    const auto out = handshake.output();
    const ssize_t n = ::send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      handshake.sent(static_cast<std::size_t>(n));
    } else if (would_block(errno)) {
      TUTTI_TRY(wait_for(fd, POLLOUT, peer_name, deadline));
    } else {
      return system_error(Code::kPeerFailed, errno,
                          fmt::format("{} ended the connection during the handshake", peer_name));
    }
  }
  return ok_status();
}

Status feed_input(int fd, Handshake& handshake, const std::string& peer_name, Deadline deadline) {
  std::byte buffer[64];
  const std::size_t want = std::min(handshake.wanted(), sizeof buffer);
  const ssize_t n = ::recv(fd, buffer, want, MSG_DONTWAIT);
  if (n > 0) {
    handshake.feed(std::span(buffer, static_cast<std::size_t>(n)));
    return ok_status();
  }
  if (n < 0 && would_block(errno)) return wait_for(fd, POLLIN, peer_name, deadline);
  return system_error(Code::kPeerFailed, n == 0 ? ECONNRESET : errno,
                      fmt::format("{} ended the connection during the handshake", peer_name));
}

}  // namespace

Status advance(int fd, Handshake& handshake) {
  for (;;) {
    while (!handshake.output().empty()) {
      const auto output = handshake.output();
      const ssize_t sent = ::send(fd, output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return ok_status();
      if (sent < 0) return system_error(Code::kPeerFailed, errno, "sending in a handshake");
      handshake.sent(static_cast<std::size_t>(sent));
    }
    if (handshake.state() == Handshake::State::kFailed) return Error(handshake.error());
    if (handshake.state() != Handshake::State::kMore) return ok_status();
    std::array<std::byte, 256> input;
    const std::size_t wanted = std::min(input.size(), handshake.wanted());
    const ssize_t got = ::recv(fd, input.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return ok_status();
    if (got <= 0)
      return system_error(Code::kPeerFailed, got == 0 ? ECONNRESET : errno,
                          "the peer ended the handshake");
    handshake.feed(std::span(input).first(static_cast<std::size_t>(got)));
  }
}

Result<Identity> shake_hands(int fd, HandshakeOptions options, Deadline deadline) {
  const std::string peer_name = options.peer_name;
  Handshake handshake(std::move(options));
  for (;;) {
    const Status flushed = flush_output(fd, handshake, peer_name, deadline);
    switch (handshake.state()) {
      case Handshake::State::kDone:
        if (!flushed) return flushed.error();
        return handshake.peer();
      case Handshake::State::kFailed:
        return handshake.error();
      case Handshake::State::kNeedsKey:
        return make_error(Code::kInvalidArgument, "a blocking handshake needs its key beforehand");
      case Handshake::State::kMore:
        TUTTI_TRY(flushed);
        TUTTI_TRY(feed_input(fd, handshake, peer_name, deadline));
    }
  }
}

}  // namespace tutti
