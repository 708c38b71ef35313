// A ByteLink made of two byte rings, and a unix socket that reports the peer's end.
//
// Bytes travel in the rings only. The socket stays open for two reasons: its end is the peer's end,
// and one byte on it wakes a peer that sleeps on poll_fd(). A side counts as asleep after some
// thousand fruitless calls. Until then only its own timeout wakes it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/process_life.hpp"
#include "src/base/shared_heap.hpp"
#include "src/wire/byte_link.hpp"
#include "transports/shm/byte_ring.hpp"

namespace tutti {

/// Memory for rings, from this process's heap. A slower peer may still touch a ring after this side
/// is done with it. So a ring is freed only once the peer has left it or its process has ended.
/// Each allocation of a ring checks that. Thread-safe.
class RingYard {
 public:
  explicit RingYard(std::shared_ptr<SharedHeap> heap) : heap_(std::move(heap)) {}
  Result<std::span<std::byte>> take(std::size_t bytes);
  void give_back(std::span<std::byte> memory, const ProcessLife& peer);
  [[nodiscard]] SharedHeap& heap() { return *heap_; }

 private:
  struct Left {
    std::span<std::byte> memory;
    ProcessLife peer;
  };
  void sweep_locked();

  const std::shared_ptr<SharedHeap> heap_;
  std::mutex mutex_;
  std::vector<Left> left_;
};

/// The memory of one ring.
class OwnRing {
 public:
  /// `peer`: the process that reads the ring.
  static Result<std::shared_ptr<OwnRing>> create(std::shared_ptr<RingYard> yard, std::size_t bytes,
                                                 const ProcessLife& peer);
  ~OwnRing() { yard_->give_back(memory_, peer_); }
  OwnRing(const OwnRing&) = delete;
  OwnRing& operator=(const OwnRing&) = delete;
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  [[nodiscard]] std::uint64_t offset() const;

 private:
  OwnRing(std::shared_ptr<RingYard> yard, std::span<std::byte> memory, const ProcessLife& peer)
      : yard_(std::move(yard)), memory_(memory), peer_(peer) {}
  const std::shared_ptr<RingYard> yard_;
  const std::span<std::byte> memory_;
  const ProcessLife peer_;
};

class ShmLink final : public ByteLink {
 public:
  struct Parts {
    Fd socket;  ///< non-blocking
    std::shared_ptr<OwnRing> outgoing;
    std::unique_ptr<PeerMapping> mapping;  ///< maps the peer's heap
    std::span<std::byte> incoming;         ///< the peer's ring in that heap
  };
  explicit ShmLink(Parts parts);
  ~ShmLink() override { consumer_.leave(); }

  Result<std::size_t> write(std::span<const iovec> pieces) override;
  Result<std::size_t> read(std::span<const iovec> pieces) override;
  Result<bool> check() override;
  [[nodiscard]] std::size_t read_ahead() const override { return 256; }
  [[nodiscard]] int poll_fd() const override { return parts_.socket.get(); }
  void shutdown() override;

 private:
  Status listen_for_the_end();
  void ring();
  void stay_awake();

  Parts parts_;
  Fd process_;  // the peer's pidfd; empty if the kernel has none
  RingProducer producer_;
  RingConsumer consumer_;
  std::uint32_t fruitless_ = 0;
  bool asleep_ = false;
};

}  // namespace tutti
