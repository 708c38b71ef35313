// One link of a connection as the message engine sees it, and how a thread sleeps on all links.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/wire/byte_link.hpp"
#include "src/wire/frames.hpp"
#include "src/wire/message_engine_streams.hpp"

namespace tutti {

/// Bytes that wait to leave on a link, and the frame that is arriving on it. Under the engine's
/// lock.
struct EngineLink {
  explicit EngineLink(std::unique_ptr<ByteLink> link)
      : bytes(std::move(link)), inbox(kInboxBytes) {}

  /// Where a read puts the bytes that follow the current payload.
  [[nodiscard]] iovec inbox_room() {
    const std::size_t ahead = std::max(bytes->read_ahead(), kHeaderBytes);
    return {inbox.data() + inbox_end, std::min(ahead, inbox.size() - inbox_end)};
  }
  /// Discards the bytes already parsed.
  void close_ranks() {
    std::memmove(inbox.data(), inbox.data() + inbox_begin, inbox_end - inbox_begin);
    inbox_end -= std::exchange(inbox_begin, 0);
  }

  std::unique_ptr<ByteLink> bytes;
  Outbox out;
  std::vector<std::byte> inbox;  ///< bytes read and not yet parsed
  std::size_t inbox_begin = 0;
  std::size_t inbox_end = 0;
  Frame frame;  ///< the frame whose payload is arriving
  Frame eager;  ///< the last one of its type
  std::size_t payload_left = 0;
  bool departed = false;               ///< the peer said goodbye
  std::optional<Error> write_error{};  ///< of the last write
  bool readable = false;               ///< of this pump(): worth another read
  bool writable = false;               ///< of this pump(): worth another write

 private:
  static constexpr std::size_t kInboxBytes = 64 << 10;
};

/// The descriptor behind Connection::poll_fd(). With one link it is the link's own. With several it
/// becomes readable when any link has something to read, or has room for waiting bytes.
class LinkWaker {
 public:
  explicit LinkWaker(std::span<const EngineLink> links);
  /// -1 when there is none; then only the clock wakes a sleeper.
  [[nodiscard]] int fd() const { return fd_.load(std::memory_order_relaxed); }
  /// Called when nothing moved, before a thread may sleep.
  void prepare(std::span<const EngineLink> links);

 private:
  void watch(int operation, int fd, std::uint32_t events);

  Fd epoll_;  // of several links
  std::atomic<int> fd_{-1};
  std::vector<std::uint32_t> events_;  // per link, as registered with epoll_; 0: not registered
};

}  // namespace tutti
