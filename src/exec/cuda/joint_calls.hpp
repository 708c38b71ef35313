// Calls that all ranks of a communicator make in one process, on one GPU: who comes last launches
// for all.
//
// No stream waits for anything that is not enqueued: each rank comes with an event behind what its
// stream did before, the launch waits for all of them, and the streams then wait for the launch.
// A rank that cannot take part, or does not come in time, dissolves a call, and all make it in
// another way: so the ranks agree without a word.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/shared_by_key.hpp"
#include "src/cuda/driver.hpp"
#include "src/exec/cuda/host_staging.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// What a rank brings.
struct JointRank {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  StreamHandle stream = nullptr;
  /// Behind what its stream did before.
  std::shared_ptr<tutti::cuda::Event> ready;
  std::uint64_t call_hash = 0;  ///< equal where ranks make the same call
  bool in_place = false;
};

/// One per communicator and process. Thread-safe.
class JointCalls {
 public:
  /// Launches the call of ranks that are all there; each one's `ready` has to be waited for.
  /// Returns an event behind it; nullptr: it cannot be run so, and nothing was launched.
  using Launch = std::function<Result<std::shared_ptr<tutti::cuda::Event>>(
      const std::vector<JointRank>& ranks)>;

  explicit JointCalls(std::int32_t ranks) : ranks_(ranks) {}

  /// Rank `rank` makes its call number `number`, counted from 0. The last to come launches.
  void come(std::uint64_t number, Rank rank, JointRank bring, const Launch& launch);
  /// It cannot take part.
  void dissolve(std::uint64_t number);
  /// No call is joint from now on: ranks that take no part in some count them differently.
  void dissolve_all();
  /// What became of a call that this rank came to: the event behind it, nullptr where it is
  /// dissolved, as it is when `deadline` passes first, or the error of its launch. Once for each
  /// come() or dissolve() of a rank.
  Result<std::shared_ptr<tutti::cuda::Event>> await(std::uint64_t number, Deadline deadline);

 private:
  struct State {
    std::vector<std::optional<JointRank>> here;
    std::int32_t came = 0, left = 0;
    bool decided = false;
    std::shared_ptr<tutti::cuda::Event> behind;  ///< the launch; null: dissolved, or it failed
    std::optional<Error> error;                  ///< of the launch
  };
  State& state_of(std::uint64_t number);

  const std::int32_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, State> calls_;
  bool all_dissolved_ = false;
};

/// One per process: the joint calls of a communicator.
using JointBoard = SharedByKey<std::uint64_t, JointCalls>;

}  // namespace tutti::exec::cuda
