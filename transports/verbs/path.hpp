// One queue pair to a peer: opened, used, ended and drained, and counted all the while.
//
// A path lives through generations. Each has a queue pair of its own, which is never used again
// once it has failed. From the state kDrained on, nothing that was sent to it can arrive any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/verbs/device.hpp"
#include "transports/verbs/control_message.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// Sends that one path has under way.
inline constexpr std::uint32_t kPathSends = 64;
/// Writes of a stream that the peer is not known to have read.
inline constexpr std::uint32_t kStreamWrites = 256;
/// Fragments of puts that one path has under way.
inline constexpr std::uint32_t kMostFlying = 8;
/// Words that may come before this side takes them: see VerbsLink.
inline constexpr std::uint32_t kPathReceives = kStreamWrites + 64;

/// A number in the immediate of a write: two bits say what it is, 30 are a value.
enum class Notice : std::uint8_t {
  kStream = 0,    ///< the stream ends here now
  kConsumed = 1,  ///< the stream has been read up to here
  kPut = 2,       ///< a put has landed: its number at the receiver
  kPutsSeen = 3,  ///< so many puts of this path have been seen
};
inline constexpr std::uint32_t kNoticeMask = (1U << 30) - 1;

/// A position as a notice tells it, modulo 2^30, and how far it is ahead of an older position.
inline std::uint32_t low(std::uint64_t position) {
  return static_cast<std::uint32_t>(position & kNoticeMask);
}
inline std::uint32_t ahead(std::uint32_t value, std::uint64_t from) {
  return (value - low(from)) & kNoticeMask;
}

/// Resource. One thread at a time.
class Path {
 public:
  enum class State : std::uint8_t {
    kDown,      ///< no queue pair
    kOpening,   ///< ours is offered; the peer's is not known, or has not connected
    kReady,     ///< may send
    kDraining,  ///< over; completions are still to come
    kDrained,   ///< nothing arrives any more; the peer has not said so of its end
  };

  /// Of rail `rail` here.
  explicit Path(std::size_t rail) : rail_(rail) {}

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] std::size_t rail() const { return rail_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }
  [[nodiscard]] std::uint32_t number() const { return pair_ ? pair_->number() : 0; }
  [[nodiscard]] std::uint64_t under_way() const { return posted_ - completed_; }
  [[nodiscard]] bool connected() const { return connected_; }

  /// Makes a queue pair that can receive, for this generation.
  Status open(Device& device, CompletionQueue& completions, const Rail& rail,
              std::uint32_t generation, std::uint32_t first_packet);
  [[nodiscard]] OpenPath offer(std::uint16_t index) const;
  /// Connects it to the peer's.
  Status connect(const OpenPath& peer, const OwnPath& own);
  /// The peer has connected its end.
  void set_ready() { state_ = State::kReady; }

  /// Whether so many writes may be posted.
  [[nodiscard]] bool has_room(std::uint64_t writes = 1) const {
    return state_ == State::kReady && posted_ - completed_ + writes <= kPathSends;
  }
  [[nodiscard]] bool is_idle() const { return posted_ == completed_; }
  struct Piece {
    std::span<const std::byte> bytes{};  ///< stay in place until the write is complete
    std::uint32_t local_key = 0;
    std::uint64_t to = 0;
    std::uint32_t key = 0;
    bool of_gpu = false;  ///< the host cannot read it
  };
  struct Word {
    Notice notice{};
    std::uint32_t value = 0;  ///< 30 bits
  };
  /// Writes a piece, and tells the word. An empty piece: the word alone.
  Status write(const Piece& piece, Word word);
  /// The same by two writes, for pieces that are long: bytes of one write may land in any order,
  /// where the network or the device reorder them, but those of the write before are there.
  Status write_then_tell(const Piece& piece, Word word);
  /// The next write reports its end at once, so that is_idle() becomes true without another one.
  void report_next() { report_next_ = true; }

  /// A completion of this path has come. Returns the word that it brought, if it did. An error is
  /// the end of the path.
  Result<std::optional<Word>> take(const ibv_wc& completion);

  /// Ends it. Afterwards completions come until drained.
  void end();
  /// Drained at once, where no completions come any more: what is destroyed receives nothing.
  void give_up();
  /// Down after the drain; the queue pair is the caller's to destroy. None if it is destroyed.
  std::optional<QueuePair> take_drained();
  /// No queue pair; the last one, if any, was of this generation.
  void set_down(std::uint32_t generation);

 private:
  Status post_receive();
  void fill(ibv_send_wr& work, ibv_sge& gathered, const Piece& piece);
  static void tell(ibv_send_wr& work, Word word);

  std::size_t rail_;
  State state_ = State::kDown;
  std::uint32_t generation_ = 0;
  std::optional<QueuePair> pair_;
  Rail at_;  // the rail when it was opened
  std::uint32_t first_packet_ = 0;
  bool connected_ = false;
  std::uint64_t posted_ = 0;     // writes
  std::uint64_t completed_ = 0;  // as far as completions have told
  bool report_next_ = false;
  bool sends_over_ = false;  // of the drain
  bool receives_over_ = false;
};

}  // namespace tutti::verbs
