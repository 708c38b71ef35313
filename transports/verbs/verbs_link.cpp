#include "transports/verbs/verbs_link.hpp"

#include <algorithm>
#include <array>
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
constexpr std::uint64_t kTellWrites = kPathSends / 4;
constexpr std::uint64_t kTellPart = 4;
// The socket and the devices are asked once in so many calls while all paths are well.
constexpr std::uint32_t kCallsApart = 64;
constexpr Nanos kLooksApart = std::chrono::microseconds(100);
// A side that has found nothing so often may be about to sleep.
constexpr std::uint32_t kFruitless = 64;
// Fragments that one path has under way.
constexpr std::size_t kMostFlying = 8;
// Bytes of longer writes may land in any order, where packets take several ways.
constexpr std::size_t kInOrder = 8 << 10;
// A queue pair that has ended comes to rest within so many polls, or it is destroyed.
constexpr int kMostDrainPolls = 100000;
constexpr Nanos kMostDrain = std::chrono::milliseconds(200);
constexpr Nanos kFirstPause = std::chrono::milliseconds(10);
constexpr Nanos kLongestPause = std::chrono::seconds(1);

/// From an older position to a newer one, both modulo 2^30.
std::uint32_t ahead(std::uint32_t value, std::uint64_t from) {
  return (value - static_cast<std::uint32_t>(from & kNoticeMask)) & kNoticeMask;
}

std::uint32_t low(std::uint64_t position) {
  return static_cast<std::uint32_t>(position & kNoticeMask);
}

}  // namespace

// --- the start ---

VerbsLink::VerbsLink(LinkOptions options) : options_(std::move(options)) {}

VerbsLink::~VerbsLink() = default;

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
  TUTTI_ASSIGN(memory_, PagedMemory::map(2 * ring));
  incoming_ = memory_.bytes().first(ring);
  outgoing_ = memory_.bytes().subspan(ring);
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error(Code::kUnavailable, errno, "waiting for several descriptors");
  watch(options_.control.get());
  Offer offer{.ring_address = reinterpret_cast<std::uintptr_t>(incoming_.data()),
              .ring_bytes = ring,
              .pairs_of_each_rail = options_.pairs_of_each_rail};
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
      TUTTI_ASSIGN(MemoryRegion out, device->register_memory(outgoing_, {}));
      made->outgoing.emplace(std::move(out));
      places_.push_back(std::move(made));
      place = places_.end() - 1;
    }
    offer.rails.push_back({rails[rail], (*place)->incoming->remote_key()});
  }
  say(offer);
  return ok_status();
}

// --- the control socket ---

void VerbsLink::say(const ControlMessage& message) {
  const Blob bytes = encode(message);
  control_out_.insert(control_out_.end(), bytes.begin(), bytes.end());
}

Status VerbsLink::flush_control() {
  while (!control_out_.empty() && !control_ended_) {
    const ssize_t sent = ::send(options_.control.get(), control_out_.data(), control_out_.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) break;
    if (sent < 0) {
      control_ended_ = true;  // what the peer said last may still be there to read
      break;
    }
    control_out_.erase(control_out_.begin(), control_out_.begin() + sent);
  }
  return ok_status();
}

Status VerbsLink::read_control() {
  std::array<std::byte, kMostControlBytes> buffer;
  for (;;) {
    const ssize_t got = ::recv(options_.control.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) break;
    if (got <= 0) {
      control_ended_ = true;
      break;
    }
    control_in_.insert(control_in_.end(), buffer.begin(), buffer.begin() + got);
  }
  std::size_t taken = 0;
  for (;;) {
    TUTTI_ASSIGN(const auto decoded, decode_control(std::span(control_in_).subspan(taken)));
    if (!decoded) break;
    taken += decoded->bytes;
    TUTTI_TRY(obey(decoded->message));
  }
  control_in_.erase(control_in_.begin(), control_in_.begin() + static_cast<std::ptrdiff_t>(taken));
  return ok_status();
}

