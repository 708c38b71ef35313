// The link's puts: memory that is shown, and data that is written into the peer's.
#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "transports/verbs/verbs_link.hpp"

namespace tutti::verbs {
namespace {

// Bytes of longer writes may land in any order, where packets take several ways.
constexpr std::size_t kInOrder = 8 << 10;
// A queue pair that has ended comes to rest within so many polls, or it is destroyed.
constexpr int kMostDrainPolls = 100000;
// Of one message, before it is taken for one that no path can bring.
constexpr std::uint32_t kMostRefusals = 8;

}  // namespace

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
  if (revoked_.test(target.number)) return make_error(Code::kAborted, "the target was given up");
  auto piece = options_.devices->memory().find(data);
  if (!piece || target.fragment > fragment_)
    return make_error(Code::kUnsupported, "the {} bytes at {} are not registered{}", data.size(),
                      static_cast<const void*>(data.data()),
                      piece ? " on ports that take messages as long as the receiver's" : "");
  works_.add(
      {.owner = owner, .target = std::move(target), .data = data, .piece = std::move(piece)});
  push_puts();
  return ok_status();
}

VerbsLink::Lane* VerbsLink::lane_for_put() {
  Lane* best = nullptr;
  const bool reserve = uses_reserve();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[(next_put_ + i) % lanes_.size()];
    if (lane.in_reserve == reserve && lane.path.has_room(2) && lane.flying.size() < kMostFlying &&
        (best == nullptr || lane.flying.size() < best->flying.size()))
      best = &lane;
  }
  // Of lanes that have equally much under way, each has its turn.
  if (best != nullptr) next_put_ = index_of(*best) + std::size_t{1};
  return best;
}

/// At most as many fragments as there are paths. A device in software moves a fragment while it is
/// posted, and the peer must hear meanwhile what has come from it: else both sides send by turns.
[[gnu::noinline]] void VerbsLink::push_puts() {
  for (std::size_t turns = lanes_.size(); turns > 0 && works_.has_next(); --turns) {
    Lane* const lane = lane_for_put();
    if (lane == nullptr) return;
    const PutWorks::Fragment fragment = works_.next();
    const PutWorks::Work& work = *fragment.work;
    const std::size_t place = options_.devices->place(lane->path.rail());
    const Path::Piece piece{.bytes = work.data.subspan(fragment.offset, fragment.bytes),
                            .local_key = work.piece->on[place].local_key(),
                            .to = work.target.address + fragment.offset,
                            .key = work.target.keys[lane->peer_rail],
                            .of_gpu = work.piece->gpu.has_value()};
    const Path::Word word{Notice::kPut, work.target.number};
    // Also what could not be posted counts as under way: a part of it may be.
    lane->flying.push_back(fragment);
    lane->put_bytes += fragment.bytes;
    const Status written = fragment.bytes > kInOrder ? lane->path.write_then_tell(piece, word)
                                                     : lane->path.write(piece, word);
    if (!written) fail(*lane, written.error().what);
  }
}

// The peer may leave once all is acknowledged. So the last fragment of a target in memory of a GPU
// is acknowledged only when kernels see it all.
[[gnu::noinline]] void VerbsLink::tell_seen() {
  for (Lane& lane : lanes_) {
    std::uint64_t seen = lane.seen;
    for (const Flush& flush : flushes_)
      if (flush.lane == index_of(lane)) seen = std::min(seen, flush.seen - 1);
    if (seen <= lane.told || !lane.path.has_room()) continue;
    if (const Status told = lane.path.write({}, {Notice::kPutsSeen, low(seen)}); !told)
      fail(lane, told.error().what);
    lane.told = seen;
  }
}

