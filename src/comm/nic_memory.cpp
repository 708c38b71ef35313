#include "src/comm/nic_memory.hpp"

#include <utility>

#include <unistd.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

cuda::abi::Address page_bytes() {
  static const auto kBytes = static_cast<cuda::abi::Address>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

/// Whole pages of the host: what the kernel can export.
std::span<std::byte> whole_pages(cuda::abi::Address begin, std::size_t bytes) {
  const cuda::abi::Address page = page_bytes();
  const cuda::abi::Address first = begin / page * page;
  const cuda::abi::Address end = (begin + bytes + page - 1) / page * page;
  return {static_cast<std::byte*>(cuda::abi::pointer_to(first)),
          static_cast<std::size_t>(end - first)};
}

}  // namespace

const std::string& NicMemory::problem_with(int device) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = problems_.find(device); known != problems_.end()) return known->second;
  const auto by = try_page(device);
  if (by)
    log_info(Subsystem::kNet, "", "{} reaches memory of GPU {} by {}: calls need no copy there",
             transport_->name(), device, *by);
  else
    log_warn("", "{} does not reach memory of GPU {}, so calls pass through memory of the host: {}",
             transport_->name(), device, by.error().what);
  return problems_[device] = by ? "" : by.error().what;
}

/// By what means it is registered.
Result<std::string> NicMemory::try_page(int device) {
  TUTTI_ASSIGN(const auto scope, driver_->make_current(device));
  TUTTI_ASSIGN(cuda::DeviceMemory page,
               cuda::DeviceMemory::allocate(driver_, device, page_bytes()));
  const auto registered = register_range(whole_pages(page.address(), page.bytes()), device);
  pages_.emplace(device, std::move(page));
  if (!registered) return registered.error();
  return registered->by;
}

Result<DeviceRegistration> NicMemory::register_range(std::span<std::byte> memory, int device) {
  TUTTI_ASSIGN(const cuda::DeviceFacts facts, driver_->device(device));
  return transport_->register_device_memory(
      {.memory = memory,
       .dma_buf = [&]() -> Result<Fd> {
         if (!facts.dma_buf)
           return make_error(Code::kUnsupported,
                             "the CUDA driver exports none: it takes release 515 with the open "
                             "kernel modules, and Linux 5.12");
         return driver_->dma_buf(memory);
       },
       .needs_flush = !facts.orders_rdma_writes});
}

Result<std::shared_ptr<const void>> NicMemory::add(std::span<std::byte> memory) {
  TUTTI_TRY(driver_->current_device());  // the driver is asked with some context current
  TUTTI_ASSIGN(const cuda::PointerFacts facts, driver_->pointer(memory.data()));
  if (facts.kind != cuda::MemoryKind::kDevice)
    return make_error(Code::kUnsupported, "{} is no memory of a GPU",
                      static_cast<const void*>(memory.data()));
  const auto begin = reinterpret_cast<cuda::abi::Address>(memory.data());
  if (memory.size() > facts.bytes || begin - facts.base > facts.bytes - memory.size())
    return make_error(Code::kUnsupported,
                      "the {} bytes at {} are not of one allocation: that one has {} bytes from "
                      "{:#x} on",
                      memory.size(), static_cast<const void*>(memory.data()), facts.bytes,
                      facts.base);
  const std::span<std::byte> whole = whole_pages(facts.base, facts.bytes);
  const std::scoped_lock lock(mutex_);
  std::erase_if(pieces_, [](const auto& entry) { return entry.second.registration.expired(); });
  Piece& piece = pieces_[reinterpret_cast<std::uintptr_t>(whole.data())];
  if (auto known = piece.registration.lock(); known && piece.bytes == whole.size()) return known;
  TUTTI_ASSIGN(const auto scope, driver_->make_current(facts.device));
  TUTTI_ASSIGN(DeviceRegistration registered, register_range(whole, facts.device));
  piece = {whole.size(), registered.keep};
  return std::move(registered.keep);
}

void NicMemory::keep(std::span<std::byte> memory) {
  auto registration = add(memory);
  if (!registration)
    return log_info(Subsystem::kNet, "", "{} copies what is in the {} bytes at {}: {}",
                    transport_->name(), memory.size(), static_cast<const void*>(memory.data()),
                    registration.error().what);
  const std::scoped_lock lock(mutex_);
  kept_[memory.data()] = *std::move(registration);
}

void NicMemory::drop(const void* data) {
  std::map<const void*, std::shared_ptr<const void>>::node_type last;  // outside the lock
  const std::scoped_lock lock(mutex_);
  last = kept_.extract(data);
}

// Allocations that share a page overlap here: few start before an address and reach it.
bool NicMemory::holds(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::scoped_lock lock(mutex_);
  auto next = pieces_.upper_bound(begin);
  for (int looks = 0; looks < 2 && next != pieces_.begin(); ++looks) {
    const auto& [first, piece] = *--next;
    const std::size_t before = begin - first;
    if (before <= piece.bytes && bytes <= piece.bytes - before && !piece.registration.expired())
      return true;
  }
  return false;
}

}  // namespace tutti
