// GPU memory that the GPUs of other ranks load from and store to. Interfaces only.
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

/// The areas of all ranks of a communicator, as one rank's GPU reaches them. Resource. Destroy it
/// when no kernel of this rank uses the areas any more. Kernels of peers may still use this rank's
/// area, which lives until the last of them ends.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Device addresses of the areas by rank, this rank's included. Each area was zeroed before any
  /// rank received its address.
  [[nodiscard]] virtual std::span<std::byte* const> areas() const = 0;
  /// How peers are reached, for logs: "3 peers by file descriptors".
  [[nodiscard]] virtual std::string describe() const = 0;
};

struct PeerMemoryRequest {
  Rank rank = 0;
  std::int32_t ranks = 1;
  int device = 0;         ///< this rank's GPU, as CUDA numbers it in this process
  std::size_t bytes = 0;  ///< size of each area; equal on all ranks
  std::uint64_t process_token = 0;
  std::uint64_t communicator = 0;  ///< equal on all ranks, different for every other communicator
  std::span<const std::byte> key;  ///< 32 secret bytes that all ranks share
  /// The control plane's all-gather: every rank gets the bytes of every rank.
  std::function<Result<std::vector<Blob>>(std::span<const std::byte>)> all_gather;
  Deadline deadline;
};

/// One per process. Thread-safe: ranks that are threads call it concurrently.
class PeerMemoryTransport {
 public:
  virtual ~PeerMemoryTransport() = default;
  /// Collective over the ranks. Returns null on all ranks if some rank's GPU does not reach those
  /// of all others, or if two ranks share a GPU; the log says why. An error if the control plane
  /// fails.
  virtual Result<std::unique_ptr<PeerMemory>> share(const PeerMemoryRequest& request) = 0;
};

}  // namespace tutti
