// What the CUDA driver says of devices, memory and streams, and what launches are made of: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/cuda/driver_abi.hpp"

namespace tutti::cuda {

/// A device of this process, by its ordinal, which CUDA_VISIBLE_DEVICES changes.
struct DeviceFacts {
  int ordinal = 0;
  std::string name;
  std::string uuid;    ///< 32 hexadecimal digits; of the instance where a GPU is partitioned (MIG)
  std::string bus_id;  ///< as Linux writes it: "0000:07:00.0", in small letters
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int async_engines = 0;                    ///< copies that may run beside kernels
  int max_shared_bytes_per_block = 0;       ///< with the opt-in (Driver::allow_shared_bytes)
  bool host_register = false;               ///< pages of the process can be pinned
  bool registered_at_host_address = false;  ///< and the device sees them at the host's address
  bool pageable_access = false;             ///< kernels may load and store pageable memory
  bool cooperative_launch = false;
  bool stream_values = false;     ///< streams can wait for and write words of memory
  bool memory_handles = false;    ///< VmmAllocation works
  bool posix_fd_handles = false;  ///< and can be exported as a file descriptor
  bool fabric_handles = false;    ///< and for other hosts; making one may fail all the same
  friend bool operator==(const DeviceFacts&, const DeviceFacts&) = default;
};

enum class MemoryKind : std::uint8_t {
  kPageable,    ///< the driver does not know it: the process's own pages, or no memory at all
  kPinnedHost,  ///< of the host, registered or allocated with CUDA
  kDevice,
  kManaged,  ///< moves between host and device
};

struct PointerFacts {
  MemoryKind kind = MemoryKind::kPageable;
  int device = -1;                  ///< -1 for pageable memory
  abi::Context context = nullptr;   ///< null for memory by handles (VMM) and for pageable memory
  abi::Address device_address = 0;  ///< of the byte that was asked about; 0: devices do not see it
  abi::Address base = 0;    ///< of the allocation, registration or mapping; 0 where it is not told
  std::size_t bytes = 0;    ///< of it
  bool mapped = false;      ///< for addresses that are reserved, whether there is memory behind
  bool legacy_ipc = false;  ///< Driver::ipc_handle will do; otherwise export_mapping may
  friend bool operator==(const PointerFacts&, const PointerFacts&) = default;
};

struct MemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

enum class CaptureKind : std::uint8_t { kNone, kActive, kInvalidated };

/// Whether what is submitted to a stream goes into a graph instead of running.
struct CaptureState {
  CaptureKind kind = CaptureKind::kNone;
  std::uint64_t id = 0;        ///< of this capture, unique in the process; 0 unless active
  abi::Graph graph = nullptr;  ///< that is being built; null unless active
};

/// A kernel launch in one dimension.
struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;       ///< of a block
  unsigned shared_bytes = 0;  ///< dynamic shared memory of a block
  bool cooperative = false;   ///< all blocks run at once, or the launch fails
};

}  // namespace tutti::cuda
