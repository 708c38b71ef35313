// RAII for handles that the CUDA driver creates and must get back.
//
// Each type moves and does not copy, keeps its Driver alive, and frees its handle in the
// destructor. A failure there is logged, because the caller could not handle it. No work that uses
// the handle may be pending then. Only freeing DeviceMemory waits for the device's work, as the
// driver does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "src/base/fd.hpp"
#include "src/cuda/driver_abi.hpp"
#include "tutti/error.hpp"

namespace tutti::cuda {

class Driver;
using SharedDriver = std::shared_ptr<const Driver>;

/// Holds one Handle. Needs `void give_back(const Driver&, const Handle&)`.
template <class Handle>
class Owned {
 public:
  Owned(SharedDriver driver, Handle handle) : driver_(std::move(driver)), handle_(handle) {}
  Owned(Owned&&) noexcept = default;  // a moved shared pointer is null
  Owned& operator=(Owned&& other) noexcept {
    Owned taken(std::move(other));
    std::swap(driver_, taken.driver_);
    std::swap(handle_, taken.handle_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (driver_) give_back(*driver_, handle_);
  }

  [[nodiscard]] const Driver& driver() const { return *driver_; }
  [[nodiscard]] const SharedDriver& shared_driver() const { return driver_; }
  [[nodiscard]] const Handle& handle() const { return handle_; }

 private:
  SharedDriver driver_;
  Handle handle_;
};

struct EventHandle {
  int device;
  abi::Event event;
};
struct StreamHandle {
  int device;
  abi::Stream stream;
};
struct ModuleHandle {
  int device;
  abi::Module module;
};
struct HostRange {
  int device;
  std::byte* data;
  std::size_t bytes;
};
struct DeviceRange {
  int device;
  abi::Address address;
  std::size_t bytes;
};
struct IpcRange {
  int device;
  abi::Address address;
};
struct VmmRange {
  int device;
  abi::AllocationHandle handle;
  abi::HandleType handle_type;
  abi::Address address;
  std::size_t bytes;
};
void give_back(const Driver& driver, const EventHandle& handle);
void give_back(const Driver& driver, const StreamHandle& handle);
void give_back(const Driver& driver, const ModuleHandle& handle);
void give_back(const Driver& driver, const HostRange& handle);
void give_back(const Driver& driver, const DeviceRange& handle);
void give_back(const Driver& driver, const IpcRange& handle);
void give_back(const Driver& driver, const VmmRange& handle);

/// A point in a stream, without a time stamp.
class Event {
 public:
  static Result<Event> create(SharedDriver driver, int device);
  [[nodiscard]] abi::Event get() const { return owned_.handle().event; }
  [[nodiscard]] int device() const { return owned_.handle().device; }

  /// Marks everything queued on `stream` so far. Its device's context must be current.
  Status record(abi::Stream stream) const;
  /// Makes later work on `stream` wait for the last record (for nothing if there is none). In a
  /// stream under capture this becomes a dependency.
  Status hold(abi::Stream stream) const;
  /// Whether the last record has been reached; true if there is none.
  Result<bool> done() const;
  /// Sleeps until done().
  Status synchronize() const;

 private:
  explicit Event(Owned<EventHandle> owned) : owned_(std::move(owned)) {}
  Owned<EventHandle> owned_;
};

/// A stream that does not synchronise with the legacy default stream. Destroying it does not wait
/// for its work.
class OwnedStream {
 public:
  /// `priority`: lower numbers are more urgent, 0 is normal. The driver limits it to its range.
  static Result<OwnedStream> create(SharedDriver driver, int device, int priority = 0);
  [[nodiscard]] abi::Stream get() const { return owned_.handle().stream; }
  [[nodiscard]] int device() const { return owned_.handle().device; }

 private:
  explicit OwnedStream(Owned<StreamHandle> owned) : owned_(std::move(owned)) {}
  Owned<StreamHandle> owned_;
};

/// Pins existing host memory and makes it visible to all devices. Must end before the memory does.
class HostRegistration {
 public:
  /// Fails if part of `memory` is registered already.
  static Result<HostRegistration> create(SharedDriver driver, int device,
                                         std::span<std::byte> memory);
  [[nodiscard]] std::span<std::byte> memory() const {
    return {owned_.handle().data, owned_.handle().bytes};
  }
  /// The address of memory() as the device sees it.
  [[nodiscard]] abi::Address device_address() const { return device_address_; }

