// The link's puts: memory that is shown, and data that is written into the peer's.
#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "transports/verbs/verbs_link.hpp"

namespace tutti::verbs {
namespace {

// Fragments that one path has under way.
constexpr std::size_t kMostFlying = 8;
// Bytes of longer writes may land in any order, where packets take several ways.
constexpr std::size_t kInOrder = 8 << 10;
// A queue pair that has ended comes to rest within so many polls, or it is destroyed.
constexpr int kMostDrainPolls = 100000;

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
    lane->put_bytes += fragment.bytes;
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

}  // namespace tutti::verbs
