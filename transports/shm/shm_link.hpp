// Two byte rings as a ByteLink, and a unix socket that tells of the peer's end.
//
// Bytes cross in the rings alone. The socket stays open for two reasons: its end is the end of the
// peer, and one byte on it wakes a peer that sleeps on poll_fd(). A side counts as asleep after
// some thousand fruitless calls; until then a sleeper is woken by its own timeout.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "src/base/fd.hpp"
#include "src/base/shared_heap.hpp"
#include "src/wire/byte_link.hpp"
#include "transports/shm/byte_ring.hpp"

namespace tutti {

/// A ring's memory in this process's heap; given back once the peer has read all of it, else kept
/// until the heap goes.
class OwnRing {
 public:
  static Result<std::shared_ptr<OwnRing>> create(std::shared_ptr<SharedHeap> heap,
                                                 std::size_t bytes);
  ~OwnRing();
  OwnRing(const OwnRing&) = delete;
  OwnRing& operator=(const OwnRing&) = delete;
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  [[nodiscard]] std::uint64_t offset() const;

 private:
  OwnRing(std::shared_ptr<SharedHeap> heap, std::span<std::byte> memory)
      : heap_(std::move(heap)), memory_(memory) {}
  std::shared_ptr<SharedHeap> heap_;
  std::span<std::byte> memory_;
};

class ShmLink final : public ByteLink {
 public:
  struct Parts {
    Fd socket;  ///< non-blocking
    std::shared_ptr<OwnRing> outgoing;
    std::unique_ptr<PeerMapping> mapping;  ///< the peer's heap
    std::span<std::byte> incoming;         ///< the peer's ring inside it
  };
  explicit ShmLink(Parts parts);

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
  Fd process_;  // of the peer; empty where the kernel has none to give
  RingProducer producer_;
  RingConsumer consumer_;
  std::uint32_t fruitless_ = 0;
  bool asleep_ = false;
};

}  // namespace tutti
