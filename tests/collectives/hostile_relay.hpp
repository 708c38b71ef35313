// A network between ranks and a switch that nobody should trust.
//
// It passes connections on as they are. Of the packets it loses some, holds some back, repeats
// some, sends old ones again, changes a bit of some, and adds some of its own that look right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/wire/net.hpp"
#include "transports/switch/datagrams.hpp"

namespace tutti::testing {

/// Relays 127.0.0.2 to 127.0.0.1, a port, until it is destroyed. Resource.
class HostileRelay {
 public:
  HostileRelay(std::uint16_t port, std::uint64_t seed);
  ~HostileRelay() { stop(); }
  HostileRelay(const HostileRelay&) = delete;
  HostileRelay& operator=(const HostileRelay&) = delete;

  struct Counts {
    std::uint64_t passed = 0, lost = 0, held = 0, repeated = 0, changed = 0, forged = 0;
  };
  void stop();
  /// After stop().
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  using Datagram = std::vector<std::byte>;
  using Send = std::function<void(std::span<const std::byte>)>;
  /// One way of one rank's packets.
  struct Way {
    std::deque<Datagram> held, old;
  };
  /// A rank, by the address that its packets come from.
  struct Guest {
    in_network::DatagramAddress address;
    Fd back;  ///< to the switch
    Way there = {}, here = {};
  };

  void run();
  std::vector<int> watched() const;
  void accept();
  void pass_on_streams();
  void relay_there();
  void relay_here();
  Guest& guest_at(const in_network::DatagramAddress& address);
  void treat(std::span<const std::byte> bytes, Way& way, const Send& send);
  void forge(Datagram datagram, const Send& send);

  std::mt19937_64 random_;
  SocketAddress front_address_, switch_address_;
  Fd listener_, front_, stop_;
  std::vector<std::pair<Fd, Fd>> streams_;
  std::vector<Guest> guests_;
  in_network::DatagramReader reader_;
  Counts counts_;
  std::thread thread_;
};

}  // namespace tutti::testing
