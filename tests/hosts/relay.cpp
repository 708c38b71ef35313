// Joins two network namespaces by a link with latency: a TUN device in each, and this program,
// which takes the packets out of either and puts them into the other the latency later.
//
//   hosts_relay HOST DEVICE HOST DEVICE LATENCY_US [--rate MBIT] [--spin]
//
// Prints "ready" once both devices are up, as 10.213.1.1 and 10.213.1.2, and relays until it is
// terminated or its parent ends; the devices go with it. Exits 77 where there are no TUN devices, 1
// for any other error, which it names.
//
// What it adds to the latency is the wait for a CPU: it runs before everything that is not real
// time, where it may. A queue that is full takes in no more, and the device then drops packets, as
// a switch would.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"
#include "tests/hosts/delay_line.hpp"
#include "tests/hosts/tun_device.hpp"
#include "tools/program/command_line.hpp"

namespace tutti::testing {
namespace {

constexpr int kSkipped = 77;                    // ctest's SKIP_RETURN_CODE
constexpr std::size_t kPacketsUnderWay = 1024;  // of a direction: 9 MB at most
constexpr Nanos kSpin = std::chrono::microseconds(50);

struct Options {
  std::array<std::string, 2> hosts, devices;
  double latency_us = 0;
  double mbit_per_s = 0;  ///< of each direction; 0: no limit
  bool spin = false;      ///< awake for the last kSpin before a packet is due
};

/// One direction.
struct Way {
  int from;
  int to;
  DelayLine line;
};

/// Reads what has come, a limited number of packets, so that the other direction has its turn.
Status take_in(Way& way) {
  constexpr int kAtATime = 16;
  for (int i = 0; i < kAtATime && !way.line.full(); ++i) {
    const std::span<std::byte> slot = way.line.free_slot();
    const ssize_t got = ::read(way.from, slot.data(), slot.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got < 0) return system_error(Code::kUnavailable, errno, "cannot read from a TUN device");
    way.line.accept(static_cast<std::size_t>(got), Clock::now());
  }
  return ok_status();
}

/// Writes what is due. A device that is down or has no room loses the packet, as a wire would.
Status hand_out(Way& way) {
  for (auto due = way.line.next_due(); due && *due <= Clock::now(); due = way.line.next_due()) {
    const std::span<const std::byte> packet = way.line.front();
    const ssize_t put = ::write(way.to, packet.data(), packet.size());
    const bool lost = put < 0 && (errno == EIO || errno == EAGAIN || errno == ENOBUFS);
    if (put < 0 && !lost)
      return system_error(Code::kUnavailable, errno, "cannot write to a TUN device");
    way.line.pop();
  }
  return ok_status();
}

/// Sleeps until a packet comes or is due; only looks in the last `spin` before that.
Status wait(const std::array<Way, 2>& ways, Nanos spin) {
  std::array<pollfd, 2> watched{};
  TimePoint due = TimePoint::max();
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const short events = ways[i].line.full() ? 0 : POLLIN;
    watched[i] = {ways[i].from, events, 0};
    due = std::min(due, ways[i].line.next_due().value_or(TimePoint::max()));
  }
  timespec limit{};
  const bool forever = due == TimePoint::max();
  if (!forever) {
    const Nanos left = std::max(Nanos::zero(), due - Clock::now() - spin);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    limit = {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  }
  if (::ppoll(watched.data(), watched.size(), forever ? nullptr : &limit, nullptr) < 0 &&
      errno != EINTR)
    return system_error(Code::kUnavailable, errno, "cannot wait for packets");
  return ok_status();
}

/// The process ends with its parent, wakes when it asked to, and is not kept waiting for a CPU.
Status be_a_relay() {
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::prctl(PR_SET_TIMERSLACK, 1) != 0)
    return system_error(Code::kUnavailable, errno, "cannot set what kind of process this is");
  const sched_param lowest{.sched_priority = 1};
  if (::sched_setscheduler(0, SCHED_FIFO, &lowest) != 0)
    fmt::print(stderr, "hosts_relay: without real-time priority, so the latency will vary\n");
  return ok_status();
}

/// Returns only with an error.
Status relay(const Options& options) {
  TUTTI_TRY(be_a_relay());
  std::array<Fd, 2> devices;
  for (int i = 0; i < 2; ++i) {
    const TunOptions tun{options.hosts[i], options.devices[i], fmt::format("10.213.1.{}", i + 1)};
    TUTTI_ASSIGN(devices[i], open_tun(tun));
  }
  const Wire wire{
      .latency = Nanos(static_cast<Nanos::rep>(options.latency_us * 1000)),
      .ns_per_byte = options.mbit_per_s > 0 ? 8000 / options.mbit_per_s : 0,
  };
  std::array<Way, 2> ways{Way{devices[0].get(), devices[1].get(), {wire, kPacketsUnderWay}},
                          Way{devices[1].get(), devices[0].get(), {wire, kPacketsUnderWay}}};
  fmt::print("ready\n");
  if (std::fflush(stdout) != 0)
    return system_error(Code::kUnavailable, errno, "cannot say that it is ready");
  for (;;) {
    for (Way& way : ways) TUTTI_TRY(take_in(way));
    for (Way& way : ways) TUTTI_TRY(hand_out(way));
    TUTTI_TRY(wait(ways, options.spin ? kSpin : Nanos::zero()));
  }
}

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  using namespace tutti::testing;
  Options options;
  tutti::tools::CommandLine app("Joins two network namespaces by a link with latency.",
                                "hosts_relay");
  app.add_option("host_a", options.hosts[0], "network namespace").required();
  app.add_option("device_a", options.devices[0], "name of the device to make in it").required();
  app.add_option("host_b", options.hosts[1], "the other one").required();
  app.add_option("device_b", options.devices[1], "its device").required();
  app.add_option("latency", options.latency_us, "one way, microseconds")
      .required()
      .in_range(0, 10e6);
  app.add_option("--rate", options.mbit_per_s, "Mbit/s of each direction; 0: no limit")
      .in_range(0, 1e6);
  app.add_flag("--spin", options.spin, "awake for the last 50 us before a packet is due");
  if (const auto code = app.parse(argc, argv)) return *code;

  const tutti::Status ended = relay(options);
  const bool skipped = ended.error().code == tutti::Code::kUnsupported;
  fmt::print(stderr, "{}hosts_relay: {}\n", skipped ? "*** SKIPPED: " : "", ended.error().what);
  return skipped ? kSkipped : 1;
}
