#include "src/bootstrap/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/failure_handler.hpp"
#include "src/bootstrap/hub.hpp"
#include "src/bootstrap/pulse_check.hpp"
#include "src/bootstrap/rank_list.hpp"
#include "src/bootstrap/standstill.hpp"
#include "src/bootstrap/star_member.hpp"
#include "src/wire/handshake.hpp"

namespace tutti {
namespace {

/// A group as its ranks agree on it.
struct GroupIdentity {
  std::uint64_t id = 0;
  Key key{};
};

std::uint64_t job_of(const Key& key) { return derive_id(key, "tutti job"); }

/// Where to connect and as whom.
struct HubTarget {
  std::vector<SocketAddress> addresses;
  GroupIdentity admits;                  ///< the group whose key opens the hub's door
  Rank self = kNoRank;                   ///< in that group
  std::optional<std::uint64_t> token{};  ///< of the hub's process, when known
  Rank host = kNoRank;                   ///< in that group: a member, which listens while it is one
  bool awaited = false;                  ///< JoinOptions::awaited
  bool was_up = false;                   ///< JoinOptions::was_up
};

/// A host that refuses connections for so long has nobody who listens.
constexpr auto kRefused = std::chrono::milliseconds(900);
/// How long others may keep a member of a subgroup waiting before their pulse is felt.
constexpr auto kKnock = std::chrono::milliseconds(300);
/// How long one of them may take to answer before the next is asked.
constexpr auto kPatience = std::chrono::seconds(1);

std::string describe(const std::vector<SocketAddress>& addresses) {
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : " or ") + to_text(address);
  return text;
}

/// One try with one address. An error with os_errno, or a timeout, may pass; others will not.
Result<Fd> approach(Service& service, const HubTarget& hub, const SocketAddress& address,
                    Deadline deadline) {
  constexpr auto kConnect = std::chrono::seconds(5);
  constexpr auto kHandshake = std::chrono::seconds(10);
  TUTTI_ASSIGN(Fd fd, connect_once(address, deadline.within(kConnect)));
  HandshakeOptions options;
  options.self = {service.token(), hub.self, hub.admits.id};
  options.key = hub.admits.key;
  options.peer_name = "the hub at " + to_text(address);
  options.expected_token = hub.token;
  TUTTI_TRY(shake_hands(fd.get(), std::move(options), deadline.within(kHandshake)));
  return fd;
}

Error gone(Rank rank, const SocketAddress& listener) {
  return peer_error(Code::kPeerFailed, rank,
                    "rank {} is gone: nobody listens at {} any more, where its process did", rank,
                    to_text(listener));
}

Result<Fd> reach_hub(Service& service, const HubTarget& hub, const StarMember::Vigil& vigil,
                     Deadline deadline) {
  std::optional<TimePoint> refused_since;  // by all addresses
  for (int attempt = 0;; ++attempt) {
    if (vigil) TUTTI_TRY(vigil());
    Error last;
    bool all_refuse = true;
    for (const auto& address : hub.addresses) {
      auto fd = approach(service, hub, address, deadline);
      if (fd) return fd;
      last = std::move(fd).error();
      const bool refused = last.os_errno == 0 && last.code != Code::kTimeout;
      if (refused && !(hub.awaited && last.code == Code::kPeerFailed)) return last;
      if (last.code == Code::kUnavailable) return last;
      if (hub.host != kNoRank && last.os_errno == ECONNREFUSED) return gone(hub.host, address);
      all_refuse &= last.os_errno == ECONNREFUSED;
    }
    if (!all_refuse) refused_since.reset();
    if (all_refuse && !refused_since) refused_since = Clock::now();
    if (all_refuse && hub.was_up && Clock::now() - *refused_since > kRefused)
      return make_error(Code::kPeerFailed,
                        "nobody listens at {} any more, where the process that made the unique id "
                        "did: it has ended, or the id has served already",
                        describe(hub.addresses));
    if (deadline.passed()) {
      return Error{Code::kTimeout,
                   fmt::format("no hub answered at {} in time ({} attempts): {}; is the process "
                               "that made the unique id alive and reachable from here?",
                               describe(hub.addresses), attempt + 1, last.what),
                   kNoRank, last.os_errno};
    }
    back_off(attempt, deadline);
  }
}

class StarBootstrap final : public Bootstrap {
 public:
  struct Place {
    GroupIdentity group;
    Rank rank = 0;
    std::int32_t size = 0;
  };

  struct Entrance {
    HubTarget hub;
    Place place;
    Digest proof{};                 ///< JoinBody::members
    StarMember::Vigil vigil{};      ///< may be empty
    std::span<const Rank> names{};  ///< what the members are called in errors; empty: their ranks
  };

