// The receiving half of the message engine: matches announced messages with posted receives and
// says where payload goes.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "src/wire/message_engine_streams.hpp"

namespace tutti {

/// Called under the engine's lock.
class MessageReceiver {
 public:
  /// `out`: of the first of `links` links.
  MessageReceiver(Outbox& out, std::size_t links) : out_(out), landings_(links) {}

  /// An error, here and below: the peer broke the protocol, and the connection has to end.
  Status post(const StreamId& id, const MessageTag& tag, std::span<std::byte> data,
              Transfer& transfer);
  /// False when the transfer is not pending here.
  bool cancel(const StreamId& id, Transfer& transfer);

  /// Puts one frame into the outbox, which has room; false when nothing presses.
  bool produce();
  /// The same for credits that can wait until something else is said.
  bool produce_lazily();
  /// Whether produce() may find something to say.
  [[nodiscard]] bool presses() const { return !pressing_.empty(); }

  /// Each decides where the payload of the frame goes: see landing(). The caller moves it there and
  /// then calls landed(), also for an empty payload.
  Status on_eager(const Frame& frame);
  Status on_data(std::size_t link, const Frame& frame);
  /// Null: throw it away.
  [[nodiscard]] std::byte* landing(std::size_t link) const { return landings_[link].data; }
  Status landed(std::size_t link, std::size_t bytes);
  /// Whether DATA may come, by any link.
  [[nodiscard]] bool expects_data() const { return expected_ > 0; }

  /// Whether a receive has completed since this was asked last.
  [[nodiscard]] bool has_completed() { return std::exchange(completed_, false); }

  Status on_request(const Frame& frame);
  /// The sender broke the stream.
  Status on_break(const Frame& frame);

  /// Fails all that is pending and all that will be posted, except, when `deliver`, receives whose
  /// message is here in full.
  void close(const Error& error, bool deliver);

 private:
  /// A message that the peer announced and nobody has posted a receive for.
  struct Announced {
    Announced* next = nullptr;
    Frame frame;
    std::unique_ptr<std::byte[]> data{};  // of an eager message
    bool complete = true;                 // its payload is here
  };
  struct Stream {
    StreamId id;
    Fifo<Transfer> queue;            // in the order posted
    Transfer* unmatched = nullptr;   // the first of the queue's kQueued and kInvited ones
    Transfer* uninvited = nullptr;   // the first of those that no clear was thought of for
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
    bool invited = false;          // its clear was sent before
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
  static bool was_matched(const Stream& stream, std::uint64_t message);
  Accepted accept(Stream& stream, const Frame& sent);
  void consume(Stream& stream, Announced& message, const Accepted& accepted);
  [[nodiscard]] bool is_landing(const Stream& stream) const;
  void drop_announced(Stream& stream);
  void owe_credit(Stream& stream, std::size_t bytes);
  Status renumber(Stream& stream, std::uint64_t message);
  void skip_matched(Stream& stream);
  Transfer* next_to_invite(Stream& stream);
  Status accept_invited(Stream& stream, const Frame& frame);
  void press(Stream& stream);
  bool produce_for(Stream& stream);
  void clear_next(Stream& stream);
  void break_stream(Stream& stream, Broken broken);
  void fail_posted(Stream& stream, const Error& error);

  Announced& take_announced();

  Outbox& out_;
  std::unordered_map<StreamId, Stream, StreamHash> streams_;
  Stream* latest_ = nullptr;  // that stream() returned, while it is in streams_
  std::size_t forget_at_ = 1024;
  Fifo<Stream> pressing_;           // have something to say
  std::vector<Stream*> waiting_;    // owe some credits, not pressing
  std::uint32_t owed_ = 0;          // by all streams
  std::uint32_t kept_credits_ = 0;  // of the eager messages in `announced`
  std::vector<Landing> landings_;   // per link
  std::uint32_t expected_ = 0;      // receives that were cleared and are not complete
  bool completed_ = false;
  std::optional<Error> closed_;

  std::deque<Announced> announced_storage_;
  Fifo<Announced> free_announced_;
};

}  // namespace tutti
