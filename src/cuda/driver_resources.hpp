// What is made by the CUDA driver and has to be given back to it: RAII over its handles.
//
// Each moves and does not copy, keeps its Driver alive, and gives back in its destructor. What
// fails there is logged: nobody can mend it. No work that uses it may be pending then; giving back
// DeviceMemory alone waits for the work of the device, as the driver does.
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

/// Holds one Handle, for which there is `void give_back(const Driver&, const Handle&)`.
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

/// A point in a stream, without a time.
class Event {
 public:
  static Result<Event> create(SharedDriver driver, int device);
  [[nodiscard]] abi::Event get() const { return owned_.handle().event; }
  [[nodiscard]] int device() const { return owned_.handle().device; }

  /// Stands for all that was submitted to `stream` before. Its device's context must be current.
  Status record(abi::Stream stream) const;
  /// What is submitted to `stream` from now on runs after the last record (at once if there is
  /// none). In a stream under capture it makes a dependency.
  Status hold(abi::Stream stream) const;
  /// Whether the last record was reached; true if there is none.
  Result<bool> done() const;
  /// Sleeps until done().
  Status synchronize() const;

 private:
  explicit Event(Owned<EventHandle> owned) : owned_(std::move(owned)) {}
  Owned<EventHandle> owned_;
};

/// A stream that does not wait for the legacy default stream. Its end does not wait for its work.
class OwnedStream {
 public:
  /// `priority`: lower numbers are more urgent, 0 is ordinary; the driver limits it to its range.
  static Result<OwnedStream> create(SharedDriver driver, int device, int priority = 0);
  [[nodiscard]] abi::Stream get() const { return owned_.handle().stream; }
  [[nodiscard]] int device() const { return owned_.handle().device; }

 private:
  explicit OwnedStream(Owned<StreamHandle> owned) : owned_(std::move(owned)) {}
  Owned<StreamHandle> owned_;
};

/// Existing memory of the host, pinned and visible to all devices. Ends before the memory does.
class HostRegistration {
 public:
  /// Fails where part of `memory` is registered already.
  static Result<HostRegistration> create(SharedDriver driver, int device,
                                         std::span<std::byte> memory);
  [[nodiscard]] std::span<std::byte> memory() const {
    return {owned_.handle().data, owned_.handle().bytes};
  }
  /// Where the device sees memory().
  [[nodiscard]] abi::Address device_address() const { return device_address_; }

 private:
  HostRegistration(Owned<HostRange> owned, abi::Address device_address)
      : owned_(std::move(owned)), device_address_(device_address) {}
  Owned<HostRange> owned_;
  abi::Address device_address_;
};

/// Memory of a device, uninitialised, aligned to 256 bytes at least.
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
  /// Fails in the process that exported it: there the pointer itself is good.
  static Result<IpcMemory> open(SharedDriver driver, int device, const abi::IpcHandle& handle);
  /// Of the other process's whole allocation, also where the handle was asked inside of it.
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

  /// `bytes` is rounded up to the device's granularity (2 MiB on most). Reach::kFabric makes it
  /// exportable to other hosts where the device offers that and making it works, and otherwise
  /// falls back to kHost: ask reach().
  static Result<VmmAllocation> create(SharedDriver driver, int device, std::size_t bytes,
                                      Reach reach = Reach::kHost);
  /// Of another process, or of this one once more. `bytes` as the exporter's bytes(). The
  /// descriptor stays the caller's.
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
  /// For a process on this host. kUnsupported where reach() is kFabric.
  Result<Fd> export_fd() const;
  /// kUnsupported where reach() is kHost.
  Result<abi::FabricHandle> export_fabric() const;
  /// Lets `device` load and store it as well.
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

/// Makes a context current on this thread until it ends, then what was current before.
class ContextScope {
 public:
  /// What Driver::make_current returns. `driver` null: there is nothing to restore.
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

/// While it lasts, this thread may make calls that CUDA otherwise forbids beside a stream capture.
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
