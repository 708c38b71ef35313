#include "src/comm/communicator.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/assemble.hpp"
#include "src/comm/plan_cache.hpp"
#include "src/comm/topology_notes.hpp"
#include "src/comm/trials.hpp"
#include "src/cost/predict_messages.hpp"
#include "src/exec/announcements.hpp"
#include "src/exec/collective.hpp"
#include "src/exec/point_to_point.hpp"

namespace tutti {
namespace {

constexpr auto kSayWhoWaits = std::chrono::seconds(10);
// Most waits end before the first look at the clock, which costs half a poll. Later polls may each
// come with a sleep of a millisecond, the turn of a busy process, or the polls of many ranks.
constexpr std::uint32_t kPollsBeforeClock = 64, kPollsBetweenClocks = 16;
constexpr auto kLookForLeavers = std::chrono::milliseconds(20);
// Two ranks learn of a stopped one at most two heartbeats apart, and of a dead one at once.
constexpr auto kReasonComes = std::chrono::seconds(2);
constexpr auto kLookAtLives = std::chrono::milliseconds(250);  // some 10 us each
constexpr std::string_view kGather = "the ranks tell each other the times of trials";
constexpr std::uint32_t kShrinkColor = 0xffffffff;  // colors of split groups are not negative

class RankCommunicator final : public Communicator {
 public:
  RankCommunicator(std::shared_ptr<Runtime> runtime, std::unique_ptr<Bootstrap> bootstrap,
                   Assembly assembly, Tuner tuner, const CommunicatorOptions& options)
      : runtime_(std::move(runtime)),
        bootstrap_(std::move(bootstrap)),
        team_(std::move(assembly.team)),
        transports_(std::move(assembly.transports)),
        hosts_(assembly.calls.hosts),
        host_names_(std::move(assembly.host_names)),
        one_gpu_(assembly.one_gpu),
        job_(std::move(assembly.job)),
        calibration_(std::move(assembly.calibration).value_or(Calibration{})),
        name_(options.name),
        trials_(*team_, assembly.agreement.measures, assembly.verdicts, *runtime_->tuning),
        plans_(*team_, trials_, std::move(tuner), runtime_->programs, assembly.calls),
        collective_(*team_),
        point_to_point_(*team_),
        announcements_(*team_),
        timeout_(runtime_->settings.seconds("TIMEOUT")) {
    if (name_.empty()) name_ = fmt::format("comm{:x}", team_->options().communicator & 0xffffff);
    who_ = fmt::format("[{} {}/{}]", name_, rank(), size());
    bootstrap_->on_failure([this](const Error& error) { raise(from_afar(error)); });
    log_info(Subsystem::kInit, who_, "ready: {} ranks on {} hosts, transports: {}", size(), hosts_,
             fmt::join(transports_, ","));
    if (rank() == 0) say_topology(*job_, who_);
    if (!options.is_part) dump_topology(job_->topology, runtime_->settings, rank(), who_);
  }

  ~RankCommunicator() override {
    collective_.cancel();
    point_to_point_.cancel();
    bootstrap_->on_failure(nullptr);
    runtime_->deferred_reclaim.add(std::move(team_));
  }

  [[nodiscard]] Rank rank() const override { return team_->rank(); }
  [[nodiscard]] std::int32_t size() const override { return team_->size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::uint64_t id() const override { return team_->options().communicator; }
  [[nodiscard]] std::vector<Rank> ranks_of_this_process() const override {
    std::vector<Rank> ranks;
    for (Rank peer = 0; peer < size(); ++peer)
      if (peer == rank() || team_->member(peer).places != nullptr) ranks.push_back(peer);
    return ranks;
  }
  [[nodiscard]] bool shares_one_gpu() const override { return one_gpu_; }
  [[nodiscard]] std::int32_t hosts() const override { return hosts_; }
  [[nodiscard]] std::span<const std::int32_t> host_of_ranks() const override {
    return team_->placement().host;
  }
  [[nodiscard]] std::vector<std::string> transports() const override { return transports_; }
  [[nodiscard]] const topo::JobTopology& topology() const override { return *job_; }
  [[nodiscard]] const std::string& host_name(Rank rank) const override { return host_names_[rank]; }
  [[nodiscard]] CallTotals totals(Collective collective) const override {
    return counters_.totals(collective);
  }
  [[nodiscard]] std::optional<CallUnderWay> under_way() const override {
    return counters_.under_way();
  }

  Status health() const override {
    if (!team_->abort_word().raised()) return ok_status();
    return team_->abort_word().error();
  }

  void on_end(std::function<void()> told) override {
    const std::scoped_lock lock(told_mutex_);
    told_of_end_ = std::move(told);
    if (team_->abort_word().raised()) tell_of_end();
  }
  Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) override {
    return bootstrap_->all_gather(std::move(mine), deadline);
  }
  [[nodiscard]] std::span<const std::byte> key() const override { return bootstrap_->key(); }

