// A barrier for ranks that are threads of one process, before any of them makes a stream wait.
//
// The streams of a process share hardware queues, and some ranks share a stream. A gate at the head
// of a queue must not hold up the commands that open it. So a rank enqueues the gate of a part of a
// collective only after all ranks of the process have enqueued their copies in of that part. It
// enqueues the gate of a message only after the rank at the other end, if it is of the same
// process, has enqueued what precedes its own gate.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/shared_by_key.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// What a rank counts: its parts of collectives, its sends to a peer, or its receives from a peer.
struct Progression {
  Rank rank = kNoRank;
  Rank peer = kNoRank;  ///< kNoRank: parts of collectives
  bool sends = false;
  friend auto operator<=>(const Progression&, const Progression&) = default;
};

/// A position in a progression, counted since the communicator was made.
struct Mark {
  Progression of;
  std::uint64_t count = 0;
};

/// The positions of those ranks of one communicator that are threads of this process. Thread-safe.
class EnqueueBarrier {
 public:
  /// Says that the copies in of these parts are enqueued.
  void arrive(std::span<const Mark> marks);
  /// Whether all have reached these marks before `deadline`. A rank that is late may be busy with
  /// another communicator and wait there for the caller: then the caller should go on.
  [[nodiscard]] bool await(std::span<const Mark> marks, Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Progression, std::uint64_t> counts_;
};

/// One per process: the barrier of a communicator.
using EnqueueBarriers = SharedByKey<std::uint64_t, EnqueueBarrier>;

}  // namespace tutti::exec::cuda
