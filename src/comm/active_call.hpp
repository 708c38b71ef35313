// The call that runs on a rank.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/bootstrap/standstill.hpp"
#include "src/comm/call.hpp"
#include "src/comm/call_counters.hpp"
#include "src/comm/coded_messages.hpp"
#include "src/comm/compressor.hpp"
#include "src/comm/group_facts.hpp"
#include "src/comm/in_network.hpp"
#include "src/comm/input_copy.hpp"
#include "src/comm/plan_cache.hpp"
#include "src/comm/trials.hpp"
#include "src/exec/collective.hpp"
#include "src/exec/point_to_point.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// A collective, or a batch of sends and receives, from begin() to complete(). Where trials are due
/// (trials.hpp), the ranks first tell each other their times: begin() then starts that exchange
/// instead, and has to be called again. So it has after what the network has run (in_network.hpp).
/// One per communicator, reused from call to call; used by its thread. Resource.
class ActiveCall {
 public:
  ActiveCall(exec::Team& team, Trials& trials, PlanCache& plans, AskedCompressors& compressors,
             CallCounters& counters, InNetwork& in_network)
      : team_(team),
        trials_(trials),
        plans_(plans),
        compressors_(compressors),
        counters_(counters),
        in_network_(in_network),
        collective_(team),
        point_to_point_(team) {}

  /// Whether nothing runs.
  [[nodiscard]] bool none() const { return kind_ == Kind::kNone; }
  /// Whether what runs is a collective that is neither timed nor waits for an exchange of times.
  [[nodiscard]] bool is_plain_collective() const { return kind_ == Kind::kCollective; }

  /// Of the calls that begin from now on: see InNetwork.
  void caller_waits(bool waits) { in_network_.caller_waits(waits); }
  /// Nothing runs. The call is valid.
  Status begin(const Call& call);
  /// Nothing runs. `transfers` stay until complete().
  /// `coded`: those of them that are compressed; null: none. Both outlive the call.
  Status begin(std::span<const exec::PointToPoint> transfers, CodedMessages* coded);
  /// Whether `call` is the last one again and needs no look-ups: begin_again() then starts it.
  [[nodiscard]] bool repeats(const Call& call) const {
    return repeatable_.plan != nullptr && call == last_call_;
  }
  void begin_again() {
    counters_.begin_again();
    start(repeatable_);
  }
  /// The next call looks its plan up.
  void forget() { repeatable_ = {}; }

  Result<exec::Poll> poll() {
    return kind_ == Kind::kPointToPoint ? point_to_point_.poll() : collective_.poll();
  }
  /// The same where it is a plain collective.
  Result<exec::Poll> poll_collective() { return collective_.poll(); }
  /// Between polls, now and then: an error when it waits for a rank that has left.
  Status check_peers() {
    return kind_ == Kind::kPointToPoint ? point_to_point_.check_peers() : collective_.check_peers();
  }
  /// After poll() returned kDone. Whether the call is complete: false after an exchange of times.
  Result<bool> complete();
  /// complete() of a plain collective.
  void complete_collective() {
    kind_ = Kind::kNone;
    count_collective();
  }

  /// Ends what runs, if anything, after `error`, and adds to that which call it was.
  Error fail(Error error, const GroupFacts& facts);
  /// Nothing touches the caller's buffers any more.
  void cancel();

  /// "broadcast of 5 x float32", for messages.
  [[nodiscard]] std::string text() const { return describe(signature_); }
  /// What this rank waits in, for peers.
  [[nodiscard]] WaitingCall waiting() const;
  /// How many collectives were started.
  [[nodiscard]] std::uint64_t number() const { return collective_.calls(); }

 private:
  enum class Kind : std::uint8_t {
    kNone,
    kCollective,
    kTrial,      ///< a collective that is timed
    kVerdict,    ///< the ranks gather the times of trials before the call that is to begin
    kInNetwork,  ///< a collective that the network runs
    kReport,     ///< after it, the ranks tell whether their trees are sound
    kPointToPoint
  };

  Status begin(const Call& call, const Call& made);
  Status begin_compressed(const Call& call, Compressor& compressor);
  Status begin_gather();
  [[nodiscard]] float factor_of(const Call& call) const;
  [[nodiscard]] exec::SentBytes encoded(const exec::SentBytes& plain) const;
  Result<bool> begin_in_network(const Call& call);
  Status begin_report();
  void set_args(const Call& call);
  Status compress(const Call& call, const exec::Plan& plan, bool has_copy);
  Status pay(const Call& call, std::span<const float> owed, bool has_copy);
  void start(const exec::Plans& plans) {
    kind_ = Kind::kCollective;
    collective_.start(plans, args_);
  }
  void count_collective() {
    counters_.add(signature_.collective, collective_.plan().sent());
    counters_.end(signature_.collective);
  }
  void count_transfers();
  [[nodiscard]] std::string shown_call(const std::string& reason) const;

  exec::Team& team_;
  Trials& trials_;
  PlanCache& plans_;
  AskedCompressors& compressors_;
  CallCounters& counters_;
  InNetwork& in_network_;
  exec::Coding coding_;        ///< of that, if it is compressed
  exec::CollectiveArgs args_;  ///< of the collective that runs or ran last
  Call last_call_;             ///< what they were made from
  exec::Plans repeatable_;     ///< its plans; none when another call needs another start
  exec::CollectiveRun collective_;
  exec::PointToPointRun point_to_point_;
  InputCopy input_copy_;
  exec::SentBytes sent_to_network_;
  const std::byte* kept_input_ = nullptr;  ///< of a call in the network that is in place

  Kind kind_ = Kind::kNone;
  CallSignature signature_, gather_signature_;
  std::shared_ptr<const ir::Blocks> blocks_;  ///< of the call
  std::span<const exec::PointToPoint> transfers_;
  CodedMessages* coded_messages_ = nullptr;  ///< of transfers_
  std::string gather_caption_;
  std::string caption_;  ///< what errors show of the call under TUTTI_CHECK=1, else ""
};

}  // namespace tutti