  // --- calls ---

  Status start(std::span<const Call> calls) override {
    TUTTI_TRY(usable());
    std::vector<exec::PointToPoint> transfers;
    for (const Call& call : calls) TUTTI_TRY(validate(call));
    TUTTI_TRY(check_group(calls, rank()));
    for (const Call& call : calls) {
      if (is_point_to_point(call))
        transfers.push_back(transfer_of(call));
      else
        queue_.push_back({call, {}});
    }
    if (!transfers.empty()) queue_.push_back({{}, std::move(transfers)});
    return ok_status();
  }

  Result<Progress> poll() override {
    if (active_ == Active::kNone && queue_.empty()) TUTTI_TRY(health());
    for (;;) {
      if (active_ == Active::kNone) {
        if (queue_.empty()) return Progress::kIdle;
        if (Status begun = begin(queue_.front()); !begun) return fail(std::move(begun).error());
      }
      auto state = poll_active();
      if (!state && reason_may_come(state.error())) return Progress::kPending;
      if (!state) return fail(std::move(state).error());
      if (*state == exec::Poll::kPending) {
        if (Status in_time = check_clock(); !in_time) return fail(std::move(in_time).error());
        return Progress::kPending;
      }
      const Active done = std::exchange(active_, Active::kNone);
      if (done == Active::kVerdict) {
        if (Status decided = trials_.decide(); !decided) return fail(std::move(decided).error());
        continue;  // now the call may begin
      }
      if (done == Active::kTrial) trials_.end(!collective_.ran_direct());
      if (done == Active::kPointToPoint)
        count_transfers(queue_.front().transfers);
      else
        count_collective();
      queue_.pop_front();
    }
  }

  void idle(std::uint32_t polls, Beside beside) override { team_->waits().idle(polls, beside); }
  void add_waits(WaitSet& waits, Beside beside) override { team_->waits().add_to(waits, beside); }

  Status run(const Call& call) override {
    if (!queue_.empty() || is_point_to_point(call)) {
      TUTTI_TRY(start({&call, 1}));
      Communicator* const self = this;
      return run_group({&self, 1});
    }
    const bool may_run = !team_->abort_word().raised() && !finalized_;
    if (may_run && repeatable_.plan != nullptr && call == last_call_) [[likely]] {
      counters_.begin_again();
      start_collective(repeatable_);  // valid, planned, and bound already
    } else {
      TUTTI_TRY(usable());
      TUTTI_TRY(validate(call));
      if (Status begun = begin_collective(call); !begun) return fail(std::move(begun).error());
      if (active_ != Active::kCollective) {  // on trial, or waits for a verdict
        queue_.push_back({call, {}});
        Communicator* const self = this;
        return run_group({&self, 1});
      }
    }
    for (std::uint32_t polls = 0;; ++polls) {
      auto state = collective_.poll();
      const bool waits = !state && reason_may_come(state.error());
      if (!state && !waits) return fail(std::move(state).error());
      if (state && *state == exec::Poll::kDone) break;
      if (Status in_time = check_clock(); !in_time) return fail(std::move(in_time).error());
      team_->waits().idle(polls, Beside::kNobody);
    }
    active_ = Active::kNone;
    count_collective();
    return ok_status();
  }

  Status ask_for_algorithm(Collective collective, std::string_view algorithm,
                           std::optional<bool> kernel_reads) override {
    TUTTI_TRY(usable());
    if (active_ != Active::kNone || !queue_.empty())
      return make_error(Code::kInvalidUsage,
                        "communicator {} has calls under way: ask for algorithms between calls",
                        name_);
    repeatable_ = {};
    return plans_.ask_for(collective, algorithm, kernel_reads);
  }

  Result<std::string> algorithm_for(const Call& call) override {
    if (is_point_to_point(call)) return std::string("direct");
    TUTTI_ASSIGN(const ir::Algorithm* const algorithm, plans_.algorithm_for(call));
    return std::string(algorithm->name);
  }

  Result<std::shared_ptr<const lower::Lowered>> direct_program(const Call& call,
                                                               bool in_place) const override {
    return plans_.direct_program(call, in_place);
  }
  Result<std::vector<PeerPrograms>> peer_programs(const Call& call,
                                                  lower::ProgramProtocol protocol) const override {
    return plans_.peer_programs(call, protocol);
  }
  Status announce(const Call& call, bool is_captured) override {
    if (is_captured) announcements_.stop();
    return announcements_.announce(signature_of(call));
  }

