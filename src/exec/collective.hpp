// Runs a bound plan on buffers: a resumable poll that never waits. It locks and allocates only in a
// call that needs staging memory and has to look for some.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/clock.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"
#include "src/reduce/reduce.hpp"

namespace tutti::exec {

struct CollectiveArgs {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Reduction reduction;  ///< type, operator, this rank's scalar; the divisor is set by the run
  /// The same on every rank, or the call is an error. Outlives the run.
  const CallSignature* call = nullptr;
  std::uint64_t call_hash = 0;  ///< hash_of(*call)
  /// Shown beside `call` in that error, here and on mapped peers; must outlive the run. "":
  /// nothing, and then in every call of the team.
  std::string_view caption;
};

/// What ranks compare first: differs between different calls but for chance.
std::uint64_t hash_of(const CallSignature& call);

enum class Poll : std::uint8_t { kPending, kDone };

/// Resource; reused from call to call.
class CollectiveRun {
 public:
  explicit CollectiveRun(Team& team) : team_(team), peers_(team.size()) {}

  /// The previous run must be over. The plans and `args` must outlive the run; every rank starts
  /// with the same plans.
  void start(const Plans& plans, const CollectiveArgs& args);
  Result<Poll> poll();
  /// Between polls, now and then: an error when the run waits for a rank that has left.
  Status check_peers();
  /// Of the run that is over: whether it was Plans::direct that ran.
  [[nodiscard]] bool ran_direct() const { return plan_ == plans_.direct; }
  /// After an error: the run no longer touches the buffers.
  void cancel();

 private:
  enum class Phase : std::uint8_t { kEnter, kAgree, kReuse, kRun, kDrain, kPass, kFarewell, kIdle };

  Result<bool> enter();
  bool is_unread(std::uint64_t call, std::uint64_t stride);
  Status publish_input();
  void announce_buffers(Entry& entry);
  Result<bool> agree_on_plan();
  Phase first_phase();
  void take_buffers_back();
  [[nodiscard]] bool is_behind(Rank peer, std::uint64_t ranks, std::uint64_t sequence) const;
  bool have_entered(std::uint64_t ranks, std::uint64_t sequence);
  Result<bool> has_entered(Rank peer);
  void fetch_next(Rank peer) const;
  Error mismatch(Rank peer, const CallSignature& theirs) const;

  Result<bool> may_reuse_staging();
  Result<bool> run_ops();
  Result<bool> ready(std::uint32_t op_id, std::uint64_t slice);
  Result<bool> run_passes();
  bool skip_owners_in_call(std::span<const Place> places);
  Result<bool> owners_are_there(std::span<const Place> places);
  Status run_pass(const Pass& pass);
  void locate_sources(std::span<const Place> places);
  Status touch_peers(const Pass& pass, std::span<const std::byte*> sources,
                     std::span<Destination> destinations);
  Status read_input(const Place& source, std::byte* to, const Pass& pass);
  Status check_owners(const Pass& pass) const;
  [[nodiscard]] std::byte* locate(const Place& place) const;
  Result<bool> reached(Rank peer, std::uint64_t position);
  Result<bool> transfers_done(std::uint32_t op_id, std::uint64_t slice);
  Result<bool> drained();
  void leave();
  Result<bool> buffers_are_free();

  Status execute(std::uint32_t op_id, std::uint64_t slice);
  Status combine(const lower::Op& op, std::uint64_t slice);
  void combine(std::span<const std::byte* const> sources, std::uint64_t scaled,
               std::span<const Destination> destinations, std::size_t bytes, bool completes) const;
  [[nodiscard]] Stores stores_to(lower::Memory memory, std::size_t bytes) const;
  void start_stopwatch();
  Status convert(const lower::Op& op, std::uint64_t slice);
  Status post(std::uint32_t op_id, std::uint64_t slice);

  Result<std::byte*> locate(const lower::Operand& operand, std::uint32_t piece,
                            std::uint64_t slice);
  Result<std::byte*> slot_memory(const lower::Operand& operand, std::uint32_t piece,
                                 std::uint64_t slice);

  /// A peer's buffers as this rank reaches them, with Protocol::kDirect.
  struct PeerBuffers {
    std::uint64_t sequence = 0;        ///< of the call that this is about
    std::uint64_t input_address = 0;   ///< in the peer's process
    const std::byte* input = nullptr;  ///< null: not mapped
    std::byte* output = nullptr;
    bool mapped_by_all = false;
  };
  Status find_buffers_of(Rank peer);
  Status find_buffers(std::span<const Place> places);

  Team& team_;
  Plans plans_;
  Plan* plan_ = nullptr;        ///< of plans_, what runs
  bool mapped_by_all_ = false;  ///< this rank's buffers
  const CollectiveArgs* args_ = nullptr;
  Phase phase_ = Phase::kIdle;
  std::uint64_t iteration_ = 0;
  std::uint32_t op_ = 0;   ///< or pass
  std::size_t place_ = 0;  ///< of the pass; the owners of those before it are there
  std::byte* scratch_ = nullptr;
  PublishedAt published_at_;
  StreamingStores stores_;
  std::optional<TimePoint> all_there_;  ///< since when no peer has to come any more, or nearly so
  std::byte* own_slots_ = nullptr;      ///< this rank's region in this call
  std::vector<PeerBuffers> peers_;
  // Of the combination under way; here because they are long to initialise for each.
  std::array<const std::byte*, lower::kMaxSources> sources_{};
  std::array<Destination, lower::kMaxDestinations> destinations_{};
};

}  // namespace tutti::exec