  /// Connects, joins and waits until the group is complete.
  static Result<std::unique_ptr<Bootstrap>> enter(std::shared_ptr<Service> service,
                                                  const Entrance& entrance,
                                                  const JoinOptions& options, Deadline deadline);

  StarBootstrap(std::shared_ptr<Service> service, const Place& place, const JoinOptions& options)
      : service_(std::move(service)),
        place_(place),
        options_(options),
        member_(std::make_shared<StarMember>(*service_, place.rank, place.size, options.liveness)) {
  }
  ~StarBootstrap() override;

  Rank rank() const override { return place_.rank; }
  std::int32_t size() const override { return place_.size; }
  std::span<const std::byte> key() const override { return place_.group.key; }
  Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) override {
    return member_->all_gather(std::move(mine), deadline);
  }
  Result<std::unique_ptr<Bootstrap>> subgroup(std::span<const Rank> members, std::uint64_t tag,
                                              Deadline deadline) override;
  void on_failure(std::function<void(const Error&)> handler) override;
  void announce(const Error& error) override;
  void look_after(Rank peer) override;
  bool tells_of_deaths() const override { return member_->watched(); }
  void tell_wait(const WaitingCall& call) override { member_->tell_wait(encode(call)); }
  void withdraw_wait() override { member_->tell_wait({}); }
  [[nodiscard]] bool failed_for_all() const override { return member_->failed_for_all(); }

 private:
  /// A hub that forms a subgroup, as the user's thread may know it: it lives on the service thread.
  struct Forming {
    std::span<const Rank> members;
    std::weak_ptr<Hub> hub;  ///< only here, on the first member
    TimePoint next_knock = Clock::now() + kKnock;
    std::map<Rank, TimePoint> silent_since{};  ///< who did not answer the last knock
  };

  /// On the service thread: the door of this process, and the connection to the hub.
  Status start(Fd fd, const Digest& proof);
  std::weak_ptr<Hub> open_hub(const GroupIdentity& group, std::span<const Rank> members,
                              const Digest& proof);
  Status review(Forming& forming, Deadline deadline);
  Status knock(Rank rank, Forming& forming, Deadline deadline);
  /// On the service thread.
  void check_pulse(Rank peer);
  void on_pulse(const Frame& answer);
  void on_silence(Rank peer);
  void tell_at_door(const FrameBytes& notice);
  [[nodiscard]] std::uint64_t own_rank() const { return static_cast<std::uint64_t>(place_.rank); }

  std::shared_ptr<Service> service_;
  const Place place_;
  const JoinOptions options_;
  std::shared_ptr<StarMember> member_;
  // Of the service thread.
  std::weak_ptr<Lobby> lobby_;
  std::shared_ptr<PulseCheck> pulse_check_;  // under way
  TimePoint next_pulse_check_{};
};

Result<std::unique_ptr<Bootstrap>> StarBootstrap::enter(std::shared_ptr<Service> service,
                                                        const Entrance& entrance,
                                                        const JoinOptions& options,
                                                        Deadline deadline) {
  for (int attempt = 0;; ++attempt) {
    TUTTI_ASSIGN(Fd fd, reach_hub(*service, entrance.hub, entrance.vigil, deadline));
    auto self = std::make_unique<StarBootstrap>(service, entrance.place, options);
    TUTTI_TRY(service->call([&] { return self->start(std::move(fd), entrance.proof); }));
    const Status welcome = self->member_->wait_for_welcome(
        options.patient ? deadline.without_end() : deadline, entrance.vigil, entrance.names);
    if (!welcome && deadline.cancelled())
      self->announce(make_error(Code::kAborted, "it was aborted while the group formed"));
    if (welcome) return std::unique_ptr<Bootstrap>(std::move(self));
    // A crowd of strangers may have pushed this connection out before the hub knew whose it was.
    if (welcome.error().os_errno != ECONNRESET || deadline.passed()) return welcome.error();
    back_off(attempt, deadline);
  }
}

Status StarBootstrap::start(Fd fd, const Digest& proof) {
  SocketAddress here;
  if (options_.interfaces.chooses_nothing()) {
    TUTTI_ASSIGN(here, local_address(fd.get()));
  } else {
    TUTTI_ASSIGN(here, choose_address(options_.interfaces));
  }
  TUTTI_ASSIGN(const auto lobby, Lobby::at(*service_, here.with_port(0), options_.limits));
  lobby->admit(place_.group.id, place_.group.key);
  lobby_ = lobby;
  return member_->start(std::move(fd), {.group = place_.group.id,
                                        .rank = place_.rank,
                                        .size = place_.size,
                                        .members = proof,
                                        .listener = lobby->address()});
}

