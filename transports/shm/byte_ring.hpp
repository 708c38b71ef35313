// A ring of bytes in shared memory with one producer and one consumer. Each is in its own process
// and treats what the other writes as hostile.
//
// Layout: a header of 512 bytes, zero at first, then the bytes. Positions count bytes since the
// start and never wrap. Each position has one writer and its own cache line. A side keeps its own
// position, and the last value seen of the other's, in private memory. A value read from the ring
// is copied once. It must lie between what was seen before and what the ring can hold.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/uio.h>

#include "tutti/error.hpp"

namespace tutti {

struct RingHeader {
  alignas(128) std::atomic<std::uint64_t> written;  ///< by the producer
  alignas(128) std::atomic<std::uint64_t> read;     ///< by the consumer
  /// Not 0: that side may sleep. The other side clears it and wakes that side.
  alignas(128) std::atomic<std::uint32_t> producer_sleeps;
  alignas(128) std::atomic<std::uint32_t> consumer_sleeps;
  std::atomic<std::uint32_t> consumer_left;  ///< not 0: the consumer will not touch the ring again
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(RingHeader) == 512);

/// The producer's end. Value that refers to memory, which must outlive it. One thread at a time.
class RingProducer {
 public:
  /// `memory`: the header, then a power of two of bytes.
  explicit RingProducer(std::span<std::byte> memory);
  Result<std::size_t> write(std::span<const iovec> pieces);
  /// Whether the consumer sleeps and this caller must wake it.
  [[nodiscard]] bool must_ring();
  void sleep(bool may_sleep) { header_->producer_sleeps.store(may_sleep); }

 private:
  Status look();
  RingHeader* header_;
  std::byte* data_;
  std::size_t capacity_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  // last seen
};

/// The consumer's end. As RingProducer.
class RingConsumer {
 public:
  explicit RingConsumer(std::span<std::byte> memory);
  Result<std::size_t> read(std::span<const iovec> pieces);
  [[nodiscard]] bool must_ring();
  void sleep(bool may_sleep) { header_->consumer_sleeps.store(may_sleep); }
  /// The consumer's last action.
  void leave() { header_->consumer_left.store(1, std::memory_order_release); }

 private:
  Status look();
  RingHeader* header_;
  std::byte* data_;
  std::size_t capacity_;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;  // last seen
};

}  // namespace tutti
