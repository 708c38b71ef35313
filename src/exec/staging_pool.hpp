// The staging memory of a process, shared by communicators that do not run at the same time.
//
// Words:
//   region  space in the shared heap for one rank's slots in one staged call.
//   lease   holds one region or none. A rank has two leases, for its even and its odd staged calls:
//           while it fills the slots of one call, peers may still read those of the call before.
//   rest    a region rests when its holder is in no call that uses it, and all readers have left
//           the last call that did. It stays with its holder, whose next call finds it in place,
//           until a lease of another communicator needs a region.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "src/base/shared_heap.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

/// One per process; must outlive its leases. Thread-safe.
class StagingPool {
 public:
  class Lease;

  explicit StagingPool(std::shared_ptr<SharedHeap> heap) : heap_(std::move(heap)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  [[nodiscard]] const std::shared_ptr<SharedHeap>& heap() const { return heap_; }

 private:
  const std::shared_ptr<SharedHeap> heap_;
  std::mutex mutex_;
  std::vector<Lease*> holders_;  ///< other leases may take from these
};

/// Resource. Its owner is one thread at a time; other threads reach it through the pool.
class StagingPool::Lease {
 public:
  struct Reader {
    Rank rank = kNoRank;
    const std::atomic<std::uint64_t>* progress = nullptr;  ///< valid until close()
    std::uint64_t left_at = 0;  ///< the reader has left the call when progress reaches this
  };

  /// Regions do not move between ranks of one `communicator`. Otherwise a communicator that runs
  /// alone would never settle.
  Lease(StagingPool& pool, std::uint64_t communicator, std::size_t bytes)
      : pool_(pool), communicator_(communicator), bytes_(bytes) {}
  /// No peer reads the region any more.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Call before the first enter().
  void set_readers(std::vector<Reader> readers) { readers_ = std::move(readers); }

  /// Begins a call; all readers must have left the last call of this lease. Returns a region to
  /// fill, with arbitrary contents: the last call's region or another. kUnavailable when memory is
  /// short.
  Result<std::byte*> enter();
  /// Ends the call here; for reader r it ends once its progress reaches `left_at[r.rank]`. Not
  /// called after a failed call, because nobody knows then who still reads.
  void leave(std::span<const std::uint64_t> left_at);
  /// No more calls follow. Gives the region back if it rests; otherwise the destructor does.
  void close();

 private:
  enum class State : std::uint8_t { kEmpty, kIdle, kBusy };

  bool take_from_another();
  bool seize_if_resting();

  StagingPool& pool_;
  const std::uint64_t communicator_;
  const std::size_t bytes_;
  /// Whoever makes it kBusy owns the members below: the owner at any time, others with the pool's
  /// lock.
  std::atomic<State> state_{State::kEmpty};
  std::byte* region_ = nullptr;
  std::vector<Reader> readers_;
};

}  // namespace tutti::exec
