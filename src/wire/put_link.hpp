// PutLink: what a byte link offers beside its stream where it can write straight into the peer's
// memory. Large messages then travel without a copy, and by all paths that there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Longest key of a target. It travels in a clear-to-send.
inline constexpr std::size_t kMostKeyBytes = 256;

/// One thread at a time, as the byte link that it belongs to.
class PutLink {
 public:
  virtual ~PutLink() = default;

  // --- the side that receives ---

  /// Memory that the peer may write, once and all of it.
  struct Target {
    std::uint16_t number = 0;
    Blob key;  ///< for the peer's put()
  };
  /// Lets the peer write `memory`. Nothing if it is not registered, or too much is shown already:
  /// then the message takes the stream, if that may.
  virtual std::optional<Target> show(std::span<std::byte> memory) = 0;
  /// The peer sends by the stream what the target was shown for.
  virtual void release(std::uint16_t number) = 0;
  /// Nobody waits for the target any more. Once this returns, the peer no longer writes it.
  virtual void hide(std::uint16_t number) = 0;

  // --- the side that sends ---

  /// Writes `data` into the target that `key` names. `data` stays in place until kSent is reported
  /// with `owner`. kUnsupported: it takes the stream, if that may. kAborted: the same, and the peer
  /// has given the target up. kPeerFailed: the key makes no sense.
  virtual Status put(std::span<const std::byte> key, std::span<const std::byte> data,
                     void* owner) = 0;
  /// Once this returns, the data of `owner` is no longer read, and nothing more is reported.
  virtual void cancel(void* owner) = 0;

  // --- both ---

  struct Event {
    enum class Kind : std::uint8_t { kLanded, kSent };
    Kind kind{};
    std::uint16_t number = 0;  ///< kLanded: all of this target is here
    void* owner = nullptr;     ///< kSent: all of this data is there
  };
  /// The next thing that has happened, if any, as of the last read() or check() of the byte link.
  virtual std::optional<Event> next_event() = 0;
};

}  // namespace tutti
