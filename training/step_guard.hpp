// Holds ranks to the same operations in the same order, and tells each what ended a step.
//
// A rank that skips a unit makes one gather less than the others, and its next one, of a unit as
// large, would be taken for it. So each rank notes what it sends, and the ranks compare a hash of
// that in the message in which they agree on the largest gradient: at no extra message. Where
// hashes differ, or a rank waits for longer than `patience`, they compare all that they noted, and
// the error names the rank, the unit and a parameter of it.
//
// A rank that fails by itself says so before it gives up, and the others get its words.
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
  kPass,             ///< backward: begins; no group
  kStep,             ///< with options, of which the lowest 28 bits of a hash stand for the group
};

/// One rank's, used by the one thread that trains. Resource.
class StepGuard {
 public:
  /// `control` is used for this alone. `patience`: how long a rank waits before it asks the others.
  StepGuard(std::shared_ptr<const FlatLayout> layout, Comm control,
            std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~StepGuard();
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

  /// Communicators whose calls are to end when a rank gives up; they outlive this object.
  void revokes(std::vector<Comm*> channels) { channels_ = std::move(channels); }

  /// This rank is about to begin an operation.
  void note(Operation operation, std::uint32_t group = 0);
  /// Waits for what runs on a stream. The error is that of the rank which is to blame, if known.
  Status wait(Stream& stream);
  /// The same for a call that was made and has its outcome.
  Status check(Status outcome);
  /// Ends a step: the largest `value`, which is not negative, of all ranks; or kPeerFailed.
  Result<float> meet(float value);
  /// After meet(): the sums of `numbers` over all ranks.
  Status add_up(std::span<std::int64_t> numbers);
  /// This rank cannot go on: the others are told, and get kPeerFailed. Returns `error`.
  Error give_up(Error error);

  /// How long wait() and meet() took, since the last call of this. Seconds.
  [[nodiscard]] double take_waited() { return std::exchange(waited_, {}).count(); }
  /// By this rank, in all that it told the others.
  [[nodiscard]] std::uint64_t bytes_sent() const;

 private:
  enum class State : std::uint8_t {
    kDone,     ///< has come to the end of its step
    kWaiting,  ///< for an operation with others
    kHurt,     ///< by an operation that failed
    kFailed,   ///< by itself
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

  std::mutex round_;            ///< held by who talks to the others
  std::optional<Error> fault_;  ///< under round_: what ended training
  std::mutex noting_;
  std::vector<std::uint32_t> noted_;  ///< under noting_: since the step began
  std::uint64_t step_ = 0;
  std::chrono::duration<double> waited_ = {};

  /// Odd while the training thread waits: the number of its wait.
  std::atomic<std::uint64_t> waits_ = 0;
  std::mutex ending_;
  std::condition_variable ends_;
  bool is_ending_ = false;  ///< under ending_
  std::thread watcher_;
};

}  // namespace tutti::training
