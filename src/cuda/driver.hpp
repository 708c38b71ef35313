// The seam to the CUDA driver: everything that Tutti asks of it, as methods that return Result. The
// driver is opened at run time, so one binary also runs where there is none. In tests a fake driver
// in memory (fake/) takes its place.
//
// Errors name the operation, its object (address, bytes, device), and CUDA's error name and text.
// Codes: kDevice for a failed call, kUnavailable for a lack of memory, kUnsupported if the device
// or driver cannot do it. Any later call may report the error of an earlier asynchronous operation.
// Once a context is broken (CUDA_ERROR_ILLEGAL_ADDRESS and such), every call fails until the
// process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/cuda/driver_abi.hpp"
#include "src/cuda/driver_resources.hpp"
#include "src/cuda/driver_values.hpp"
#include "tutti/error.hpp"

namespace tutti::cuda {

inline constexpr const char* kDriverLibrary = "libcuda.so.1";

/// Resource, shared. Thread-safe.
///
/// Operations on a stream need the context of the stream's device current on the calling thread
/// (make_current). A stream is a raw handle, because the calling program owns it. It may be null or
/// 1 (the legacy default stream), or 2 (the thread's default stream).
class Driver {
 public:
  /// kUnsupported if `library` cannot be opened or lacks an entry point. kUnavailable if the driver
  /// does not start (no device, too old for the kernel module), with its text and the remedy. The
  /// library stays loaded for good.
  static Result<SharedDriver> open(const char* library = kDriverLibrary);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// The newest CUDA version that the driver can run: 12040 means 12.4.
  [[nodiscard]] int version() const { return version_; }

  // Devices and contexts.
  [[nodiscard]] int device_count() const { return static_cast<int>(contexts_.size()); }
  Result<DeviceFacts> device(int ordinal) const;
  /// Whether `device` can load and store memory of another device, `peer`.
  Result<bool> can_access_peer(int device, int peer) const;
  /// Lets kernels and copies on `device` access cuMemAlloc memory of `peer`. Succeeds if they
  /// already can.
  Status enable_peer_access(int device, int peer) const;
  /// The device whose context is current on this thread. If there is none, makes device 0 current
  /// as CUDA's runtime does: retains its primary context and makes it current for good.
  Result<int> current_device() const;
  /// Makes the primary context of `device` current on this thread. This Driver must outlive the
  /// scope.
  Result<ContextScope> make_current(int device) const;

  // Memory. Host and devices share one address space (unified addressing).
  /// Needs a current context if it is memory of a device.
  Result<PointerFacts> pointer(const void* address) const;
  Result<MemoryInfo> memory_info(int device) const;
  /// For IpcMemory::open in another process. Only for memory with PointerFacts::legacy_ipc.
  Result<abi::IpcHandle> ipc_handle(const void* address) const;

  /// For VmmAllocation::import. Exports the memory by handle that is mapped at `address`, also if
  /// the calling program mapped it. Fails if that program did not make it exportable.
  Result<Fd> export_mapping(const void* address) const;
  /// A descriptor of the kernel's DMA-BUF, by which drivers of other devices reach device memory.
  /// Whole pages of the host, within one allocation. It keeps the memory.
  Result<Fd> dma_buf(std::span<const std::byte> memory) const;

  // Operations on streams. Each is queued and runs after earlier operations of its stream.
  /// Between any two places. With pageable memory it may wait for the stream.
  Status copy_async(void* to, const void* from, std::size_t bytes, abi::Stream stream) const;
  /// Between two ranges of device memory.
  Status copy_on_device_async(void* to, const void* from, std::size_t bytes,
                              abi::Stream stream) const;
  Status fill_async(void* to, std::byte value, std::size_t bytes, abi::Stream stream) const;
  /// Holds `stream` until the word at `address` (device or pinned memory) reaches `value` in
  /// serial-number order (RFC 1982): until int32(word - value) >= 0. On hardware it may also hold
  /// streams that share a channel with it. So whatever stores the word must not be queued behind a
  /// wait.
  Status wait_value(abi::Stream stream, const void* address, std::uint32_t value) const;
  /// Writes the word after everything earlier in `stream` has become visible.
  Status write_value(abi::Stream stream, const void* address, std::uint32_t value) const;
  /// Several wait_value and write_value operations in one call, in order; at most 255.
  Status batch(abi::Stream stream, std::span<const abi::BatchOperation> operations) const;
  static abi::BatchOperation wait_operation(const void* address, std::uint32_t value);
  static abi::BatchOperation write_operation(const void* address, std::uint32_t value);
  /// Calls `function(user)` on a thread of the driver. It must not call CUDA, nor wait for anything
  /// that needs another host function. Not called if the context is broken.
  Status host_function(abi::Stream stream, abi::HostFunction function, void* user) const;
  /// Sleeps until all queued work is done, and returns its first error.
  Status synchronize(abi::Stream stream) const;
  /// Whether all queued work is done.
  Result<bool> idle(abi::Stream stream) const;
  /// The device of `stream`; for the default streams, the device of the current context.
  Result<int> device_of(abi::Stream stream) const;

  // Capture into graphs.
  /// Fails for the legacy default stream while another stream is under capture.
  Result<CaptureState> capture_status(abi::Stream stream) const;
  /// Calls `destroy(user)` on a thread of the driver once the graph and everything made from it are
  /// gone; it must not call CUDA. If this function fails, `destroy` has been called already or will
  /// be soon.
  Status give_to_graph(abi::Graph graph, abi::HostFunction destroy, void* user) const;

  // Kernels.
  /// Permits `function` this much dynamic shared memory per block.
  Status allow_shared_bytes(abi::Function function, std::size_t bytes) const;
  /// How many blocks of this shape one multiprocessor can run at once.
  Result<int> blocks_per_multiprocessor(abi::Function function, const LaunchShape& shape) const;
  /// `arguments` point to the kernel's arguments, which are copied before this returns.
  Status launch(abi::Function function, const LaunchShape& shape, abi::Stream stream,
                std::span<void*> arguments) const;

  /// For the resources (driver_resources.hpp), which are implemented in other files.
  [[nodiscard]] const abi::Functions& functions() const { return functions_; }
  /// Ok, or the error for `returned`. The other arguments describe the operation, for {fmt}.
  template <class... Args>
  Status check(abi::Return returned, fmt::format_string<Args...> format, Args&&... args) const {
    if (returned == abi::Return::kSuccess) [[likely]]
      return ok_status();
    return failure(returned, fmt::format(format, std::forward<Args>(args)...));
  }
  /// "`doing` failed: CUDA_ERROR_X (n), its text".
  [[nodiscard]] Error failure(abi::Return returned, std::string_view doing) const;
  /// The error of a method whose entry point is missing from this driver.
  [[nodiscard]] Error lacks(std::string_view entry_point, std::string_view release) const;

 private:
  Driver(const abi::Functions& functions, int version, int devices);
  Result<abi::Context> primary_context(int device) const;
  Status check_ordinal(int device) const;

  const abi::Functions functions_;
  const int version_;
  mutable std::mutex mutex_;
  mutable std::vector<abi::Context> contexts_;  // one per device; null until retained
};

}  // namespace tutti::cuda
