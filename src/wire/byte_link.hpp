// ByteLink: an ordered, reliable stream of bytes to one peer, both ways, that never waits.
//
// All that a transport has to provide for messages; the message engine does the rest.
#pragma once

#include <cstddef>
#include <span>

#include <sys/uio.h>

#include "tutti/error.hpp"

namespace tutti {

/// Resource. One thread at a time, except poll_fd().
class ByteLink {
 public:
  /// Ends the stream for the peer, after the bytes written so far; where finish() has not returned
  /// true, the last of them may be lost.
  virtual ~ByteLink() = default;

  /// Takes a prefix of the pieces' bytes; 0 when there is no room now.
  virtual Result<std::size_t> write(std::span<const iovec> pieces) = 0;
  /// Fills a prefix of the pieces; 0 when nothing is there now. The end of the stream is an error
  /// (kPeerFailed), after all bytes that came before it.
  virtual Result<std::size_t> read(std::span<const iovec> pieces) = 0;

  /// Called when nothing moved: finds out by other means than reading whether the peer is gone, and
  /// gets ready for a caller who is about to sleep on poll_fd(). Cheap on average. True: it has
  /// just got ready to be woken, so look once more for what came in between.
  virtual Result<bool> check() = 0;

  /// How many bytes beyond what is needed a read should ask for: many where a read is a system
  /// call, few where it is a copy.
  [[nodiscard]] virtual std::size_t read_ahead() const = 0;

  /// Readable when there may be something to read, writable when there is room; or -1. The
  /// descriptor lives as long as the link.
  [[nodiscard]] virtual int poll_fd() const = 0;

  /// Ends the stream for the peer, after the bytes written so far, and throws away what comes in.
  /// Whether they have all arrived, or never will; until then, ask again. Nothing else is called
  /// after it.
  virtual bool finish() { return true; }

  /// Ends both directions now; the peer notices. Further calls fail or move nothing.
  virtual void shutdown() = 0;
};

}  // namespace tutti
