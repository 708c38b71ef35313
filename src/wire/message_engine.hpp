// The message protocol: Connection's send, recv and cancel over one or several ordered byte links.
//
//   small messages   (<= eager_limit()) are eager: they travel with their announcement, as far as
//                    credits allow. They land in the receiver's buffer if its receive is posted,
//                    and wait in a bounded pool otherwise.
//   large messages   wait for the receiver's clear-to-send (CTS), which it sends as soon as the
//                    receive is posted. Then chunks travel and land in its buffer; chunks of
//                    different streams take turns. If the link can put (PutLink) and
//                    both buffers are registered, the data is written straight there. The
//                    sender announces a message (ready-to-send, RTS) if its CTS has not
//                    come yet.
//   device lanes     (kDeviceLanes) have no eager messages. What is a GPU's is put, or the stream
//                    breaks: nobody here touches it. Memory of the host may also take the link.
//   a broken stream  stays broken. After a cancelled transfer or a mismatch nobody knows which
//                    receive belongs to which send. So every pending and later transfer of that
//                    stream fails on both sides, with the reason. Messages that the sender
//                    completed before it cancelled a later one are still delivered.
//
// A send completes when its buffer may be reused. An eager send may therefore complete before the
// receiver finds a mismatch. The sender then learns of it from the stream's next transfer.
//
// A kSend matches a kRecv of the same count and type. Their roots differ, since each names the
// other rank. All other fields must be equal.
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
  bool carries_device_memory = false;  ///< puts reach memory of GPUs
  std::shared_ptr<void> keep_alive{};  ///< released after the link
  std::uint64_t shuffle_seed = 0;      ///< not 0: streams take turns in random order, for tests
};

/// Resource. Thread-safe: one lock.
class MessageEngine final : public Connection {
 public:
  MessageEngine(std::unique_ptr<ByteLink> link, EngineOptions options);
  /// Over one or several links, in the same order on both sides. Chunks of large messages go to any
  /// link that has room, everything else to the first. When one link ends, the connection ends.
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
  bool carries_device_memory() const override;
  std::span<std::byte> mapped() const override;
  pid_t local_pid() const override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tutti
