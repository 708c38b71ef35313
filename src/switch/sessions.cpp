#include "src/switch/sessions.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::in_network {

Session::Session(const SessionRequest& request, std::vector<Slot*> slots, TimePoint now)
    : id_(request.id),
      above_(request.above),
      pool_(std::move(slots), request.workers, above_ ? PoolRole::kLeaf : PoolRole::kRoot),
      sealer_(request.key),
      sealer_for_above_(above_.value_or(Above{}).key),
      unsealers_(request.workers, Unsealer(request.key)),
      unsealer_of_above_(above_.value_or(Above{}).key),
      heard_at_(now) {}

bool Session::accepts(const Packet& packet, std::span<const std::byte> bytes, TimePoint now) {
  if (packet.kind == PacketKind::kContribution) {
    if (packet.session != id_ || packet.sender >= unsealers_.size()) return false;
    if (!unsealers_[packet.sender].accepts(packet, bytes)) return false;
  } else {
    if (!above_ || packet.session != above_->session) return false;
    if (!unsealer_of_above_.accepts(packet, bytes)) return false;
  }
  heard_at_ = now;
  ++taken_;
  return true;
}

std::span<const std::byte> Session::seal(Packet packet, PacketBytes& out) {
  packet.session = id_;
  packet.sender = kTheSwitch;
  return sealer_.seal(packet, out);
}

std::span<const std::byte> Session::seal_for_above(Packet packet, PacketBytes& out) {
  packet.session = above_->session;
  packet.sender = above_->worker;
  return sealer_for_above_.seal(packet, out);
}

Sessions::Sessions(const SwitchLimits& limits) : limits_(limits), slots_(limits.slots) {
  free_.reserve(slots_.size());
  for (Slot& slot : slots_) free_.push_back(&slot);
  sessions_.reserve(limits.sessions);
  below_.reserve(limits.sessions);
}

Result<Session*> Sessions::open(const SessionRequest& request, TimePoint now) {
  TUTTI_TRY(check(request));
  const std::uint32_t granted = grant(request.slots);
  std::vector<Slot*> slots(free_.end() - granted, free_.end());
  free_.resize(free_.size() - granted);
  lacking_ += lacking(granted);
  auto session = std::make_unique<Session>(request, std::move(slots), now);
  Session* const opened = session.get();
  sessions_.emplace(request.id, std::move(session));
  if (request.above) below_.emplace(request.above->session, request.id);
  return opened;
}

Result<std::uint32_t> Sessions::would_grant(const SessionRequest& request) const {
  TUTTI_TRY(check(request));
  return grant(request.slots);
}

Status Sessions::check(const SessionRequest& request) const {
  if (request.workers < 1 || request.workers > kMostWorkers)
    return make_error(Code::kInvalidArgument,
                      "a session of {} workers; a switch adds for 1 to {}, and more need a tree of "
                      "switches",
                      request.workers, kMostWorkers);
  if (request.slots < 1)
    return make_error(Code::kInvalidArgument, "a session without slots; ask for at least one");
  if (request.above && request.above->worker >= kMostWorkers)
    return make_error(Code::kInvalidArgument,
                      "this leaf is worker {} of the switch above, which has at most {}",
                      request.above->worker, kMostWorkers);
  const bool is_known =
      sessions_.contains(request.id) || (request.above && below_.contains(request.above->session));
  if (is_known)
    return make_error(Code::kInvalidArgument,
                      "session {:#018x}, or its session above, is open already; draw another id",
                      request.id);
  if (sessions_.size() >= limits_.sessions)
    return make_error(Code::kUnavailable,
                      "all {} sessions of this switch are in use; end a job, or use another switch",
                      limits_.sessions);
  if (grant(request.slots) == 0)
    return make_error(Code::kUnavailable,
                      "no slot is left: {} of the switch's {} are free and set aside for sessions "
                      "that may come; end a job, or use another switch",
                      free_.size(), limits_.slots);
  return ok_status();
}

std::uint32_t Sessions::grant(std::uint32_t wanted) const {
  const std::size_t others = limits_.sessions - sessions_.size() - 1;  // that may still come
  const std::size_t aside = others * limits_.least_slots + lacking_;
  const std::size_t spare = free_.size() > aside ? free_.size() - aside : 0;
  const std::size_t half = std::max<std::size_t>(limits_.least_slots, spare / 2);
  const std::size_t most = others == 0 ? spare : std::min(spare, half);
  return static_cast<std::uint32_t>(std::min<std::size_t>(wanted, most));
}

bool Sessions::close(std::uint64_t id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  if (found->second->above()) below_.erase(found->second->above()->session);
  lacking_ -= lacking(found->second->pool().slots());
  for (Slot* const slot : std::move(found->second->pool()).release()) free_.push_back(slot);
  sessions_.erase(found);
  return true;
}

std::size_t Sessions::close_idle(TimePoint now, Nanos limit) {
  std::vector<std::uint64_t> idle;
  for (const auto& [id, session] : sessions_)
    if (now - session->heard_at() >= limit) idle.push_back(id);
  for (const std::uint64_t id : idle) close(id);
  return idle.size();
}

Session* Sessions::find(std::uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

Session* Sessions::find_below(std::uint64_t id_above) {
  const auto found = below_.find(id_above);
  return found == below_.end() ? nullptr : find(found->second);
}

}  // namespace tutti::in_network
