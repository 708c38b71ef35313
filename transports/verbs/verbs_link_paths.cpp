// The link's paths: what the control socket says of them, and how they open, fail and close.
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "transports/verbs/troubles.hpp"
#include "transports/verbs/verbs_link.hpp"

namespace tutti::verbs {
namespace {

// A queue pair that has ended comes to rest within this time, or it is destroyed.
constexpr Nanos kMostDrain = std::chrono::milliseconds(200);
constexpr Nanos kFirstPause = std::chrono::milliseconds(10);
constexpr Nanos kLongestPause = std::chrono::seconds(1);

}  // namespace

// --- the control socket ---

void VerbsLink::say(const ControlMessage& message) {
  const Blob bytes = encode(message);
  control_out_.insert(control_out_.end(), bytes.begin(), bytes.end());
}

[[gnu::noinline]] Status VerbsLink::flush_control() {
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
  TUTTI_TRY(prepare_outgoing(offer.ring_bytes));
  peer_ = offer;
  std::vector<Rail> theirs;
  for (const auto& offered : offer.rails) theirs.push_back(offered.rail);
  const auto& all = options_.devices->rails();
  const std::span<const Rail> ours = std::span(all).first(std::min(all.size(), kMostRails));
  // Both sides come to the same list: the leader's rails first.
  const std::span<const Rail> first = options_.leads ? ours : theirs;
  const std::span<const Rail> second = options_.leads ? theirs : ours;
  TUTTI_ASSIGN(const auto pairs, match_rails(first, second));
  const std::uint8_t each =
      std::max(pairs_of_each_rail(options_.devices->rails(), options_.pairs_of_each_rail),
               offer.pairs_of_each_rail);
  for (const RailPair& pair : nearest_pairs(first, second, pairs))
    for (unsigned i = 0; i < each && lanes_.size() < kMostPaths; ++i) {
      const std::size_t own = options_.leads ? pair.own : pair.peer;
      lanes_.push_back(
          Lane{.path = Path(own),
               .peer_rail = options_.leads ? pair.peer : pair.own,
               .place = std::ranges::find(places_, options_.devices->shared_device(own),
                                          [](const auto& one) { return one->device; })
                            ->get(),
               .in_reserve = pair.in_reserve});
    }
  first_stream_ = options_.random();
  for (const Lane& lane : lanes_)
    if (const auto mtus = describe_mtus(all[lane.path.rail()], theirs[lane.peer_rail]))
      log_info(Subsystem::kNet, "", "{}: {}", options_.peer, *mtus);
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
  renew_flusher(place);
  place.completions.reset();
  TUTTI_ASSIGN(CompletionQueue made,
               place.device->create_completion_queue(static_cast<std::uint32_t>(lanes) * kOfPath +
                                                     Flusher::kMost));
  place.completions = std::make_shared<CompletionQueue>(std::move(made));
  watch(place.completions->fd());
  place.broken = place.suspect = place.armed = place.never_flushes = false;
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
  lane.place->never_flushes = false;
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

/// Whether it carried data until now.
bool VerbsLink::end(Lane& lane, std::string why) {
  Path& path = lane.path;
  if (path.state() != Path::State::kOpening && path.state() != Path::State::kReady) return false;
  lane.reason = std::move(why);
  changed_ = true;
  const bool was_ready = path.state() == Path::State::kReady;
  lane.ended_at = options_.now();
  path.end();
  return was_ready;
}

[[gnu::noinline]] void VerbsLink::fail(Lane& lane, std::string why) {
  if (end(lane, std::move(why)) && !control_ended_) {
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
  if (auto pair = lane.path.take_drained())
    options_.devices->graveyard().bury(*std::move(pair), lane.place->completions);
  rest(lane);
  tell_again_ = true;  // what was told last may have been lost with the path
  TUTTI_TRY(take_acknowledgement(lane, lane.peer_closed->puts - lane.acknowledged));
  if (std::exchange(lane.refused, false) && !lane.flying.empty())
    TUTTI_TRY(take_refusal(lane, lane.flying.front()));
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
    if (!open_now || lane.upsets == options_.devices->upsets(rail)) continue;
    renew_flusher(*lane.place);  // its address may have moved, too
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

std::uint64_t VerbsLink::bytes_sent(std::size_t rail) const {
  std::uint64_t bytes = 0;
  for (const Lane& lane : lanes_)
    if (lane.path.rail() == rail) bytes += lane.stream_bytes + lane.put_bytes;
  return bytes;
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
                       !lane.reason.empty()                       ? lane.reason
                       : lane.path.state() == Path::State::kReady ? "it is open"
                                                                  : "it has not opened yet");
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
    if (*count > 0) {
      place.armed = false;  // what woke this side is taken before it sleeps again
      changed_ = true;
      fruitless_ = 0;
    }
    for (const ibv_wc& completion : std::span(completions).first(*count)) {
      if (place.flusher && place.flusher->number() == completion.qp_num) {
        take_flush(place, completion);
        continue;
      }
      const auto lane = std::ranges::find_if(lanes_, [&](const Lane& one) {
        return one.place == &place && one.path.number() == completion.qp_num;
      });
      if (lane == lanes_.end()) continue;  // of a queue pair that is gone
      if (completion.status == IBV_WC_REM_ACCESS_ERR) lane->refused = true;
      const auto word = lane->path.take(completion);
      if (!word)
        fail(*lane, explain(*lane, completion.status));
      else if (*word)
        TUTTI_TRY(take_word(*lane, **word));
    }
    if (*count < kAtOnce) return ok_status();
  }
}

[[gnu::noinline]] std::string VerbsLink::explain(const Lane& lane, ibv_wc_status status) const {
  const Device& device = *lane.place->device;
  const Rail& rail = options_.devices->rails()[lane.path.rail()];
  const auto port = device.port(rail.port);
  return verbs::explain({.reason = verbs::describe(*device.library(), status),
                         .unanswered = status == IBV_WC_RETRY_EXC_ERR,
                         .queue_pair = lane.path.number(),
                         .mtu = std::min(rail.mtu, peer_->rails[lane.peer_rail].rail.mtu),
                         .own = options_.path,
                         .port_state = port ? port->state : ""});
}

// Without completions nobody knows what arrives. What is destroyed receives nothing.
[[gnu::noinline]] void VerbsLink::break_device(OnDevice& place, const std::string& why) {
  place.broken = true;
  lose_flusher(place, why);
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
      if (more == 0 || more > kNoticeMask / 2) return ok_status();  // known already
      if (more > incoming_.size() - (arrived_ - read_))
        return make_error(Code::kPeerFailed, "its stream is {} bytes ahead of a ring of {}", more,
                          incoming_.size());
      arrived_ += more;
      ++came_well_;
      untold_.push_back(arrived_);
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
      return land(lane, static_cast<std::uint16_t>(word.value));
    }
    case Notice::kPutsSeen:
      return take_acknowledgement(lane, ahead(word.value, lane.acknowledged));
  }
  return ok_status();
}

}  // namespace tutti::verbs
