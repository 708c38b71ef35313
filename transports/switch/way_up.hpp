// A leaf's way to the switch above.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/net.hpp"
#include "transports/switch/control.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

struct WayUpOptions {
  SocketAddress above;
  Key key{};
  std::uint64_t self = 0;  ///< this switch's Identity::token
  Join join;
  Nanos shake_patience{};    ///< to connect, and to see that both hold the key
  Nanos welcome_patience{};  ///< for the other leaves to join
};

/// One session's connection to the switch above: it connects, shows that it holds the key, joins as
/// a worker and is welcome. Then it stays connected, for as long as both sessions last. Never
/// waits. Resource.
class WayUp {
 public:
  static Result<WayUp> begin(const WayUpOptions& options, TimePoint now);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Whether advance() is due when fd() is writable, too. Else only when it is readable.
  [[nodiscard]] bool wants_write() const;

  /// Goes on as far as it can. Fails if the switch above is not there, does not hold the key,
  /// refuses, or has ended the connection.
  Status advance(TimePoint now);
  /// Fails if the switch above takes too long.
  [[nodiscard]] Status check_patience(TimePoint now) const;
  /// Once it has come, which is no refusal.
  [[nodiscard]] const std::optional<Welcome>& welcome() const { return welcome_; }

 private:
  enum class Stage : std::uint8_t { kConnects, kShakesHands, kHasJoined };
  WayUp(const WayUpOptions& options, Fd fd, TimePoint now);
  [[nodiscard]] bool is_writable() const;
  Status shake(TimePoint now);
  Status read();

  WayUpOptions options_;
  Fd fd_;
  Stage stage_ = Stage::kConnects;
  TimePoint since_;  ///< of the stage's patience
  std::unique_ptr<Handshake> handshake_;
  Blob received_;
  std::optional<Welcome> welcome_;
};

}  // namespace tutti::in_network
