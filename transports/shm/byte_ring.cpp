#include "transports/shm/byte_ring.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/result.hpp"

namespace tutti {
namespace {

RingHeader* header_of(std::span<std::byte> memory) {
  return std::launder(reinterpret_cast<RingHeader*>(memory.data()));
}

// Clears the flag first, so one sleep is rung for once.
bool take(std::atomic<std::uint32_t>& sleeps) { return sleeps.load() != 0 && sleeps.exchange(0); }

}  // namespace

RingProducer::RingProducer(std::span<std::byte> memory)
    : header_(header_of(memory)),
      data_(memory.data() + sizeof(RingHeader)),
      capacity_(memory.size() - sizeof(RingHeader)) {}

Status RingProducer::look() {
  const std::uint64_t read = header_->read.load(std::memory_order_acquire);
  if (read < read_ || read > written_)
    return make_error(Code::kPeerFailed, "it says it has read {} bytes of {} written (before: {})",
                      read, written_, read_);
  read_ = read;
  return ok_status();
}

Result<std::size_t> RingProducer::write(std::span<const iovec> pieces) {
  std::size_t wanted = 0;
  for (const iovec& piece : pieces) wanted += piece.iov_len;
  if (capacity_ - (written_ - read_) < wanted) TUTTI_TRY(look());
  std::size_t room = capacity_ - (written_ - read_);
  const std::uint64_t before = written_;
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(room, piece.iov_len);
    if (bytes == 0) continue;
    const std::size_t at = written_ & (capacity_ - 1);
    const std::size_t straight = std::min(bytes, capacity_ - at);
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    std::memcpy(data_ + at, from, straight);
    std::memcpy(data_, from + straight, bytes - straight);
    written_ += bytes;
    room -= bytes;
  }
  // Sequentially consistent, like the flags: a consumer that goes to sleep sees the bytes, or this
  // side sees that it sleeps.
  if (written_ != before) header_->written.store(written_);
  return written_ - before;
}

bool RingProducer::must_ring() { return take(header_->consumer_sleeps); }

RingConsumer::RingConsumer(std::span<std::byte> memory)
    : header_(header_of(memory)),
      data_(memory.data() + sizeof(RingHeader)),
      capacity_(memory.size() - sizeof(RingHeader)) {}

Status RingConsumer::look() {
  const std::uint64_t written = header_->written.load(std::memory_order_seq_cst);
  if (written < written_ || written - read_ > capacity_)
    return make_error(Code::kPeerFailed, "it says it has written {} bytes of which {} were read",
                      written, read_);
  written_ = written;
  return ok_status();
}

Result<std::size_t> RingConsumer::read(std::span<const iovec> pieces) {
  std::size_t wanted = 0;
  for (const iovec& piece : pieces) wanted += piece.iov_len;
  if (written_ - read_ < wanted) TUTTI_TRY(look());
  std::size_t available = written_ - read_;
  const std::uint64_t before = read_;
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(available, piece.iov_len);
    if (bytes == 0) continue;
    const std::size_t at = read_ & (capacity_ - 1);
    const std::size_t straight = std::min(bytes, capacity_ - at);
    auto* to = static_cast<std::byte*>(piece.iov_base);
    std::memcpy(to, data_ + at, straight);
    std::memcpy(to + straight, data_, bytes - straight);
    read_ += bytes;
    available -= bytes;
  }
  if (read_ != before) header_->read.store(read_);
  return read_ - before;
}

bool RingConsumer::must_ring() { return take(header_->producer_sleeps); }

}  // namespace tutti
