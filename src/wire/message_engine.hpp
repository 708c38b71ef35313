// The message protocol: Connection's send, recv and cancel over an ordered byte link, or several.
//
//   small messages   (<= kEagerLimit) travel with their announcement, within credits; a receiver
//                    that posted has them land in its buffer, else they wait in a bounded pool;
//   large messages   are cleared by the receiver once it has posted the receive, and then sent in
//                    chunks that land in its buffer; chunks of different streams take turns. The
//                    sender announces those that have not been cleared by then;
//   a broken stream  stays broken: after a cancelled transfer or a mismatch the pairing of sends
//                    and receives is lost, so every transfer of that stream that is pending or
//                    comes later fails, on both sides, with the reason. Messages completed by the
//                    sender before it cancelled a later one are still delivered.
//
// A send completes when its buffer may be reused. So a mismatched eager send may have completed
// before the receiver found the mismatch; the sender then learns of it by the next transfer of the
// stream.
//
// A kSend agrees with a kRecv of the same count and type, whatever their roots (each names the
// other rank); all else must be equal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/transport/transport.hpp"
#include "src/wire/byte_link.hpp"

namespace tutti {

struct EngineOptions {
  Rank peer = kNoRank;                 ///< for error messages
  std::string link_name;               ///< "tcp": for error messages
  std::span<std::byte> mapped{};       ///< what Connection::mapped() returns; outlives the engine
  pid_t local_pid = -1;                ///< what Connection::local_pid() returns
  std::shared_ptr<void> keep_alive{};  ///< released after the link
  std::uint64_t shuffle_seed = 0;      ///< not 0: streams take turns at random, for tests
};

/// Resource. Any thread may call anything; one lock.
class MessageEngine final : public Connection {
 public:
  MessageEngine(std::unique_ptr<ByteLink> link, EngineOptions options);
  /// Over several links, at least one, in the same order on both sides. The chunks of large
  /// messages go to whichever has room for them, all else to the first. The end of one is the end
  /// of all.
  MessageEngine(std::vector<std::unique_ptr<ByteLink>> links, EngineOptions options);
  /// Says goodbye. Pending transfers fail.
  ~MessageEngine() override;

  void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer) override;
  void send_with_next(const StreamId& stream, const MessageTag& tag,
                      std::span<const std::byte> data, Transfer& transfer) override;
  void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
            Transfer& transfer) override;
  /// A pending transfer fails with kAborted, and so do the others of its stream.
  void cancel(const StreamId& stream, Transfer& transfer) override;
  bool progress() override;
  int poll_fd() const override;
  bool wants_write() const override;
  Status health() const override;
  std::span<std::byte> mapped() const override;
  pid_t local_pid() const override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tutti
