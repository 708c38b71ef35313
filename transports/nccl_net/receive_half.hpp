// The half of a link that receives: slots with posted receives, oldest first, and those that have
// arrived and are being read.
//
// A slot is posted again as soon as its data was read; one that came without data, at once. So what
// the program has not read yet stops no message without data. The peer hears of slots that are
// there again after half of them. So at most two such messages are ever on their way, and with
// kExtraSlots receives beside those for data, they always find one.
#pragma once

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
class ReceiveHalf {
 public:
  struct Options {
    std::shared_ptr<plugin::NetReceiver> receiver;
    std::uint64_t cookie = 0;  ///< this side's
    std::size_t slot_bytes = 0;
  };
  /// For messages with data, of a plugin that takes so many requests.
  static std::uint32_t data_slots(int most_requests);

  static Result<std::unique_ptr<ReceiveHalf>> create(Options options);

  /// Takes what has arrived, and posts again what is free. Whether there was news.
  Result<bool> advance();
  /// All slots have been posted once.
  [[nodiscard]] bool is_ready() const { return posted_ >= slots_count_; }
  /// Copies bytes of the stream, and returns how many.
  std::size_t read(std::span<std::byte> bytes);
  /// Throws away what has arrived.
  void discard();

  /// Posts nothing more.
  void stop() { stopped_ = true; }
  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  /// All receives are over. After stop().
  [[nodiscard]] bool drained() const { return stopped_ && waiting_.empty(); }

  /// Messages with data: that have arrived, and whose slots are there again.
  [[nodiscard]] std::uint64_t data_messages() const { return data_messages_; }
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  /// Bytes are there to read.
  [[nodiscard]] bool has_bytes() const { return !arrived_.empty(); }
  /// What the peer said last of this side's messages.
  [[nodiscard]] std::uint64_t peer_consumed() const { return peer_consumed_; }
  /// Whether the peer has to hear of slots that are there again.
  [[nodiscard]] bool owes(std::uint64_t told) const { return consumed_ - told >= owed_; }

  /// Tests what is posted, and returns whether anything still is. Errors are over, too.
  bool settle();

 private:
  static constexpr std::uint32_t kExtraSlots = 4;
  static constexpr std::uint32_t kMostSlots = 16;

  struct Waiting {
    std::size_t slot = 0;
    plugin::Request request{};
  };
  struct Arrived {
    std::size_t slot = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  explicit ReceiveHalf(Options options) : options_(std::move(options)) {}
  Status take(std::size_t slot, std::size_t bytes);
  void post();
  void free_oldest();

  const Options options_;
  std::optional<Slots> slots_;
  std::uint32_t slots_count_ = 0;
  std::uint64_t owed_ = 1;
  struct Free {
    std::size_t slot = 0;
    bool had_data = false;
  };
  std::deque<Free> free_;
  std::deque<Waiting> waiting_;
  std::deque<Arrived> arrived_;
  std::uint64_t posted_ = 0;
  std::uint64_t data_messages_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t peer_consumed_ = 0;
  bool stopped_ = false;
  std::optional<Error> cannot_post_;  // what had arrived before is still worth reading
};

}  // namespace tutti::nccl_net
