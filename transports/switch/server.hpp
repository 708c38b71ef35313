// A switch that adds, in software: sessions by TCP, packets by UDP, one thread.
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
#include "src/switch/data_plane.hpp"
#include "src/switch/sessions.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/net.hpp"
#include "transports/switch/control.hpp"
#include "transports/switch/datagrams.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

struct ServerOptions {
  SocketAddress listen;  ///< TCP and UDP; port 0: any that is free for both
  Key key{};             ///< that workers prove to hold
  SwitchLimits limits;
  Nanos join_patience = std::chrono::seconds(15);  ///< for all workers of a session to join
  Nanos idle_limit = std::chrono::hours(1);        ///< sessions without packets are closed
  std::size_t most_connections = 1024;
  /// Called for what an operator wants to read, a line each; may be empty.
  std::function<void(const std::string&)> say;
};

struct ServerCounts {
  PlaneCounts packets;
  std::uint64_t sent = 0;      ///< datagrams
  std::uint64_t dropped = 0;   ///< that the system had no room for
  std::uint64_t sessions = 0;  ///< opened since the start
  std::size_t open_sessions = 0;
  std::uint32_t free_slots = 0;
};

/// Resource. One thread at a time.
class SwitchServer final : private PacketSink {
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
  struct Waiting {
    std::vector<int> guests;  ///< by worker; -1: has not come
    std::size_t here = 0;
    TimePoint since;
  };
  struct OpenSession {
    std::vector<int> guests;
    std::vector<DatagramAddress> workers;  ///< by number; length 0: not heard yet
  };

  explicit SwitchServer(ServerOptions options) : options_(std::move(options)) {}
  Status open();
  Result<bool> serve_until(int stop, Nanos longest);

  // Control.
  void accept(TimePoint now);
  void hear(int fd, TimePoint now);
  void read(int fd, Guest& guest, TimePoint now);
  void take_join(int fd, Guest& guest, const Join& join, TimePoint now);
  void open_session(const JobToken& job, TimePoint now);
  void refuse(int fd, const std::string& why);
  void refuse_all(const JobToken& job, const std::string& why);
  void dismiss(int fd);
  void close_session(std::uint64_t id, const std::string& why);
  void look_after(TimePoint now);
  void say(const std::string& line) const;

  // Data.
  void receive(TimePoint now);
  void flush();
  void heard(const Session& session, std::uint8_t worker) override;
  void to_workers(const Session& session, std::uint32_t workers,
                  std::span<const std::byte> bytes) override;
  void to_above(const Session& session, std::span<const std::byte> bytes) override;
  void reply(std::span<const std::byte> bytes) override;
  void send_to(std::span<const DatagramAddress* const> receivers, std::span<const std::byte> bytes);

  ServerOptions options_;
  SocketAddress address_;
  Fd listener_, data_, events_;
  Guests guests_;
  std::map<JobToken, Waiting> waiting_;
  std::map<std::uint64_t, OpenSession> open_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<DataPlane> plane_;
  DatagramReader reader_;
  std::unique_ptr<DatagramWriter> writer_;
  DatagramAddress source_;  ///< of the datagram at hand
  ServerCounts counts_;
  TimePoint looked_after_;
};

}  // namespace tutti::in_network
