// A rank of a communicator for tests of this folder: remembers what it was asked, completes when
// told to.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/result.hpp"
#include "src/bootstrap/in_process.hpp"
#include "src/capi/process.hpp"
#include "src/comm/communicator.hpp"

namespace tutti::capi {

class FakeMember : public GroupMember {
 public:
  FakeMember(Rank rank, std::int32_t size) {
    facts_.rank = rank;
    facts_.size = size;
    facts_.name = "fake";
    facts_.transports = {"shm", "tcp"};
    facts_.hosts = 2;
  }

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

  [[nodiscard]] const GroupFacts& facts() const override { return facts_; }

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

  Result<std::unique_ptr<Communicator>> split(int color, int, const CommunicatorOptions& options,
                                              Deadline deadline) override {
    split_deadline = deadline.when();
    if (color < 0) return std::unique_ptr<Communicator>();
    return lone(options, deadline);
  }
  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank>,
                                               const CommunicatorOptions& options,
                                               Deadline deadline) override {
    return lone(options, deadline);
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
  /// As many microseconds as elements.
  Result<double> predict(std::span<const Call> calls) override {
    double us = 0;
    for (const Call& call : calls) us += static_cast<double>(call.count);
    return us;
  }

 private:
  /// A real one, of this rank alone.
  static Result<std::unique_ptr<Communicator>> lone(const CommunicatorOptions& options,
                                                    Deadline deadline) {
    TUTTI_ASSIGN(const auto runtime, process().runtime());
    return Communicator::create(runtime, std::move(in_process_group(1).front()), options, deadline);
  }

  GroupFacts facts_;
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
  std::optional<Error> refusal_;
  std::optional<Error> death_;
};

/// A live handle on a fake, destroyed with the scope unless a test did it.
struct FakeHandle {
  explicit FakeHandle(Rank rank = 0, std::int32_t size = 2, bool blocking = true)
      : handle(process().handles.add({blocking, "fake"})), life(handle->life) {
    auto made = std::make_unique<FakeMember>(rank, size);
    fake = made.get();
    Comm& comm = *handle->comm;
    comm.rank = rank;
    comm.size = size;
    comm.member = std::move(made);
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
  FakeMember* fake;
};

}  // namespace tutti::capi
