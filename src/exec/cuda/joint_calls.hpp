// Calls that all ranks of a communicator make in one process, on one GPU. The last rank to arrive
// launches the call for all.
//
// No stream waits for anything that is not enqueued yet. Each rank brings an event recorded behind
// the earlier work of its stream. The launch waits for all these events, and the streams then wait
// for the launch. A rank that cannot take part, or is late, dissolves the call: then every rank
// makes it in another way. So the ranks agree without messages.
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

/// What a rank brings to a joint call.
struct JointRank {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  StreamHandle stream = nullptr;
  /// Recorded behind the earlier work of the stream.
  std::shared_ptr<tutti::cuda::Event> ready;
  std::uint64_t call_hash = 0;  ///< equal where ranks make the same call
  bool in_place = false;
};

/// One per communicator and process. Thread-safe.
class JointCalls {
 public:
  /// Launches the call for all ranks, behind the `ready` of each. Returns an event behind the
  /// launch; nullptr: the call cannot be run jointly, and nothing was launched.
  using Launch = std::function<Result<std::shared_ptr<tutti::cuda::Event>>(
      const std::vector<JointRank>& ranks)>;

  explicit JointCalls(std::int32_t ranks) : ranks_(ranks) {}

  /// Rank `rank` makes its call number `number`, counted from 0. The last rank to come launches.
  void come(std::uint64_t number, Rank rank, JointRank bring, const Launch& launch);
  /// A rank cannot take part in this call.
  void dissolve(std::uint64_t number);
  /// No call is joint from now on. To be used when ranks may count their calls differently.
  void dissolve_all();
  /// The outcome of a call: the event behind its launch, the error of its launch, or nullptr if it
  /// was dissolved, which happens at `deadline` at the latest. A rank calls this once after each
  /// come() or dissolve().
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
