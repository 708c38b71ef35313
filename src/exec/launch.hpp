// The call that a rank runs: its plan, its arguments, and which stores it uses.
#pragma once

#include <atomic>
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

/// How long something took in all; any thread may read it. Resource.
class BusyTime {
 public:
  /// Adds the time since its construction. One thread at a time.
  class Counted {
   public:
    explicit Counted(BusyTime* time) : time_(time) {
      if (time_ != nullptr) begin_ = Clock::now();
    }
    ~Counted() {
      if (time_ != nullptr)
        time_->nanos_.fetch_add((Clock::now() - begin_).count(), std::memory_order_relaxed);
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    BusyTime* time_;
    TimePoint begin_;
  };
  [[nodiscard]] Nanos get() const { return Nanos(nanos_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<std::int64_t> nanos_ = 0;
};

/// How a rank encodes values in one call.
struct Coding {
  codec::Rounding rounding;
  std::span<float> errors;   ///< Plan::coded_elements() of them, or none
  float factor = 1;          ///< with kPreMulSum: of the input, whatever its type
  BusyTime* busy = nullptr;  ///< where to count the time of encoding, decoding and adding
};

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
  /// How values are encoded; null: rounded to nearest. Must outlive the run.
  const Coding* coding = nullptr;
  unsigned network_bits = 32;  ///< TreePart::bits
  float network_factor = 1;    ///< TreePart::factor
  bool for_devices = false;    ///< messages go by kDeviceLanes; the program is only_messages()
  bool device_memory = false;  ///< the buffers are a GPU's
};

/// Resource. One per team, reused from call to call.
class Launch {
 public:
  explicit Launch(Team& team) : team_(team) {}

  /// Both arguments must outlive the call.
  void begin(Plan& plan, const CollectiveArgs& args) {
    plan_ = &plan;
    args_ = &args;
  }
  /// `plan` is the one to run: the only one, or the one that the ranks agreed on.
  void run(Plan& plan) {
    plan_ = &plan;
    stores_ = {};
    timed_ = false;
    StoreChoice* const choice = plan.store_choice();
    if (choice == nullptr) return;
    all_there_.reset();
    writing_ = {};
    if (choice->asks()) [[unlikely]]
      take_advice(*choice);
    const StoreChoice::Turn turn = choice->begin();
    stores_ = turn.stores;
    timed_ = turn.timed;
  }
  /// The run completed.
  void end() {
    if (timed_) tell_time();
  }

  [[nodiscard]] Plan& plan() const { return *plan_; }
  [[nodiscard]] lower::ProgramProtocol protocol() const { return plan_->lowered().protocol; }
  [[nodiscard]] const CollectiveArgs& args() const { return *args_; }
  /// Whether this rank's input is scaled before it is combined.
  [[nodiscard]] bool scales_input() const { return args_->reduction.op == ReduceOp::kPreMulSum; }

  /// Destinations = combination of the sources. Sources marked in `scaled` are scaled first.
  /// `completes`: see lower::Op.
  void combine(std::span<const std::byte* const> sources, std::uint64_t scaled,
               std::span<const Destination> destinations, std::size_t bytes, bool completes) const;
  /// `completes`: see lower::Op.
  [[nodiscard]] Reduction reduction(bool completes) const;
  [[nodiscard]] Stores stores_to(lower::ProgramMemory memory, std::size_t bytes) const {
    const bool streams = memory == lower::ProgramMemory::kOutput ? stores_.output : stores_.peers;
    const bool pays = streams && bytes >= kStreamFrom && memory != lower::ProgramMemory::kScratch;
    if (pays) return Stores::kNonTemporal;
    const bool peers_have_it = memory == lower::ProgramMemory::kSlot ||
                               memory == lower::ProgramMemory::kPublished ||
                               memory == lower::ProgramMemory::kPeerOutput;
    return peers_have_it ? team_.stores_for_peers() : Stores::kCached;
  }

  /// What shows how good the stores are: the time of what this rank writes before it needs a peer,
  /// and the time from when all peers are there, but not the wait between. All are there with
  /// kDirect at once, with kPublished at the first pass, in a pipeline when there is data to read.
  void start_stopwatch() {
    if (timed_ && !all_there_) all_there_ = Clock::now();
  }
  void start_writing() {
    if (timed_ && !all_there_) began_ = Clock::now();
  }
  void end_writing() {
    if (timed_ && !all_there_) writing_ += Clock::now() - began_;
  }

 private:
  void tell_time();
  void take_advice(StoreChoice& choice);

  Team& team_;
  Plan* plan_ = nullptr;
  const CollectiveArgs* args_ = nullptr;
  StreamingStores stores_;
  bool timed_ = false;                  ///< whether the choice of stores wants this call's time
  TimePoint began_;                     ///< to write
  Nanos writing_{};                     ///< time of what this rank wrote before it needed a peer
  std::optional<TimePoint> all_there_;  ///< since when (about) no peer is missing
};

}  // namespace tutti::exec
