// The middle of a group's star. It gathers the members' blobs, watches over the members, and tells
// all of them what has failed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/bootstrap/channel.hpp"
#include "src/bootstrap/control_frame.hpp"
#include "src/bootstrap/standstill.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/service.hpp"

namespace tutti {

class Lobby;

struct HubOptions {
  std::uint64_t parent = 0;  ///< the group whose members may ask for this one; itself for a job
  std::uint64_t group = 0;
  std::vector<Rank> members;  ///< of a subgroup: ranks of the parent; empty: whoever comes
  Digest proof{};             ///< what a member of a subgroup must show
  Nanos liveness = std::chrono::seconds(15);
};

/// Resource, on the service thread only; belongs to its Lobby. Its memory is bounded by what the
/// members may send in one round.
class Hub : public std::enable_shared_from_this<Hub> {
 public:
  Hub(Service& service, Lobby& lobby, HubOptions options);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  [[nodiscard]] std::uint64_t group() const { return options_.group; }
  [[nodiscard]] bool formed() const { return formed_; }
  /// A member that proved itself asks to join.
  void adopt(std::shared_ptr<Channel> channel, const Identity& identity, const JoinBody& join);
  /// Ends a group that did not form: whoever waits for it, or comes later, hears `why`.
  void give_up(const Error& why);
  /// Who has not come yet, while the group forms; empty before anybody has told its size.
  [[nodiscard]] std::vector<Rank> absent() const;

 private:
  enum class State : std::uint8_t { kAbsent, kHere, kLeft, kDead };
  struct Member {
    State state = State::kAbsent;
    std::shared_ptr<Channel> channel;
    std::uint64_t token = 0;
    SocketAddress listener;
    std::string from;          ///< for messages
    std::optional<Blob> blob;  ///< of the round under way
    int announcements = 0;
    std::optional<WaitingCall> waits;  ///< what it says it waits in
    std::uint64_t told = 0;            ///< the number of that
  };

  [[nodiscard]] Status check(const Identity& identity, const JoinBody& join) const;
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
  /// What errors call a member. Those who wait for a subgroup know it by its rank in the parent.
  [[nodiscard]] Rank name_of(Rank rank) const;
  Member& member(Rank rank) { return members_[static_cast<std::size_t>(rank)]; }

  void form();
  void on_frame(Rank rank, const Frame& frame);
  void on_gather(Rank rank, const Frame& frame);
  void on_who(Rank rank);
  void on_goodbye(Rank rank);
  void on_announce(Rank rank, const Frame& frame);
  void on_waits(Rank rank, const Frame& frame);
  void on_still(Rank rank, const Frame& frame);
  void goes_on(Rank rank);
  void look_for_standstill();
  void lose(Rank rank, Error why);
  void collapse();
  void finish_round();
  void fail_round(const Error& why);
  /// Ends the round for those who wait, if a member will contribute no more.
  void review_round();
  void send_all(const FrameBytes& frame);
  void tick();
  void close_if_deserted();

  Service& service_;
  Lobby& lobby_;
  const HubOptions options_;
  std::vector<Member> members_;  // empty until the first one tells the size
  Digest shown_{};               // what all ranks of a job must show: the first one's
  std::int32_t here_ = 0;
  bool formed_ = false;
  std::optional<Error> ended_;  // it will not form, or gathers no more
  std::optional<Error>
      first_notice_;  ///< why the first one gave up: others may leave because of it
  std::uint64_t sequence_ = 0;
  std::int32_t arrived_ = 0;
  bool some_wait_anew_ = false;          ///< since the last look for a standstill
  std::optional<Standstill> suspected_;  ///< true if all of its ranks still wait so when asked
  std::vector<Rank> asked_;              ///< those of them that have yet to answer
  std::uint64_t questions_ = 0;
  std::uint64_t failures_before_ = 0;  ///< of the service, when this hub opened
  Service::TimerId tick_ = 0;
};

}  // namespace tutti
