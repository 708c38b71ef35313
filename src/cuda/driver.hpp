// The seam to the CUDA driver: everything this library asks of it, as methods that return Result.
// The driver is opened at run time, so that one binary runs where there is none, and a driver in
// memory (fake/) takes its place in tests.
//
// Errors name the operation, what it was about (address, bytes, device) and CUDA's name and words.
// Their codes: kDevice for a call that failed, kUnavailable where memory is short, kUnsupported
// where the device or the driver cannot do it. An error of an earlier asynchronous operation may
// show in any later call; once a context is broken (CUDA_ERROR_ILLEGAL_ADDRESS and such) every call
// fails until the process ends.
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
/// Operations on a stream want a context current on the calling thread (make_current), that of the
/// stream's device. A stream is a raw handle, because streams come from the program that calls; it
/// may be null (the legacy default stream), 1 (the same) or 2 (the thread's default stream).
class Driver {
 public:
  /// kUnsupported where `library` cannot be opened or lacks an entry point; kUnavailable where the
  /// driver does not start (no device, too old for the kernel module), with its words and the
  /// remedy. The library stays in the process for good.
  static Result<SharedDriver> open(const char* library = kDriverLibrary);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// The newest CUDA that the driver can run: 12040 is 12.4.
  [[nodiscard]] int version() const { return version_; }

  // Devices and contexts.
  [[nodiscard]] int device_count() const { return static_cast<int>(contexts_.size()); }
  Result<DeviceFacts> device(int ordinal) const;
  /// Whether `device` can load and store memory of `peer`, another device.
  Result<bool> can_access_peer(int device, int peer) const;
  /// Lets kernels and copies on `device` reach what cuMemAlloc gave on `peer`. Fine if they may.
  Status enable_peer_access(int device, int peer) const;
  /// The device whose context is current on this thread. Where none is, device 0 becomes it, as in
  /// CUDA's runtime: its primary context is retained and made current for good.
  Result<int> current_device() const;
  /// Makes the primary context of `device` current on this thread. This Driver must outlive it.
  Result<ContextScope> make_current(int device) const;

  // Memory. Addresses are those of the host's one address space (unified addressing).
  /// Wants a context current where it is memory of a device.
  Result<PointerFacts> pointer(const void* address) const;
  Result<MemoryInfo> memory_info(int device) const;
  /// For IpcMemory::open in another process. Only of memory that has PointerFacts::legacy_ipc.
  Result<abi::IpcHandle> ipc_handle(const void* address) const;

  /// For VmmAllocation::import: of the memory by handle that is mapped at `address`, also where the
  /// program that calls mapped it. Fails where that did not make it exportable.
  Result<Fd> export_mapping(const void* address) const;

  // Operations on streams: each is submitted and runs after what was submitted before.
  /// From anywhere to anywhere. From or to pageable memory it may wait for the stream.
  Status copy_async(void* to, const void* from, std::size_t bytes, abi::Stream stream) const;
  /// Between two ranges of device memory.
  Status copy_on_device_async(void* to, const void* from, std::size_t bytes,
                              abi::Stream stream) const;
  Status fill_async(void* to, std::byte value, std::size_t bytes, abi::Stream stream) const;
  /// Holds `stream` until the word at `address` (device or pinned memory) is at least `value`, as
  /// serial numbers compare (RFC 1982): until int32(word - value) >= 0. On hardware it may hold
  /// streams that share a channel with it, so what satisfies it must not stand behind a wait.
  Status wait_value(abi::Stream stream, const void* address, std::uint32_t value) const;
  /// Writes the word after all that came before in `stream` is visible.
  Status write_value(abi::Stream stream, const void* address, std::uint32_t value) const;
  /// The operations of wait_value and write_value in one call, in order; at most 255.
  Status batch(abi::Stream stream, std::span<const abi::BatchOperation> operations) const;
  static abi::BatchOperation wait_operation(const void* address, std::uint32_t value);
  static abi::BatchOperation write_operation(const void* address, std::uint32_t value);
  /// Calls `function(user)` on a thread of the driver. It must not call CUDA, nor wait for anything
  /// that needs another host function. It is not called where the context is broken.
  Status host_function(abi::Stream stream, abi::HostFunction function, void* user) const;
  /// Sleeps until all that was submitted is done, and returns its first error.
  Status synchronize(abi::Stream stream) const;
  /// Whether all that was submitted is done.
  Result<bool> idle(abi::Stream stream) const;
  /// The device that `stream` belongs to; for the default streams that of the current context.
  Result<int> device_of(abi::Stream stream) const;

  // Capture into graphs.
  /// For the legacy default stream it fails while another stream is under capture.
  Result<CaptureState> capture_status(abi::Stream stream) const;
  /// `destroy(user)` is called on a thread of the driver once the graph and all that was made of it
  /// are gone; must not call CUDA. Where this fails it has been called before the return, or will
  /// be soon.
  Status give_to_graph(abi::Graph graph, abi::HostFunction destroy, void* user) const;

  // Kernels.
  /// Permits `function` that much dynamic shared memory a block.
  Status allow_shared_bytes(abi::Function function, std::size_t bytes) const;
  /// How many blocks of this shape one multiprocessor runs at once.
  Result<int> blocks_per_multiprocessor(abi::Function function, const LaunchShape& shape) const;
  /// `arguments` point to the kernel's arguments, which are copied before the return.
  Status launch(abi::Function function, const LaunchShape& shape, abi::Stream stream,
                std::span<void*> arguments) const;

  /// For the resources (driver_resources.hpp), which are made in other files.
  [[nodiscard]] const abi::Functions& functions() const { return functions_; }
  /// ok, or the error that `returned` stands for; the arguments say what was done, for {fmt}.
  template <class... Args>
  Status check(abi::Return returned, fmt::format_string<Args...> format, Args&&... args) const {
    if (returned == abi::Return::kSuccess) [[likely]]
      return ok_status();
    return failure(returned, fmt::format(format, std::forward<Args>(args)...));
  }
  /// "`doing` failed: CUDA_ERROR_X (n), its words".
  [[nodiscard]] Error failure(abi::Return returned, std::string_view doing) const;
  /// The error of a method whose entry point this driver lacks.
  [[nodiscard]] Error lacks(std::string_view entry_point, std::string_view release) const;

 private:
  Driver(const abi::Functions& functions, int version, int devices);
  Result<abi::Context> primary_context(int device) const;
  Status check_ordinal(int device) const;

  const abi::Functions functions_;
  const int version_;
  mutable std::mutex mutex_;
  mutable std::vector<abi::Context> contexts_;  // one a device; null until it is retained
};

}  // namespace tutti::cuda
