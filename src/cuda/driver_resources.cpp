#include "src/cuda/driver_resources.hpp"

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/cuda/driver.hpp"

namespace tutti::cuda {
namespace {

/// Runs `giving` with the context of `device` current, and logs what fails.
template <class Giving>
void give_back_on(const Driver& driver, int device, Giving giving) {
  const auto all = [&]() -> Status {
    TUTTI_ASSIGN(const ContextScope scope, driver.make_current(device));
    return giving(driver.functions());
  };
  if (const Status given = all(); !given) log_warn("cuda", "{}", given.error().what);
}

}  // namespace

void give_back(const Driver& driver, const EventHandle& handle) {
  give_back_on(driver, handle.device, [&](const abi::Functions& cuda) {
    return driver.check(cuda.event_destroy(handle.event), "cuEventDestroy");
  });
}

void give_back(const Driver& driver, const StreamHandle& handle) {
  give_back_on(driver, handle.device, [&](const abi::Functions& cuda) {
    return driver.check(cuda.stream_destroy(handle.stream), "cuStreamDestroy");
  });
}

void give_back(const Driver& driver, const ModuleHandle& handle) {
  give_back_on(driver, handle.device, [&](const abi::Functions& cuda) {
    return driver.check(cuda.module_unload(handle.module), "cuModuleUnload");
  });
}

void give_back(const Driver& driver, const HostRange& handle) {
  give_back_on(driver, handle.device, [&](const abi::Functions& cuda) {
    return driver.check(cuda.host_unregister(handle.data), "cuMemHostUnregister of {}",
                        fmt::ptr(handle.data));
  });
}

void give_back(const Driver& driver, const DeviceRange& handle) {
  give_back_on(driver, handle.device, [&](const abi::Functions& cuda) {
    return driver.check(cuda.memory_free(handle.address), "cuMemFree of {:#x}", handle.address);
  });
}

void give_back(const Driver& driver, const IpcRange& handle) {
  give_back_on(driver, handle.device, [&](const abi::Functions& cuda) {
    return driver.check(cuda.ipc_close(handle.address), "cuIpcCloseMemHandle of {:#x}",
                        handle.address);
  });
}

Result<Event> Event::create(SharedDriver driver, int device) {
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(device));
  abi::Event event = nullptr;
  TUTTI_TRY(driver->check(driver->functions().event_create(&event, abi::kEventDisableTiming),
                          "cuEventCreate on device {}", device));
  return Event(Owned<EventHandle>(std::move(driver), {.device = device, .event = event}));
}

Status Event::record(abi::Stream stream) const {
  const Driver& driver = owned_.driver();
  return driver.check(driver.functions().event_record(get(), stream), "cuEventRecord");
}

Status Event::hold(abi::Stream stream) const {
  const Driver& driver = owned_.driver();
  return driver.check(driver.functions().stream_wait_event(stream, get(), 0), "cuStreamWaitEvent");
}

Result<bool> Event::done() const {
  const Driver& driver = owned_.driver();
  const abi::Return returned = driver.functions().event_query(get());
  if (returned == abi::Return::kNotReady) return false;
  TUTTI_TRY(driver.check(returned, "cuEventQuery"));
  return true;
}

Status Event::synchronize() const {
  const Driver& driver = owned_.driver();
  return driver.check(driver.functions().event_synchronize(get()), "cuEventSynchronize");
}

Result<OwnedStream> OwnedStream::create(SharedDriver driver, int device, int priority) {
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(device));
  abi::Stream stream = nullptr;
  TUTTI_TRY(
      driver->check(driver->functions().stream_create(&stream, abi::kStreamNonBlocking, priority),
                    "cuStreamCreateWithPriority on device {}", device));
  return OwnedStream(Owned<StreamHandle>(std::move(driver), {.device = device, .stream = stream}));
}

Result<HostRegistration> HostRegistration::create(SharedDriver driver, int device,
                                                  std::span<std::byte> memory) {
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(device));
  const Driver& cuda = *driver;
  TUTTI_TRY(cuda.check(
      cuda.functions().host_register(memory.data(), memory.size(),
                                     abi::kHostRegisterPortable | abi::kHostRegisterDeviceMap),
      "cuMemHostRegister of {} bytes at {}", memory.size(), fmt::ptr(memory.data())));
  Owned<HostRange> owned(std::move(driver),
                         {.device = device, .data = memory.data(), .bytes = memory.size()});
  abi::Address address = 0;
  TUTTI_TRY(cuda.check(cuda.functions().host_device_address(&address, memory.data(), 0),
                       "cuMemHostGetDevicePointer of {}", fmt::ptr(memory.data())));
  return HostRegistration(std::move(owned), address);
}

Result<DeviceMemory> DeviceMemory::allocate(SharedDriver driver, int device, std::size_t bytes) {
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(device));
  abi::Address address = 0;
  TUTTI_TRY(driver->check(driver->functions().memory_allocate(&address, bytes),
                          "cuMemAlloc of {} bytes on device {}", bytes, device));
  return DeviceMemory(Owned<DeviceRange>(std::move(driver),
                                         {.device = device, .address = address, .bytes = bytes}));
}

Result<IpcMemory> IpcMemory::open(SharedDriver driver, int device, const abi::IpcHandle& handle) {
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(device));
  abi::Address address = 0;
  TUTTI_TRY(
      driver->check(driver->functions().ipc_open(&address, handle, abi::kIpcLazyEnablePeerAccess),
                    "cuIpcOpenMemHandle on device {}", device));
  return IpcMemory(Owned<IpcRange>(std::move(driver), {.device = device, .address = address}));
}

Result<Module> Module::load(SharedDriver driver, int device, std::span<const std::byte> image) {
  TUTTI_ASSIGN(const ContextScope scope, driver->make_current(device));
  abi::Module module = nullptr;
  TUTTI_TRY(driver->check(driver->functions().module_load(&module, image.data()),
                          "cuModuleLoadData of {} bytes on device {}", image.size(), device));
  return Module(Owned<ModuleHandle>(std::move(driver), {.device = device, .module = module}));
}

Result<abi::Function> Module::function(const std::string& name) const {
  const Driver& driver = owned_.driver();
  abi::Function function = nullptr;
  TUTTI_TRY(driver.check(
      driver.functions().module_function(&function, owned_.handle().module, name.c_str()),
      "cuModuleGetFunction of '{}'", name));
  return function;
}

ContextScope::~ContextScope() {
  if (driver_ != nullptr) driver_->functions().context_set_current(before_);
}

Result<RelaxedCapture> RelaxedCapture::begin(const Driver& driver) {
  auto mode = abi::CaptureMode::kRelaxed;
  TUTTI_TRY(driver.check(driver.functions().exchange_capture_mode(&mode),
                         "cuThreadExchangeStreamCaptureMode"));
  return RelaxedCapture(&driver, mode);
}

RelaxedCapture::~RelaxedCapture() {
  if (driver_ != nullptr) driver_->functions().exchange_capture_mode(&before_);
}

}  // namespace tutti::cuda
