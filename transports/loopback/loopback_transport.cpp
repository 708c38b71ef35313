#include "transports/loopback/loopback_transport.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <vector>

#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"

namespace tutti {
namespace {

// One direction.
struct Lossy {
  struct Piece {
    std::vector<std::byte> bytes;
    std::uint64_t ready_step = 0;
  };
  std::deque<Piece> pieces;
  std::size_t in_flight = 0;
  std::uint64_t step = 0;  // counts read calls
  bool closed = false;     // by the writer
};

class Wire {
 public:
  Wire(std::uint64_t seed, const LoopbackOptions& options) : options_(options), random_(seed) {}

  Result<std::size_t> write(int side, std::span<const iovec> from) {
    std::scoped_lock lock(mutex_);
    Lossy& way = ways_[side];
    if (cut_ || ways_[1 - side].closed) return lost();
    std::size_t wanted = 0;
    for (const iovec& piece : from) wanted += piece.iov_len;
    const std::size_t bytes = some_of(std::min(wanted, options_.capacity - way.in_flight));
    if (bytes == 0) return bytes;
    Lossy::Piece piece;
    piece.ready_step = way.step + random_() % (options_.max_delay_steps + 1);
    if (!way.pieces.empty())
      piece.ready_step = std::max(piece.ready_step, way.pieces.back().ready_step);
    for (const iovec& source : from) {
      const auto* data = static_cast<const std::byte*>(source.iov_base);
      const std::size_t part = std::min(source.iov_len, bytes - piece.bytes.size());
      piece.bytes.insert(piece.bytes.end(), data, data + part);
    }
    way.in_flight += bytes;
    way.pieces.push_back(std::move(piece));
    written_ += bytes;
    cut_ = cut_ || (options_.drop_after_bytes && written_ >= *options_.drop_after_bytes);
    return bytes;
  }

  Result<std::size_t> read(int side, std::span<const iovec> into) {
    std::scoped_lock lock(mutex_);
    Lossy& way = ways_[1 - side];
    ++way.step;
    if (cut_ || (way.pieces.empty() && way.closed)) return lost();
    std::size_t total = 0;
    for (const iovec& target : into) {
      const std::size_t got = take(way, static_cast<std::byte*>(target.iov_base), target.iov_len);
      total += got;
      if (got < target.iov_len) break;
    }
    return total;
  }

  void close(int side) {
    std::scoped_lock lock(mutex_);
    ways_[side].closed = true;
  }
  void cut() {
    std::scoped_lock lock(mutex_);
    cut_ = true;
  }
  Result<bool> check() {
    std::scoped_lock lock(mutex_);
    if (cut_) return lost();
    return false;
  }

 private:
  static Error lost() { return make_error(Code::kPeerFailed, "the wire was cut"); }

  // All of it, or often less.
  std::size_t some_of(std::size_t bytes) {
    return bytes > 1 && random_() % 2 == 0 ? 1 + random_() % bytes : bytes;
  }

  static std::size_t take(Lossy& way, std::byte* target, std::size_t wanted) {
    std::size_t got = 0;
    while (got < wanted && !way.pieces.empty() && way.pieces.front().ready_step <= way.step) {
      auto& bytes = way.pieces.front().bytes;
      const std::size_t part = std::min(wanted - got, bytes.size());
      std::memcpy(target + got, bytes.data(), part);
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
      if (bytes.empty()) way.pieces.pop_front();
      got += part;
    }
    way.in_flight -= got;
    return got;
  }

  const LoopbackOptions options_;
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::array<Lossy, 2> ways_;  // [i]: written by side i
  std::uint64_t written_ = 0;
  bool cut_ = false;
};

class LoopbackLink final : public ByteLink {
 public:
  LoopbackLink(std::shared_ptr<Wire> wire, int side) : wire_(std::move(wire)), side_(side) {}
  ~LoopbackLink() override { wire_->close(side_); }

  Result<std::size_t> write(std::span<const iovec> pieces) override {
    return wire_->write(side_, pieces);
  }
  Result<std::size_t> read(std::span<const iovec> pieces) override {
    return wire_->read(side_, pieces);
  }
  Result<bool> check() override { return wire_->check(); }
  [[nodiscard]] std::size_t read_ahead() const override { return 4096; }
  [[nodiscard]] int poll_fd() const override { return -1; }
  void shutdown() override { wire_->close(side_); }

 private:
  std::shared_ptr<Wire> wire_;
  int side_;
};

}  // namespace

LoopbackPair make_loopback_pair(std::uint64_t seed, const LoopbackOptions& options) {
  std::vector<std::shared_ptr<Wire>> wires;
  for (std::size_t i = 0; i < options.wires; ++i)
    wires.push_back(std::make_shared<Wire>(seed + i, options));
  const auto end = [&](int side) {
    std::vector<std::unique_ptr<ByteLink>> links;
    for (const auto& wire : wires) links.push_back(std::make_unique<LoopbackLink>(wire, side));
    return std::make_shared<MessageEngine>(
        std::move(links),
        EngineOptions{.peer = 1 - side, .link_name = "loopback", .shuffle_seed = seed * 2 + 1});
  };
  return {end(0), end(1), [wires] {
            for (const auto& wire : wires) wire->cut();
          }};
}

}  // namespace tutti