StarBootstrap::~StarBootstrap() {
  member_->failures().set(nullptr);
  member_->leave();
  service_->call([this] {
    member_->stop();
    pulse_check_.reset();
    if (const auto lobby = lobby_.lock()) lobby->dismiss(place_.group.id);
  });
}

void StarBootstrap::on_failure(std::function<void(const Error&)> handler) {
  const bool some = static_cast<bool>(handler);
  member_->failures().set(std::move(handler));
  if (some) service_->post([member = member_] { member->failures().deliver_pending(); });
}

void StarBootstrap::announce(const Error& error) {
  // The destructor waits for the thread, so this object outlives the task.
  service_->post([this, error] {
    member_->send(encode_frame(FrameType::kAnnounce, 0, encode(error)));
    tell_at_door(encode_frame(FrameType::kNotice, own_rank(), encode(error)));
  });
}

/// What members hear that check the pulse of this process.
void StarBootstrap::tell_at_door(const FrameBytes& notice) {
  if (const auto lobby = lobby_.lock()) lobby->post_notice(place_.group.id, notice);
}

void StarBootstrap::look_after(Rank peer) {
  if (!member_->watched()) service_->post([this, peer] { check_pulse(peer); });
}

/// One at a time, and no more often than heartbeats come. Who cannot do its part either waits for
/// another itself or has a reason, which its door tells: so news travels from rank to rank.
void StarBootstrap::check_pulse(Rank peer) {
  const MemberInfo& info = member_->member(peer);
  const TimePoint now = Clock::now();
  if (pulse_check_ || now < next_pulse_check_ || info.token == service_->token()) return;
  next_pulse_check_ = now + heartbeat_interval(options_.liveness);
  HandshakeOptions handshake;
  handshake.self = {service_->token(), place_.rank, place_.group.id};
  handshake.key = place_.group.key;
  handshake.expected_token = info.token;
  pulse_check_ =
      PulseCheck::begin(*service_, info.listener, std::move(handshake), options_.liveness,
                        {.on_answer = [this](const Frame& answer) { on_pulse(answer); },
                         .on_failure =
                             [this, peer](const Error& why) {
                               pulse_check_.reset();
                               if (why.code == Code::kTimeout) on_silence(peer);
                             }});
}

void StarBootstrap::on_pulse(const Frame& answer) {
  pulse_check_.reset();
  if (answer.type != FrameType::kNotice) return;
  tell_at_door(encode_frame(answer.type, answer.sequence, answer.body));
  member_->on_news(answer);
}

void StarBootstrap::on_silence(Rank peer) {
  const Error silence =
      silence_of(peer, to_text(member_->member(peer).listener), options_.liveness);
  tell_at_door(encode_frame(FrameType::kNotice, own_rank(), encode(silence)));
  member_->lose(silence);
}

std::weak_ptr<Hub> StarBootstrap::open_hub(const GroupIdentity& group,
                                           std::span<const Rank> members, const Digest& proof) {
  return service_->call([&] {
    const auto lobby = lobby_.lock();
    lobby->admit(place_.group.id, place_.group.key);
    auto hub = std::make_shared<Hub>(*service_, *lobby,
                                     HubOptions{.parent = place_.group.id,
                                                .group = group.id,
                                                .members = {members.begin(), members.end()},
                                                .proof = proof,
                                                .liveness = options_.liveness});
    lobby->open_hub(place_.group.id, hub);
    return std::weak_ptr<Hub>(hub);
  });
}

/// An error once a member is known to be dead: then the subgroup cannot form. This group's hub
/// tells of deaths, as long as there is one; the subgroup's first member also finds out by itself.
Status StarBootstrap::review(Forming& forming, Deadline deadline) {
  for (const Rank rank : forming.members) TUTTI_TRY(member_->standing(rank));
  if (forming.members.front() != place_.rank || Clock::now() < forming.next_knock)
    return ok_status();
  const std::vector<Rank> absent = service_->call([&] {
    const auto hub = forming.hub.lock();
    return hub ? hub->absent() : std::vector<Rank>();
  });
  for (const Rank index : absent)
    TUTTI_TRY(knock(forming.members[static_cast<std::size_t>(index)], forming, deadline));
  forming.next_knock = Clock::now() + kKnock;
  return ok_status();
}

