// A switch that adds, in software: sessions by TCP, packets by UDP, one thread. It is the top of
// its tree, or also a leaf below another one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/switch/sessions.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/net.hpp"
#include "transports/switch/control.hpp"
#include "transports/switch/data_port.hpp"
#include "transports/switch/way_up.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

struct ServerOptions {
  SocketAddress listen;  ///< TCP and UDP; port 0: any that is free for both
  Key key{};             ///< that workers prove to hold
  /// The switch above this one, for jobs with workers at several switches. It holds the same key.
  /// Family 0: none. It may be this very switch.
  SocketAddress above;
  SwitchLimits limits;
  Nanos above_patience = std::chrono::seconds(3);  ///< for the switch above to answer
  Nanos join_patience = std::chrono::seconds(15);  ///< for all workers of a session to join
  Nanos idle_limit = std::chrono::hours(1);        ///< sessions without packets are closed
  std::size_t most_connections = 2048;             ///< more wait until others leave
  /// Called for what an operator wants to read, a line each; may be empty.
  std::function<void(const std::string&)> say;
};

struct SessionCounts {
  std::uint64_t id = 0;
  unsigned workers = 0;
  std::uint64_t taken = 0;  ///< packets
};

struct ServerCounts : PortCounts {
  std::uint64_t sessions = 0;  ///< opened since the start
  std::size_t open_sessions = 0;
  std::uint32_t free_slots = 0;
  std::vector<SessionCounts> each;  ///< of the open sessions
};

/// Resource. One thread at a time.
class SwitchServer final {
 public:
  static Result<std::unique_ptr<SwitchServer>> create(ServerOptions options);

  [[nodiscard]] SocketAddress address() const { return address_; }
  [[nodiscard]] ServerCounts counts() const;
  /// Serves until `stop` is readable (true), or for `longest` (false).
  Result<bool> serve(int stop, Nanos longest = Nanos::max());

 private:
  /// A worker, or somebody who wants to be one.
  struct Guest {
    Fd fd;
    SocketAddress from;
    std::unique_ptr<Handshake> handshake;  ///< null once it is done
    Blob received;
    std::optional<Join> join;
    std::uint64_t session = 0;  ///< 0: none yet
    TimePoint came;
  };
  using Guests = std::map<int, Guest>;  ///< by descriptor
  static constexpr int kNobody = -1;
  /// A job whose session is not open yet.
  struct Waiting {
    Join first;               ///< the others must agree with it
    std::vector<int> guests;  ///< by worker; kNobody: has not come
    std::size_t here = 0;
    TimePoint since;
    int way_up = kNobody;  ///< of a leaf whose workers are all here
  };
  struct OpenSession {
    std::vector<int> guests;
    int way_up = kNobody;  ///< of a leaf
  };
  /// A leaf's, for one session.
  struct Ascent {
    WayUp way;
    JobToken job;
    std::uint64_t session = 0;  ///< 0: not open yet
  };

  explicit SwitchServer(ServerOptions options) : options_(std::move(options)) {}
  Status open();
  Result<bool> serve_until(int stop, Nanos longest);

  // Connections: server.cpp.
  void accept(TimePoint now);
  void let_nobody_in(const std::string& why, TimePoint now);
  void hear(int fd, TimePoint now);
  void read(int fd, Guest& guest, TimePoint now);
  void refuse(int fd, const std::string& why);
  void dismiss(int fd);
  void look_after(TimePoint now);
  void dismiss_slow(TimePoint now);
  void say(const std::string& line) const;

  // Sessions: server_sessions.cpp.
  void take_join(int fd, Guest& guest, const Join& join, TimePoint now);
  [[nodiscard]] std::string objection(const Join& join) const;
  [[nodiscard]] SessionRequest request_for(const Waiting& waiting) const;
  void open_session(const JobToken& job, const SessionRequest& request, TimePoint now);
  void welcome(const OpenSession& session, const Welcome& welcome);
  void leave(const Guest& guest, int fd);
  void refuse_all(const JobToken& job, const std::string& why);
  void close_session(std::uint64_t id, const std::string& why);
  void give_up_waiting(TimePoint now);
  void close_idle(TimePoint now);
  void go_up(const JobToken& job, TimePoint now);
  void hear_above(int fd, TimePoint now);
  void open_below(int fd, Ascent& ascent, TimePoint now);
  void lose_above(int fd, const std::string& why);
  void give_up_ascents(TimePoint now);

  ServerOptions options_;
  std::uint64_t id_ = 0;  ///< this switch's Identity::token, random
  SocketAddress address_;
  Fd listener_, events_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<DataPort> data_;
  Guests guests_;
  std::map<JobToken, Waiting> waiting_;
  std::map<std::uint64_t, OpenSession> open_;
  std::map<int, Ascent> ascents_;  ///< by descriptor
  std::uint64_t opened_ = 0;       ///< sessions, since the start
  TimePoint looked_after_;
  bool is_full_ = false;  ///< and listener_ is not watched
  TimePoint full_said_;
};

}  // namespace tutti::in_network