Status VerbsLink::obey(const ControlMessage& message) {
  if (const auto* offer = std::get_if<Offer>(&message)) return take_offer(*offer);
  if (!peer_) return make_error(Code::kPeerFailed, "it spoke of paths before it offered any");
  if (const auto* open = std::get_if<OpenPath>(&message)) return take_open(*open);
  if (const auto* ready = std::get_if<ReadyPath>(&message)) return take_ready(*ready);
  if (const auto* closed = std::get_if<ClosedPath>(&message)) return take_closed(*closed);
  const std::uint16_t number = std::get<RevokeTarget>(message).number;
  // Its key may still be on the way here.
  if (number < kMostTargets) revoked_.set(number);
  works_.forget_target(number);
  for (Lane& lane : lanes_)
    ground(lane, [&](const PutWorks::Work& work) { return work.target.number == number; });
  return ok_status();
}

Status VerbsLink::take_offer(const Offer& offer) {
  if (peer_) return make_error(Code::kPeerFailed, "it offered its paths twice");
  if (offer.ring_bytes != outgoing_.size())
    return make_error(Code::kPeerFailed,
                      "its ring has {} bytes, this side's {}; use one version "
                      "everywhere",
                      offer.ring_bytes, outgoing_.size());
  peer_ = offer;
  std::vector<Rail> theirs;
  for (const auto& offered : offer.rails) theirs.push_back(offered.rail);
  const auto& all = options_.devices->rails();
  const std::span<const Rail> ours = std::span(all).first(std::min(all.size(), kMostRails));
  // Both sides come to the same list: the leader's rails first.
  TUTTI_ASSIGN(auto pairs, options_.leads ? match_rails(ours, theirs) : match_rails(theirs, ours));
  const std::uint8_t each = options_.leads ? options_.pairs_of_each_rail : offer.pairs_of_each_rail;
  for (const auto& [first, second] : pairs)
    for (unsigned i = 0; i < each && lanes_.size() < kMostPaths; ++i) {
      const std::size_t own = options_.leads ? first : second;
      lanes_.push_back(Lane{
          .path = Path(own),
          .peer_rail = options_.leads ? second : first,
          .place =
              std::ranges::find(places_, options_.devices->shared_device(own), [](const auto& one) {
                return one->device;
              })->get()});
    }
  for (const auto& place : places_) TUTTI_TRY(make_completions(*place));
  if (options_.leads)
    for (Lane& lane : lanes_) open(lane, 1);
  return ok_status();
}

/// Room for all that may complete at once: a queue of completions that overflows is lost.
Status VerbsLink::make_completions(OnDevice& place) {
  constexpr std::uint32_t kOfPath = kPathSends + kPathReceives + 2;
  const auto lanes = std::ranges::count(lanes_, &place, &Lane::place);
  if (lanes == 0) return ok_status();
  place.completions.reset();
  TUTTI_ASSIGN(CompletionQueue made,
               place.device->create_completion_queue(static_cast<std::uint32_t>(lanes) * kOfPath));
  place.completions.emplace(std::move(made));
  watch(place.completions->fd());
  place.broken = place.suspect = place.armed = false;
  return ok_status();
}

Result<VerbsLink::Lane*> VerbsLink::lane_at(std::uint16_t index) {
  if (index >= lanes_.size())
    return make_error(Code::kPeerFailed, "it spoke of path {} of {}", index, lanes_.size());
  return &lanes_[index];
}

// The leader offers a queue pair; the other side answers with its own, connected already.
Status VerbsLink::take_open(const OpenPath& open_path) {
  TUTTI_ASSIGN(Lane* const lane, lane_at(open_path.path));
  Path& path = lane->path;
  if (!options_.leads) {
    if (path.state() != Path::State::kDown || open_path.generation <= path.generation())
      return make_error(Code::kPeerFailed, "it opened path {} again while it was open",
                        open_path.path);
    open(*lane, open_path.generation);
  }
  if (path.state() != Path::State::kOpening || path.generation() != open_path.generation ||
      path.connected())
    return ok_status();  // it failed here meanwhile, and the peer will hear of it
  OwnPath own = options_.path;
  own.flow_label = options_.random() & 0xfffff;
  if (Status connected = path.connect(open_path, own); !connected) {
    fail(*lane, connected.error().what);
    return ok_status();
  }
  say(ReadyPath{open_path.path, open_path.generation});
  return ok_status();
}

