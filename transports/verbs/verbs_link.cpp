#include "transports/verbs/verbs_link.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::verbs {
namespace {

// One write of the stream at most: short, so that reading and writing overlap.
constexpr std::size_t kMostWrite = 32 << 10;
// The peer hears how far its stream was read after so many of its writes, or a part of the ring.
constexpr std::uint64_t kTellWrites = kStreamWrites / 4;
constexpr std::uint64_t kTellPart = 4;
// The socket and the devices are asked once in so many calls while all paths are well.
constexpr std::uint32_t kCallsApart = 64;
constexpr Nanos kLooksApart = std::chrono::microseconds(100);
// A side that has found nothing so often may be about to sleep.
constexpr std::uint32_t kFruitless = 64;

}  // namespace

// --- the start ---

VerbsLink::VerbsLink(LinkOptions options) : options_(std::move(options)) {}

VerbsLink::~VerbsLink() {
  ::shutdown(options_.control.get(), SHUT_RDWR);  // the attendant has a descriptor of it, too
  if (lanes_.empty()) return;
  std::string text;
  for (const Lane& lane : lanes_) {
    const Rail& rail = options_.devices->rails()[lane.path.rail()];
    text += fmt::format("{} {}:{} {} in puts and {} in the stream", text.empty() ? ":" : ";",
                        rail.device, rail.port, lane.put_bytes, lane.stream_bytes);
  }
  log_info(
      Subsystem::kNet, "",
      "bytes sent to {} by RDMA{}; {} paths failed meanwhile; {} reads from memory of GPUs made "
      "what came there visible",
      options_.peer, text, failovers_, flushes_done_);
}

Result<std::unique_ptr<VerbsLink>> VerbsLink::create(LinkOptions options) {
  std::unique_ptr<VerbsLink> link(new VerbsLink(std::move(options)));
  TUTTI_TRY(link->prepare());
  return link;
}

void VerbsLink::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

Status VerbsLink::prepare() {
  const std::size_t ring = options_.ring_bytes;
  TUTTI_ASSIGN(incoming_memory_, PagedMemory::map(ring));
  incoming_ = incoming_memory_.bytes();
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error(Code::kUnavailable, errno, "waiting for several descriptors");
  watch(options_.control.get());
  Offer offer{.ring_address = reinterpret_cast<std::uintptr_t>(incoming_.data()),
              .ring_bytes = ring,
              .pairs_of_each_rail =
                  pairs_of_each_rail(options_.devices->rails(), options_.pairs_of_each_rail)};
  const auto& rails = options_.devices->rails();
  for (std::size_t rail = 0; rail < std::min(rails.size(), kMostRails); ++rail) {
    for (const PortFacts& port : options_.devices->device(rail).facts().ports)
      if (port.number == rails[rail].port)
        fragment_ = std::min(fragment_, std::bit_floor(port.most_message));
    const auto& device = options_.devices->shared_device(rail);
    auto place = std::ranges::find(places_, device, [](const auto& one) { return one->device; });
    if (place == places_.end()) {
      auto made = std::make_unique<OnDevice>();
      made->device = device;
      TUTTI_ASSIGN(MemoryRegion in, device->register_memory(incoming_, {.remote_write = true}));
      made->incoming.emplace(std::move(in));
      places_.push_back(std::move(made));
      place = places_.end() - 1;
    }
    offer.rails.push_back({rails[rail], (*place)->incoming->remote_key()});
  }
  say(offer);
  return ok_status();
}

/// The copy of the peer's ring.
Status VerbsLink::prepare_outgoing(std::size_t bytes) {
  TUTTI_ASSIGN(outgoing_memory_, PagedMemory::map(bytes));
  outgoing_ = outgoing_memory_.bytes();
  for (auto& place : places_) {
    TUTTI_ASSIGN(MemoryRegion region, place->device->register_memory(outgoing_, {}));
    place->outgoing.emplace(std::move(region));
  }
  return ok_status();
}

// --- the stream ---

bool VerbsLink::uses_reserve() const {
  return std::ranges::none_of(lanes_, [](const Lane& lane) {
    return lane.path.state() == Path::State::kReady && !lane.in_reserve;
  });
}

/// A stream that had to take a lane in reserve moves back: at once if nothing of it is under way,
/// else by ending the lane, which tells how far it has come. The lane then opens again.
[[gnu::noinline]] void VerbsLink::leave_reserve() {
  if (!stream_ || !lanes_[*stream_].in_reserve || uses_reserve()) return;
  if (posted_ == consumed_)
    stream_.reset();
  else if (posted_ < written_)
    end(lanes_[*stream_], "a nearer path works again");
}

