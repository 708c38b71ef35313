// What the CUDA driver reports about devices, memory and streams, and launch parameters: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/cuda/driver_abi.hpp"

namespace tutti::cuda {

/// A device of this process, by its ordinal, which depends on CUDA_VISIBLE_DEVICES.
struct DeviceFacts {
  int ordinal = 0;
  std::string name;
  std::string uuid;    ///< 32 hexadecimal digits; of the instance if a GPU is partitioned (MIG)
  std::string bus_id;  ///< as Linux writes it: "0000:07:00.0", in lower case
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int async_engines = 0;                    ///< copies that can run at the same time as kernels
  int max_shared_bytes_per_block = 0;       ///< with the opt-in (Driver::allow_shared_bytes)
  bool host_register = false;               ///< memory of the process can be pinned
  bool registered_at_host_address = false;  ///< devices see pinned memory at the host's address
  bool pageable_access = false;             ///< kernels may load and store pageable memory
  bool cooperative_launch = false;
  bool stream_values = false;     ///< streams can wait for and write words of memory
  bool memory_handles = false;    ///< VmmAllocation works
  bool posix_fd_handles = false;  ///< allocations can be exported as a file descriptor
  bool fabric_handles =
      false;             ///< allocations can be exported to other hosts; making one may still fail
  bool dma_buf = false;  ///< Driver::dma_buf works
  bool rdma_of_handles = false;  ///< devices of others may reach memory by handles
  /// Kernels see what a NIC has written to this device's memory by the time the host knows of it.
  bool orders_rdma_writes = false;
  friend bool operator==(const DeviceFacts&, const DeviceFacts&) = default;
};

enum class MemoryKind : std::uint8_t {
  kPageable,    ///< unknown to the driver: the process's own pages, or no memory at all
  kPinnedHost,  ///< host memory, registered or allocated with CUDA
  kDevice,
  kManaged,  ///< moves between host and device
};

struct PointerFacts {
  MemoryKind kind = MemoryKind::kPageable;
  int device = -1;                  ///< -1 for pageable memory
  abi::Context context = nullptr;   ///< null for memory by handles (VMM) and for pageable memory
  abi::Address device_address = 0;  ///< of the queried byte; 0: devices do not see it
  abi::Address base = 0;    ///< start of the allocation, registration or mapping; 0 if unknown
  std::size_t bytes = 0;    ///< size of the same
  bool mapped = false;      ///< for reserved addresses: whether memory is mapped there
  bool legacy_ipc = false;  ///< Driver::ipc_handle works; otherwise export_mapping may
  friend bool operator==(const PointerFacts&, const PointerFacts&) = default;
};

struct MemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

enum class CaptureKind : std::uint8_t { kNone, kActive, kInvalidated };

/// Whether work submitted to a stream goes into a graph instead of running.
struct CaptureState {
  CaptureKind kind = CaptureKind::kNone;
  std::uint64_t id = 0;        ///< of this capture, unique in the process; 0 unless active
  abi::Graph graph = nullptr;  ///< the graph being built; null unless active
};

/// A one-dimensional kernel launch.
struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;       ///< per block
  unsigned shared_bytes = 0;  ///< dynamic shared memory per block
  bool cooperative = false;   ///< all blocks run at once, or the launch fails
};

}  // namespace tutti::cuda
