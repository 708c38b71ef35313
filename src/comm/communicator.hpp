// A group of ranks that call collectives together.
//
// It only puts together what does the work, each in a file of its own:
//
//   the ranks meet and connect      assemble.hpp, tuner_setup.hpp
//   calls wait for their turn       call_queue.hpp
//   one call runs                   active_call.hpp, with the plans of plan_cache.hpp
//   its peers are looked after      liveness_watch.hpp
//   the communicator ends           group_end.hpp
//   some of the ranks go on         membership.hpp
//
// None of them knows an algorithm or a transport by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/active_call.hpp"
#include "src/comm/assemble.hpp"
#include "src/comm/call_counters.hpp"
#include "src/comm/call_queue.hpp"
#include "src/comm/group_context.hpp"
#include "src/comm/group_end.hpp"
#include "src/comm/group_facts.hpp"
#include "src/comm/group_member.hpp"
#include "src/comm/in_network.hpp"
#include "src/comm/liveness_watch.hpp"
#include "src/comm/membership.hpp"
#include "src/comm/plan_cache.hpp"
#include "src/comm/runtime.hpp"
#include "src/comm/trials.hpp"
#include "src/cost/calibration.hpp"
#include "src/exec/announcements.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Resource; one per rank. Used by one thread at a time unless said otherwise; the ranks make the
/// same calls in the same order.
class Communicator final : public GroupMember, public GroupContext {
 public:
  /// Collective over the bootstrap's ranks. Exchanges placements and addresses, connects.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<Runtime> runtime,
                                                      std::unique_ptr<Bootstrap> bootstrap,
                                                      const CommunicatorOptions& options,
                                                      Deadline deadline);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] const GroupFacts& facts() const override { return facts_; }
  [[nodiscard]] Rank rank() const { return facts_.rank; }
  [[nodiscard]] std::int32_t size() const { return facts_.size; }

  // ---- GroupMember

  Status start(std::span<const Call> calls) override { return calls_.start(calls); }
  Result<Progress> poll() override { return calls_.poll(); }
  void idle(std::uint32_t polls, CallerActivity caller) override {
    team_->waits().idle(polls, caller);
  }
  void add_waits(WaitSet& waits, CallerActivity caller) override {
    team_->waits().add_to(waits, caller);
  }
  Status run(const Call& call) override { return calls_.run(call); }
  Result<double> predict(std::span<const Call> calls) override;
  Result<std::unique_ptr<Communicator>> split(int color, int key,
                                              const CommunicatorOptions& options,
                                              Deadline deadline) override;
  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> exclude,
                                               const CommunicatorOptions& options,
                                               Deadline deadline) override;
  Status finalize(Deadline deadline) override { return calls_.finalize(deadline); }
  void abort(const Error& why) override;
  [[nodiscard]] Status health() const override { return end_.health(); }

  // ---- GroupContext

  Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) override {
    return bootstrap_->all_gather(std::move(mine), deadline);
  }
  [[nodiscard]] std::span<const std::byte> key() const override { return bootstrap_->key(); }
  Result<std::shared_ptr<const lower::Lowered>> direct_program(const Call& call,
                                                               bool in_place) const override {
    return plans_.direct_program(call, in_place);
  }
  [[nodiscard]] bool carries_device_memory_to(Rank peer) const override {
    const auto& connection = team_->member(peer).connection;
    return team_->member(peer).block == nullptr && connection != nullptr &&
           connection->carries_device_memory();
  }
  Result<bool> only_messages(const Call& call) const override {
    if (compressors_.has_one_for(call)) return false;
    return plans_.only_messages(call);
  }
  Result<std::vector<PeerPrograms>> peer_programs(const Call& call,
                                                  lower::ProgramProtocol protocol) const override {
    return plans_.peer_programs(call, protocol);
  }
  Status announce(const Call& call, bool is_captured) override;
  void on_end(std::function<void()> told) override { end_.on_end(std::move(told)); }

  // ---- tuning and counters

  /// From the next call on, `algorithm` runs the calls of this collective that it can run and has
  /// room for (one that is only_by_name fails where it has none); "" leaves the choice to the
  /// library again. `kernel_reads`: whether the kernel is to read large inputs where it can; none:
  /// as the library thinks. All ranks have to ask for the same between the same calls.
  /// kInvalidUsage while calls are under way.
  Status ask_for_algorithm(Collective collective, std::string_view algorithm,
                           std::optional<bool> kernel_reads);
  /// Algorithm that would run `call`, for logs and `tutti bench`: "one_shot", "two_shot" ...
  Result<std::string> algorithm_for(const Call& call);
  /// What the calls of `collective` have done here. Any thread.
  [[nodiscard]] CallTotals totals(Collective collective) const {
    return counters_.totals(collective);
  }
  /// The call that has begun here and is not complete, if there is one. Any thread.
  [[nodiscard]] std::optional<CallUnderWay> under_way() const { return counters_.under_way(); }

 private:
  [[nodiscard]] Call as_it_runs(const Call& call);
  [[nodiscard]] std::function<bool()> may_be_back() const;
  Result<const ir::Algorithm*> join_trees_again();
  Communicator(std::shared_ptr<Runtime> runtime, std::unique_ptr<Bootstrap> bootstrap,
               Assembly assembly, Tuner tuner, const CommunicatorOptions& options);
  Result<std::unique_ptr<Communicator>> make_part(Subgroup part, const CommunicatorOptions& options,
                                                  Deadline deadline) const;

  const std::shared_ptr<Runtime> runtime_;
  const std::unique_ptr<Bootstrap> bootstrap_;
  const GroupFacts facts_;
  std::unique_ptr<exec::Team> team_;
  const Calibration calibration_;  ///< of predictions
  CallCounters counters_;
  Trials trials_;
  PlanCache plans_;
  AskedCompressors compressors_;
  exec::Announcements announcements_;
  InNetwork in_network_;
  GroupEnd end_;
  Cancellation aborted_;
  ActiveCall active_;
  LivenessWatch watch_;
  CallQueue calls_;
  Membership membership_;
};

}  // namespace tutti
