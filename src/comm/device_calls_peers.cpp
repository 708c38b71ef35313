// Of DeviceCalls: calls that kernels run in memory of other GPUs.
#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/keep_for_good.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/base/waiter.hpp"
#include "src/comm/device_calls.hpp"

namespace tutti {

Result<bool> DeviceCalls::runs_on_peers(const Call& call) {
  if (!peers_) return false;
  return peers_->runs(call);
}

namespace {

/// What check() has prepared of one rank's calls, on its way to the rank's streams.
struct PeerLaunch {
  const DeviceWork* work;
  cuda::CaptureState capture;
};

}  // namespace

/// One call of each rank after the other: a queue that is full would keep this thread from
/// launching what empties it.
Status DeviceCalls::enqueue_on_peers(std::span<const DeviceWork> works) {
  std::vector<PeerLaunch> launches;
  std::size_t rounds = 0;
  Status outcome = ok_status();
  for (const DeviceWork& work : works) {
    DeviceCalls& rank = *work.device;
    if (rank.prepared_.empty()) continue;
    TUTTI_ASSIGN(const auto scope, rank.driver_->make_current(rank.device_));
    TUTTI_ASSIGN(const cuda::CaptureState capture, rank.host_staging_.capture(work.streams));
    TUTTI_TRY(rank.host_staging_.follow(work.streams, capture));
    launches.push_back({&work, capture});
    rank.keeps_memory_ = true;  // until what is launched is marked
    rounds = std::max(rounds, rank.prepared_.size());
  }
  for (std::size_t round = 0; round < rounds && outcome; ++round)
    for (const auto& [work, capture] : launches) {
      const DeviceCalls& rank = *work->device;
      if (round >= rank.prepared_.size() || !outcome) continue;
      TUTTI_ASSIGN(const auto scope, rank.driver_->make_current(rank.device_));
      outcome = rank.peers_->launch(rank.prepared_[round], work->streams.front(), capture);
    }
  for (const auto& [work, capture] : launches) {  // after an error, too: kernels may be under way
    DeviceCalls& rank = *work->device;
    TUTTI_ASSIGN(const auto scope, rank.driver_->make_current(rank.device_));
    Status marked = rank.host_staging_.mark(work->streams, capture);
    rank.keeps_memory_ = !marked;
    const bool captured = capture.kind == cuda::CaptureKind::kActive;
    if (marked && !captured) marked = rank.peers_->tidy(work->streams.front());
    if (outcome) outcome = std::move(marked);
  }
  return outcome;
}

/// Once all of a group are enqueued.
Status DeviceCalls::finish_on_peers() {
  const std::vector<PeerCalls::Prepared> calls = std::exchange(prepared_, {});
  if (calls.empty()) return ok_status();
  TUTTI_ASSIGN(const auto scope, driver_->make_current(device_));
  for (const PeerCalls::Prepared& prepared : calls) TUTTI_TRY(peers_->finish(prepared));
  return ok_status();
}

/// How long the end of a communicator waits for its kernels: for others to do their part, and then
/// for those that were told to give up.
constexpr auto kLetEnd = std::chrono::seconds(30);
constexpr auto kLetGiveUp = std::chrono::seconds(5);

DeviceCalls::~DeviceCalls() {
  if (passed_.in + passed_.out + passed_.in_place > 0)
    log_info(Subsystem::kNet, communicator_.facts().who(),
             "calls on GPU memory that the host ran: {} bytes copied to pinned memory, {} copied "
             "back, {} sent and received where they were",
             passed_.in, passed_.out, passed_.in_place);
  if (!peers_ || kernels_end()) return;
  log_info(Subsystem::kInit, fmt::format("[rank {}/{}]", rank_, size_),
           "kernels may still run, so what they use is kept until the process ends");
  peers_->leave_to_kernels();
  keep_for_good(std::make_shared<std::vector<PeerCalls::Prepared>>(std::move(prepared_)));
}

/// Whether it is sure that they do not run any more.
bool DeviceCalls::kernels_end() const {
  if (keeps_memory_) return false;
  const bool ended = !communicator_.health();
  if (ended && peers_->is_in_graphs()) return false;
  const auto scope = driver_->make_current(device_);
  const auto relaxed = cuda::RelaxedCapture::begin(*driver_);
  if (!scope || !relaxed) return false;
  const auto is_idle = [&](Deadline deadline) {
    for (std::uint32_t polls = 0;; ++polls) {
      const auto idle = host_staging_.idle();
      if (!idle || *idle || deadline.passed()) return idle && *idle;
      wait_once({}, polls, {});
    }
  };
  if (!ended && is_idle(Deadline::after(kLetEnd))) return true;
  if (!ended) {
    const Error why =
        make_error(Code::kTimeout, "rank {} was destroyed and its calls did not end within {} s",
                   rank_, kLetEnd.count());
    log_warn(fmt::format("[rank {}/{}]", rank_, size_), "{}", why.what);
    peers_->give_up(why);
  }
  return is_idle(Deadline::after(kLetGiveUp));
}

}  // namespace tutti
