// The sending half of the message engine: turns posted sends into frames.
#pragma once

#include <deque>
#include <random>
#include <unordered_map>

#include "src/wire/message_engine_streams.hpp"

namespace tutti {

/// Numbers the messages of a stream one after another, so that a receiver that has seen one knows
/// the next ones' numbers and can clear them before they are announced. A stream that was forgotten
/// and comes back starts beyond all numbers that its receiver may still expect.
///
/// Called under the engine's lock.
class MessageSender {
 public:
  /// `outs`: of the connection's links, the first of which carries all but DATA.
  MessageSender(std::vector<Outbox*> outs, std::uint64_t shuffle_seed)
      : outs_(std::move(outs)),
        tails_(outs_.size()),
        shuffle_(shuffle_seed != 0),
        random_(shuffle_seed) {}

  void post(const StreamId& id, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer);
  /// False when the transfer is not pending here.
  bool cancel(const StreamId& id, Transfer& transfer);

  /// Puts one frame into the first link's outbox, which has room; false when there is nothing to
  /// say.
  bool produce();
  /// Puts one chunk of a cleared message into the outbox of link `link`, which has room.
  bool produce_chunk(std::size_t link);
  /// Whether produce() may find something to say.
  [[nodiscard]] bool has_work() const { return !work_.empty(); }
  /// The last byte of the tail of link `link`, whose owner this is, went.
  void tail_sent(std::size_t link, Transfer& transfer);

  Status on_clear(const Frame& frame);
  Status on_credit(const Frame& frame);
  /// The receiver broke the stream; `offender` is our message that did not match.
  Status on_break(const Frame& frame, const std::optional<Frame>& offender);

  /// Fails all that is pending and all that will be posted.
  void close(const Error& error);

 private:
  struct Stream {
    StreamId id;
    Fifo<Transfer> queue;             // in the order posted
    Transfer* unannounced = nullptr;  // the first of the queue's kQueued ones
    std::uint64_t next_message = 0;   // number of the next to be announced
    std::uint32_t unmatched = 0;      // announced, and the receiver has not told of a match
    std::uint32_t eagers = 0;         // of those, eager ones
    std::uint32_t credits = 0;        // that those took
    std::uint32_t cleared = 0;        // transfers in phase kCleared
    std::deque<Frame> early;          // clears of messages not announced yet, in their order
    bool working = false;             // in work_
    Stream* next = nullptr;
    std::unique_ptr<Broken> broken;
  };

  Stream& stream(const StreamId& id);
  Stream& find_or_create(const StreamId& id);
  void forget_idle_streams();
  void schedule(Stream& stream);
  Stream& take_turn();
  bool announce(Stream& stream);
  bool was_cleared_early(Stream& stream, const Posted& post);
  Status clear_early(Stream& stream, const Frame& frame);
  void announce_eager(Stream& stream, Transfer& transfer, Frame& frame);
  void clear(Stream& stream, Posted& post);
  bool send_chunk(Stream& stream, std::size_t link);
  [[nodiscard]] bool is_sending(const Stream& stream) const;
  void moved(Stream& stream, Transfer& transfer, std::size_t bytes);
  void break_stream(Stream& stream, Broken broken);

  /// The stream and the length of what an outbox sends from where it lies.
  struct Tail {
    Stream* stream = nullptr;
    std::size_t bytes = 0;
  };

  const std::vector<Outbox*> outs_;
  std::vector<Tail> tails_;  // per link
  std::unordered_map<StreamId, Stream, StreamHash> streams_;
  Stream* latest_ = nullptr;  // that stream() returned, while it is in streams_
  std::size_t forget_at_ = 1024;
  Fifo<Stream> work_;
  std::uint32_t credits_ = 0;          // in use by all streams
  std::uint64_t highest_message_ = 0;  // of all streams
  std::optional<Error> closed_;
  bool shuffle_;
  std::mt19937_64 random_;
};

}  // namespace tutti
