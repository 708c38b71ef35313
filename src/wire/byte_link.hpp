// ByteLink: an ordered, reliable, two-way stream of bytes to one peer. Its calls never block.
//
// A transport that carries messages implements this interface; the message engine does the rest.
#pragma once

#include <cstddef>
#include <span>

#include <sys/uio.h>

#include "src/wire/put_link.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Resource. One thread at a time, except poll_fd().
class ByteLink {
 public:
  /// Ends the stream for the peer after the bytes written so far. The last bytes may be lost unless
  /// finish() has returned true before.
  virtual ~ByteLink() = default;

  /// Writes the first bytes of the pieces and returns how many; 0 when there is no room now.
  virtual Result<std::size_t> write(std::span<const iovec> pieces) = 0;
  /// Reads into the first bytes of the pieces and returns how many; 0 when nothing has arrived. The
  /// end of the stream is an error (kPeerFailed), reported after all bytes that came before it.
  virtual Result<std::size_t> read(std::span<const iovec> pieces) = 0;

  /// Called when nothing moved. Checks by other means than reading whether the peer is gone, and
  /// prepares a caller that is about to sleep on poll_fd(). Cheap on average. Returns true when it
  /// has just enabled the wake-up: read once more, because bytes may have come in between.
  virtual Result<bool> check() = 0;

  /// How many bytes a read should ask for beyond those it needs: many where a read is a system
  /// call, few where it is a copy.
  [[nodiscard]] virtual std::size_t read_ahead() const = 0;

  /// A descriptor that is readable when there may be something to read and writable when there is
  /// room; -1 when there is none. It lives as long as the link.
  [[nodiscard]] virtual int poll_fd() const = 0;

  /// Whether bytes that write() has taken, or that the link has to say by itself, wait here for
  /// another call.
  [[nodiscard]] virtual bool holds_back() const { return false; }

  /// What else the link can do; null if it can write no memory of the peer.
  [[nodiscard]] virtual PutLink* puts() { return nullptr; }

  /// Ends the stream for the peer after the bytes written so far, and discards what still comes in.
  /// Returns true when all bytes have arrived, or never will; on false, call it again. Call nothing
  /// else afterwards.
  virtual bool finish() { return true; }

  /// Ends both directions at once; the peer notices. Later calls fail or move nothing.
  virtual void shutdown() = 0;
};

}  // namespace tutti
