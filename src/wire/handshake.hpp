// Mutual authentication on a new byte stream by a shared 32-byte key.
//
// Both sides prove that they hold the key. Each proof covers the protocol version, the purpose, the
// roles, both identities and a fresh nonce from each side. Neither the key nor anything that helps
// to guess it is sent. Only the start of the stream is authenticated; later bytes travel in clear,
// because attackers on the path are out of scope.
//
//   initiator                                    responder (silent until spoken to)
//     HELLO  ---------------------------------->
//            <----------------------------------  HELLO, PROOF("responder", both hellos)
//     PROOF("initiator", both hellos)  -------->
//
//   HELLO, 72 bytes, little-endian: magic u32, version u16, size u16 (these three never move),
//     role u8, purpose u8, part u8, parts u8, rank i32, token u64, group u64,
//     attempt u64, nonce 32 bytes
//   PROOF, 32 bytes: BLAKE2b keyed with derive_key(key, purpose) of role, initiator's HELLO and
//     responder's HELLO
//
// Replaying a recorded proof fails, because nonces are fresh. Reflecting one fails, because HELLO
// and PROOF name the role. Method: symmetric-key authentication of ISO/IEC 9798-4, three-pass
// mechanism.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/wire/crypto.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

inline constexpr std::uint16_t kWireVersion = 3;

enum class Purpose : std::uint8_t { kControl = 1, kData = 2 };
enum class HandshakeRole : std::uint8_t { kInitiator = 1, kResponder = 2 };

/// Who speaks. The proofs cover all fields, so after a handshake they are what a holder of the key
/// said about itself.
struct Identity {
  std::uint64_t token = 0;  ///< of the process
  Rank rank = kNoRank;
  std::uint64_t group = 0;  ///< job or group; equal on both sides
  std::uint8_t part = 0;    ///< index of this stream, when a connection takes several
  std::uint8_t parts = 1;   ///< number of streams of the connection, at least 1
  std::uint64_t attempt =
      0;  ///< equal for all parts of one connection, different for every other connection
  friend bool operator==(const Identity&, const Identity&) = default;
};

struct HandshakeOptions {
  HandshakeRole role = HandshakeRole::kInitiator;
  Purpose purpose = Purpose::kControl;
  Identity self;
  std::optional<Key>
      key;  ///< a responder that serves several groups leaves it empty: see kNeedsKey
  std::string peer_name = "the peer";  ///< for error messages: "the hub at 10.0.0.1:29500"
  std::optional<std::uint64_t> expected_token{};  ///< fail unless the peer is this process
  /// Why its key may be another one, for the error message.
  std::string_view remedy = "it belongs to another job, or was given another id";
};

/// The state machine. It does no I/O and never waits. One thread at a time.
class Handshake {
 public:
  enum class State : std::uint8_t {
    kMore,      ///< send what output() holds, feed what arrives
    kNeedsKey,  ///< responder without a key: read claimed(), then call choose()
    kDone,      ///< peer() is authenticated; output() may still hold the last bytes to send
    kFailed,    ///< error(); output() may hold bytes that tell the peer why
  };

  explicit Handshake(HandshakeOptions options);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Error& error() const { return error_; }

  /// Takes bytes from the peer and returns how many it used. It never uses a byte beyond the
  /// handshake; the rest belongs to what follows. Uses none in kNeedsKey, kDone and kFailed.
  std::size_t feed(std::span<const std::byte> received);
  /// How many bytes it can still use. A caller that reads no more than this has nothing to put
  /// back.
  [[nodiscard]] std::size_t wanted() const;

  /// Bytes to send, in order. Call sent(n) when the kernel has taken n of them.
  [[nodiscard]] std::span<const std::byte> output() const {
    return std::span(output_).subspan(sent_);
  }
  void sent(std::size_t count) { sent_ += count; }

  /// The peer's identity as it claims it, not yet proved. Valid in kNeedsKey.
  [[nodiscard]] const Identity& claimed() const { return peer_; }
  /// Sets the key and this side's identity that fit claimed(). kNeedsKey only.
  void choose(const Key& key, const Identity& self);
  /// Rejects the peer: no key fits, too slow, too many. In kNeedsKey the peer is told that its
  /// group is unknown here (group 0 belongs to nobody).
  void refuse(Error error);

  /// Valid in kDone.
  [[nodiscard]] const Identity& peer() const { return peer_; }

 private:
  static constexpr std::size_t kPrefixBytes = 8;
  static constexpr std::size_t kHelloBytes = 72;
  using Hello = std::array<std::byte, kHelloBytes>;

  [[nodiscard]] std::size_t target() const;
  void advance();
  void check_prefix();
  void read_hello();
  void answer_hello();
  void check_proof();
  void say_hello();
  void say_proof();
  [[nodiscard]] Digest proof_of(HandshakeRole role) const;
  void fail(Error error);

  HandshakeOptions options_;
  State state_ = State::kMore;
  enum class Expect : std::uint8_t { kPrefix, kHello, kProof } expect_ = Expect::kPrefix;
  Error error_;
  Identity peer_;
  Hello mine_{};
  Hello theirs_{};
  std::array<std::byte, kHelloBytes> input_{};
  std::size_t received_ = 0;
  Blob output_;
  std::size_t sent_ = 0;
};

/// Advances a handshake over a connected stream socket as far as possible without waiting. Socket
/// errors carry their errno.
Status advance(int fd, Handshake& handshake);

/// Runs a whole handshake on a connected stream socket, blocking or not. Leaves the flags of `fd`
/// unchanged. The caller closes `fd` on error.
Result<Identity> shake_hands(int fd, HandshakeOptions options, Deadline deadline);

}  // namespace tutti
