#include "src/transport/checked_connection.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "src/base/crc32c.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::size_t kPieceBytes = 128 << 10;

std::size_t pieces_of(std::size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

std::span<const std::byte> piece_of(std::span<const std::byte> data, std::size_t index) {
  const std::size_t begin = index * kPieceBytes;
  return data.subspan(begin, std::min(kPieceBytes, data.size() - begin));
}

std::uint32_t checksum_of(std::span<const std::byte> data, std::size_t index) {
  return crc32c(piece_of(data, index), static_cast<std::uint32_t>(index + 1));
}

bool is_pending(const Transfer& transfer) {
  return transfer.state.load(std::memory_order_acquire) == Transfer::State::kPending;
}
bool has_failed(const Transfer& transfer) {
  return transfer.state.load(std::memory_order_acquire) == Transfer::State::kFailed;
}

/// What is wrong with a message that has come; nothing if it is as it was sent.
std::optional<Error> find_damage(const StreamId& stream, const MessageTag& tag,
                                 std::span<const std::byte> data,
                                 std::span<const std::uint32_t> checksums) {
  for (std::size_t index = 0; index < checksums.size(); ++index) {
    const std::uint32_t here = checksum_of(data, index);
    if (here == checksums[index]) continue;
    const std::size_t begin = index * kPieceBytes;
    return peer_error(
        Code::kPeerFailed, stream.source,
        "the message of rank {} to rank {} of {} as operation {} was damaged on its way: bytes {} "
        "to "
        "{} have the CRC32C {:#010x}, and had {:#010x} when they were sent. Look at the network "
        "between the two hosts, their NICs and their memory",
        stream.source, stream.destination, describe(tag.call), tag.sequence, begin,
        begin + piece_of(data, index).size() - 1, here, checksums[index]);
  }
  return std::nullopt;
}

}  // namespace

bool CheckedConnection::Order::operator()(const std::pair<StreamId, Direction>& a,
                                          const std::pair<StreamId, Direction>& b) const {
  const auto key = [](const std::pair<StreamId, Direction>& one) {
    return std::tuple(one.first.communicator, one.first.source, one.first.destination,
                      one.first.lane, one.second);
  };
  return key(a) < key(b);
}

StreamId CheckedConnection::beside(StreamId stream) {
  stream.lane = static_cast<Lane>(stream.lane | kChecksumLanes);
  return stream;
}

void CheckedConnection::cancel_below(Connection& below, const StreamId& stream, Pair& pair) {
  below.cancel(stream, pair.data_transfer);
  below.cancel(beside(stream), pair.checksums_transfer);
}

CheckedConnection::~CheckedConnection() {
  for (auto& [key, queue] : queues_)
    for (Pair& pair : queue) cancel_below(*below_, key.first, pair);
}

CheckedConnection::Pair& CheckedConnection::add(const StreamId& stream, Direction direction,
                                                const MessageTag& tag,
                                                std::span<const std::byte> data,
                                                Transfer& transfer) {
  transfer.state.store(Transfer::State::kPending, std::memory_order_relaxed);
  Pair& pair = queues_[{stream, direction}].emplace_back();
  pair.caller = &transfer;
  pair.tag = tag;
  pair.data = data;
  pair.checksums.resize(pieces_of(data.size()));
  return pair;
}

void CheckedConnection::send(const StreamId& stream, const MessageTag& tag,
                             std::span<const std::byte> data, Transfer& transfer) {
  const std::scoped_lock lock(mutex_);
  Pair& pair = add(stream, Direction::kSend, tag, data, transfer);
  for (std::size_t index = 0; index < pair.checksums.size(); ++index)
    pair.checksums[index] = checksum_of(data, index);
  below_->send(stream, tag, data, pair.data_transfer);
  below_->send(beside(stream), tag, std::as_bytes(std::span(pair.checksums)),
               pair.checksums_transfer);
  settle();
}

void CheckedConnection::send_with_next(const StreamId& stream, const MessageTag& tag,
                                       std::span<const std::byte> data, Transfer& transfer) {
  send(stream, tag, data, transfer);
}

void CheckedConnection::recv(const StreamId& stream, const MessageTag& tag,
                             std::span<std::byte> data, Transfer& transfer) {
  const std::scoped_lock lock(mutex_);
  Pair& pair = add(stream, Direction::kRecv, tag, data, transfer);
  below_->recv(stream, tag, data, pair.data_transfer);
  below_->recv(beside(stream), tag, std::as_writable_bytes(std::span(pair.checksums)),
               pair.checksums_transfer);
  settle();
}

void CheckedConnection::cancel(const StreamId& stream, Transfer& transfer) {
  const std::scoped_lock lock(mutex_);
  for (auto& [key, queue] : queues_) {
    if (key.first != stream) continue;
    for (Pair& pair : queue)
      if (pair.caller == &transfer) cancel_below(*below_, stream, pair);
  }
  settle();
}

bool CheckedConnection::progress() {
  const bool moved = below_->progress();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return (lock.owns_lock() && settle()) || moved;
}

bool CheckedConnection::settle() {
  bool any = false;
  for (auto at = queues_.begin(); at != queues_.end();) {
    any |= settle(at->first.first, at->first.second, at->second);
    at = at->second.empty() ? queues_.erase(at) : std::next(at);
  }
  return any;
}

/// Completes those at the front whose two parts are done. One that failed takes its other part with
/// it.
bool CheckedConnection::settle(const StreamId& stream, Direction direction, Queue& queue) {
  bool any = false;
  while (!queue.empty()) {
    Pair& pair = queue.front();
    if (has_failed(pair.data_transfer) || has_failed(pair.checksums_transfer))
      cancel_below(*below_, stream, pair);
    if (is_pending(pair.data_transfer) || is_pending(pair.checksums_transfer)) break;
    complete(stream, direction, pair);
    queue.pop_front();
    any = true;
  }
  return any;
}

void CheckedConnection::complete(const StreamId& stream, Direction direction, Pair& pair) {
  std::optional<Error> failed;
  if (has_failed(pair.data_transfer))
    failed = pair.data_transfer.error;
  else if (has_failed(pair.checksums_transfer))
    failed = pair.checksums_transfer.error;
  else if (direction == Direction::kRecv)
    failed = find_damage(stream, pair.tag, pair.data, pair.checksums);
  Transfer& caller = *pair.caller;
  if (failed) caller.error = *std::move(failed);
  // From here on the transfer belongs to its owner again.
  caller.state.store(failed ? Transfer::State::kFailed : Transfer::State::kDone,
                     std::memory_order_release);
}

}  // namespace tutti
