// Ranks that are threads of one process line up before any of them makes a stream wait.
//
// Streams of a process share hardware queues, and some share a stream. A gate at the head of a
// queue must not hold up the copies in which open it, so a rank enqueues the gate of a part of a
// collective only after all ranks of the process have enqueued their copies in of that part.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// How far the ranks of one communicator are that are threads of this process. Thread-safe.
class Lineup {
 public:
  /// `rank` has enqueued the copies in of that many parts since the communicator was made.
  void came(Rank rank, std::uint64_t parts);
  /// Whether all of `ranks` came so far before `deadline`. One that does not come may be busy with
  /// another communicator, where it waits for the caller: then it is better to go on.
  [[nodiscard]] bool await(std::span<const Rank> ranks, std::uint64_t parts, Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Rank, std::uint64_t> parts_;
};

/// One per process. Thread-safe.
class LineupBoard {
 public:
  /// The same object for all who ask while one keeps it.
  std::shared_ptr<Lineup> of(std::uint64_t communicator);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<Lineup>> lineups_;
};

}  // namespace tutti::exec::cuda
