// The call that a rank runs: its plan, its arguments, and which stores it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "src/base/clock.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"
#include "src/reduce/reduce.hpp"

namespace tutti::exec {

struct CollectiveArgs {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Reduction reduction;  ///< type, operator, this rank's scalar; the run sets the divisor
  /// Equal on every rank, or the call is an error. Must outlive the run.
  const CallSignature* call = nullptr;
  std::uint64_t call_hash = 0;  ///< hash_of(*call)
  /// Shown with `call` in that error, here and on mapped peers. Must outlive the run. "": none;
  /// then no call of the team may have one.
  std::string_view caption;
};

/// Resource. One per team, reused from call to call.
class Launch {
 public:
  explicit Launch(const Team& team) : team_(team) {}

  /// Both arguments must outlive the call.
  void begin(Plan& plan, const CollectiveArgs& args) {
    plan_ = &plan;
    args_ = &args;
  }
  /// The ranks agreed on `plan`, which begins to run now.
  void run(Plan& plan) {
    plan_ = &plan;
    all_there_.reset();
    stores_ = {};
    if (StoreChoice* const choice = plan.store_choice()) stores_ = choice->begin();
  }
  /// The run completed.
  void end();

  [[nodiscard]] Plan& plan() const { return *plan_; }
  [[nodiscard]] lower::ProgramProtocol protocol() const { return plan_->lowered().protocol; }
  [[nodiscard]] const CollectiveArgs& args() const { return *args_; }
  /// Whether this rank's input is scaled before it is combined.
  [[nodiscard]] bool scales_input() const { return args_->reduction.op == ReduceOp::kPreMulSum; }

  /// Destinations = combination of the sources. Sources marked in `scaled` are scaled first.
  /// `completes`: see lower::Op.
  void combine(std::span<const std::byte* const> sources, std::uint64_t scaled,
               std::span<const Destination> destinations, std::size_t bytes, bool completes) const;
  [[nodiscard]] Stores stores_to(lower::ProgramMemory memory, std::size_t bytes) const {
    const bool streams = memory == lower::ProgramMemory::kOutput ? stores_.output : stores_.peers;
    const bool pays = streams && bytes >= kStreamFrom && memory != lower::ProgramMemory::kScratch;
    if (pays) return Stores::kNonTemporal;
    const bool peers_have_it =
        memory == lower::ProgramMemory::kSlot || memory == lower::ProgramMemory::kPeerOutput;
    return peers_have_it ? team_.stores_for_peers() : Stores::kCached;
  }

  /// Starts the clock when all peers are there; only from then on does the time say something about
  /// the stores. With kDirect that is at once, in a pipeline when there is data from peers to read.
  void start_stopwatch() {
    if (!all_there_ && plan_->store_choice() != nullptr) all_there_ = Clock::now();
  }

 private:
  const Team& team_;
  Plan* plan_ = nullptr;
  const CollectiveArgs* args_ = nullptr;
  StreamingStores stores_;
  std::optional<TimePoint> all_there_;  ///< since when (about) no peer is missing
};

}  // namespace tutti::exec
