#include "src/bootstrap/star_member.hpp"

#include <algorithm>
#include <cerrno>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/rank_list.hpp"

namespace tutti {
namespace {
constexpr auto kVigil = std::chrono::milliseconds(50);
constexpr auto kSayWhoIsLate = std::chrono::seconds(60);
}  // namespace

StarMember::StarMember(Service& service, Rank rank, std::int32_t size, Nanos liveness)
    : service_(service), rank_(rank), size_(size), liveness_(liveness) {}

// ---- service thread ----

Status StarMember::start(Fd fd, const JoinBody& join) {
  const auto weak = weak_from_this();
  TUTTI_ASSIGN(channel_, Channel::open(service_, std::move(fd), max_gathered(size_),
                                       {.on_frame =
                                            [weak](const Frame& frame) {
                                              if (const auto self = weak.lock())
                                                self->on_frame(frame);
                                            },
                                        .on_end =
                                            [weak](const Error& why) {
                                              if (const auto self = weak.lock())
                                                self->lose_hub(why);
                                            }}));
  failures_before_ = service_.failures();
  {
    std::scoped_lock lock(mutex_);
    ended_ = false;
  }
  channel_->send(FrameType::kJoin, 0, encode(join));
  tick();
  return ok_status();
}

void StarMember::send(FrameBytes frame) {
  if (channel_) channel_->send(std::move(frame));
}

void StarMember::stop() {
  service_.cancel(tick_);
  if (channel_) channel_->close();
}

void StarMember::tick() {
  tick_ = service_.at(Clock::now() + heartbeat_interval(liveness_), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
  // Never destroyed: this thread may outlive main().
  static const FrameBytes& kBeat = *new FrameBytes(encode_frame(FrameType::kHeartbeat, 0));
  if (!channel_->open()) return;
  if (channel_->output_empty()) channel_->send(kBeat);
  bool watched = false;
  {
    std::scoped_lock lock(mutex_);
    watched = hub_speaks_ || welcome_;
  }
  if (watched && channel_->look() >= looks_until_silent(liveness_) && channel_->open()) {
    channel_->close();
    lose_hub(make_error(Code::kPeerFailed, "silent for {:.1f} s: stopped or unreachable",
                        std::chrono::duration<double>(liveness_).count()));
  }
}

void StarMember::on_frame(const Frame& frame) {
  {
    std::scoped_lock lock(mutex_);
    hub_speaks_ |= frame.type == FrameType::kHeartbeat && frame.sequence == 1;
  }
  switch (frame.type) {
    case FrameType::kWelcome:
      return on_welcome(frame);
    case FrameType::kGathered:
    case FrameType::kGatherFailed:
      return on_gathered(frame);
    case FrameType::kReject: {
      const auto error = decode_error(frame.body);
      std::scoped_lock lock(mutex_);
      if (error && !over_) over_ = *error;
      changed_.notify_all();
      return;
    }
    case FrameType::kCame: {
      if (frame.body.size() != static_cast<std::size_t>(size_)) return;
      std::scoped_lock lock(mutex_);
      came_.assign(frame.body.size(), false);
      for (std::size_t r = 0; r < came_.size(); ++r) came_[r] = frame.body[r] != std::byte{0};
      changed_.notify_all();
      return;
    }
    case FrameType::kAsk:
      return on_ask(frame);
    case FrameType::kLeft: {
      std::scoped_lock lock(mutex_);
      let_go_ = true;
      return;
    }
    default:
      return on_news(frame);
  }
}

void StarMember::on_welcome(const Frame& frame) {
  auto members = decode_members(frame.body);
  std::scoped_lock lock(mutex_);
  if (welcome_ || !members || members->size() != static_cast<std::size_t>(size_)) return;
  members_ = *std::move(members);
  hub_token_ = frame.sequence;
  welcome_ = true;
  changed_.notify_all();
}

void StarMember::on_gathered(const Frame& frame) {
  std::optional<Result<std::vector<Blob>>> result;
  const bool for_all = frame.type == FrameType::kGatherFailed;
  if (frame.type == FrameType::kGathered) {
    if (auto blobs = decode_blobs(frame.body, static_cast<std::size_t>(size_))) {
      result = *std::move(blobs);
    }
  } else if (auto error = decode_error(frame.body)) {
    result = *std::move(error);
  }
  if (!result) result = make_error(Code::kPeerFailed, "the hub sent a malformed all-gather");
  std::scoped_lock lock(mutex_);
  if (frame.sequence + 1 != sequence_) return;  // this rank stopped waiting for it
  result_ = std::move(result);
  failed_for_all_ = for_all;
  changed_.notify_all();
}

/// Whether it still waits in what it told last. The answer says which that is, since the hub may
/// have yet to hear it.
void StarMember::on_ask(const Frame& frame) {
  Blob told;
  {
    std::scoped_lock lock(mutex_);
    if (!waits_) return;
    ByteWriter(told).put(waits_told_);
  }
  channel_->send(FrameType::kStill, frame.sequence, told);
}

void StarMember::on_news(const Frame& frame) {
  if (frame.type == FrameType::kStandstill) {
    const auto error = decode_error(frame.body);
    if (!error || error->peer >= size_) return;
    failures_.report(*error);
    return failures_.deliver_pending();
  }
  if (frame.type != FrameType::kFailure && frame.type != FrameType::kNotice) return;
  const auto error = decode_error(frame.body);
  if (!error || error->peer >= size_) return;
  const bool notice = frame.type == FrameType::kNotice;
  if (notice && frame.sequence >= static_cast<std::uint64_t>(size_)) return;
  if (!notice) {
    if (error->peer == rank_) be_given_up(*error);
    return lose(*error);
  }
  failures_.report(notice_of(static_cast<Rank>(frame.sequence), *error));
  failures_.deliver_pending();
}

/// The hub took this rank for dead, and ends the connection.
void StarMember::be_given_up(const Error& why) {
  std::scoped_lock lock(mutex_);
  let_go_ = true;
  if (!over_) over_ = why;
  changed_.notify_all();
}

void StarMember::lose(const Error& why) {
  if (why.peer >= 0) {
    std::scoped_lock lock(mutex_);
    dead_.emplace(why.peer, why);
  }
  failures_.report(why);
  failures_.deliver_pending();
}

void StarMember::lose_hub(const Error& why) {
  std::vector<Error> failures;
  // It may be this end that has no memory for what came.
  const Error* const own = why.code == Code::kUnavailable           ? &why
                           : service_.failures() > failures_before_ ? &service_.last_failure()
                                                                    : nullptr;
  {
    std::scoped_lock lock(mutex_);
    ended_ = true;
    const bool expected = leaving_ || let_go_;
    if (own != nullptr && !expected)
      failures.push_back(peer_error(Code::kUnavailable, rank_, "{}", own->what));
    for (std::size_t r = 0; r < members_.size() && !expected && own == nullptr; ++r) {
      if (members_[r].token != hub_token_) continue;
      const Rank rank = static_cast<Rank>(r);
      failures.push_back(peer_error(
          Code::kPeerFailed, rank, "rank {} died: its process, the hub of this group, is gone ({})",
          rank, why.what));
      dead_.emplace(rank, failures.back());
    }
    if (!over_) {
      if (!failures.empty()) {
        over_ = failures.front();
      } else if (expected) {
        over_ = make_error(Code::kPeerFailed,
                           "the process that was the hub of this group has left and ended");
      } else {
        over_ = make_error(Code::kPeerFailed,
                           "lost the hub of this group ({}): the process that made the unique id "
                           "must live as long as the group",
                           why.what);
        if (!welcome_) over_->os_errno = ECONNRESET;  // if the hub lives it says why
        if (welcome_) failures.push_back(*over_);
      }
    }
    changed_.notify_all();
  }
  for (Error& failure : failures) failures_.report(std::move(failure));
  failures_.deliver_pending();
}

// ---- user's thread ----

template <class Done>
bool StarMember::wait(std::unique_lock<std::mutex>& lock, Deadline deadline, const Vigil& vigil,
                      Done done) {
  const Nanos margin = std::min<Nanos>(std::chrono::milliseconds(250), deadline.left() / 4);
  bool asked = false;
  while (!done()) {
    if (deadline.passed()) return false;
    if (!asked && deadline.left() <= margin) {
      asked = true;
      came_.clear();
      service_.post([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->send(encode_frame(FrameType::kWho, 0));
      });
    }
    Nanos nap = deadline.nap();
    if (!asked && !deadline.is_never()) nap = std::min(nap, deadline.left() - margin);
    if (vigil) nap = std::min<Nanos>(nap, kVigil);
    changed_.wait_for(lock, nap);
    if (!vigil || done()) continue;
    lock.unlock();
    const Status hopeful = vigil();
    lock.lock();
    if (!hopeful && !over_) over_ = hopeful.error();
  }
  return true;
}

Error StarMember::timed_out(std::string_view doing, std::span<const Rank> names) const {
  if (!came_.empty()) return absent_error(doing, came_, names);
  return make_error(Code::kTimeout,
                    "{} timed out, and the hub did not say who is missing: its process is "
                    "overloaded or stopped",
                    doing);
}

Status StarMember::wait_for_welcome(Deadline deadline, const Vigil& vigil,
                                    std::span<const Rank> names) {
  const std::string doing = fmt::format("joining the group of {} as rank {}", size_, rank_);
  std::unique_lock lock(mutex_);
  bool done = false;
  for (bool once = false; !done && !(once && deadline.passed()); once = true) {
    if (once) {
      const std::string late =
          came_.empty() ? "nobody tells who" : describe_ranks(absent_ranks(came_, names));
      lock.unlock();
      log_warn("", "rank {} still waits for the group of {} to form; yet to join: {}", rank_, size_,
               late);
      lock.lock();
    }
    done = wait(lock, deadline.within(kSayWhoIsLate), vigil, [&] { return welcome_ || over_; });
  }
  if (welcome_) return ok_status();
  if (done) {
    Error why = *over_;
    const bool lost = why.code == Code::kPeerFailed && why.peer == kNoRank;
    if (lost && !names.empty()) {  // a subgroup's hub is its first member
      why.peer = names.front();
      why.what = fmt::format("rank {} is gone: {}", why.peer, why.what);
    }
    return why;
  }
  return timed_out(doing, names);
}

Status StarMember::standing(Rank rank) const {
  std::scoped_lock lock(mutex_);
  const auto found = dead_.find(rank);
  if (found == dead_.end()) return ok_status();
  return found->second;
}

bool StarMember::watched() const {
  std::scoped_lock lock(mutex_);
  return !ended_;
}

bool StarMember::failed_for_all() const {
  std::scoped_lock lock(mutex_);
  return failed_for_all_;
}

Result<std::vector<Blob>> StarMember::all_gather(Blob mine, Deadline deadline) {
  if (mine.size() > kMaxBlobBytes) {
    return make_error(Code::kInvalidArgument,
                      "a blob of {} bytes is too large for the bootstrap: at most {} bytes",
                      mine.size(), kMaxBlobBytes);
  }
  std::unique_lock lock(mutex_);
  if (over_) return *over_;
  result_.reset();
  failed_for_all_ = false;
  service_.post([weak = weak_from_this(),
                 frame = encode_frame(FrameType::kGather, sequence_++, mine)]() mutable {
    if (const auto self = weak.lock()) self->send(std::move(frame));
  });
  const bool done = wait(lock, deadline, {}, [&] { return result_ || over_; });
  if (result_) return *std::exchange(result_, std::nullopt);
  if (done) return *over_;
  // The hub may yet complete this round without us, so a later one would be out of step.
  over_ = make_error(Code::kInvalidUsage, "an earlier all-gather of this group timed out");
  return timed_out("an all-gather of the bootstrap");
}

void StarMember::tell_wait(const Blob& call) {
  std::scoped_lock lock(mutex_);
  waits_ = !call.empty();
  if (waits_) ++waits_told_;
  service_.post([weak = weak_from_this(),
                 frame = encode_frame(FrameType::kWaits, waits_told_, call)]() mutable {
    if (const auto self = weak.lock()) self->send(std::move(frame));
  });
}

void StarMember::leave() {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  leaving_ = true;
  service_.post([self = shared_from_this()] { self->send(encode_frame(FrameType::kGoodbye, 0)); });
  // Where this process has the hub, its own service thread has yet to tell the others that the end
  // of this process is no death: who returned before would end it too early.
  const auto heard = [&] { return ended_; };
  if (welcome_ && hub_token_ == service_.token()) {
    changed_.wait(lock, heard);
  } else {
    changed_.wait_for(lock, std::chrono::seconds(1), heard);
  }
}

}  // namespace tutti