 private:
  HostRegistration(Owned<HostRange> owned, abi::Address device_address)
      : owned_(std::move(owned)), device_address_(device_address) {}
  Owned<HostRange> owned_;
  abi::Address device_address_;
};

/// Device memory, uninitialised, aligned to at least 256 bytes.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(SharedDriver driver, int device, std::size_t bytes);
  [[nodiscard]] int device() const { return owned_.handle().device; }
  [[nodiscard]] abi::Address address() const { return owned_.handle().address; }
  [[nodiscard]] void* data() const { return abi::pointer_to(address()); }
  [[nodiscard]] std::size_t bytes() const { return owned_.handle().bytes; }

 private:
  explicit DeviceMemory(Owned<DeviceRange> owned) : owned_(std::move(owned)) {}
  Owned<DeviceRange> owned_;
};

/// Memory of another process on this host, by its handle (Driver::ipc_handle).
class IpcMemory {
 public:
  /// Fails in the process that exported it; use the pointer itself there.
  static Result<IpcMemory> open(SharedDriver driver, int device, const abi::IpcHandle& handle);
  /// Start of the other process's whole allocation, even if the handle was made from an address
  /// inside it.
  [[nodiscard]] abi::Address address() const { return owned_.handle().address; }
  [[nodiscard]] void* data() const { return abi::pointer_to(address()); }

 private:
  explicit IpcMemory(Owned<IpcRange> owned) : owned_(std::move(owned)) {}
  Owned<IpcRange> owned_;
};

/// Memory by a handle that other processes can import, mapped for reading and writing.
class VmmAllocation {
 public:
  enum class Reach : std::uint8_t { kHost, kFabric };

  /// `bytes` is rounded up to the device's granularity (2 MiB on most). Reach::kFabric makes the
  /// memory exportable to other hosts, if the device offers that and the allocation succeeds.
  /// Otherwise it falls back to kHost: ask reach().
  static Result<VmmAllocation> create(SharedDriver driver, int device, std::size_t bytes,
                                      Reach reach = Reach::kHost);
  /// Imports memory of another process, or of this one again. `bytes` is the exporter's bytes().
  /// The caller keeps the descriptor.
  static Result<VmmAllocation> import(SharedDriver driver, int device, int fd, std::size_t bytes);
  static Result<VmmAllocation> import(SharedDriver driver, int device,
                                      const abi::FabricHandle& handle, std::size_t bytes);

  [[nodiscard]] int device() const { return owned_.handle().device; }
  [[nodiscard]] abi::Address address() const { return owned_.handle().address; }
  [[nodiscard]] void* data() const { return abi::pointer_to(address()); }
  [[nodiscard]] std::size_t bytes() const { return owned_.handle().bytes; }
  [[nodiscard]] Reach reach() const {
    return owned_.handle().handle_type == abi::HandleType::kFabric ? Reach::kFabric : Reach::kHost;
  }
  /// For a process on this host. kUnsupported if reach() is kFabric.
  Result<Fd> export_fd() const;
  /// kUnsupported if reach() is kHost.
  Result<abi::FabricHandle> export_fabric() const;
  /// Lets another device load and store the memory, too.
  Status grant(int device) const;

 private:
  explicit VmmAllocation(Owned<VmmRange> owned) : owned_(std::move(owned)) {}
  Owned<VmmRange> owned_;
};

/// Device code, loaded on one device.
class Module {
 public:
  /// `image`: a cubin, a fat binary, or PTX that ends with a 0 byte.
  static Result<Module> load(SharedDriver driver, int device, std::span<const std::byte> image);
  /// Valid as long as the module.
  Result<abi::Function> function(const std::string& name) const;

 private:
  explicit Module(Owned<ModuleHandle> owned) : owned_(std::move(owned)) {}
  Owned<ModuleHandle> owned_;
};

/// Makes a context current on this thread; its end restores the previous one.
class ContextScope {
 public:
  /// What Driver::make_current returns. `driver` null: nothing to restore.
  ContextScope(const Driver* driver, abi::Context before) : driver_(driver), before_(before) {}
  ContextScope(ContextScope&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), before_(other.before_) {}
  ContextScope& operator=(ContextScope&&) = delete;
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

 private:
  const Driver* driver_;
  abi::Context before_;
};

/// While it exists, this thread may make calls that CUDA otherwise forbids during a stream capture.
class RelaxedCapture {
 public:
  static Result<RelaxedCapture> begin(const Driver& driver);
  RelaxedCapture(RelaxedCapture&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), before_(other.before_) {}
  RelaxedCapture& operator=(RelaxedCapture&&) = delete;
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  RelaxedCapture(const Driver* driver, abi::CaptureMode before)
      : driver_(driver), before_(before) {}
  const Driver* driver_;
  abi::CaptureMode before_;
};

}  // namespace tutti::cuda