  Result<double> predict(std::span<const Call> calls) override {
    double us = 0;
    std::vector<MessageOfRank> messages;
    for (const Call& call : calls) {
      if (is_point_to_point(call)) {
        messages.push_back({.sends = call.collective == Collective::kSend,
                            .same_host = team_->placement().mapped(rank(), call.root),
                            .bytes = call.count * size_of(call.type)});
      } else {
        TUTTI_ASSIGN(const double collective_us, plans_.predict(call, calibration_));
        us += collective_us;
      }
    }
    return us + tutti::predict(messages, calibration_);
  }

  // --- groups of ranks ---

  Result<std::unique_ptr<Communicator>> split(int color, int key,
                                              const CommunicatorOptions& options,
                                              Deadline deadline) override {
    const std::uint64_t tag = ++splits_ << 32 | static_cast<std::uint32_t>(color);
    TUTTI_TRY(usable());
    struct Member {
      int color = -1, key = 0;
    };
    const Member mine{color, key};
    Blob blob(sizeof mine);
    std::memcpy(blob.data(), &mine, sizeof mine);
    TUTTI_ASSIGN(const std::vector<Blob> blobs, bootstrap_->all_gather(std::move(blob), deadline));
    std::vector<std::pair<int, Rank>> members;
    for (Rank peer = 0; peer < size(); ++peer) {
      Member theirs;
      if (blobs[peer].size() != sizeof theirs)
        return peer_error(Code::kPeerFailed, peer, "rank {} sent {} bytes as color and key", peer,
                          blobs[peer].size());
      std::memcpy(&theirs, blobs[peer].data(), sizeof theirs);
      if (theirs.color == color) members.emplace_back(theirs.key, peer);
    }
    if (color < 0) return std::unique_ptr<Communicator>();
    std::sort(members.begin(), members.end());
    std::vector<Rank> ranks;
    for (const auto& [order, peer] : members) ranks.push_back(peer);
    return subgroup(ranks, tag, options, deadline);
  }

  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> exclude,
                                               const CommunicatorOptions& options,
                                               Deadline deadline) override {
    const std::uint64_t tag = ++shrinks_ << 32 | kShrinkColor;
    std::vector<bool> excluded(size(), false);
    for (const Rank peer : exclude) {
      if (peer < 0 || peer >= size())
        return make_error(Code::kInvalidArgument,
                          "shrink excludes rank {}, but the communicator has ranks 0..{}", peer,
                          size() - 1);
      excluded[peer] = true;
    }
    if (excluded[rank()])
      return make_error(Code::kInvalidArgument, "rank {} is excluded and must not call shrink",
                        rank());
    std::vector<Rank> ranks;
    for (Rank peer = 0; peer < size(); ++peer)
      if (!excluded[peer]) ranks.push_back(peer);
    return subgroup(ranks, tag, options, deadline);
  }

  Status finalize(Deadline deadline) override {
    if (finalized_)
      return make_error(Code::kInvalidArgument, "communicator {} was finalized before", name_);
    TUTTI_TRY(health());
    for (std::uint32_t polls = 0;; ++polls) {
      TUTTI_ASSIGN(const Progress progress, poll());
      if (progress == Progress::kIdle) break;
      if (deadline.passed())
        return make_error(Code::kTimeout, "communicator {} still has operations under way", name_);
      idle(polls, CallerActivity::kWaits);
    }
    finalized_ = true;
    return ok_status();
  }

  void abort(const Error& why) override {
    Error error = why;
    error.code = Code::kAborted;
    if (raise(error)) bootstrap_->announce(error);
  }

 private:
  enum class Active : std::uint8_t {
    kNone,
    kCollective,
    kTrial,    ///< a collective that is timed
    kVerdict,  ///< the ranks gather the times of trials before the call that is to begin
    kPointToPoint
  };
  struct Queued {
    Call call;
    std::vector<exec::PointToPoint> transfers;  ///< a batch of sends and receives, or none
  };

  Status usable() const {
    TUTTI_TRY(health());
    if (finalized_)
      return make_error(Code::kInvalidUsage,
                        "communicator {} was finalized: it takes no more calls", name_);
    return ok_status();
  }

