// Where a process is, as far as sharing memory goes, and where it listens.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Value. `socket_name` is the abstract name without its leading zero byte.
struct ShmAddress {
  std::string boot_id;
  std::string host_id;  ///< explicit, or empty
  std::uint64_t network_namespace = 0;
  std::uint64_t user_namespace = 0;
  std::uint32_t uid = 0;
  std::string socket_name;
  friend bool operator==(const ShmAddress&, const ShmAddress&) = default;
};

/// This process's, with a fresh socket name. kUnavailable without /proc.
Result<ShmAddress> own_shm_address(const std::string& host_id);

Blob encode(const ShmAddress& address);
/// Validates lengths and that the socket's name is one of ours. The rest is only compared.
Result<ShmAddress> decode_shm_address(std::span<const std::byte> blob);

/// Whether memory can be shared between the two.
bool on_one_host(const ShmAddress& a, const ShmAddress& b);

}  // namespace tutti