/// Connections begin at different lanes, so that all carry streams.
VerbsLink::Lane* VerbsLink::stream_lane() {
  if (!stream_) {
    const bool reserve = uses_reserve();
    for (std::size_t i = 0; i < lanes_.size() && !stream_; ++i) {
      const std::size_t index = (first_stream_ + i) % lanes_.size();
      const Lane& lane = lanes_[index];
      if (lane.path.state() == Path::State::kReady && lane.in_reserve == reserve) stream_ = index;
    }
    if (!stream_) return nullptr;
  }
  Lane& lane = lanes_[*stream_];
  return lane.path.state() == Path::State::kReady ? &lane : nullptr;
}

void VerbsLink::push_stream() {
  leave_reserve();
  while (posted_ < written_ && unconsumed_.size() < kStreamWrites) {
    Lane* const lane = stream_lane();
    if (lane == nullptr || !lane->path.has_room()) return;
    const std::size_t from = posted_ % outgoing_.size();
    const std::size_t bytes = std::min<std::uint64_t>(
        {written_ - posted_, outgoing_.size() - from, kMostWrite, fragment_});
    const Path::Piece piece{.bytes = outgoing_.subspan(from, bytes),
                            .local_key = lane->place->outgoing->local_key(),
                            .to = peer_->ring_address + from,
                            .key = peer_->rails[lane->peer_rail].ring_key};
    if (const Status written = lane->path.write(piece, {Notice::kStream, low(posted_ + bytes)});
        !written)
      return fail(*lane, written.error().what);
    posted_ += bytes;
    lane->stream_bytes += bytes;
    unconsumed_.push_back(posted_);
  }
}

// The peer stops at kStreamWrites writes that it does not know to be read, so those that have
// arrived and are still to be read must not be forgotten here.
void VerbsLink::tell_consumed() {
  const bool many_writes = untold_.size() >= kTellWrites && untold_[kTellWrites - 1] <= read_;
  const bool worth_it =
      read_ > told_ && (many_writes || read_ - told_ >= incoming_.size() / kTellPart);
  if (!worth_it && !tell_again_) return;
  const auto lane =
      std::ranges::find_if(lanes_, [](const Lane& one) { return one.path.has_room(); });
  if (lane == lanes_.end()) return;
  if (const Status told = lane->path.write({}, {Notice::kConsumed, low(read_)}); !told)
    return fail(*lane, told.error().what);
  told_ = read_;
  while (!untold_.empty() && untold_.front() <= told_) untold_.pop_front();
  tell_again_ = false;
}

// --- a call ---

Status VerbsLink::await_paths(Deadline deadline) {
  const auto is_settled = [](const Lane& lane) {
    return lane.path.state() == Path::State::kReady || lane.tries > 0;
  };
  for (;;) {
    TUTTI_TRY(advance());
    TUTTI_TRY(look_around());
    if (ready_paths() > 0 && std::ranges::all_of(lanes_, is_settled)) return ok_status();
    if (control_ended_)
      return make_error(Code::kPeerFailed, "{} closed the connection before a path was open",
                        options_.peer);
    if (deadline.passed())
      return make_error(Code::kTimeout, "no RDMA path to {} has opened in time{}", options_.peer,
                        reasons());
    pollfd news{options_.control.get(), POLLIN, 0};
    ::poll(&news, 1, 1);
  }
}

bool VerbsLink::holds_back() const {
  if (dead_ || control_ended_) return false;
  return posted_ < written_ || !control_out_.empty() ||
         std::ranges::any_of(
             lanes_,
             [](const Lane& lane) {
               return lane.seen != lane.told || lane.path.state() == Path::State::kDraining ||
                      lane.path.state() == Path::State::kDrained;
             });
}

Status VerbsLink::advance() {
  if (dead_) return Error(*dead_);
  const auto all = [this]() -> Status {
    TUTTI_TRY(poll_completions());
    if (is_time_to_look()) TUTTI_TRY(look_around());
    // Where nothing has changed, what could not leave before cannot leave now.
    const bool changed = std::exchange(changed_, false);
    if (!changed && !works_.has_next() && control_out_.empty()) return ok_status();
    // What is short and lets the peer go on leaves before what is long.
    push_stream();
    push_flushes();
    tell_consumed();
    tell_seen();
    push_puts();
    return flush_control();
  };
  Status done = all();
  if (!done) dead_ = done.error();
  return done;
}