  Status validate(const Call& call) const {
    const std::string_view what = name_of(call.collective);
    const bool has_root = rooted(call.collective);
    if (static_cast<int>(call.type) >= kDataTypes)
      return make_error(Code::kInvalidArgument, "{}: {} is no data type", what,
                        static_cast<int>(call.type));
    if (reduces(call.collective) && static_cast<int>(call.op) >= kReduceOps)
      return make_error(Code::kInvalidArgument, "{}: {} is no operator", what,
                        static_cast<int>(call.op));
    if ((has_root || is_point_to_point(call)) && (call.root < 0 || call.root >= size()))
      return make_error(Code::kInvalidArgument,
                        "{}: {} {} is not a rank of this communicator (0..{})", what,
                        has_root ? "root" : "peer", call.root, size() - 1);
    std::size_t elements = 0;
    if (__builtin_mul_overflow(call.count, static_cast<std::size_t>(size()), &elements) ||
        elements > std::size_t{1} << 60)
      return make_error(Code::kInvalidArgument, "{}: count {} is more than memory can hold", what,
                        call.count);
    if (call.blocks) TUTTI_TRY(validate_blocks(call));
    return validate_buffers(call);
  }

  Status validate_blocks(const Call& call) const {
    const ir::Blocks& blocks = *call.blocks;
    const auto ranks = static_cast<std::size_t>(size());
    if (!ir::may_be_uneven(call.collective))
      return make_error(Code::kInvalidArgument, "{}: blocks have one size",
                        name_of(call.collective));
    if (blocks.counts.size() != ranks || blocks.starts.size() != ranks)
      return make_error(Code::kInvalidArgument, "{}: {} counts and {} displacements for {} ranks",
                        name_of(call.collective), blocks.counts.size(), blocks.starts.size(),
                        ranks);
    if (blocks.total() != call.count)
      return make_error(Code::kInvalidArgument, "{}: counts of {} elements in all, and count {}",
                        name_of(call.collective), blocks.total(), call.count);
    return ok_status();
  }

  Status validate_buffers(const Call& call) const {
    if (call.count == 0 || (call.send != nullptr && call.recv != nullptr)) return ok_status();
    const BufferBytes bytes = buffer_bytes(call, rank(), size());
    const bool needs_send = bytes.send > 0, needs_recv = bytes.recv > 0;
    if ((needs_send && call.send == nullptr) || (needs_recv && call.recv == nullptr))
      return make_error(Code::kInvalidArgument, "{}: the {} buffer of rank {} is null",
                        name_of(call.collective),
                        needs_send && call.send == nullptr ? "send" : "receive", rank());
    return ok_status();
  }

  exec::PointToPoint transfer_of(const Call& call) const {
    const bool sends = call.collective == Collective::kSend;
    return {sends,
            call.root,
            sends ? static_cast<std::byte*>(const_cast<void*>(call.send))
                  : static_cast<std::byte*>(call.recv),
            block_bytes(call),
            signature_of(call),
            call.site.caller == nullptr ? std::string() : describe(call)};
  }

  // --- counting ---

  void count_collective() {
    counters_.add(active_call_.collective, collective_.plan().sent());
    counters_.end(active_call_.collective);
  }

  /// A send to this rank itself reaches nobody, but is a call.
  void count_transfers(std::span<const exec::PointToPoint> transfers) {
    bool any_sends = false;
    for (const exec::PointToPoint& transfer : transfers) {
      exec::SentBytes sent;
      if (transfer.sends && transfer.peer != rank()) sent.all = transfer.bytes;
      if (!team_->placement().mapped(rank(), transfer.peer)) sent.to_other_hosts = sent.all;
      counters_.add(transfer.sends ? Collective::kSend : Collective::kRecv, sent);
      any_sends |= transfer.sends;
    }
    counters_.end(any_sends ? Collective::kSend : Collective::kRecv);
  }

  Status begin(const Queued& queued) {
    if (queued.transfers.empty()) return begin_collective(queued.call);
    repeatable_ = {};
    rewind_clock();
    active_ = Active::kPointToPoint;
    active_call_ = {queued.transfers.front().sends ? Collective::kSend : Collective::kRecv,
                    queued.transfers.front().call.type, ReduceOp::kSum,
                    queued.transfers.front().peer, queued.transfers.front().call.count};
    active_blocks_ = nullptr;
    counters_.begin(active_call_.collective, active_call_.type, active_call_.count);
    caption_ = queued.transfers.front().caption;
    return point_to_point_.start(queued.transfers);
  }

