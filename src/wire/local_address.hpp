// Identifies the host that a process is on, for passing file descriptors, and where it listens.
//
// Two processes are on one host if they have the same user, boot id, network namespace and user
// namespace. An explicit host id replaces the boot id and the user namespace. It joins two
// containers into one host, or splits one machine's namespaces into several.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Value. `socket_name` names an abstract unix socket (local_socket.hpp), without the leading zero
/// byte.
struct LocalAddress {
  std::string boot_id;
  std::string host_id;  ///< explicit, or empty
  std::uint64_t network_namespace = 0;
  std::uint64_t user_namespace = 0;
  std::uint32_t uid = 0;
  std::string socket_name;
  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

/// The address of this process, with a fresh socket name. kUnavailable without /proc.
Result<LocalAddress> own_local_address(const std::string& host_id);

Blob encode(const LocalAddress& address);
/// Validates lengths, and that Tutti made the socket's name. Other fields are only ever compared.
Result<LocalAddress> decode_local_address(std::span<const std::byte> blob);

/// Whether the two processes can pass each other descriptors, and so share memory.
bool on_one_host(const LocalAddress& a, const LocalAddress& b);

}  // namespace tutti
