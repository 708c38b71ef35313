// TCP: reaches every host, maps nothing.
//
// One or several sockets a pair of processes, each authenticated. A small message is one send on
// the first; the chunks of large ones go to whichever socket has sent what it was given before, so
// a flow that gets less of the network gets less of the data. progress() never sleeps, so that a
// caller who spins sees a message as soon as the kernel has it.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/clock.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/net.hpp"

namespace tutti {

struct TcpOptions {
  std::uint64_t token = 0;       ///< of this process
  InterfaceChoice interfaces{};  ///< the listener is bound to the best of them, and to no other
  /// A host that answers nothing for so long is dead. A live process that does not read is not.
  Nanos liveness = std::chrono::seconds(15);
  /// Of each connection that this side dials; the other side takes what it gets.
  std::size_t sockets = 1;
};

Result<std::shared_ptr<Transport>> make_tcp_transport(const TcpOptions& options);

}  // namespace tutti
