// A rank's end of the connection to its hub. It keeps what the hub said for the thread that waits
// for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/bootstrap/channel.hpp"
#include "src/bootstrap/control_frame.hpp"
#include "src/bootstrap/failure_handler.hpp"
#include "src/wire/service.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Resource. The user's thread calls the waiting functions, the service thread the others.
class StarMember : public std::enable_shared_from_this<StarMember> {
 public:
  /// Called now and then while a rank waits for a group to form. An error, because it cannot form
  /// any more, ends the wait.
  using Vigil = std::function<Status()>;

  StarMember(Service& service, Rank rank, std::int32_t size, Nanos liveness);

  // ---- service thread ----
  /// Takes over the connection to the hub and asks to join.
  Status start(Fd fd, const JoinBody& join);
  void send(FrameBytes frame);
  /// What the hub, or another member, tells of failures.
  void on_news(const Frame& frame);
  /// The death or silence of a member (why.peer), found out in another way.
  void lose(const Error& why);
  void stop();

  // ---- user's thread ----
  /// An error with os_errno ECONNRESET: the connection ended first. Another try may fare better, or
  /// hear why. `names[r]`: what rank r is called in errors; empty: r.
  Status wait_for_welcome(Deadline deadline, const Vigil& vigil, std::span<const Rank> names);
  Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline);
  /// What this rank waits in from now on, as WaitingCall is encoded; nothing: it goes on. It no
  /// longer stands by what it said before once this returns.
  void tell_wait(const Blob& call);
  /// Says goodbye and waits until the hub has heard it: a second at most, unless the hub is of this
  /// process.
  void leave();
  /// Ok, or the error that told of the death of `rank`.
  [[nodiscard]] Status standing(Rank rank) const;
  /// Whether there is a hub that watches over the members. Any thread.
  [[nodiscard]] bool watched() const;
  /// Whether the last all-gather failed on every rank: none has its result or will get it.
  [[nodiscard]] bool failed_for_all() const;

  /// Valid once welcome.
  [[nodiscard]] const MemberInfo& member(Rank rank) const {
    return members_[static_cast<std::size_t>(rank)];
  }
  FailureHandler& failures() { return failures_; }

 private:
  void on_frame(const Frame& frame);
  void on_welcome(const Frame& frame);
  void on_gathered(const Frame& frame);
  void on_ask(const Frame& frame);
  void be_given_up(const Error& why);
  void lose_hub(const Error& why);
  void tick();
  /// Waits for `done`; shortly before the deadline asks the hub who is missing.
  template <class Done>
  bool wait(std::unique_lock<std::mutex>& lock, Deadline deadline, const Vigil& vigil, Done done);
  [[nodiscard]] Error timed_out(std::string_view doing, std::span<const Rank> names = {}) const;

  Service& service_;
  const Rank rank_;
  const std::int32_t size_;
  const Nanos liveness_;
  FailureHandler failures_;

  // Of the service thread.
  std::shared_ptr<Channel> channel_;
  Service::TimerId tick_ = 0;

  std::uint64_t failures_before_ = 0;  // of the service

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool hub_speaks_ = false;  // it sends heartbeats
  bool welcome_ = false;
  bool leaving_ = false;
  bool ended_ = true;          // there is no connection (any more)
  std::optional<Error> over_;  // why nothing more will come
  std::uint64_t hub_token_ = 0;
  std::vector<MemberInfo> members_;  // constant once welcome
  bool let_go_ = false;              // the connection ends though nobody died: see kLeft
  std::vector<bool> came_;           // the hub's latest answer; empty: none
  std::map<Rank, Error> dead_;
  bool failed_for_all_ = false;  // of the latest all-gather
  std::uint64_t sequence_ = 0;
  std::uint64_t waits_told_ = 0;
  bool waits_ = false;  // as told last
  std::optional<Result<std::vector<Blob>>> result_;
};

}  // namespace tutti