Status VerbsLink::take_ready(const ReadyPath& ready) {
  TUTTI_ASSIGN(Lane* const lane, lane_at(ready.path));
  Path& path = lane->path;
  if (path.generation() != ready.generation || path.state() != Path::State::kOpening)
    return ok_status();
  if (!path.connected())
    return make_error(Code::kPeerFailed, "it called path {} ready before it offered it",
                      ready.path);
  path.set_ready();
  log_info(Subsystem::kNet, "", "{} is open", describe(*lane));
  return ok_status();
}

Status VerbsLink::take_closed(const ClosedPath& closed) {
  TUTTI_ASSIGN(Lane* const lane, lane_at(closed.path));
  Path& path = lane->path;
  if (closed.generation != path.generation()) return ok_status();  // of an end that both know
  if (path.state() == Path::State::kDown) return ok_status();
  lane->peer_closed = closed;
  fail(*lane, "the peer gave it up");
  return settle(*lane);
}

// --- opening and closing ---

std::uint16_t VerbsLink::index_of(const Lane& lane) const {
  return static_cast<std::uint16_t>(&lane - lanes_.data());
}

std::string VerbsLink::describe(const Lane& lane) const {
  return fmt::format("the RDMA path {} to {} of {}",
                     verbs::describe(options_.devices->rails()[lane.path.rail()]),
                     verbs::describe(peer_->rails[lane.peer_rail].rail), options_.peer);
}

void VerbsLink::open(Lane& lane, std::uint32_t generation) {
  lane.said_closed = false;
  lane.peer_closed.reset();
  lane.acknowledged = lane.seen = lane.told = 0;
  lane.asked_for_rest = false;
  lane.upsets = options_.devices->upsets(lane.path.rail());
  if (const Status opened = try_open(lane, generation); !opened) {
    lane.reason = opened.error().what;
    lane.path.set_down(generation);
    say(ClosedPath{.path = index_of(lane), .generation = generation});
    rest(lane);
    return;
  }
  say(lane.path.offer(index_of(lane)));
}

Status VerbsLink::try_open(Lane& lane, std::uint32_t generation) {
  OnDevice& place = *lane.place;
  const bool unused = std::ranges::all_of(lanes_, [&](const Lane& one) {
    return one.place != &place || one.path.state() == Path::State::kDown;
  });
  if ((place.broken || place.suspect) && unused) TUTTI_TRY(make_completions(place));
  if (place.broken || !place.completions)
    return make_error(Code::kUnavailable, "its completion queue is broken");
  TUTTI_ASSIGN(const Rail rail, options_.devices->fresh(lane.path.rail()));
  return lane.path.open(*lane.place->device, *lane.place->completions, rail, generation,
                        options_.random() & 0xffffff);
}

void VerbsLink::fail(Lane& lane, std::string why) {
  Path& path = lane.path;
  if (path.state() != Path::State::kOpening && path.state() != Path::State::kReady) return;
  lane.reason = std::move(why);
  const bool was_ready = path.state() == Path::State::kReady;
  lane.ended_at = options_.now();
  path.end();
  if (was_ready && !control_ended_) {
    ++failovers_;
    log_warn("", "{} failed: {}; {} of {} paths are left", describe(lane), lane.reason,
             ready_paths(), lanes_.size());
  }
}

std::size_t VerbsLink::ready_paths() const {
  return static_cast<std::size_t>(std::ranges::count(
      lanes_, Path::State::kReady, [](const Lane& lane) { return lane.path.state(); }));
}

Status VerbsLink::settle() {
  for (Lane& lane : lanes_) TUTTI_TRY(settle(lane));
  return ok_status();
}