/// Whether the process of a rank still answers at its door and still belongs to this group.
Status StarBootstrap::knock(Rank rank, Forming& forming, Deadline deadline) {
  const MemberInfo& info = member_->member(rank);
  const HubTarget door = {{info.listener}, place_.group, place_.rank, info.token, rank};
  const TimePoint knocked = Clock::now();
  const auto answer = approach(*service_, door, info.listener, deadline.within(kPatience));
  if (answer || deadline.passed() || answer.error().code == Code::kUnavailable) {
    forming.silent_since.erase(rank);
    return ok_status();
  }
  if (answer.error().os_errno == ECONNREFUSED) return gone(rank, info.listener);
  if (answer.error().code == Code::kTimeout) {
    const TimePoint since = forming.silent_since.try_emplace(rank, knocked).first->second;
    if (Clock::now() - since < options_.liveness) return ok_status();
    return silence_of(rank, to_text(info.listener), options_.liveness);
  }
  if (answer.error().os_errno != 0) return ok_status();  // nothing certain: it is asked again
  return peer_error(Code::kPeerFailed, rank, "rank {} has left the group of {}: {}", rank,
                    place_.size, answer.error().what);
}

Result<std::unique_ptr<Bootstrap>> StarBootstrap::subgroup(std::span<const Rank> members,
                                                           std::uint64_t tag, Deadline deadline) {
  TUTTI_TRY(check_members(members, place_.rank, place_.size));
  Blob context;
  ByteWriter(context).put(place_.group.id).put(tag);
  const Key key = derive_key(place_.group.key, "tutti subgroup", context);
  const GroupIdentity group = {derive_id(key, "tutti group"), key};
  const Digest proof = derive_key(key, "tutti members", std::as_bytes(members));
  const Rank first = members.front();
  Forming forming{members, {}};
  if (first == place_.rank) forming.hub = open_hub(group, members, proof);

  const MemberInfo& host = member_->member(first);
  const auto index = std::ranges::find(members, place_.rank) - members.begin();
  const Entrance entrance = {
      .hub = {{host.listener}, place_.group, place_.rank, host.token, first},
      .place = {group, static_cast<Rank>(index), static_cast<std::int32_t>(members.size())},
      .proof = proof,
      .vigil = [&] { return review(forming, deadline); },
      .names = members};
  JoinOptions options = options_;
  options.patient = false;  // its members call together
  auto result = enter(service_, entrance, options, deadline);
  if (!result && first == place_.rank) {
    service_->call([&] {
      if (const auto lobby = lobby_.lock())
        lobby->abandon_hub(place_.group.id, group.id, result.error());
    });
  }
  return result;
}

}  // namespace

Result<UniqueId> serve_root(const std::shared_ptr<Service>& service, const RootOptions& options) {
  SocketAddress address;
  if (options.address) {
    address = *options.address;
  } else {
    TUTTI_ASSIGN(address, choose_address(options.interfaces));
  }
  const Key key = options.key ? *options.key : random_key();
  return service->call([&]() -> Result<UniqueId> {
    TUTTI_ASSIGN(const auto lobby, Lobby::at(*service, address, options.limits));
    const std::uint64_t job = job_of(key);
    lobby->admit(job, key);
    if (options.stays)
      lobby->admit(derive_id(key, "tutti door"), key);  // nobody's: never dismissed
    lobby->open_hub(job, std::make_shared<Hub>(*service, *lobby,
                                               HubOptions{.parent = job,
                                                          .group = job,
                                                          .members = {},
                                                          .proof = {},
                                                          .liveness = options.liveness}));
    return unique_id_of(key, lobby->address());
  });
}

UniqueId unique_id_of(const Key& key, const SocketAddress& hub) {
  return {.job = job_of(key), .key = key, .addresses = {hub}};
}

Result<std::unique_ptr<Bootstrap>> join(const std::shared_ptr<Service>& service, const UniqueId& id,
                                        Rank rank, std::int32_t size, const JoinOptions& options,
                                        Deadline deadline) {
  if (size < 1 || size > kMaxGroupSize || rank < 0 || rank >= size) {
    return make_error(Code::kInvalidArgument,
                      "rank {} of {} cannot be: ranks are 0..size-1 and a group has at most {}",
                      rank, size, kMaxGroupSize);
  }
  raise_fd_limit(static_cast<std::uint64_t>(size) * 2 + 256);
  const GroupIdentity group = {id.job, id.key};
  HubTarget hub = {id.addresses, group, rank};
  hub.awaited = options.awaited;
  hub.was_up = options.was_up;
  return StarBootstrap::enter(service,
                              {.hub = hub, .place = {group, rank, size}, .proof = options.given},
                              options, deadline);
}

}  // namespace tutti
