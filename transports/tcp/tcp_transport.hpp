// TCP: reaches every host, maps no memory.
//
// A pair of processes has one or several authenticated sockets. A small message is one send on the
// first socket. Chunks of large messages go to any socket that has sent what it was given before,
// so a slower flow gets less data: also where the sockets take several interfaces. progress() never
// sleeps, so a spinning caller sees a message as soon as the kernel has it.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/clock.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/net.hpp"

namespace tutti {

struct TcpOptions {
  std::uint64_t token = 0;       ///< of this process
  InterfaceChoice interfaces{};  ///< the listeners bind only to the best of these
  /// Over how many of them a connection is spread, at most; each gets a socket at least. One that
  /// cannot be reached when a connection is made leaves its share to the others, with a warning.
  std::size_t most_interfaces = 1;
  /// A host that does not answer for this long is dead. A live process that does not read is not.
  Nanos liveness = std::chrono::seconds(15);
  /// Sockets per connection that this side dials. For others, the dialling side decides.
  std::size_t sockets = 1;
};

Result<std::shared_ptr<Transport>> make_tcp_transport(const TcpOptions& options);

}  // namespace tutti
