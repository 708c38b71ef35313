#include "transports/switch/switch_tree.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::in_network {
namespace {

/// A lost packet shows by results that overtake it. Time shows one only where no results come at
/// all, and workers that share CPUs are late by milliseconds.
constexpr Nanos kTimeout = std::chrono::milliseconds(20);

WorkerOptions worker_options(const SwitchTreeOptions& options) {
  return {.session = options.welcome.session,
          .worker = static_cast<std::uint8_t>(options.places[options.member].worker),
          .member = {static_cast<unsigned>(options.member),
                     static_cast<unsigned>(options.places.size())},
          .slots = options.welcome.slots,
          .first_timeout = kTimeout,
          .least_timeout = kTimeout,
          .silence = options.silence};
}

void done(Transfer& transfer) {
  transfer.state.store(Transfer::State::kDone, std::memory_order_release);
}

}  // namespace

SwitchTree::SwitchTree(SwitchTreeOptions options)
    : options_(std::move(options)),
      worker_(worker_options(options_)),
      sealer_(options_.welcome.key),
      unsealer_(options_.welcome.key),
      writer_(can_segment(options_.data.get())) {}

Result<std::unique_ptr<SwitchTree>> SwitchTree::create(SwitchTreeOptions options) {
  std::unique_ptr<SwitchTree> tree(new SwitchTree(std::move(options)));
  TUTTI_TRY(tree->make_wakers());
  return tree;
}