/// Once nothing arrives here any more, the peer hears it; once it says the same, the path is down.
Status VerbsLink::settle(Lane& lane) {
  if (lane.path.state() != Path::State::kDrained) return ok_status();
  if (!std::exchange(lane.said_closed, true))
    say(ClosedPath{.path = index_of(lane),
                   .generation = lane.path.generation(),
                   .stream_bytes = arrived_,
                   .puts = lane.seen});
  return lane.peer_closed ? finish_close(lane) : ok_status();
}

Status VerbsLink::finish_close(Lane& lane) {
  lane.path.set_down(lane.path.generation());
  rest(lane);
  tell_again_ = true;  // what was told last may have been lost with the path
  TUTTI_TRY(take_acknowledgement(lane, lane.peer_closed->puts - lane.acknowledged));
  for (PutWorks::Fragment& fragment : std::exchange(lane.flying, {}))
    works_.try_again(std::move(fragment));
  if (stream_ != index_of(lane)) return ok_status();
  const std::uint64_t there = lane.peer_closed->stream_bytes;
  if (there < consumed_ || there > posted_)
    return make_error(Code::kPeerFailed, "it has {} bytes of a stream of which {} to {} were sent",
                      there, consumed_, posted_);
  posted_ = there;
  if (there > through_) ++sent_well_;
  through_ = std::max(through_, there);
  std::erase_if(unconsumed_, [&](std::uint64_t position) { return position > there; });
  stream_.reset();
  return ok_status();
}

/// Before the next try. A failure after which something got through begins to count anew.
void VerbsLink::rest(Lane& lane) {
  const bool waits = through_ < written_ || works_.has_any();
  const bool moved = sent_well_ != sent_well_then_ || (!waits && came_well_ != came_well_then_);
  sent_well_then_ = sent_well_;
  came_well_then_ = came_well_;
  if (moved)
    for (Lane& one : lanes_) {
      one.tries = 0;
      one.pause = Nanos(0);
    }
  ++lane.tries;
  lane.pause = std::clamp<Nanos>(2 * lane.pause, kFirstPause, kLongestPause);
  lane.open_at = options_.now() + lane.pause;
}

// The leader opens what is down, and everybody looks for what has failed silently.
Status VerbsLink::look_for_paths() {
  options_.devices->look();
  for (Lane& lane : lanes_) {
    const std::size_t rail = lane.path.rail();
    const bool open_now =
        lane.path.state() == Path::State::kOpening || lane.path.state() == Path::State::kReady;
    if (open_now && lane.upsets != options_.devices->upsets(rail))
      fail(lane, options_.devices->last_upset(rail));
  }
  const TimePoint now = options_.now();
  for (Lane& lane : lanes_)
    if (lane.path.state() == Path::State::kDraining && now - lane.ended_at > kMostDrain) {
      lane.path.give_up();
      lane.place->suspect = true;
    }
  TUTTI_TRY(settle());
  if (options_.leads)
    for (Lane& lane : lanes_)
      if (lane.path.state() == Path::State::kDown && lane.path.generation() > 0 &&
          now >= lane.open_at)
        open(lane, lane.path.generation() + 1);
  const bool hopeless = std::ranges::all_of(lanes_, [&](const Lane& lane) {
    return lane.path.state() != Path::State::kReady && lane.tries > options_.most_tries;
  });
  return hopeless && !lanes_.empty() ? Status(without_paths()) : ok_status();
}

std::string VerbsLink::report() const {
  constexpr std::array<std::string_view, 5> kStates = {"down", "opening", "ready", "draining",
                                                       "drained"};
  std::string text =
      fmt::format("to {}: {} bytes written, {} posted, {} read there; {} came, {} read",
                  options_.peer, written_, posted_, consumed_, arrived_, read_);
  for (const Lane& lane : lanes_)
    text += fmt::format("\n  {}: generation {}, {}, {} writes under way{}", describe(lane),
                        lane.path.generation(),
                        kStates[static_cast<std::size_t>(lane.path.state())], lane.path.under_way(),
                        lane.reason.empty() ? "" : "; failed last: " + lane.reason);
  return text;
}