  Status begin_collective(const Call& call) {
    repeatable_ = {};
    active_call_ = signature_of(call);
    active_blocks_ = call.blocks;
    counters_.begin(call.collective, call.type, call.count);
    if (call.site.caller != nullptr) [[unlikely]]
      caption_ = describe(call);
    if (trials_.due()) [[unlikely]]
      return begin_gather();
    TUTTI_ASSIGN(BoundPlan* const bound, plans_.get(call, is_in_place(call, rank())));
    if (bound->on_trial) trials_.begin();
    exec::CollectiveArgs& args = collective_args_;
    args.input = static_cast<const std::byte*>(call.send);
    args.output = static_cast<std::byte*>(call.recv);
    args.reduction.type = call.type;
    args.reduction.op = active_call_.op;  // not the caller's, which only reductions look at
    std::memcpy(args.reduction.scalar, call.scalar, sizeof call.scalar);
    args.call = &active_call_;
    args.call_hash = exec::hash_of(active_call_);
    args.caption = caption_;
    if (bound->copies_input) {
      TUTTI_ASSIGN(args.input, copy_of_input(call));
    } else if (!bound->on_trial) {
      last_call_ = call;
      repeatable_ = bound->plans();
    }
    start_collective(bound->plans());
    if (bound->on_trial) active_ = Active::kTrial;
    return ok_status();
  }

  /// The ranks tell each other what the trials took.
  Status begin_gather() {
    const Call gather = trials_.gather();
    TUTTI_ASSIGN(BoundPlan* const bound, plans_.exchange(gather));
    gather_signature_ = Trials::signature_of_gather(gather);
    collective_args_ = {};
    collective_args_.input = static_cast<const std::byte*>(gather.send);
    collective_args_.output = static_cast<std::byte*>(gather.recv);
    collective_args_.reduction.type = gather.type;
    collective_args_.call = &gather_signature_;
    collective_args_.call_hash = exec::hash_of(gather_signature_);
    gather_caption_ = caption_.empty() ? "" : fmt::format("{} before {}", kGather, caption_);
    collective_args_.caption = gather_caption_;
    start_collective(bound->plans());
    active_ = Active::kVerdict;
    return ok_status();
  }

  void start_collective(const exec::Plans& plans) {
    rewind_clock();
    active_ = Active::kCollective;
    collective_.start(plans, collective_args_);
  }

  Result<exec::Poll> poll_active() {
    if (active_ == Active::kPointToPoint) return point_to_point_.poll();
    return collective_.poll();
  }

  Status check_peers() {
    if (active_ == Active::kPointToPoint) return point_to_point_.check_peers();
    return collective_.check_peers();
  }

  Result<const std::byte*> copy_of_input(const Call& call) {
    const std::vector<Stretch> stretches = input_stretches(call, rank(), size());
    std::size_t bytes = 0;
    for (const Stretch& stretch : stretches) bytes = std::max(bytes, stretch.begin + stretch.bytes);
    if (bytes > input_copy_bytes_) {
      input_copy_bytes_ = 0;
      input_copy_.reset(new (std::nothrow) std::byte[bytes]);
      if (!input_copy_)
        return make_error(
            Code::kUnavailable,
            "no memory for a copy of {} bytes of input, which this algorithm needs in "
            "place: call with separate buffers",
            bytes);
      input_copy_bytes_ = bytes;
    }
    const auto* const input = static_cast<const std::byte*>(call.send);
    for (const auto& [begin, length] : stretches)
      std::memcpy(input_copy_.get() + begin, input + begin, length);
    return static_cast<const std::byte*>(input_copy_.get());
  }

  /// Called on fruitless polls; looks at the clock now and then.
  Status check_clock() {
    if (++polls_ < kPollsBeforeClock || polls_ % kPollsBetweenClocks != 0) return ok_status();
    const TimePoint now = Clock::now();
    if (!clock_started_) {
      clock_started_ = true;
      warned_ = false;
      started_ = looked_ = looked_at_lives_ = now;
      return ok_status();
    }
    if (now - looked_ > kLookForLeavers) {
      looked_ = now;
      TUTTI_TRY(check_peers());
    }
    if (now - looked_at_lives_ > kLookAtLives) {
      looked_at_lives_ = now;
      TUTTI_TRY(look_at(team_->waits().waiting_for(), now));
    }
    const std::chrono::duration<double> waited = now - started_;
    if (timeout_ > 0 && waited.count() > timeout_)
      return peer_error(
          Code::kTimeout, team_->waits().waiting_for(),
          "not complete after {:.1f} s, longer than TUTTI_TIMEOUT={} s: it waits for {}",
          waited.count(), timeout_, awaited());
    if (!warned_ && waited > kSayWhoWaits) {
      warned_ = true;
      log_warn(who_, "{} (call {}) waits for {} since {:.0f} s", describe(active_call_),
               collective_.calls(), awaited(), waited.count());
    }
    return ok_status();
  }

