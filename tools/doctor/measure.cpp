#include "tools/doctor/measure.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <poll.h>
#include <sched.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kCommunicator = 0x646f63746f72;  // no communicator's: those are random
constexpr std::size_t kPiece = std::size_t{4} << 20;     // bytes of a message
constexpr std::size_t kFirstAmount = std::size_t{64} << 10;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr auto kLongEnough = milliseconds(200);  // for a figure of bandwidth
constexpr int kPings = 200;
constexpr int kWarmPings = 10;
constexpr auto kPinging = milliseconds(500);
constexpr Nanos kStep = seconds(4);      // what a live network may take for one step
constexpr Nanos kPatience = seconds(6);  // of the follower

enum class Step : std::uint64_t { kEnd, kPing, kTake, kGive };

struct Request {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
};

/// Messages of one connection, in order, each with a deadline.
class Talk {
 public:
  Talk(Connection& connection, Ends ends)
      : connection_(connection),
        out_{kCommunicator, ends.self, ends.peer, 0},
        in_{kCommunicator, ends.peer, ends.self, 0} {}

  Status send(std::span<const std::byte> data, Deadline deadline) {
    Transfer transfer;
    connection_.send(out_, tag(sent_++, data.size()), data, transfer);
    return finish(out_, transfer, deadline);
  }
  Status receive(std::span<std::byte> data, Deadline deadline) {
    Transfer transfer;
    connection_.recv(in_, tag(received_++, data.size()), data, transfer);
    return finish(in_, transfer, deadline);
  }
  Status request(Step step, std::size_t bytes, Deadline deadline) {
    const Request request{to_underlying(step), bytes};
    return send(std::as_bytes(std::span(&request, 1)), deadline);
  }
  /// Sends or receives `bytes` in pieces.
  Status give(std::size_t bytes, Deadline deadline) {
    for (; bytes > 0; bytes -= std::min(bytes, kPiece))
      TUTTI_TRY(send(std::span(buffer_).first(std::min(bytes, kPiece)), deadline));
    return ok_status();
  }
  Status take(std::size_t bytes, Deadline deadline) {
    for (; bytes > 0; bytes -= std::min(bytes, kPiece))
      TUTTI_TRY(receive(std::span(buffer_).first(std::min(bytes, kPiece)), deadline));
    return ok_status();
  }
  /// Until all that was sent has left this process.
  void flush(Deadline deadline) {
    while (connection_.wants_write() && connection_.health() && !deadline.passed()) {
      if (!connection_.progress()) rest(deadline);
    }
  }

 private:
  static MessageTag tag(std::uint64_t sequence, std::size_t bytes) {
    MessageTag tag{.sequence = sequence, .call = {}};
    tag.call.count = bytes;
    return tag;
  }
  Status finish(const StreamId& stream, Transfer& transfer, Deadline deadline) {
    constexpr unsigned kSpins = 2000;  // some 100 us: most answers come before
    for (unsigned idle = 0;; ++idle) {
      const Transfer::State state = transfer.state.load(std::memory_order_acquire);
      if (state == Transfer::State::kDone) return ok_status();
      if (state == Transfer::State::kFailed) return transfer.error;
      if (connection_.progress()) continue;
      if (idle < kSpins) {
        ::sched_yield();
        continue;
      }
      if (deadline.passed()) {
        connection_.cancel(stream, transfer);
        return make_error(Code::kTimeout, "nothing moved in {:.0f} s",
                          std::chrono::duration<double>(kStep).count());
      }
      rest(deadline);
    }
  }
  void rest(Deadline deadline) const {
    pollfd fd{connection_.poll_fd(), POLLIN, 0};
    if (connection_.wants_write()) fd.events |= POLLOUT;
    ::poll(&fd, fd.fd >= 0 ? 1 : 0, deadline.poll_ms(1));
  }

  Connection& connection_;
  const StreamId out_, in_;
  std::uint64_t sent_ = 0, received_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kPiece);
};