std::string VerbsLink::reasons() const {
  std::string why;
  for (const Lane& lane : lanes_)
    why += fmt::format("; {}: {}", describe(lane),
                       lane.reason.empty() ? "it has not opened yet" : lane.reason);
  return lanes_.empty() ? ": it has not offered any" : why;
}

Error VerbsLink::without_paths() const {
  const std::string why = reasons();
  return make_error(Code::kPeerFailed,
                    "no RDMA path to {} carries data any more after {} tries each, though its "
                    "process lives{}",
                    options_.peer, options_.most_tries, why);
}

// --- completions ---

Status VerbsLink::poll_completions() {
  for (auto& place : places_)
    if (!place->broken && place->completions) TUTTI_TRY(poll_device(*place));
  return ok_status();
}

Status VerbsLink::poll_device(OnDevice& place) {
  constexpr std::size_t kAtOnce = 16;
  std::array<ibv_wc, kAtOnce> completions;
  for (;;) {
    const auto count = place.completions->poll(completions);
    if (!count) {
      break_device(place, count.error().what);
      return ok_status();
    }
    if (*count > 0) place.armed = false;  // what woke this side is taken before it sleeps again
    for (const ibv_wc& completion : std::span(completions).first(*count)) {
      const auto lane = std::ranges::find_if(lanes_, [&](const Lane& one) {
        return one.place == &place && one.path.number() == completion.qp_num;
      });
      if (lane == lanes_.end()) continue;  // of a queue pair that is gone
      const auto word = lane->path.take(completion);
      if (!word)
        fail(*lane, verbs::describe(*place.device->library(), completion.status));
      else if (*word)
        TUTTI_TRY(take_word(*lane, **word));
    }
    if (*count < kAtOnce) return ok_status();
  }
}

// Without completions nobody knows what arrives. What is destroyed receives nothing.
void VerbsLink::break_device(OnDevice& place, const std::string& why) {
  place.broken = true;
  for (Lane& lane : lanes_) {
    if (lane.place != &place) continue;
    fail(lane, why);
    lane.path.give_up();
  }
}

Status VerbsLink::take_word(Lane& lane, Path::Word word) {
  switch (word.notice) {
    case Notice::kStream: {
      const std::uint32_t more = ahead(word.value, arrived_);
      if (more > incoming_.size() - (arrived_ - read_))
        return make_error(Code::kPeerFailed, "its stream is {} bytes ahead of a ring of {}", more,
                          incoming_.size());
      arrived_ += more;
      ++came_well_;
      ++untold_writes_;
      return ok_status();
    }
    case Notice::kConsumed: {
      const std::uint32_t more = ahead(word.value, consumed_);
      if (more > kNoticeMask / 2) return ok_status();  // overtaken by a later one
      if (more > posted_ - consumed_)
        return make_error(Code::kPeerFailed, "it read {} bytes of which {} were sent", more,
                          posted_ - consumed_);
      consumed_ += more;
      through_ = std::max(through_, consumed_);
      ++sent_well_;
      while (!unconsumed_.empty() && unconsumed_.front() <= consumed_) unconsumed_.pop_front();
      return ok_status();
    }
    case Notice::kPut: {
      ++lane.seen;
      ++came_well_;
      const auto number = static_cast<std::uint16_t>(word.value);
      TUTTI_ASSIGN(const bool last, targets_.land(number));
      if (last) events_.push_back({.kind = Event::Kind::kLanded, .number = number});
      return ok_status();
    }
    case Notice::kPutsSeen:
      return take_acknowledgement(lane, ahead(word.value, lane.acknowledged));
  }
  return ok_status();
}

// --- the stream ---