  std::string awaited() const {
    const Rank peer = team_->waits().waiting_for();
    return peer == kNoRank ? "its peers" : team_->member(peer).label;
  }

  void rewind_clock() {
    clock_started_ = false;
    polls_ = 0;
    suspect_ = kNoRank;
  }

  /// Whether a peer can still do what this rank waits for. The bootstrap tells of failures sooner,
  /// but its hub may have left the group in peace and ended. A mapped peer that did its part before
  /// it ended is found out by the polls between two looks.
  Status look_at(Rank peer, TimePoint now) {
    if (peer == kNoRank) return ok_status();
    bootstrap_->look_after(peer);
    const exec::Member* member = &team_->member(peer);
    if (member->block == nullptr) return ok_status();
    const bool ended = member->life.ended();
    const bool gave_up = member->block->progress.gave_up.load(std::memory_order_acquire) != 0;
    if (!ended && !gave_up) {
      suspect_ = kNoRank;
    } else if (suspect_ != peer) {
      suspect_ = peer;
      suspected_ = now;
    } else if (ended) {
      return peer_error(Code::kPeerFailed, peer, "{} died: its process has ended", member->label);
    } else if (now - suspected_ > kReasonComes) {
      return peer_error(Code::kPeerFailed, peer,
                        "{} gave up, and nobody is left to tell why: see its own error",
                        member->label);
    }
    return ok_status();
  }

  /// True when this call was the first. Mapped peers learn of it before the caller does, who may
  /// then change what they read.
  bool raise(const Error& error) {
    team_->own_block().progress.gave_up.store(1, std::memory_order_release);
    if (!team_->abort_word().raise(error)) return false;
    const std::scoped_lock lock(told_mutex_);
    tell_of_end();
    return true;
  }

  /// Under told_mutex_. Once.
  void tell_of_end() {
    if (const auto told = std::exchange(told_of_end_, nullptr)) told();
  }

  /// A peer that cancelled its half of a transfer gave up for a reason, and that travels on another
  /// connection: true until it is known here too, or should have been.
  bool reason_may_come(const Error& error) {
    if (error.code != Code::kAborted || team_->abort_word().raised()) return false;
    if (!cancelled_) cancelled_ = Clock::now();
    return Clock::now() - *cancelled_ < kReasonComes;
  }

  /// Ends this communicator: `error` gets its context, stays, and reaches the peers. A peer's end
  /// may be seen after the reason for it came: then the reason is the error.
  Error fail(Error error) {
    const bool known = team_->abort_word().raised();
    const bool follows = error.code == Code::kAborted || error.code == Code::kPeerFailed;
    if (follows && known) error = team_->abort_word().error();
    if (error.code == Code::kAborted && !known) error.code = Code::kPeerFailed;  // a peer's doing
    collective_.cancel();
    point_to_point_.cancel();
    counters_.cancel();
    queue_.clear();
    if (std::exchange(active_, Active::kNone) == Active::kVerdict)
      error.what = fmt::format("while {}: {}", kGather, error.what);
    error.what = fmt::format("{} (call {} of {}, rank {}): {}", shown_call(error.what),
                             collective_.calls(), name_, rank(), error.what);
    if (!known && raise(error)) bootstrap_->announce(error);
    log_warn(who_, "{}: {}", name_of(error.code), error.what);
    return error;
  }

  /// The active call, as `reason` does not show it yet.
  [[nodiscard]] std::string shown_call(const std::string& reason) const {
    const bool repeats = reason.find(caption_) != std::string::npos;  // "" is everywhere
    if (!repeats) return caption_;
    if (!active_blocks_) return describe(active_call_);
    return fmt::format("{} with {}", describe(active_call_), describe_counts(*active_blocks_));
  }

  /// A failure that the bootstrap tells of. It knows ranks, the team knows where they run; and what
  /// was an abort there is here the doing of a peer, as its death would be.
  Error from_afar(Error error) const {
    if (error.code == Code::kAborted) error.code = Code::kPeerFailed;
    if (error.peer >= 0 && error.peer < size())
      error.what = fmt::format("{}: {}", team_->member(error.peer).label, error.what);
    return error;
  }

