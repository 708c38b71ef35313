// Where a process receives members of its groups: a listener that survives strangers.
//
// A stranger (a port scan, garbage, a silent connection) gets a handshake of a few seconds, costs
// one descriptor and a few hundred bytes, and never delays a member: when too many are under way
// the oldest one is dropped, and a member that was dropped tries again. A stranger learns nothing
// but that something listens.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "src/bootstrap/channel.hpp"
#include "src/bootstrap/control_frame.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/net.hpp"
#include "src/wire/service.hpp"

namespace tutti {

class Hub;

/// Resource, on the service thread only; an attachment of the Service, one an address. It closes
/// when the last group is dismissed.
class Lobby {
 public:
  /// Of all lobbies of a process; tests lower them.
  struct Limits {
    std::size_t strangers = 2048;               ///< connections not yet authenticated
    std::size_t waiting = 16'384;               ///< members whose hub is not open yet
    Nanos patience = std::chrono::seconds(10);  ///< for a handshake and the join that follows
  };

  /// The lobby at this address, opened when there is none. With port 0, the one on any port.
  static Result<std::shared_ptr<Lobby>> at(Service& service, const SocketAddress& address,
                                           const Limits& limits);

  Lobby(Service& service, std::string name, Fd listener, SocketAddress address, Limits limits);
  ~Lobby();

  [[nodiscard]] const SocketAddress& address() const { return address_; }

  /// Members of `group` prove themselves with `key` from now on. Counted: one dismiss() for each.
  void admit(std::uint64_t group, const Key& key);
  void dismiss(std::uint64_t group);
  /// Members that check the pulse of `group` here hear this kNotice from now on. The first counts.
  void post_notice(std::uint64_t group, const FrameBytes& notice);

  /// Members that are admitted by `parent` and ask for `hub.group()` go to it, those that wait
  /// first.
  void open_hub(std::uint64_t parent, std::shared_ptr<Hub> hub);
  void close_hub(std::uint64_t parent, std::uint64_t group);
  /// Ends a hub whose group did not form, undoing one admit(): who waits there hears `why`, and so
  /// does who comes later, as long as the parent is here.
  void abandon_hub(std::uint64_t parent, std::uint64_t group, const Error& why);

 private:
  struct Stranger {
    std::uint64_t id = 0;
    Fd fd;
    std::unique_ptr<Handshake> handshake;
    Service::WatchId watch = 0;
    TimePoint deadline;
    SocketAddress from;
  };
  /// Authenticated; asked for a hub that is not open yet, or has not asked yet.
  struct Waiting {
    std::shared_ptr<Channel> channel;
    Identity identity;
    std::optional<JoinBody> join;
    TimePoint deadline;
  };
  struct Group {
    Key key{};
    std::size_t uses = 0;
    FrameBytes notice;  ///< why it failed; null: it did not, as far as is known here
    std::unordered_map<std::uint64_t, std::shared_ptr<Hub>> hubs;
    std::unordered_map<std::uint64_t, Waiting> waiting;
  };

  void accept_some();
  void pause_accepting();
  void welcome_stranger(Fd fd);
  void on_stranger(std::uint64_t id);
  /// False when the connection is over.
  bool converse(Stranger& stranger);
  void drop_stranger(std::uint64_t id);
  void promote(std::uint64_t id);
  void on_first_frame(std::uint64_t group, std::uint64_t id, const Frame& frame);
  /// The answer of a hub that is not open yet.
  static void tell_who_waits(const Group& group, const Waiting& asker);
  void seat(Group& group, Waiting waiting);
  void sweep();
  void schedule_sweep();
  void close_if_empty();

  Service& service_;
  const std::string name_;
  Fd listener_;
  const SocketAddress address_;
  const Limits limits_;
  Service::WatchId watch_ = 0;
  Service::TimerId sweep_ = 0;
  Service::TimerId resume_ = 0;
  std::uint64_t next_id_ = 1;
  std::list<Stranger> strangers_;  // oldest first
  std::unordered_map<std::uint64_t, std::list<Stranger>::iterator> stranger_by_id_;
  std::unordered_map<std::uint64_t, Group> groups_;
};

}  // namespace tutti