Status SwitchTree::make_wakers() {
  timer_ = Fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  wakers_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!timer_ || !wakers_)
    return make_error(Code::kUnavailable, "no descriptors for {}: {}", options_.name,
                      std::strerror(errno));
  for (const int fd : {options_.data.get(), options_.control.get(), timer_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(wakers_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return make_error(Code::kUnavailable, "epoll: {}", std::strerror(errno));
  }
  return ok_status();
}

bool SwitchTree::adds(DataType type, ReduceOp op) const {
  const auto members = static_cast<unsigned>(options_.places.size());
  return supported({.collective = Collective::kAllReduce, .type = type, .op = op}, members).ok();
}

unsigned SwitchTree::least_bits() const {
  const auto members = static_cast<unsigned>(options_.places.size());
  for (const unsigned bits : {8U, 16U})
    if (has_precision({.members = members, .bits = bits})) return bits;
  return 32;
}

/// Where a whole leaf is missing, its first member: that one knows for whom it waits itself.
std::optional<std::size_t> SwitchTree::awaited() const {
  const Missing missing = worker_.missing();
  if (missing.workers == 0 || missing.level > 1) return std::nullopt;
  const auto first = static_cast<std::uint32_t>(std::countr_zero(missing.workers));
  const bool is_leaf = missing.level == 1;
  const std::uint32_t leaf = is_leaf ? first : options_.places[options_.member].leaf;
  const auto found = std::ranges::find_if(options_.places, [&](const TreePlace& place) {
    return place.leaf == leaf && (is_leaf || place.worker == first);
  });
  if (found == options_.places.end()) return std::nullopt;
  return static_cast<std::size_t>(found - options_.places.begin());
}

void SwitchTree::post(const TreePart& part, Transfer& transfer) {
  if (!health_) return done(transfer);
  transfer.state.store(Transfer::State::kPending, std::memory_order_relaxed);
  posted_.push_back(
      {std::make_unique<TreeOperations>(part, options_.member, options_.places.size()), &transfer});
  if (posted_.size() == 1) begin_next(Clock::now());
  progress();
}

void SwitchTree::cancel() { break_off(make_error(Code::kAborted, "the call was cancelled")); }

bool SwitchTree::progress() {
  if (!health_) return false;
  const TimePoint now = Clock::now();
  bool moved = receive(now);
  advance(now);
  moved |= send(now);
  if (!moved) check_control(now);
  if (health_) set_alarm();
  return moved;
}

bool SwitchTree::receive(TimePoint now) {
  constexpr int kMostBatches = 8;
  bool any = false;
  for (int batch = 0; batch < kMostBatches; ++batch) {
    const auto datagrams = reader_.receive(options_.data.get());
    for (const auto& datagram : datagrams) take(datagram.bytes, now);
    any |= !datagrams.empty();
    if (datagrams.empty()) break;
    advance(now);
    send(now);  // results free slots: what is next leaves at once
  }
  return any;
}

void SwitchTree::take(std::span<const std::byte> bytes, TimePoint now) {
  Packet packet;
  if (parse(bytes, packet) != Flaw::kNone || packet.session != options_.welcome.session) return;
  if (unsealer_.accepts(packet, bytes)) return worker_.received(packet, now);
  if (packet.kind == PacketKind::kRefusal && packet.reason == Refusal::kUnknownSession)
    worker_.hinted_unknown();
}

bool SwitchTree::send(TimePoint now) {
  bool any = false;
  for (;;) {
    while (writer_.has_room(1)) {
      const auto packet = worker_.next_packet(now, writer_.room());
      if (!packet) break;
      const auto bytes = sealer_.seal(*packet, writer_.room());
      writer_.add(bytes.size(), {});
      any = true;
    }
    if (writer_.empty()) break;
    const bool all_sent = writer_.flush(options_.data.get());
    wait_for_room(!all_sent);
    if (!all_sent) break;
  }
  return any;
}

/// Begins what is next when an operation is over.
void SwitchTree::advance(TimePoint now) {
  while (health_ && !posted_.empty()) {
    switch (worker_.progress()) {
      case Progress::kIdle:
      case Progress::kRunning:
        return;
      case Progress::kFailed:
        return break_off(of_this_switch(worker_.error()));
      case Progress::kNotFinite:
        unsummed_ = true;
        [[fallthrough]];
      case Progress::kDone:
        posted_.front().operations->pop();
        if (posted_.front().operations->next() == nullptr) complete_first();
        if (posted_.empty()) return;
        begin_next(now);
        if (worker_.progress() == Progress::kRunning) return;
    }
  }
}

void SwitchTree::begin_next(TimePoint now) {
  if (Status begun = worker_.begin(*posted_.front().operations->next(), now); !begun)
    break_off(of_this_switch(begun.error()));
}

Error SwitchTree::of_this_switch(const Error& error) const {
  return make_error(error.code, "{}: {}", options_.name, error.what);
}

void SwitchTree::complete_first() {
  posted_.front().operations->deliver();
  done(*posted_.front().transfer);
  posted_.pop_front();
}

/// The switch says nothing there, but that the session is over.
void SwitchTree::check_control(TimePoint now) {
  constexpr Nanos kEvery = std::chrono::milliseconds(5);
  if (now - control_checked_ < kEvery) return;
  control_checked_ = now;
  std::byte byte{};
  const ssize_t got = recv(options_.control.get(), &byte, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  break_off(make_error(
      Code::kUnavailable,
      "{} has ended the session: it or another one of the tree was stopped, a rank has left, or "
      "there was no call for an hour",
      options_.name));
}

void SwitchTree::set_alarm() {
  const std::optional<TimePoint> next = posted_.empty() ? std::nullopt : worker_.next_deadline();
  if (next == alarm_) return;
  alarm_ = next;
  itimerspec when{};
  if (next) {
    const auto nanos = std::max<std::int64_t>(next->time_since_epoch().count(), 1);
    when.it_value = {.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
  }
  (void)timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void SwitchTree::wait_for_room(bool waits) {
  if (waits == std::exchange(waits_for_room_, waits)) return;
  epoll_event event{.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.fd = options_.data.get()}};
  (void)epoll_ctl(wakers_.get(), EPOLL_CTL_MOD, options_.data.get(), &event);
}

SwitchTree::~SwitchTree() {
  leave();
  const WorkerCounts& counts = worker_.counts();
  log_info(Subsystem::kNet, "",
           "{}: {} packets with values and {} without, {} sent again; {} results with values, {} "
           "without",
           options_.name, counts.with_values, counts.without_values, counts.sent_again,
           counts.results_with_values, counts.results_without_values);
}

/// The switch, and by it the other members, must learn of the end even while a forked child has a
/// copy of the socket. The child drops only its copy.
void SwitchTree::leave() {
  if (options_.control && getpid() == process_) ::shutdown(options_.control.get(), SHUT_RDWR);
  options_.control.reset();
}

void SwitchTree::break_off(Error why) {
  if (!health_) return;
  health_ = std::move(why);
  leave();
  wakers_.reset();  // nothing more is waited for
  for (const Posted& posted : std::exchange(posted_, {})) done(*posted.transfer);
}

}  // namespace tutti::in_network
