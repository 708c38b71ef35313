// One link of a connection as the message engine sees it, and how a sleeper waits for all of them.
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

/// What waits to leave on a link, and the frame that arrives on it. Under the engine's lock.
struct EngineLink {
  explicit EngineLink(std::unique_ptr<ByteLink> link)
      : bytes(std::move(link)), inbox(kInboxBytes) {}

  /// Where a read puts what comes after the payload that it is for.
  [[nodiscard]] iovec inbox_room() {
    const std::size_t ahead = std::max(bytes->read_ahead(), kHeaderBytes);
    return {inbox.data() + inbox_end, std::min(ahead, inbox.size() - inbox_end)};
  }
  /// Forgets what was parsed.
  void close_ranks() {
    std::memmove(inbox.data(), inbox.data() + inbox_begin, inbox_end - inbox_begin);
    inbox_end -= std::exchange(inbox_begin, 0);
  }

  std::unique_ptr<ByteLink> bytes;
  Outbox out;
  std::vector<std::byte> inbox;  ///< bytes read and not yet parsed
  std::size_t inbox_begin = 0;
  std::size_t inbox_end = 0;
  Frame frame;  ///< whose payload is arriving
  std::size_t payload_left = 0;
  bool departed = false;               ///< the peer said goodbye
  std::optional<Error> write_error{};  ///< of the last write
  bool readable = false;               ///< of this pump(): worth another read
  bool writable = false;               ///< of this pump(): worth another write

 private:
  static constexpr std::size_t kInboxBytes = 64 << 10;
};

/// The descriptor of Connection::poll_fd(): that of the only link, or one that is readable when any
/// of several links has something to read or has room for what waits.
class LinkWaker {
 public:
  explicit LinkWaker(std::span<const EngineLink> links);
  /// -1 where there is none; a sleeper then wakes by its clock alone.
  [[nodiscard]] int fd() const { return fd_.load(std::memory_order_relaxed); }
  /// Called when nothing moved, before somebody may sleep.
  void prepare(std::span<const EngineLink> links);

 private:
  void watch(int operation, int fd, std::uint32_t events);

  Fd epoll_;  // of several links
  std::atomic<int> fd_{-1};
  std::vector<std::uint32_t> events_;  // per link, as epoll_ knows it; 0: it does not
};

}  // namespace tutti
