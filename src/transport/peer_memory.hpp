// Memory of GPUs that the GPUs of other ranks load from and store to. Interfaces only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// The areas of all ranks of a communicator, as one rank's GPU reaches them. Resource; ends when no
/// kernel of this rank uses them any more. Kernels of peers may still use this rank's area then:
/// it lives as long as any of them.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Device addresses by rank, this one's too. They were cleared before any rank got them.
  [[nodiscard]] virtual std::span<std::byte* const> areas() const = 0;
  /// How peers are reached, for logs: "3 peers by file descriptors".
  [[nodiscard]] virtual std::string describe() const = 0;
};

struct PeerMemoryRequest {
  Rank rank = 0;
  std::int32_t ranks = 1;
  int device = 0;         ///< of this rank, as CUDA numbers it in this process
  std::size_t bytes = 0;  ///< of an area; the same on all ranks
  std::uint64_t process_token = 0;
  std::uint64_t communicator = 0;  ///< the same on all ranks, and of no other communicator
  std::span<const std::byte> key;  ///< 32 bytes that all ranks share
  /// Of the control plane: every rank's bytes, on every rank.
  std::function<Result<std::vector<Blob>>(std::span<const std::byte>)> all_gather;
  Deadline deadline;
};

/// One per process. Thread-safe: ranks that are threads call it at once.
class PeerMemoryTransport {
 public:
  virtual ~PeerMemoryTransport() = default;
  /// Collective over the ranks. Null, on all of them alike, where some rank's GPU does not reach
  /// those of all others, or shares one with another rank: the log says why. An error where the
  /// control plane fails.
  virtual Result<std::unique_ptr<PeerMemory>> share(const PeerMemoryRequest& request) = 0;
};

}  // namespace tutti
