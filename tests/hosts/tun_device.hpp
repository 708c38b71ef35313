// A network device whose packets a program reads and writes (TUN), in a network namespace.
#pragma once

#include <string>

#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti::testing {

struct TunOptions {
  std::string host;     ///< the name of the network namespace, as `ip netns` lists it
  std::string device;   ///< of at most 15 characters
  std::string address;  ///< IPv4, of a network of 256: "10.213.1.1"
};

/// The device, up, with its address, for packets of up to kLargestPacket bytes; reads and writes
/// are whole IP packets, and do not block. It goes when the descriptor does. The calling thread is
/// in its own namespace again afterwards. Linux, Documentation/networking/tuntap.rst.
///
/// kUnsupported: this machine has no TUN devices, or does not let this process have one.
Result<Fd> open_tun(const TunOptions& options);

}  // namespace tutti::testing
