// A connection whose messages are followed by checksums: TUTTI_CHECKSUM.
//
// Each message is sent as it is, and after it, on a lane of its own, the CRC32C of every 128 KiB of
// it. The receiver compares before the receive is done. So it finds what the network, a device or
// the memory of a host has damaged on the way, whatever the transport; a link's own checksums end
// at the NIC. A checksum begins with the place of its piece: pieces that change places are found.
//
// What peers load and store directly are no messages, and are not checked.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/transport/transport.hpp"

namespace tutti {

/// As Connection, over another one. Thread-safe. Unlike others, it keeps some 100 bytes for each
/// transfer that is posted, and 4 bytes for each 128 KiB of it. Both ends have to be checked.
class CheckedConnection final : public Connection {
 public:
  explicit CheckedConnection(std::shared_ptr<Connection> below) : below_(std::move(below)) {}
  ~CheckedConnection() override;

  void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer) override;
  void send_with_next(const StreamId& stream, const MessageTag& tag,
                      std::span<const std::byte> data, Transfer& transfer) override;
  void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
            Transfer& transfer) override;
  void cancel(const StreamId& stream, Transfer& transfer) override;
  bool progress() override;
  [[nodiscard]] int poll_fd() const override { return below_->poll_fd(); }
  [[nodiscard]] bool wants_write() const override { return below_->wants_write(); }
  [[nodiscard]] Status health() const override { return below_->health(); }
  [[nodiscard]] std::span<std::byte> mapped() const override { return below_->mapped(); }
  [[nodiscard]] pid_t local_pid() const override { return below_->local_pid(); }

 private:
  enum class Direction : std::uint8_t { kSend, kRecv };
  /// A transfer of the caller, and the two that carry it.
  struct Pair {
    Transfer* caller = nullptr;
    MessageTag tag{};
    std::span<const std::byte> data;
    std::vector<std::uint32_t> checksums;
    Transfer data_transfer{};
    Transfer checksums_transfer{};
  };
  struct Order {
    bool operator()(const std::pair<StreamId, Direction>& a,
                    const std::pair<StreamId, Direction>& b) const;
  };
  /// Of one stream, in the order posted. A deque, since transfers stay in place.
  using Queue = std::deque<Pair>;
  using Queues = std::map<std::pair<StreamId, Direction>, Queue, Order>;

  static StreamId beside(StreamId stream);
  static void cancel_below(Connection& below, const StreamId& stream, Pair& pair);
  static void complete(const StreamId& stream, Direction direction, Pair& pair);
  bool settle();
  bool settle(const StreamId& stream, Direction direction, Queue& queue);
  Pair& add(const StreamId& stream, Direction direction, const MessageTag& tag,
            std::span<const std::byte> data, Transfer& transfer);

  const std::shared_ptr<Connection> below_;
  std::mutex mutex_;
  Queues queues_;  // those with transfers that are not done
};

}  // namespace tutti
