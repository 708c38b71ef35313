#include "src/bootstrap/hub.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/failure_handler.hpp"
#include "src/bootstrap/lobby.hpp"

namespace tutti {
namespace {

constexpr int kMaxAnnouncements = 16;

}  // namespace

Hub::Hub(Service& service, Lobby& lobby, HubOptions options)
    : service_(service), lobby_(lobby), options_(std::move(options)) {
  members_.resize(options_.members.size());
  failures_before_ = service_.failures();
  tick();
}

Hub::~Hub() { service_.cancel(tick_); }

// ---- joining ----

Status Hub::check(const Identity& identity, const JoinBody& join) const {
  const Rank rank = join.rank;
  if (formed_) {
    return make_error(Code::kInvalidUsage,
                      "rank {} used a unique id that has served already: its group of {} ranks is "
                      "complete; make a fresh id for every communicator",
                      rank, size());
  }
  if (ended_) return *ended_;
  if (join.size < 1 || join.size > kMaxGroupSize || rank < 0 || rank >= join.size) {
    return make_error(Code::kInvalidArgument,
                      "rank {} of {} cannot be: ranks are 0..size-1, at "
                      "most {}",
                      rank, join.size, kMaxGroupSize);
  }
  if (options_.members.empty() && identity.rank != rank) {
    return make_error(Code::kInvalidArgument, "rank {} asks for the place of rank {}",
                      identity.rank, rank);
  }
  if (members_.empty()) return ok_status();
  if (options_.members.empty() && !equal_secrets(join.members, shown_)) {
    return peer_error(Code::kInvalidArgument, rank,
                      "rank {} was given other unique ids than the ranks that joined before it: "
                      "all must pass the same array",
                      rank);
  }
  if (join.size != size()) {
    const auto first = std::ranges::find(members_, State::kHere, &Member::state);
    return peer_error(Code::kInvalidArgument, rank,
                      "the ranks disagree on the size of the group: rank {} ({}) says {}, rank {} "
                      "says {}",
                      first - members_.begin(),
                      first == members_.end() ? std::string("gone") : first->from, size(), rank,
                      join.size);
  }
  const Member& seat = members_[static_cast<std::size_t>(rank)];
  if (seat.state != State::kAbsent) {
    return peer_error(Code::kInvalidArgument, rank,
                      "two processes claim rank {}: {} joined first, process {:016x} came second",
                      rank, seat.from, identity.token);
  }
  if (options_.members.empty()) return ok_status();
  if (options_.members[static_cast<std::size_t>(rank)] != identity.rank ||
      !equal_secrets(join.members, options_.proof)) {
    return peer_error(
        Code::kInvalidUsage, identity.rank,
        "rank {} called for this subgroup with another list of members than [{}]: all "
        "must pass the same",
        identity.rank, fmt::join(options_.members, ", "));
  }
  return ok_status();
}

void Hub::adopt(std::shared_ptr<Channel> channel, const Identity& identity, const JoinBody& join) {
  if (const Status fine = check(identity, join); !fine) {
    channel->send(FrameType::kReject, 0, encode(fine.error()));
    channel->finish();
    // Nobody can tell which size or which array of ids is the right one: the group will not form.
    const bool contradicts =
        join.size != size() || (options_.members.empty() && !equal_secrets(join.members, shown_));
    if (!formed_ && !ended_ && contradicts && !members_.empty()) give_up(fine.error());
    return;
  }
  if (members_.empty()) {
    members_.resize(static_cast<std::size_t>(join.size));
    shown_ = join.members;
  }
  raise_fd_limit(static_cast<std::uint64_t>(join.size) * 2 + 256);
  const Rank rank = join.rank;
  Member& seat = member(rank);
  seat.state = State::kHere;
  seat.token = identity.token;
  seat.listener = join.listener;
  seat.from = fmt::format("process {:016x} at {}", identity.token, to_text(join.listener));
  seat.channel = std::move(channel);
  seat.channel->set_events(
      {.on_frame = [this, rank](const Frame& frame) { on_frame(rank, frame); },
       .on_end =
           [this, rank](const Error& why) {
             if (why.code == Code::kUnavailable || service_.failures() > failures_before_)
               return collapse();
             const Rank name = name_of(rank);
             lose(rank, peer_error(Code::kPeerFailed, name,
                                   "rank {} died: its process ({}) ended without a goodbye ({})",
                                   name, member(rank).from, why.what));
           }});
  seat.channel->send(FrameType::kHeartbeat, 1);
  if (seat.state == State::kHere && ++here_ == size()) form();
}

void Hub::form() {
  formed_ = true;
  std::vector<MemberInfo> infos;
  for (const Member& member : members_) infos.push_back({member.token, member.listener});
  send_all(encode_frame(FrameType::kWelcome, service_.token(), encode(infos)));
  log_info(Subsystem::kBootstrap, "", "group {:016x} of {} ranks is complete", options_.group,
           size());
}

Rank Hub::name_of(Rank rank) const {
  return formed_ || options_.members.empty() ? rank
                                             : options_.members[static_cast<std::size_t>(rank)];
}

std::vector<Rank> Hub::absent() const {
  std::vector<Rank> absent;
  for (Rank r = 0; r < size() && !formed_ && !ended_; ++r) {
    if (members_[static_cast<std::size_t>(r)].state == State::kAbsent) absent.push_back(r);
  }
  return absent;
}

void Hub::give_up(const Error& why) {
  if (formed_ || ended_) return;
  ended_ = why;
  service_.cancel(tick_);
  const auto keep = shared_from_this();
  const auto frame = encode_frame(FrameType::kReject, 0, encode(why));
  for (Member& member : members_) {
    if (member.state != State::kHere) continue;
    member.state = State::kLeft;
    member.channel->send(frame);
    member.channel->finish();
  }
  here_ = 0;
}

// ---- members speak ----

void Hub::on_frame(Rank rank, const Frame& frame) {
  const auto keep = shared_from_this();
  switch (frame.type) {
    case FrameType::kHeartbeat:
      return;
    case FrameType::kGather:
      return on_gather(rank, frame);
    case FrameType::kWho:
      return on_who(rank);
    case FrameType::kGoodbye:
      return on_goodbye(rank);
    case FrameType::kAnnounce:
      return on_announce(rank, frame);
    case FrameType::kWaits:
      return on_waits(rank, frame);
    case FrameType::kStill:
      return on_still(rank, frame);
    default:
      return lose(rank, peer_error(Code::kPeerFailed, rank, "rank {} broke the protocol (frame {})",
                                   rank, to_underlying(frame.type)));
  }
}

void Hub::on_gather(Rank rank, const Frame& frame) {
  Member& from = member(rank);
  if (ended_) {
    from.channel->send(FrameType::kGatherFailed, frame.sequence, encode(*ended_));
    return;
  }
  if (!formed_ || frame.sequence != sequence_ || from.blob) {
    return lose(rank, peer_error(Code::kPeerFailed, rank,
                                 "rank {} broke the protocol (all-gather {} during {})", rank,
                                 frame.sequence, sequence_));
  }
  from.blob.emplace(frame.body.begin(), frame.body.end());
  if (++arrived_ == size()) return finish_round();
  review_round();
}

void Hub::finish_round() {
  std::vector<Blob> blobs;
  std::size_t bytes = 0;
  for (Member& member : members_) {
    bytes += member.blob->size() + sizeof(std::uint32_t);
    blobs.push_back(*std::move(member.blob));
    member.blob.reset();
  }
  arrived_ = 0;
  if (bytes > max_gathered(size())) {
    return fail_round(
        make_error(Code::kUnsupported, "an all-gather of {} bytes is too large", bytes));
  }
  const auto frame = encode_frame(FrameType::kGathered, sequence_++, encode(blobs));
  send_all(frame);
}

void Hub::review_round() {
  if (ended_) return;
  const auto is_missing = [](State state) {
    return [state](const Member& member) { return member.state == state && !member.blob; };
  };
  const auto rank_of = [&](auto member) { return static_cast<Rank>(member - members_.begin()); };
  // A death first: who left may have done so because of it.
  if (const auto dead = std::ranges::find_if(members_, is_missing(State::kDead));
      dead != members_.end())
    return fail_round(
        peer_error(Code::kPeerFailed, rank_of(dead), "rank {} is dead", rank_of(dead)));
  const auto left = std::ranges::find_if(members_, is_missing(State::kLeft));
  if (left == members_.end()) return;
  fail_round(first_notice_ ? *first_notice_
                           : peer_error(Code::kPeerFailed, rank_of(left),
                                        "rank {} has left the group of {}", rank_of(left), size()));
}

void Hub::fail_round(const Error& why) {
  ended_ = why;
  const auto frame = encode_frame(FrameType::kGatherFailed, sequence_, encode(why));
  for (Member& member : members_) {
    if (member.state == State::kHere && member.blob) member.channel->send(frame);
    member.blob.reset();
  }
}

void Hub::on_who(Rank rank) {
  Blob came;
  for (const Member& member : members_) {
    const bool here = formed_ ? member.blob.has_value() : member.state == State::kHere;
    came.push_back(here ? std::byte{1} : std::byte{0});
  }
  member(rank).channel->send(FrameType::kCame, sequence_, came);
}

void Hub::on_goodbye(Rank rank) {
  Member& leaver = member(rank);
  if (leaver.state != State::kHere) return;
  if (leaver.channel) leaver.channel->finish();
  leaver.channel.reset();
  --here_;
  goes_on(rank);
  if (!formed_) {  // it gave up waiting; it may come again
    leaver.state = State::kAbsent;
    return;
  }
  leaver.state = State::kLeft;
  // The members must know that this process may now end without harm.
  const bool others_here = std::ranges::any_of(members_, [&](const Member& member) {
    return member.state == State::kHere && member.token == service_.token();
  });
  if (leaver.token == service_.token() && !others_here) {
    send_all(encode_frame(FrameType::kLeft, 0));
  }
  if (arrived_ > 0) review_round();
  close_if_deserted();
}

void Hub::on_announce(Rank rank, const Frame& frame) {
  const auto error = decode_error(frame.body);
  if (!error || ++member(rank).announcements > kMaxAnnouncements) return;
  Error why = notice_of(name_of(rank), *error);
  why.code = Code::kPeerFailed;
  if (!formed_) return give_up(why);
  if (!first_notice_ && why.peer < size()) first_notice_ = std::move(why);
  const auto notice =
      encode_frame(FrameType::kNotice, static_cast<std::uint64_t>(rank), encode(*error));
  for (Rank r = 0; r < size(); ++r) {
    if (r != rank && member(r).state == State::kHere) member(r).channel->send(notice);
  }
}

// ---- who waits for whom ----

void Hub::on_waits(Rank rank, const Frame& frame) {
  goes_on(rank);
  if (frame.body.empty()) return;
  member(rank).waits = decode_waiting_call(frame.body, size());
  if (!member(rank).waits)
    return lose(
        rank, peer_error(Code::kPeerFailed, rank,
                         "rank {} broke the protocol (a malformed description of its call)", rank));
  member(rank).told = frame.sequence;
  some_wait_anew_ = true;
}

/// What it said to wait in holds no longer.
void Hub::goes_on(Rank rank) {
  member(rank).waits.reset();
  if (!suspected_ || std::ranges::find(suspected_->ranks, rank) == suspected_->ranks.end()) return;
  suspected_.reset();
  some_wait_anew_ = true;  // there may be another one
}

/// What ranks say is of different moments. So whoever is in a standstill, as it seems, is asked
/// whether it still waits so. If all do, they did so together while the question was on its way.
void Hub::look_for_standstill() {
  if (!some_wait_anew_ || suspected_) return;
  some_wait_anew_ = false;
  std::vector<const WaitingCall*> calls;
  calls.reserve(members_.size());
  for (const Member& member : members_) calls.push_back(member.waits ? &*member.waits : nullptr);
  suspected_ = find_standstill(calls);
  if (!suspected_) return;
  asked_ = suspected_->ranks;
  ++questions_;
  for (const Rank rank : asked_)
    if (const auto channel = member(rank).channel) channel->send(FrameType::kAsk, questions_);
}

void Hub::on_still(Rank rank, const Frame& frame) {
  ByteReader in(frame.body);
  const auto told = in.get<std::uint64_t>();
  if (!suspected_ || frame.sequence != questions_ || !in.complete() || told != member(rank).told)
    return;
  std::erase(asked_, rank);
  if (!asked_.empty()) return;
  log_info(Subsystem::kBootstrap, "", "{}", suspected_->error.what);
  send_all(encode_frame(FrameType::kStandstill, 0, encode(suspected_->error)));
  suspected_.reset();
}

void Hub::lose(Rank rank, Error why) {
  const auto keep = shared_from_this();
  Member& dead = member(rank);
  if (dead.state != State::kHere) return;
  log_info(Subsystem::kBootstrap, "", "{}", why.what);
  dead.state = State::kDead;
  // It may be late, and not dead.
  dead.channel->send(formed_ ? FrameType::kFailure : FrameType::kReject, 0, encode(why));
  dead.channel->finish();
  dead.channel.reset();
  --here_;
  goes_on(rank);
  if (!formed_) return give_up(why);
  send_all(encode_frame(FrameType::kFailure, 0, encode(why)));
  if (arrived_ > 0) review_round();
  close_if_deserted();
}

/// This process has lost what members sent, for want of memory: it ends for them, and they tell it
/// from a member's death.
void Hub::collapse() {
  const auto keep = shared_from_this();
  for (Rank rank = 0; rank < size(); ++rank)
    if (const auto channel = std::exchange(member(rank).channel, nullptr)) channel->close();
  service_.cancel(tick_);
  if (!ended_)
    ended_ = make_error(Code::kPeerFailed,
                        "no memory is left in the process that made the unique id, which has the "
                        "hub of this group");
}

void Hub::send_all(const FrameBytes& frame) {
  for (Member& member : members_) {
    if (member.state == State::kHere) member.channel->send(frame);
  }
}

// ---- liveness ----

void Hub::tick() {
  tick_ = service_.at(Clock::now() + heartbeat_interval(options_.liveness), [this] { tick(); });
  // Never destroyed: this thread may outlive main().
  static const FrameBytes& kBeat = *new FrameBytes(encode_frame(FrameType::kHeartbeat, 0));
  const auto keep = weak_from_this().lock();
  look_for_standstill();
  for (Rank r = 0; r < size(); ++r) {
    const auto channel = member(r).channel;
    if (!channel || member(r).state != State::kHere) continue;
    if (channel->output_empty()) channel->send(kBeat);
    if (channel->look() < looks_until_silent(options_.liveness)) continue;
    if (member(r).state != State::kHere) continue;  // reading found its end
    lose(r, silence_of(name_of(r), member(r).from, options_.liveness));
  }
}

void Hub::close_if_deserted() {
  if (!formed_ || here_ > 0) return;
  service_.cancel(tick_);
  service_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    Lobby& lobby = self->lobby_;
    const auto parent = self->options_.parent;
    lobby.close_hub(parent, self->options_.group);
    lobby.dismiss(parent);
  });
}

}  // namespace tutti