  Result<std::unique_ptr<Communicator>> subgroup(std::span<const Rank> ranks, std::uint64_t tag,
                                                 const CommunicatorOptions& options,
                                                 Deadline deadline) {
    TUTTI_ASSIGN(auto bootstrap, bootstrap_->subgroup(ranks, tag, deadline));
    CommunicatorOptions own = options;
    own.is_part = true;
    auto made = create(runtime_, std::move(bootstrap), own, deadline);
    if (made) return made;
    // Whoever called knows the ranks by their numbers here.
    Error error = std::move(made).error();
    error.what = fmt::format("making a communicator of the ranks {} of {}, as 0..{}: {}",
                             fmt::join(ranks, ","), name_, ranks.size() - 1, error.what);
    if (error.peer >= 0 && error.peer < static_cast<Rank>(ranks.size())) {
      error.peer = ranks[error.peer];
      error.what += fmt::format(" (rank {} of {})", error.peer, name_);
    }
    return error;
  }

  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<exec::Team> team_;
  std::vector<std::string> transports_;
  std::int32_t hosts_ = 1;
  const std::vector<std::string> host_names_;  ///< by rank
  const bool one_gpu_;
  std::shared_ptr<const topo::JobTopology> job_;
  const Calibration calibration_;  ///< of predictions
  std::string name_, who_;
  Trials trials_;
  PlanCache plans_;
  exec::CollectiveArgs collective_args_;  ///< of the collective that runs or ran last
  Call last_call_;                        ///< what they were made from
  exec::Plans repeatable_;                ///< its plans; none when another call needs another start
  exec::CollectiveRun collective_;
  exec::PointToPointRun point_to_point_;
  CallCounters counters_;
  exec::Announcements announcements_;

  std::mutex told_mutex_;
  std::function<void()> told_of_end_;

  std::deque<Queued> queue_;
  Active active_ = Active::kNone;
  CallSignature active_call_, gather_signature_;
  std::shared_ptr<const ir::Blocks> active_blocks_;  ///< of that call
  std::string gather_caption_;
  std::string caption_;  ///< what errors show of the active call under TUTTI_CHECK=1, else ""
  std::unique_ptr<std::byte[]> input_copy_;
  std::size_t input_copy_bytes_ = 0;
  bool finalized_ = false;
  // Counted apart: a split may fail on some ranks alone, and the shrink after it must still agree.
  std::uint64_t splits_ = 0, shrinks_ = 0;

  double timeout_ = 0;
  std::uint32_t polls_ = 0;
  bool clock_started_ = false, warned_ = false;
  TimePoint started_, looked_, looked_at_lives_;
  Rank suspect_ = kNoRank;  ///< seen to have ended or given up at the last look
  TimePoint suspected_;
  std::optional<TimePoint> cancelled_;  ///< when a peer was seen to give up
};

}  // namespace

Status check_group(std::span<const Call> calls, Rank rank) {
  std::vector<const Call*> sends, receives;
  for (const Call& call : calls)
    if (is_point_to_point(call) && call.root == rank)
      (call.collective == Collective::kSend ? sends : receives).push_back(&call);
  if (sends.size() != receives.size())
    return make_error(Code::kInvalidUsage,
                      "rank {} posts {} sends to itself and {} receives from itself in one group: "
                      "post the missing ones in the same group, since nobody else can",
                      rank, sends.size(), receives.size());
  for (std::size_t i = 0; i < sends.size(); ++i)
    if (sends[i]->type != receives[i]->type || sends[i]->count != receives[i]->count)
      return make_error(Code::kInvalidUsage,
                        "rank {} to itself: {} meets {}: both must name the same type and count",
                        rank, describe(signature_of(*sends[i])),
                        describe(signature_of(*receives[i])));
  return ok_status();
}