VerbsLink::Lane* VerbsLink::stream_lane() {
  if (!stream_) {
    const auto ready = std::ranges::find(lanes_, Path::State::kReady,
                                         [](const Lane& lane) { return lane.path.state(); });
    if (ready == lanes_.end()) return nullptr;
    stream_ = index_of(*ready);
  }
  Lane& lane = lanes_[*stream_];
  return lane.path.state() == Path::State::kReady ? &lane : nullptr;
}

void VerbsLink::push_stream() {
  while (posted_ < written_ && unconsumed_.size() < kPathSends) {
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
    unconsumed_.push_back(posted_);
  }
}

void VerbsLink::tell_consumed() {
  const bool worth_it = read_ > told_ && (untold_writes_ >= kTellWrites ||
                                          read_ - told_ >= incoming_.size() / kTellPart);
  if (!worth_it && !tell_again_) return;
  const auto lane =
      std::ranges::find_if(lanes_, [](const Lane& one) { return one.path.has_room(); });
  if (lane == lanes_.end()) return;
  if (const Status told = lane->path.write({}, {Notice::kConsumed, low(read_)}); !told)
    return fail(*lane, told.error().what);
  told_ = read_;
  untold_writes_ = 0;
  tell_again_ = false;
}

// --- puts ---

std::optional<PutLink::Target> VerbsLink::show(std::span<std::byte> memory) {
  if (memory.empty() || dead_ || fragment_ < kLeastFragment) return std::nullopt;
  auto piece = options_.devices->memory().find(memory);
  if (!piece) return std::nullopt;
  TargetKey key{.fragment = fragment_,
                .address = reinterpret_cast<std::uintptr_t>(memory.data()),
                .bytes = memory.size()};
  const std::size_t rails = std::min(options_.devices->rails().size(), kMostRails);
  for (std::size_t rail = 0; rail < rails; ++rail)
    key.keys.push_back(piece->on[options_.devices->place(rail)].remote_key());
  const auto number = targets_.add(memory, std::move(piece), fragment_);
  if (!number) return std::nullopt;
  key.number = *number;
  return Target{*number, encode(key)};
}

Status VerbsLink::put(std::span<const std::byte> key, std::span<const std::byte> data,
                      void* owner) {
  TUTTI_ASSIGN(TargetKey target, decode_target_key(key));
  if (target.bytes != data.size() || !peer_ || target.keys.size() != peer_->rails.size())
    return make_error(Code::kPeerFailed, "its key of a target of {} bytes is for other data",
                      target.bytes);
  if (revoked_.test(target.number))
    return make_error(Code::kUnsupported, "the target was given up");
  auto piece = options_.devices->memory().find(data);
  if (!piece || target.fragment > fragment_)
    return make_error(Code::kUnsupported, "the data is not registered");
  works_.add(
      {.owner = owner, .target = std::move(target), .data = data, .piece = std::move(piece)});
  push_puts();
  return ok_status();
}

VerbsLink::Lane* VerbsLink::lane_for_put() {
  Lane* best = nullptr;
  for (Lane& lane : lanes_)
    if (lane.path.has_room(2) && lane.flying.size() < kMostFlying &&
        (best == nullptr || lane.flying.size() < best->flying.size()))
      best = &lane;
  return best;
}

void VerbsLink::push_puts() {
  while (works_.has_next()) {
    Lane* const lane = lane_for_put();
    if (lane == nullptr) return;
    const PutWorks::Fragment fragment = works_.next();
    const PutWorks::Work& work = *fragment.work;
    const std::size_t place = options_.devices->place(lane->path.rail());
    const Path::Piece piece{.bytes = work.data.subspan(fragment.offset, fragment.bytes),
                            .local_key = work.piece->on[place].local_key(),
                            .to = work.target.address + fragment.offset,
                            .key = work.target.keys[lane->peer_rail]};
    const Path::Word word{Notice::kPut, work.target.number};
    // Also what could not be posted counts as under way: a part of it may be.
    lane->flying.push_back(fragment);
    const Status written = fragment.bytes > kInOrder ? lane->path.write_then_tell(piece, word)
                                                     : lane->path.write(piece, word);
    if (!written) fail(*lane, written.error().what);
  }
}

