// The staging memory of a process, shared by communicators that do not run at once.
//
// Words:
//   region  room in the shared heap for the slots of one rank in one staged call.
//   lease   holds a region or none. A rank has two, for its even and its odd staged calls: while it
//           fills the slots of one, peers may still read those of the one before.
//   rest    a region rests when its holder is in no call that uses it, and all readers have left
//           the last one that did. It stays with its holder, whose next call finds it where it was,
//           until a lease of another communicator needs one.
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

/// One per process; outlives its leases. Thread-safe.
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
  std::vector<Lease*> holders_;  ///< that others may take from
};

/// Resource. Its owner is one thread at a time; the pool looks at it from others.
class StagingPool::Lease {
 public:
  struct Reader {
    Rank rank = kNoRank;
    const std::atomic<std::uint64_t>* progress = nullptr;  ///< valid until close()
    std::uint64_t left_at = 0;  ///< when progress is there, it has left the call
  };

  /// Regions do not pass between the ranks of one `communicator`: one that runs alone would
  /// otherwise never settle.
  Lease(StagingPool& pool, std::uint64_t communicator, std::size_t bytes)
      : pool_(pool), communicator_(communicator), bytes_(bytes) {}
  /// Nobody reads the region any more.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Before the first call.
  void set_readers(std::vector<Reader> readers) { readers_ = std::move(readers); }

  /// A call begins; all readers have left the last one of this lease. Returns the region that it
  /// may fill, with any contents: the one of the last call, or another. kUnavailable when memory is
  /// short.
  Result<std::byte*> enter();
  /// The call is over here, and for reader r once its progress reaches `left_at[r.rank]`. After one
  /// that failed, this is never called: who knows who still reads.
  void leave(std::span<const std::uint64_t> left_at);
  /// There are no more calls. Gives the region back if it rests, else the destructor will.
  void close();

 private:
  enum class State : std::uint8_t { kEmpty, kIdle, kBusy };

  bool take_from_another();
  bool seize_if_resting();

  StagingPool& pool_;
  const std::uint64_t communicator_;
  const std::size_t bytes_;
  /// Who makes it kBusy has what is below: the owner at any time, others with the pool's lock.
  std::atomic<State> state_{State::kEmpty};
  std::byte* region_ = nullptr;
  std::vector<Reader> readers_;
};

}  // namespace tutti::exec
