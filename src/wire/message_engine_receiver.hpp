// The receiving half of the message engine: matches announced messages with posted receives and
// decides where payload lands.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "src/wire/message_engine_streams.hpp"

namespace tutti {

/// Called under the engine's lock.
class MessageReceiver {
 public:
  /// `out` is the outbox of the first link; `links` counts all links; `puts` is what the first link
  /// can do besides, or null.
  MessageReceiver(Outbox& out, std::size_t links, PutLink* puts)
      : out_(out), puts_(puts), eager_limit_(eager_limit(puts)), landings_(links) {}

  /// Here and below, an error means that the peer broke the protocol: the connection must end.
  Status post(const StreamId& id, const MessageTag& tag, std::span<std::byte> data,
              Transfer& transfer);
  /// False when the transfer is not pending here.
  bool cancel(const StreamId& id, Transfer& transfer);

  /// Puts one frame into the outbox, which must have room. False when nothing is urgent.
  bool produce();
  /// The same for credits that may wait until another frame is sent anyway.
  bool produce_lazily();
  /// Whether produce() may have a frame to send.
  [[nodiscard]] bool presses() const { return !pressing_.empty(); }

  /// Both decide where the frame's payload goes: see landing(). The caller moves it there, then
  /// calls landed(), also for an empty payload.
  Status on_eager(const Frame& frame);
  Status on_data(std::size_t link, const Frame& frame);
  /// Null: discard the payload.
  [[nodiscard]] std::byte* landing(std::size_t link) const { return landings_[link].data; }
  Status landed(std::size_t link, std::size_t bytes);
  /// All of a target is here, by puts.
  void on_landed(std::uint16_t target);
  /// Whether DATA may come, on any link.
  [[nodiscard]] bool expects_data() const { return expected_ > 0; }

  /// Whether a receive has completed since the last call of this function.
  [[nodiscard]] bool has_completed() { return std::exchange(completed_, false); }

  Status on_ready_to_send(const Frame& frame);
  /// The sender broke the stream.
  Status on_break(const Frame& frame);

  /// Fails all pending and all later receives. With `deliver`, receives whose message has arrived
  /// in full still succeed.
  void close(const Error& error, bool deliver);

 private:
  /// A message that the peer announced and that has no posted receive yet.
  struct Announced {
    Announced* next = nullptr;
    Frame frame;
    std::unique_ptr<std::byte[]> data{};  // of an eager message
    bool complete = true;                 // its payload is here
  };
  struct Stream {
    StreamId id;
    Fifo<Transfer> queue;                 // in the order posted
    Transfer* unmatched = nullptr;        // first of the queue in phase kQueued or kClearedEarly
    Transfer* early_candidate = nullptr;  // first that may still be cleared early
    std::uint64_t next_message = 0;  // number of the message for the next receive; 0: not known
    Fifo<Announced> announced;
    std::uint32_t announced_count = 0;
    std::uint32_t to_clear = 0;       // transfers in phase kMatched
    std::uint32_t owed = 0;           // credits to give back
    std::uint32_t owed_messages = 0;  // for so many messages
    bool pressing = false;            // in pressing_
    bool waiting = false;             // in waiting_
    Stream* next = nullptr;
    std::unique_ptr<Broken> broken;
  };
  struct Accepted {
    Transfer* transfer = nullptr;  // in phase kMoving
    bool cleared_early = false;    // its CTS was sent before its announcement came
  };
  struct Landing {
    std::byte* data = nullptr;
    Stream* stream = nullptr;
    Transfer* transfer = nullptr;
    Announced* announced = nullptr;
    bool eager = false;
  };

  Result<Stream*> stream_of_peer(const StreamId& id);
  Stream& stream(const StreamId& id);
  Stream& find_or_create(const StreamId& id);
  void forget_idle_streams();
  Status keep(Stream& stream, const Frame& frame);
  Status match(Stream& stream);
  Result<Transfer*> receive_for(Stream& stream, std::uint64_t message);
  [[nodiscard]] bool is_expected(const Stream& stream, Transfer& transfer) const;
  [[nodiscard]] bool is_announced(const Stream& stream, Transfer& transfer) const;
  void give_up(Stream& stream, const Posted& post, Error why);
  static bool was_matched(const Stream& stream, std::uint64_t message);
  Accepted accept(Stream& stream, const Frame& sent);
  void consume(Stream& stream, Announced& message, const Accepted& accepted);
  [[nodiscard]] bool is_landing(const Stream& stream) const;
  void drop_announced(Stream& stream);
  void owe_credit(Stream& stream, std::size_t bytes);
  Status renumber(Stream& stream, std::uint64_t message);
  void skip_matched(Stream& stream);
  Transfer* next_to_clear_early(Stream& stream);
  Status accept_cleared_early(Stream& stream, const Frame& frame);
  void press(Stream& stream);
  bool produce_for(Stream& stream);
  void send_clear_to_send(Stream& stream);
  bool say_clear(Stream& stream, Transfer& transfer);
  void release_target(Transfer& transfer);
  void finish(Stream& stream, Transfer& transfer);
  void break_stream(Stream& stream, Broken broken);
  void fail_posted(Stream& stream, const Error& error);

  Announced& take_announced();

  Outbox& out_;
  PutLink* const puts_;
  const std::size_t eager_limit_;
  /// Memory that the peer may write, by its number.
  struct Shown {
    Stream* stream = nullptr;
    Transfer* transfer = nullptr;
  };
  std::vector<Shown> shown_;
  std::unordered_map<StreamId, Stream, StreamHash> streams_;
  Stream* latest_ = nullptr;  // what stream() returned last, while it is in streams_
  std::size_t forget_at_ = 1024;
  Fifo<Stream> pressing_;           // streams with an urgent frame to send
  std::vector<Stream*> waiting_;    // streams that owe credits only
  std::uint32_t owed_ = 0;          // by all streams
  std::uint32_t kept_credits_ = 0;  // of the eager messages kept in `announced`
  std::vector<Landing> landings_;   // per link
  std::uint32_t expected_ = 0;      // receives that were cleared and are not complete
  bool completed_ = false;
  std::optional<Error> closed_;

  std::deque<Announced> announced_storage_;
  Fifo<Announced> free_announced_;
};

}  // namespace tutti
