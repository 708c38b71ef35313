// The packets of a switch: from its UDP socket to the state machines of src/switch, and back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/switch/data_plane.hpp"
#include "src/switch/sessions.hpp"
#include "src/wire/net.hpp"
#include "transports/switch/datagrams.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

struct PortCounts {
  PlaneCounts packets;
  std::uint64_t sent = 0;     ///< datagrams
  std::uint64_t dropped = 0;  ///< that the system refused or had no room for
};

/// Resource. One thread at a time.
class DataPort final : private PacketSink {
 public:
  /// Sends and receives at `address`. `sessions` outlives it.
  static Result<std::unique_ptr<DataPort>> open(const SocketAddress& address, Sessions& sessions);

  /// Readable when packets wait.
  [[nodiscard]] int fd() const { return fd_.get(); }
  void receive(TimePoint now);

  /// Of an open session. `above`: where a leaf's sums go; family 0: this switch is the top.
  void add(std::uint64_t session, unsigned workers, const SocketAddress& above);
  void remove(std::uint64_t session) { routes_.erase(session); }

  [[nodiscard]] PortCounts counts() const;

 private:
  /// Where a session's packets go. Length 0: not known.
  struct Route {
    std::vector<DatagramAddress> workers;  ///< by number; known once heard
    DatagramAddress above;
  };

  DataPort(Fd fd, Sessions& sessions);
  void flush();
  void heard(const Session& session, std::uint8_t worker) override;
  void to_workers(const Session& session, std::uint32_t workers,
                  std::span<const std::byte> bytes) override;
  void to_above(const Session& session, std::span<const std::byte> bytes) override;
  void reply(std::span<const std::byte> bytes) override;
  void send_to(std::span<const DatagramAddress* const> receivers, std::span<const std::byte> bytes);

  Fd fd_;
  DataPlane plane_;
  DatagramReader reader_;
  DatagramWriter writer_;
  std::map<std::uint64_t, Route> routes_;  ///< by session
  DatagramAddress source_;                 ///< of the datagram at hand
  std::uint64_t sent_ = 0;
};

}  // namespace tutti::in_network
