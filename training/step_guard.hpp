// Makes sure that ranks do the same operations in the same order, and tells each rank why a step
// ended.
//
// A rank that skips a unit makes one gather less than the others. Its next gather, of an equally
// large unit, would be mistaken for the skipped one. So each rank records its operations. The ranks
// compare a hash of the record in the message that finds the largest gradient, so this needs no
// extra message. If hashes differ, or a rank waits longer than `patience`, they compare full
// records. The error then names the rank, the unit and one of its parameters.
//
// A rank that fails by itself tells the others before it gives up, and they get its text.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "training/flat_layout.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

enum class Operation : std::uint8_t {
  kGather,           ///< of a group
  kGatherSecondary,  ///< of a group
  kReduce,           ///< of a group
  kPass,             ///< a backward pass begins; no group
  kStep,             ///< the lowest 28 bits of a hash of the options stand for the group
};

/// One rank's guard, used only by the thread that trains. Resource.
class StepGuard {
 public:
  /// `control` must have no other user. `patience`: how long a rank waits before it asks the
  /// others.
  StepGuard(std::shared_ptr<const FlatLayout> layout, Comm control,
            std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~StepGuard();
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

  /// Communicators whose calls must end when a rank gives up. They must outlive this object.
  void revokes(std::vector<Comm*> channels) { channels_ = std::move(channels); }

  /// This rank is about to begin an operation.
  void note(Operation operation, std::uint32_t group = 0);
  /// Waits for the work on a stream. The error comes from the rank to blame, if known.
  Status wait(Stream& stream);
  /// The same for a call that has returned its outcome.
  Status check(Status outcome);
  /// Ends a step. Returns the largest `value` of all ranks, or kPeerFailed. Values are not
  /// negative.
  Result<float> meet(float value);
  /// After meet(): replaces `numbers` by their sums over all ranks.
  Status add_up(std::span<std::int64_t> numbers);
  /// This rank cannot go on: tells the others, which get kPeerFailed. Returns `error`.
  Error give_up(Error error);

  /// Seconds that wait() and meet() took since the last call of this function.
  [[nodiscard]] double take_waited() { return std::exchange(waited_, {}).count(); }
  /// Bytes that this rank sent to the others for all of this.
  [[nodiscard]] std::uint64_t bytes_sent() const;

 private:
  enum class State : std::uint8_t {
    kDone,     ///< has finished its step
    kWaiting,  ///< waits for an operation with other ranks
    kHurt,     ///< an operation with other ranks failed
    kFailed,   ///< failed by itself
  };
  struct Report {
    State state = State::kDone;
    std::string text;
    std::vector<std::uint32_t> noted;
  };
  struct Round {
    float largest = 0;
    bool all_done = false;
  };
  Result<Round> compare(State state, float value, const std::string& text);
  Result<std::vector<Report>> gather_reports(State state, const std::string& text);
  [[nodiscard]] std::optional<Error> judge(const std::vector<Report>& reports, State own) const;
  [[nodiscard]] std::optional<Error> first_difference(const std::vector<Report>& reports) const;
  [[nodiscard]] std::string describe(const Report& report, std::size_t at) const;
  void revoke_channels();
  void watch();
  void look_after(std::uint64_t waiting);

  const std::shared_ptr<const FlatLayout> layout_;
  Comm control_;
  const Rank rank_;
  const std::chrono::milliseconds patience_;
  std::vector<Comm*> channels_;

  std::mutex round_;            ///< held by the thread that talks to the other ranks
  std::optional<Error> fault_;  ///< guarded by round_: what ended training
  std::mutex noting_;
  std::vector<std::uint32_t> noted_;  ///< guarded by noting_: since the step began
  std::uint64_t step_ = 0;
  std::chrono::duration<double> waited_ = {};

  /// Odd while the training thread waits. Counts its waits.
  std::atomic<std::uint64_t> waits_ = 0;
  std::mutex ending_;
  std::condition_variable ends_;
  bool is_ending_ = false;  ///< guarded by ending_
  std::thread watcher_;
};

}  // namespace tutti::training