void VerbsLink::tell_seen() {
  for (Lane& lane : lanes_) {
    if (lane.seen == lane.told || !lane.path.has_room()) continue;
    if (const Status told = lane.path.write({}, {Notice::kPutsSeen, low(lane.seen)}); !told)
      fail(lane, told.error().what);
    lane.told = lane.seen;
  }
}

Status VerbsLink::take_acknowledgement(Lane& lane, std::uint64_t fragments) {
  if (fragments > lane.flying.size())
    return make_error(Code::kPeerFailed, "it has seen {} puts of {}", fragments,
                      lane.flying.size());
  lane.acknowledged += fragments;
  if (fragments > 0) ++sent_well_;
  for (; fragments > 0; --fragments) {
    if (void* const owner = works_.land(lane.flying.front()))
      events_.push_back({.kind = Event::Kind::kSent, .owner = owner});
    lane.flying.pop_front();
  }
  return ok_status();
}

/// Gives up the fragments of a lane that match; their places in the count remain. Whether there
/// were any.
template <class Matches>
bool VerbsLink::ground(Lane& lane, const Matches& matches) {
  bool any = false;
  for (PutWorks::Fragment& fragment : lane.flying) {
    if (!fragment.work || !matches(*fragment.work)) continue;
    fragment.work.reset();
    any = true;
  }
  return any;
}

/// Ends a lane, and returns once nothing more is read from here or written to here by it.
void VerbsLink::drain(Lane& lane, const char* why) {
  fail(lane, why);
  for (int polls = 0; lane.path.state() == Path::State::kDraining; ++polls)
    if (polls == kMostDrainPolls || lane.place->broken)
      lane.path.give_up();
    else if (Status well = poll_device(*lane.place); !well && !dead_)
      dead_ = std::move(well).error();
}

// The peer must not write again by a path that opens later: it hears of that before the ends of
// the paths, by which it would write again.
void VerbsLink::hide(std::uint16_t number) {
  const auto landed = std::ranges::find_if(events_, [&](const Event& event) {
    return event.kind == Event::Kind::kLanded && event.number == number;
  });
  if (landed != events_.end()) {
    events_.erase(landed);
    return targets_.release(number);
  }
  targets_.give_up(number);
  if (!dead_ && !control_ended_) say(RevokeTarget{number});
  for (Lane& lane : lanes_) drain(lane, "a receive was given up");
}

void VerbsLink::cancel(void* owner) {
  works_.forget(owner);
  std::erase_if(events_, [&](const Event& event) { return event.owner == owner; });
  for (Lane& lane : lanes_)
    if (ground(lane, [&](const PutWorks::Work& work) { return work.owner == owner; }))
      drain(lane, "a send was given up");
}

std::optional<PutLink::Event> VerbsLink::next_event() {
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.pop_front();
  if (event.kind == Event::Kind::kLanded) targets_.release(event.number);
  return event;
}

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
    push_stream();
    push_puts();
    tell_consumed();
    tell_seen();
    return flush_control();
  };
  Status done = all();
  if (!done) dead_ = done.error();
  return done;
}

Result<std::size_t> VerbsLink::write(std::span<const iovec> pieces) {
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

Result<std::size_t> VerbsLink::read(std::span<const iovec> pieces) {
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
  if (control_ended_) {
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
  if (!lanes_.empty() && ready_paths() == lanes_.size()) return false;
  return options_.now() - looked_at_ >= kLooksApart;
}

Status VerbsLink::look_around() {
  looked_at_ = options_.now();
  TUTTI_TRY(read_control());
  TUTTI_TRY(look_for_paths());
  return flush_control();
}

Result<bool> VerbsLink::check() {
  if (dead_) return Error(*dead_);
  const bool may_sleep = ++fruitless_ >= kFruitless;
  if (Status well = may_sleep || is_time_to_look() ? look_around() : ok_status(); !well) {
    dead_ = well.error();
    return std::move(well).error();
  }
  if (!may_sleep) return false;
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
