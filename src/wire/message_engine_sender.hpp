// The sending half of the message engine: turns posted sends into frames.
#pragma once

#include <deque>
#include <random>
#include <unordered_map>

#include "src/wire/message_engine_streams.hpp"

namespace tutti {

/// Numbers the messages of a stream consecutively. A receiver that has seen one message knows the
/// later numbers, and can clear them before they are announced. A stream that was forgotten and
/// comes back starts beyond all numbers that its receiver may still expect.
///
/// Called under the engine's lock.
class MessageSender {
 public:
  /// `outs` are the outboxes of the links; the first carries everything but DATA.
  /// `puts`: what the first link can do besides, or null.
  MessageSender(std::vector<Outbox*> outs, PutLink* puts, std::uint64_t shuffle_seed)
      : outs_(std::move(outs)),
        puts_(puts),
        eager_limit_(eager_limit(puts)),
        tails_(outs_.size()),
        shuffle_(shuffle_seed != 0),
        random_(shuffle_seed) {}

  void post(const StreamId& id, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer);
  /// False when the transfer is not pending here.
  bool cancel(const StreamId& id, Transfer& transfer);

  /// Puts one frame into the first link's outbox, which must have room. False when there is none to
  /// send.
  bool produce();
  /// Puts one chunk of a cleared message into the outbox of `link`, which must have room.
  bool produce_chunk(std::size_t link);
  /// Whether produce() may have a frame to send.
  [[nodiscard]] bool has_work() const { return !work_.empty(); }
  /// Called when the link has sent the last byte of its outbox's tail, which belongs to `transfer`.
  void tail_sent(std::size_t link, Transfer& transfer);

  /// `key`: of PutLink; empty if the receiver shows no memory.
  Status on_clear_to_send(const Frame& frame, std::span<const std::byte> key);
  /// All data of this transfer is there, by puts.
  void on_put_done(Transfer& transfer);
  Status on_credit(const Frame& frame);
  /// The receiver broke the stream; `offender` is this side's message that did not match.
  Status on_break(const Frame& frame, const std::optional<Frame>& offender);

  /// Fails all that is pending and all that will be posted.
  void close(const Error& error);

 private:
  /// A CTS for a message that is not announced yet.
  struct EarlyClear {
    Frame frame;
    Blob key;
  };
  struct Stream {
    StreamId id;
    Fifo<Transfer> queue;             // in the order posted
    Transfer* unannounced = nullptr;  // first of the queue in phase kQueued
    std::uint64_t next_message = 0;   // number of the next to be announced
    std::uint32_t unmatched = 0;      // announced, but not matched as far as the receiver has told
    std::uint32_t eagers = 0;         // eager messages among them
    std::uint32_t credits = 0;        // credits that those hold
    std::uint32_t cleared = 0;        // transfers in phase kCleared
    std::deque<EarlyClear> early;     // in order
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
  std::optional<EarlyClear> take_early(Stream& stream, const Posted& post);
  Status clear_early(Stream& stream, const Frame& frame, std::span<const std::byte> key);
  void announce_eager(Stream& stream, Transfer& transfer, Frame& frame);
  void clear(Stream& stream, Transfer& transfer, std::span<const std::byte> key);
  void give_up(Stream& stream, const Posted& post, Error why);
  void stop_puts(Fifo<Transfer>& queue);
  bool send_chunk(Stream& stream, std::size_t link);
  [[nodiscard]] bool is_sending(const Stream& stream) const;
  void moved(Stream& stream, Transfer& transfer, std::size_t bytes);
  void break_stream(Stream& stream, Broken broken);

  /// The stream and length of the payload that an outbox sends from the user's buffer.
  struct Tail {
    Stream* stream = nullptr;
    std::size_t bytes = 0;
  };

  const std::vector<Outbox*> outs_;
  PutLink* const puts_;
  const std::size_t eager_limit_;
  std::unordered_map<Transfer*, Stream*> putting_;  // whose data travels by puts
  std::vector<Tail> tails_;                         // per link
  std::unordered_map<StreamId, Stream, StreamHash> streams_;
  Stream* latest_ = nullptr;  // what stream() returned last, while it is in streams_
  std::size_t forget_at_ = 1024;
  Fifo<Stream> work_;
  std::uint32_t credits_ = 0;          // in use by all streams
  std::uint64_t highest_message_ = 0;  // of all streams
  std::optional<Error> closed_;
  bool shuffle_;
  std::mt19937_64 random_;
};

}  // namespace tutti
