// A communicator for tests of this folder: remembers what it was asked, completes when told to.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/result.hpp"
#include "src/capi/process.hpp"
#include "src/comm/communicator.hpp"

namespace tutti::capi {

class FakeCommunicator : public Communicator {
 public:
  FakeCommunicator(Rank rank, std::int32_t size) : rank_(rank), size_(size) {}

  /// While closed, started calls stay pending.
  std::atomic<bool> open{true};
  std::atomic<int> polls{0};
  /// Of the last wait.
  std::atomic<CallerActivity> caller_activity{CallerActivity::kWaits};
  /// Of the last split.
  std::atomic<TimePoint> split_deadline{TimePoint()};

  [[nodiscard]] std::vector<Call> calls() const {
    std::scoped_lock lock(mutex_);
    return calls_;
  }
  /// The next start or run returns it.
  void refuse_next(Error error) {
    std::scoped_lock lock(mutex_);
    refusal_ = std::move(error);
  }

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] std::int32_t size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  [[nodiscard]] std::uint64_t id() const override { return 0; }
  [[nodiscard]] std::vector<Rank> ranks_of_this_process() const override { return {rank_}; }
  [[nodiscard]] bool shares_one_gpu() const override { return false; }
  Result<std::shared_ptr<const lower::Lowered>> direct_program(const Call&, bool) const override {
    return std::shared_ptr<const lower::Lowered>();
  }
  Result<std::vector<PeerPrograms>> peer_programs(const Call&,
                                                  lower::ProgramProtocol) const override {
    return std::vector<PeerPrograms>();
  }
  Status announce(const Call&, bool) override { return ok_status(); }
  void on_end(std::function<void()>) override {}
  Result<std::vector<Blob>> all_gather(Blob mine, Deadline) override {
    return std::vector<Blob>{std::move(mine)};
  }
  [[nodiscard]] std::span<const std::byte> key() const override { return {}; }

  Status start(std::span<const Call> calls) override {
    std::scoped_lock lock(mutex_);
    if (refusal_) return *std::exchange(refusal_, std::nullopt);
    calls_.insert(calls_.end(), calls.begin(), calls.end());
    return ok_status();
  }
  Result<Progress> poll() override {
    ++polls;
    std::scoped_lock lock(mutex_);
    if (death_) return *death_;
    return open ? Progress::kIdle : Progress::kPending;
  }
  void idle(std::uint32_t, CallerActivity now) override { caller_activity = now; }
  void add_waits(WaitSet&, CallerActivity now) override { caller_activity = now; }
  Status run(const Call& call) override {
    TUTTI_TRY(start({&call, 1}));
    while (true) {
      TUTTI_ASSIGN(const Progress progress, poll());
      if (progress == Progress::kIdle) return ok_status();
    }
  }

  Result<std::unique_ptr<Communicator>> split(int color, int key, const CommunicatorOptions&,
                                              Deadline deadline) override {
    split_deadline = deadline.when();
    if (color < 0) return std::unique_ptr<Communicator>();
    return std::unique_ptr<Communicator>(std::make_unique<FakeCommunicator>(key, key + 1));
  }
  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> exclude,
                                               const CommunicatorOptions&, Deadline) override {
    const auto left = size_ - static_cast<std::int32_t>(exclude.size());
    return std::unique_ptr<Communicator>(std::make_unique<FakeCommunicator>(0, left));
  }
  Status finalize(Deadline) override { return ok_status(); }
  void abort(const Error& why) override {
    std::scoped_lock lock(mutex_);
    if (!death_) death_ = why;
  }
  [[nodiscard]] Status health() const override {
    std::scoped_lock lock(mutex_);
    if (death_) return *death_;
    return ok_status();
  }
  Status ask_for_algorithm(Collective, std::string_view, std::optional<bool>) override {
    return ok_status();
  }
  Result<std::string> algorithm_for(const Call& call) override {
    return std::string(name_of(call.collective));
  }
  /// As many microseconds as elements.
  Result<double> predict(std::span<const Call> calls) override {
    double us = 0;
    for (const Call& call : calls) us += static_cast<double>(call.count);
    return us;
  }
  [[nodiscard]] std::vector<std::string> transports() const override { return {"shm", "tcp"}; }
  [[nodiscard]] std::int32_t hosts() const override { return 2; }
  [[nodiscard]] std::span<const std::int32_t> host_of_ranks() const override { return hosts_; }
  [[nodiscard]] const std::string& host_name(Rank) const override { return name_; }
  [[nodiscard]] CallTotals totals(Collective) const override { return {}; }
  [[nodiscard]] std::optional<CallUnderWay> under_way() const override { return std::nullopt; }
  [[nodiscard]] const topo::JobTopology& topology() const override { return topology_; }

 private:
  Rank rank_;
  std::int32_t size_;
  std::string name_ = "fake";
  std::vector<std::int32_t> hosts_;
  const topo::JobTopology topology_{topo::unknown_host("fake", "it is a fake").topology, {}, {}, 0};
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
  std::optional<Error> refusal_;
  std::optional<Error> death_;
};

/// A live handle on a fake, destroyed with the scope unless a test did it.
struct FakeHandle {
  explicit FakeHandle(Rank rank = 0, std::int32_t size = 2, bool blocking = true)
      : handle(process().handles.add({blocking, "fake"})), life(handle->life) {
    auto made = std::make_unique<FakeCommunicator>(rank, size);
    fake = made.get();
    Comm& comm = *handle->comm;
    comm.rank = rank;
    comm.size = size;
    comm.communicator = std::move(made);
    comm.phase = Comm::Phase::kReady;
  }
  ~FakeHandle() {
    if (handle->life != life || !HandleTable::retire(CommRef(handle))) return;
    handle->turns.drain();
    process().handles.release(handle);
  }
  FakeHandle(const FakeHandle&) = delete;
  FakeHandle& operator=(const FakeHandle&) = delete;

  ncclComm* handle;
  const std::uint64_t life;
  FakeCommunicator* fake;
};

}  // namespace tutti::capi