// This and read() are flattened; what is rare is kept out of line.
[[gnu::flatten]] Result<std::size_t> VerbsLink::write(std::span<const iovec> pieces) {
  if (dead_) return Error(*dead_);
  std::size_t total = 0;
  if (peer_) {
    for (const iovec& piece : pieces) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      std::size_t done = 0;
      while (done < piece.iov_len && written_ - consumed_ < outgoing_.size()) {
        const std::size_t at = written_ % outgoing_.size();
        const std::size_t bytes =
            std::min<std::uint64_t>({piece.iov_len - done, outgoing_.size() - at,
                                     outgoing_.size() - (written_ - consumed_)});
        std::memcpy(outgoing_.data() + at, data + done, bytes);
        done += bytes;
        written_ += bytes;
      }
      total += done;
      if (done < piece.iov_len) break;
    }
  }
  push_stream();
  if (total == 0) TUTTI_TRY(advance());
  return total;
}

[[gnu::flatten]] Result<std::size_t> VerbsLink::read(std::span<const iovec> pieces) {
  Status well = advance();
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    auto* data = static_cast<std::byte*>(piece.iov_base);
    std::size_t done = 0;
    while (done < piece.iov_len && read_ < arrived_) {
      const std::size_t at = read_ % incoming_.size();
      const std::size_t bytes =
          std::min<std::uint64_t>({piece.iov_len - done, incoming_.size() - at, arrived_ - read_});
      std::memcpy(data + done, incoming_.data() + at, bytes);
      done += bytes;
      read_ += bytes;
    }
    total += done;
    if (done < piece.iov_len) break;
  }
  if (total > 0) {
    fruitless_ = 0;
    tell_consumed();
    return total;
  }
  if (!well) return std::move(well).error();
  if (control_ended_ && flushes_.empty()) {
    // What came before the end has its completion by now.
    TUTTI_TRY(poll_completions());
    if (read_ == arrived_)
      return make_error(Code::kPeerFailed, "the control connection of its RDMA paths has ended");
  }
  return total;
}

/// Looking costs system calls: seldom while all is well, and more often while it is not.
bool VerbsLink::is_time_to_look() {
  if (++calls_ % kCallsApart == 0) return true;
  if (options_.attention && options_.attention->news.load(std::memory_order_relaxed)) return true;
  if (!lanes_.empty() && ready_paths() == lanes_.size()) return false;
  return options_.now() - looked_at_ >= kLooksApart;
}

[[gnu::noinline]] Status VerbsLink::look_around() {
  looked_at_ = options_.now();
  changed_ = true;
  if (options_.attention) options_.attention->news.store(false, std::memory_order_relaxed);
  TUTTI_TRY(read_control());
  TUTTI_TRY(look_for_paths());
  if (options_.attention)
    options_.attention->unsettled.store(ready_paths() < lanes_.size(), std::memory_order_relaxed);
  return flush_control();
}

Result<bool> VerbsLink::check() {
  if (dead_) return Error(*dead_);
  const bool may_sleep = ++fruitless_ >= kFruitless;
  const bool looks = fruitless_ == kFruitless || is_time_to_look();
  if (Status well = looks ? look_around() : ok_status(); !well) {
    dead_ = well.error();
    return std::move(well).error();
  }
  if (!may_sleep) return false;
  if (works_.has_next() && lane_for_put() != nullptr) return true;  // the next call posts more
  bool armed_now = false;
  for (auto& place : places_) {
    if (place->broken || !place->completions || place->armed) continue;
    place->completions->take_wakes();
    if (const Status armed = place->completions->wake_on_next(); !armed)
      break_device(*place, armed.error().what);
    place->armed = armed_now = true;
  }
  return armed_now;
}

// --- the end ---

bool VerbsLink::finish() {
  read_ = arrived_;
  changed_ = true;
  if (!advance() || control_ended_ || lanes_.empty()) return true;
  read_ = arrived_;
  if (posted_ < written_) return false;
  bool at_rest = true;
  for (Lane& lane : lanes_) {
    if (lane.path.state() != Path::State::kReady || lane.path.is_idle()) continue;
    at_rest = false;
    if (lane.asked_for_rest || !lane.path.has_room()) continue;
    lane.path.report_next();
    lane.asked_for_rest = true;
    if (const Status told = lane.path.write({}, {Notice::kConsumed, low(read_)}); !told)
      fail(lane, told.error().what);
  }
  return at_rest && (posted_ == consumed_ || stream_lane() != nullptr);
}

void VerbsLink::shutdown() {
  if (!dead_) dead_ = make_error(Code::kPeerFailed, "the RDMA paths were shut down");
  for (Lane& lane : lanes_) lane.path.set_down(lane.path.generation());
  ::shutdown(options_.control.get(), SHUT_RDWR);
}

}  // namespace tutti::verbs
