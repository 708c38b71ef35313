// The half of a link that sends: a ring of slots that are filled, sent and filled again.
//
// The peer has a fixed number of receives for messages with data, and says with its own messages
// how many of them it has posted again. No more are under way than that. Messages without data have
// receives of their own: those that say how far the stream was read are so seldom that they never
// run out of them.
//
// The last receive is kept for a full slot, or for the end of the stream. So many small writes do
// not use up all receives of a peer that makes no calls, and what is written last still arrives.
// Nobody waits for bytes that are kept here: before the peer can want them, it has read all that
// went before, and said so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "src/plugin/net_plugin.hpp"
#include "transports/nccl_net/control_message.hpp"
#include "transports/nccl_net/slots.hpp"

namespace tutti::nccl_net {

/// Resource. One thread at a time.
class SendHalf {
 public:
  struct Options {
    std::shared_ptr<plugin::NetSender> sender;
    std::uint64_t cookie = 0;      ///< the peer's
    std::size_t slot_bytes = 0;    ///< of a message, with its words
    std::uint64_t data_slots = 0;  ///< receives of the peer for messages with data
  };
  static Result<std::unique_ptr<SendHalf>> create(Options options);

  /// Copies the first of the bytes into slots, and returns how many.
  std::size_t fill(std::span<const std::byte> bytes);
  /// Sends what is filled, as far as credits and the plugin allow. `consumed`: what its messages
  /// say. With `say_it`, at least one message says so, or the next call does.
  Status push(std::uint64_t consumed, bool say_it);
  /// The peer has posted so many receives again. False: more than it can have.
  [[nodiscard]] bool take_credits(std::uint64_t consumed);

  /// Keeps no receive of the peer any more: the stream ends.
  void hurry() { hurries_ = true; }
  /// Drops what has not been sent yet.
  void drop_rest();
  /// From now on, messages that say kEnd go out until there are so many messages in all. False: the
  /// peer cannot have posted that many receives.
  [[nodiscard]] bool end_at(std::uint64_t receives);

  /// What push() told last.
  [[nodiscard]] std::uint64_t told() const { return told_; }
  [[nodiscard]] std::uint64_t data_messages() const { return data_messages_; }
  /// Nothing waits here, and what was sent has left.
  [[nodiscard]] bool has_left() const { return unsent_.empty() && under_way() == 0; }
  [[nodiscard]] bool has_sent_all() const { return unsent_.empty(); }
  /// All receives of the peer are filled.
  [[nodiscard]] bool drained() const { return end_ && messages_ == *end_ && has_left(); }
  /// Tests what is under way, and returns whether anything still is. Errors are over, too.
  bool settle();

 private:
  static constexpr std::size_t kDataSlots = 6;  // with the small ones, as many as version 6 takes
  static constexpr std::size_t kSmallSlots = 2;

  struct Filled {
    std::size_t slot = 0;
    std::size_t bytes = 0;  // without the words
  };
  struct Sent {
    std::size_t slot = 0;
    plugin::Request request{};
  };

  explicit SendHalf(Options options) : options_(std::move(options)) {}
  [[nodiscard]] std::size_t under_way() const { return data_sent_.size() + small_sent_.size(); }
  [[nodiscard]] bool may_send_next() const;
  Status reap(std::deque<Sent>& sent, std::deque<std::size_t>& free);
  Result<bool> issue(const Filled& filled, Words::Kind kind, std::uint64_t consumed);
  Status send_data(std::uint64_t consumed);
  Status send_ends(std::uint64_t consumed);

  const Options options_;
  std::optional<Slots> slots_;
  std::deque<std::size_t> free_data_, free_small_;
  std::deque<Filled> unsent_;
  std::deque<Sent> data_sent_, small_sent_;
  std::uint64_t messages_ = 0;
  std::uint64_t data_messages_ = 0;
  std::uint64_t credited_ = 0;  // messages with data whose receives are there again
  std::uint64_t told_ = 0;
  bool hurries_ = false;
  std::optional<std::uint64_t> end_;
};

}  // namespace tutti::nccl_net
