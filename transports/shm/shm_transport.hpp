// Shared memory: processes of one host map each other's heap.
//
// src/wire/local_address.hpp defines "one host". Processes meet over an abstract unix socket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/shared_heap.hpp"
#include "src/transport/transport.hpp"

namespace tutti {

struct ShmOptions {
  std::uint64_t token = 0;             ///< of this process
  std::string host_id{};               ///< the user's setting; "": what the kernel says
  std::size_t ring_bytes = 256 << 10;  ///< in each direction, per peer; a power of two
};

/// Peers can read and write all of `heap`.
Result<std::shared_ptr<Transport>> make_shm_transport(std::shared_ptr<SharedHeap> heap,
                                                      const ShmOptions& options);

}  // namespace tutti