double us_of(Nanos time) { return std::chrono::duration<double, std::micro>(time).count(); }

Result<double> round_trip_us(Talk& talk) {
  std::vector<double> times;
  std::array<std::byte, 8> answer{};
  const TimePoint end = Clock::now() + kPinging;
  for (int i = 0; i < kPings && (times.empty() || Clock::now() < end); ++i) {
    const Deadline deadline = Deadline::after(kStep);
    const TimePoint start = Clock::now();
    TUTTI_TRY(talk.request(Step::kPing, 0, deadline));
    TUTTI_TRY(talk.receive(answer, deadline));
    if (i >= kWarmPings || Clock::now() >= end) times.push_back(us_of(Clock::now() - start));
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// Moves `bytes`, and returns how long it took until all of them had arrived.
Result<Nanos> move(Talk& talk, Step step, std::size_t bytes) {
  const Deadline deadline = Deadline::after(kStep);
  std::array<std::byte, 8> answer{};
  const TimePoint start = Clock::now();
  TUTTI_TRY(talk.request(step, bytes, deadline));
  if (step == Step::kGive) {
    TUTTI_TRY(talk.take(bytes, deadline));
  } else {
    TUTTI_TRY(talk.give(bytes, deadline));
    TUTTI_TRY(talk.receive(answer, deadline));
  }
  return Clock::now() - start;
}

/// Into `mb_s`. On an error, it has what came before.
Status bandwidth(Talk& talk, Step step, double& mb_s) {
  for (std::size_t bytes = kFirstAmount;; bytes *= 2) {
    TUTTI_ASSIGN(Nanos time, move(talk, step, bytes));
    if (time >= kLongEnough) {  // a link that was never used may pause once
      TUTTI_ASSIGN(const Nanos again, move(talk, step, bytes));
      time = std::min(time, again);
    }
    mb_s = static_cast<double>(bytes) / us_of(time);
    if (time >= kLongEnough || bytes >= kMostBytes) return ok_status();
  }
}

Status measure(Talk& talk, LinkFacts& link) {
  TUTTI_ASSIGN(link.latency_us, round_trip_us(talk));
  const auto look = [&](Status status, double mb_s) {
    link.large_hangs |= !status && status.error().code == Code::kTimeout && mb_s == 0;
    return status;
  };
  TUTTI_TRY(look(bandwidth(talk, Step::kTake, link.there_mb_s), link.there_mb_s));
  TUTTI_TRY(look(bandwidth(talk, Step::kGive, link.back_mb_s), link.back_mb_s));
  return ok_status();
}

}  // namespace

LinkFacts lead(Connection& connection, Ends ends) {
  LinkFacts link{.connected = true};
  Talk talk(connection, ends);
  if (const Status measured = measure(talk, link); !measured) {
    link.error = measured.error().what;
    return link;
  }
  const Deadline deadline = Deadline::after(kStep);
  if (talk.request(Step::kEnd, 0, deadline)) talk.flush(deadline);
  return link;
}

Status follow(Connection& connection, Ends ends) {
  Talk talk(connection, ends);
  const std::array<std::byte, 8> answer{};
  for (;;) {
    const Deadline deadline = Deadline::after(kPatience);
    Request request;
    TUTTI_TRY(talk.receive(std::as_writable_bytes(std::span(&request, 1)), deadline));
    if (request.bytes > kMostBytes)
      return make_error(Code::kWrongData, "the peer asks for {} bytes", request.bytes);
    switch (static_cast<Step>(request.step)) {
      case Step::kEnd:
        return ok_status();
      case Step::kTake:
        TUTTI_TRY(talk.take(request.bytes, deadline));
        [[fallthrough]];
      case Step::kPing:
        TUTTI_TRY(talk.send(answer, deadline));
        break;
      case Step::kGive:
        TUTTI_TRY(talk.give(request.bytes, deadline));
        break;
      default:
        return make_error(Code::kWrongData, "the peer asks for step {}", request.step);
    }
    talk.flush(deadline);
  }
}

}  // namespace tutti::doctor
