#include "src/verbs/library.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <dlfcn.h>

#include "src/base/result.hpp"
#include "src/verbs/device.hpp"

namespace tutti::verbs {
namespace {

/// The list of devices while it is held.
class DeviceList {
 public:
  static Result<DeviceList> get(const EntryPoints& call) {
    int count = 0;
    errno = 0;
    ibv_device** const devices = (*call.get_device_list)(&count);
    if (devices == nullptr) {
      // Without RDMA in the kernel there are no devices; that is no error.
      if (errno == ENOSYS || errno == ENOENT) return DeviceList(call, nullptr, 0);
      return system_error(Code::kUnavailable, errno, "listing RDMA devices");
    }
    return DeviceList(call, devices, count);
  }
  DeviceList(DeviceList&& other) noexcept
      : call_(other.call_),
        devices_(std::exchange(other.devices_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  DeviceList& operator=(DeviceList&&) = delete;
  ~DeviceList() {
    if (devices_ != nullptr) call_.free_device_list(devices_);
  }
  [[nodiscard]] std::span<ibv_device* const> devices() const {
    return {devices_, static_cast<std::size_t>(count_)};
  }

 private:
  DeviceList(const EntryPoints& call, ibv_device** devices, int count)
      : call_(call), devices_(devices), count_(count) {}
  const EntryPoints& call_;
  ibv_device** devices_;
  int count_;
};

}  // namespace

Result<SharedLibrary> Library::open(const char* name) {
  void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return make_error(Code::kUnsupported, "{} cannot be opened: {}", name,
                      why == nullptr ? "no reason given" : why);
  }
  TUTTI_ASSIGN(const EntryPoints found, find_entry_points(handle, name));
  return SharedLibrary(new Library(found));
}

Result<std::vector<std::string>> Library::device_names() const {
  TUTTI_ASSIGN(const DeviceList list, DeviceList::get(call_));
  std::vector<std::string> names;
  for (const ibv_device* device : list.devices()) names.emplace_back(device->name);
  return names;
}

Result<std::shared_ptr<Device>> Library::open_device(std::string_view name) const {
  TUTTI_ASSIGN(const DeviceList list, DeviceList::get(call_));
  for (ibv_device* device : list.devices()) {
    if (name != device->name) continue;
    errno = 0;
    ibv_context* const context = call_.open_device(device);
    if (context == nullptr)
      return system_error(
          Code::kUnavailable, errno,
          fmt::format("opening the RDMA device {} (is /dev/infiniband/{} there, and writable?)",
                      name, device->dev_name));
    return Device::adopt(shared_from_this(), context, call_.get_device_guid(device));
  }
  return make_error(Code::kUnavailable, "there is no RDMA device named {} any more", name);
}

Status Library::prepare_for_fork() const {
  // Older releases of libibverbs (44) would take registered pages from children here all the same.
  if (call_.is_fork_initialized != nullptr && call_.is_fork_initialized() == IBV_FORK_UNNEEDED)
    return ok_status();
  if (const int failed = call_.fork_init(); failed != 0)
    return system_error(Code::kUnavailable, failed,
                        "preparing for fork() (memory was registered before?)");
  return ok_status();
}

std::string describe(const Library& library, ibv_wc_status status) {
  const char* const text = library.call().wc_status_str(status);
  return text == nullptr ? fmt::format("status {}", static_cast<int>(status)) : text;
}

}  // namespace tutti::verbs