namespace {

/// Files that are all for another number of ranks are a mistake.
Status check_fits(const Assembly& assembly) {
  const std::int32_t size = assembly.team->size();
  const auto fits = [size](const auto& file) { return file.second->request().ranks == size; };
  if (assembly.files.empty() || std::ranges::any_of(assembly.files, fits)) return ok_status();
  const auto& [path, file] = *assembly.files.begin();
  return make_error(Code::kInvalidArgument,
                    "TUTTI_ALGO: '{}' is for {} ranks and this communicator has {}: start {} "
                    "ranks, name a file for {}, or take it out of TUTTI_ALGO",
                    path, file->request().ranks, size, file->request().ranks, size);
}

void say_what_files_are_for(const Assembly& assembly) {
  for (const auto& [path, file] : assembly.files) {
    const ir::Request& request = file->request();
    const std::string root =
        rooted(request.collective) ? fmt::format(" from or to rank {}", request.root) : "";
    log_info(Subsystem::kInit,
             fmt::format("[rank {}/{}]", assembly.team->rank(), assembly.team->size()),
             "TUTTI_ALGO: {} runs {} of {} ranks{}; all other calls choose as without it",
             file->name, name_of(request.collective), request.ranks, root);
  }
}

/// Whether TUTTI_ALGO and the table name what these ranks can run. A part of a communicator may be
/// too small for an algorithm that TUTTI_ALGO means for the whole.
Status check_choices(const Tuner& tuner, const exec::Team& team, bool part) {
  const std::string who = fmt::format("[rank {}/{}]", team.rank(), team.size());
  const ir::Layout layout = ir::Layout::of_hosts(team.placement().host);
  for (int c = 0; c < kCollectives; ++c) {
    const Status can = tuner.check_setting(
        {.collective = static_cast<Collective>(c), .ranks = team.size(), .layout = layout});
    if (can) continue;
    if (!part) return can;
    log_info(Subsystem::kTuning, who, "{}; the library chooses", can.error().what);
  }
  const std::vector<std::string> unusable = tuner.unusable_in_table(layout);
  if (!unusable.empty() && team.rank() == 0)
    log_warn(who, "the measured table names what cannot run here, and rules choose instead: {}",
             fmt::join(unusable, ", "));
  return ok_status();
}

/// `part`: of a communicator that was made before.
Result<Tuner> tuner_for(const Runtime& runtime, const Assembly& assembly, bool part) {
  if (!part) TUTTI_TRY(check_fits(assembly));
  say_what_files_are_for(assembly);
  const CallClass& calls = assembly.calls;
  TunerPolicy policy{assembly.agreement.algorithm, assembly.agreement.deterministic};
  for (const auto& [path, file] : assembly.files) policy.files[path] = &file->algorithm;
  policy.table = assembly.table;
  policy.calibration = assembly.calibration;
  policy.staging_bytes = assembly.agreement.staging_bytes;
  policy.arrangement = {calls.ranks, calls.hosts, calls.most_on_a_host, assembly.job->wiring};
  TUTTI_ASSIGN(Tuner tuner, Tuner::create(runtime.algorithms, std::move(policy)));
  TUTTI_TRY(check_choices(tuner, *assembly.team, part));
  return tuner;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Runtime> runtime,
                                                           std::unique_ptr<Bootstrap> bootstrap,
                                                           const CommunicatorOptions& options,
                                                           Deadline deadline) {
  runtime->deferred_reclaim.reclaim();
  auto assembly = assemble(*runtime, *bootstrap, options.device, deadline);
  if (!assembly) {  // others may have assembled theirs and would wait for this rank
    Error why = std::move(assembly).error();
    if (deadline.cancellation() != nullptr && deadline.cancellation()->raised())
      why = make_error(Code::kAborted, "rank {} was aborted while its communicator was being made",
                       bootstrap->rank());
    bootstrap->announce(why);
    return why;
  }
  auto tuner = tuner_for(*runtime, *assembly, options.is_part);
  if (!tuner) {
    bootstrap->announce(tuner.error());
    runtime->deferred_reclaim.add(std::move(assembly->team));
    return std::move(tuner).error();
  }
  return std::unique_ptr<Communicator>(std::make_unique<RankCommunicator>(
      std::move(runtime), std::move(bootstrap), *std::move(assembly), *std::move(tuner), options));
}

namespace {

/// What a group leaves behind must not touch the caller's buffers any more.
void end_all(std::span<Communicator* const> communicators, const Error& why) {
  for (Communicator* communicator : communicators) {
    communicator->abort(
        make_error(Code::kAborted, "another communicator of the group failed: {}", why.what));
    (void)communicator->poll();
  }
}

}  // namespace

Status run_group(std::span<Communicator* const> communicators,
                 const std::function<CallerActivity()>& caller_activity) {
  std::vector<Communicator*> busy(communicators.begin(), communicators.end());
  WaitSet waits;
  for (std::uint32_t polls = 0; !busy.empty(); ++polls) {
    bool finished = false;
    for (std::size_t i = 0; i < busy.size();) {
      const auto progress = busy[i]->poll();
      if (!progress) {
        end_all(busy, progress.error());
        return progress.error();
      }
      if (*progress == Communicator::Progress::kIdle) {
        busy.erase(busy.begin() + static_cast<std::ptrdiff_t>(i));
        finished = true;
      } else {
        ++i;
      }
    }
    if (finished) polls = 0;
    if (busy.empty()) break;
    const CallerActivity now = caller_activity ? caller_activity() : CallerActivity::kWaits;
    if (busy.size() == 1) busy.front()->idle(polls, now);
    // What one rank of this thread did may have moved others that were polled before it; and the
    // thread must not sleep on one of them while others could move.
    if (busy.size() > 1 && polls > 0) {
      waits.clear();
      for (Communicator* communicator : busy) communicator->add_waits(waits, now);
      wait_once(waits);
    }
  }
  return ok_status();
}

}  // namespace tutti