[[gnu::noinline]] Status VerbsLink::take_acknowledgement(Lane& lane, std::uint64_t fragments) {
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

/// The peer's device took a write for one to memory that is not its own. That may be the device's
/// fault, so other paths are tried; where none of them helps, the address is wrong.
Status VerbsLink::take_refusal(const Lane& lane, const PutWorks::Fragment& fragment) {
  if (!fragment.work) return ok_status();
  PutWorks::Work& work = *fragment.work;
  work.refused_by.set(index_of(lane));
  if (++work.refusals < kMostRefusals) return ok_status();
  for (const Lane& one : lanes_)
    if (one.path.state() == Path::State::kReady && !work.refused_by.test(index_of(one)))
      return ok_status();
  return make_error(Code::kPeerFailed,
                    "{} refused {} writes of a message to memory that it had shown: what it said "
                    "of the memory came damaged, or it is no longer registered{}",
                    options_.peer, work.refusals, reasons());
}

/// Gives up the fragments of a lane that match; their places in the count remain. Whether there
/// were any.
bool VerbsLink::ground(Lane& lane, const std::function<bool(const PutWorks::Work&)>& matches) {
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

// --- what kernels see ---

std::size_t VerbsLink::index_of(const OnDevice& place) const {
  return static_cast<std::size_t>(
      std::ranges::find(places_, &place, [](const auto& one) { return one.get(); }) -
      places_.begin());
}

[[gnu::noinline]] Status VerbsLink::land(const Lane& lane, std::uint16_t number) {
  TUTTI_ASSIGN(auto landed, targets_.land(number, index_of(*lane.place)));
  if (!landed) return ok_status();
  if (landed->piece->gpu && landed->piece->gpu->needs_flush)
    flushes_.push_back({.ticket = next_ticket_++,
                        .number = number,
                        .piece = std::move(landed->piece),
                        .lane = index_of(lane),
                        .seen = lane.seen,
                        .to_ask = landed->devices});
  else
    events_.push_back({.kind = Event::Kind::kLanded, .number = number});
  return ok_status();
}

[[gnu::noinline]] void VerbsLink::push_flushes() {
  if (flushes_.empty()) return;
  for (Flush& flush : flushes_)
    for (std::size_t place = 0; place < places_.size(); ++place)
      if ((flush.to_ask & 1U << place) != 0) push_flush(flush, place);
  std::erase_if(flushes_, [this](const Flush& flush) {
    if ((flush.to_ask | flush.asked) != 0) return false;
    events_.push_back({.kind = Event::Kind::kLanded, .number = flush.number});
    return true;
  });
}

/// A device that cannot read any more loses its paths. What it wrote left it before these were
/// drained, which takes longer than any way over PCI; there is no better witness.
void VerbsLink::push_flush(Flush& flush, std::size_t index) {
  OnDevice& place = *places_[index];
  const std::uint32_t bit = 1U << index;
  if (!has_flusher(place)) {
    if (is_at_rest(place)) flush.to_ask &= ~bit;
    return;
  }
  if (!place.flusher->has_room()) return;
  if (const Status asked = place.flusher->read(flush.piece->memory.data(),
                                               flush.piece->on[index].local_key(), flush.ticket);
      !asked)
    return lose_flusher(place, asked.error().what);
  flush.to_ask &= ~bit;
  flush.asked |= bit;
}

bool VerbsLink::has_flusher(OnDevice& place) {
  if (place.flusher) return true;
  if (place.broken || place.never_flushes || !place.completions) return false;
  const auto& rails = options_.devices->rails();
  Status why = make_error(Code::kUnavailable, "it has no port");
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    if (options_.devices->shared_device(rail) != place.device) continue;
    const auto made = [&]() -> Status {
      TUTTI_ASSIGN(const Rail fresh, options_.devices->fresh(rail));
      TUTTI_ASSIGN(place.flusher, Flusher::create(*place.device, *place.completions, fresh));
      return ok_status();
    };
    why = made();
    if (why) return true;
  }
  lose_flusher(place, why.error().what);
  return false;
}

/// The next flush makes another one. Whether any waits for it.
bool VerbsLink::renew_flusher(OnDevice& place) {
  place.flusher.reset();
  const std::uint32_t bit = 1U << index_of(place);
  bool any = false;
  for (Flush& flush : flushes_) {
    any |= ((flush.asked | flush.to_ask) & bit) != 0;
    flush.to_ask |= flush.asked & bit;
    flush.asked &= ~bit;
  }
  return any;
}

void VerbsLink::lose_flusher(OnDevice& place, const std::string& why) {
  if (!renew_flusher(place)) return;
  place.never_flushes = true;
  for (Lane& lane : lanes_)
    if (lane.place == &place)
      fail(lane, fmt::format("it does not read what it wrote to memory of a GPU: {}", why));
}

[[gnu::noinline]] void VerbsLink::take_flush(OnDevice& place, const ibv_wc& completion) {
  if (const Status read = place.flusher->take(completion); !read)
    return lose_flusher(place, verbs::describe(*place.device->library(), completion.status));
  ++flushes_done_;
  const auto flush = std::ranges::find(flushes_, completion.wr_id, &Flush::ticket);
  if (flush != flushes_.end()) flush->asked &= ~(1U << index_of(place));
}

bool VerbsLink::is_at_rest(const OnDevice& place) const {
  return std::ranges::none_of(lanes_, [&](const Lane& lane) {
    return lane.place == &place && (lane.path.state() == Path::State::kReady ||
                                    lane.path.state() == Path::State::kDraining);
  });
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
  // What has landed and is not known to be seen may still be on its way to the GPU.
  const auto flushed =
      std::erase_if(flushes_, [&](const Flush& flush) { return flush.number == number; });
  if (flushed > 0)
    targets_.release(number);
  else
    targets_.give_up(number);
  if (flushed == 0 && !dead_ && !control_ended_) say(RevokeTarget{number});
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

}  // namespace tutti::verbs
