// What both halves of the message engine share: queues, the engine's part of a Transfer, and how a
// stream ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/hash.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/frames.hpp"

namespace tutti {

/// First in, first out, linked through T::next.
template <class T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] T* front() const { return head_; }
  void push_back(T& item) {
    item.next = nullptr;
    *(head_ == nullptr ? &head_ : &tail_->next) = &item;
    tail_ = &item;
  }
  [[nodiscard]] bool contains(const T& wanted) const {
    for (const T* item = head_; item != nullptr; item = item->next)
      if (item == &wanted) return true;
    return false;
  }
  T& pop_front() {
    T& item = *head_;
    head_ = item.next;
    item.next = nullptr;
    return item;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

enum class Phase : std::uint8_t {
  kQueued,        ///< send: not announced; recv: not matched
  kClearedEarly,  ///< recv: not matched, but CTS was sent
  kAnnounced,     ///< send: announced, waits for CTS
  kCleared,       ///< send: has CTS; some bytes are not yet in DATA frames
  kMatched,       ///< recv: matched, CTS still to be sent
  kMoving,        ///< bytes are under way
  kFinished,      ///< all bytes moved; transfers posted before it are not complete
};

/// No memory shown to the peer: see PutLink.
inline constexpr std::uint16_t kNoTarget = 0xffff;

/// The engine's part of a pending Transfer, kept in its connection_data.
struct Posted {
  std::byte* data = nullptr;  ///< only read for sends
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;
  std::uint64_t assigned = 0;  ///< bytes in DATA frames so far, whether moved or under way
  std::uint64_t message = 0;
  MessageTag tag;
  Phase phase = Phase::kQueued;
  std::uint16_t target = kNoTarget;  ///< recv: the peer may write its memory
};

inline Frame frame_for(FrameType type, const StreamId& id, const Posted& post) {
  return Frame{
      .type = type, .stream = id, .message = post.message, .tag = post.tag, .bytes = post.bytes};
}
static_assert(sizeof(Posted) <= sizeof(Transfer::connection_data));
static_assert(alignof(Posted) <= alignof(std::uint64_t));

inline Posted& posted(Transfer& transfer) {
  return *std::launder(reinterpret_cast<Posted*>(transfer.connection_data));
}

inline void start_pending(Transfer& transfer, const MessageTag& tag, const std::byte* data,
                          std::size_t bytes) {
  ::new (transfer.connection_data) Posted{const_cast<std::byte*>(data), bytes, 0, 0, 0, tag};
  transfer.state.store(Transfer::State::kPending, std::memory_order_relaxed);
}

/// Once the state is stored, the transfer belongs to its owner again.
inline void end_done(Transfer& transfer) {
  transfer.state.store(Transfer::State::kDone, std::memory_order_release);
}
inline void end_failed(Transfer& transfer, const Error& error) {
  transfer.error = error;
  transfer.state.store(Transfer::State::kFailed, std::memory_order_release);
}

/// Longest eager message of a link.
inline std::size_t eager_limit(const PutLink* puts) {
  return puts == nullptr ? kEagerLimit : kEagerLimitBesidePuts;
}

/// Whether the buffers of this stream may be a GPU's, at either end.
inline bool is_for_devices(const StreamId& id) { return (id.lane & kDeviceLanes) != 0; }

/// Whether a message is announced before it travels.
inline bool is_announced(const StreamId& id, std::uint64_t bytes, std::size_t eager_limit) {
  return bytes > eager_limit || (is_for_devices(id) && bytes > 0);
}

/// Whether a message with tag `sent` fits a receive with tag `expected`.
bool agree(const MessageTag& sent, std::uint64_t sent_bytes, const MessageTag& expected,
           std::uint64_t expected_bytes);

/// Completes, in posting order, the transfers at the head that have all their bytes.
inline void complete_in_order(Fifo<Transfer>& queue) {
  while (!queue.empty() && posted(*queue.front()).phase == Phase::kFinished)
    end_done(queue.pop_front());
}

inline void fail_all(Fifo<Transfer>& queue, const Error& error) {
  while (!queue.empty()) end_failed(queue.pop_front(), error);
}

/// Why a stream is over, and the frame that tells its other end.
struct Broken {
  Error error;
  Frame notice;
  std::optional<Frame> offender;  ///< the message that did not match
  bool notify = false;
};

struct StreamHash {
  std::size_t operator()(const StreamId& id) const {
    const std::uint64_t ranks = std::uint64_t{static_cast<std::uint32_t>(id.source)} << 32 |
                                static_cast<std::uint32_t>(id.destination);
    return static_cast<std::size_t>(mix((id.communicator * kGolden) ^ ranks) ^ id.lane);
  }
};

/// Bytes waiting for the link. A buffer collects headers and small payloads; one large payload at
/// the end (the tail) is sent from the user's buffer.
class Outbox {
 public:
  /// Larger payloads are not copied.
  static constexpr std::size_t kCopyLimit = 2048;

  Outbox() : buffer_(kCapacity) {}

  [[nodiscard]] bool empty() const { return begin_ == end_ && tail_.empty(); }
  /// Whether add() may be called.
  [[nodiscard]] bool has_room() const {
    return tail_.empty() && buffer_.size() - end_ >= kHeaderBytes + kCopyLimit;
  }
  /// Returns true when the payload was copied. Otherwise it became the tail, and taken_by_link()
  /// returns `owner` once it has been sent.
  bool add(const Frame& frame, std::span<const std::byte> payload = {}, Transfer* owner = nullptr) {
    append_header(frame);
    if (payload.size() <= kCopyLimit) {
      append(payload);
      return true;
    }
    tail_ = payload;
    owner_ = owner;
    return false;
  }
  [[nodiscard]] std::array<std::span<const std::byte>, 2> pieces() const {
    return {std::span<const std::byte>(buffer_).subspan(begin_, end_ - begin_), tail_};
  }
  /// Returns the tail's owner when its last byte has been taken.
  Transfer* taken_by_link(std::size_t bytes) {
    const std::size_t from_buffer = std::min(bytes, end_ - begin_);
    begin_ += from_buffer;
    if (begin_ == end_) begin_ = end_ = 0;
    if (tail_.empty()) return nullptr;
    tail_ = tail_.subspan(bytes - from_buffer);
    return tail_.empty() ? std::exchange(owner_, nullptr) : nullptr;
  }
  /// Afterwards the outbox does not refer to the memory of `transfer`; its frame stays complete.
  void detach(const Transfer& transfer) {
    if (owner_ == &transfer) detach_tail();
  }
  void detach_tail() {
    if (owner_ == nullptr) return;
    spare_.assign(tail_.begin(), tail_.end());
    tail_ = spare_;
    owner_ = nullptr;
  }
  void clear() {
    begin_ = end_ = 0;
    tail_ = {};
    owner_ = nullptr;
  }

 private:
  static constexpr std::size_t kCapacity = 64 << 10;
  void append_header(const Frame& frame) {
    if (const auto brief = encode_brief(frame, eager_))
      append(*brief);
    else
      append(encode(frame));
    if (frame.type == FrameType::kEager) eager_ = frame;
  }
  void append(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(buffer_.data() + end_, bytes.data(), bytes.size());
    end_ += bytes.size();
  }

  Frame eager_{};  // the last one
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::span<const std::byte> tail_;
  Transfer* owner_ = nullptr;
  std::vector<std::byte> spare_;  // a detached tail
};

/// Adds the frame that tells the other end why the stream is over.
inline void add_break(Outbox& out, Broken& broken) {
  broken.notify = false;
  Frame notice = broken.notice;
  notice.payload = broken.offender ? kHeaderBytes : 0;
  if (broken.offender)
    out.add(notice, encode(*broken.offender));
  else
    out.add(notice);
}

/// One sentence that shows both calls. `blamed` is the other rank.
Error mismatch_error(const Frame& sent, const Frame& expected, Rank blamed);
/// "rank 3 cancelled its send of ..."
Error cancelled_error(const Frame& notice, Rank blamed);

}  // namespace tutti
