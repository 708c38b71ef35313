#include "transports/verbs/registered_memory.hpp"

#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::verbs {

std::shared_ptr<const void> RegisteredMemory::owned(std::shared_ptr<const RegisteredPiece> piece) {
  piece->owners.fetch_add(1);
  const void* const key = piece.get();
  return {key, [piece = std::move(piece)](const void*) { piece->owners.fetch_sub(1); }};
}

namespace {

constexpr Access kByPeers{.remote_write = true, .relaxed_ordering = true};

/// Whether the kernel has a module that makes memory of GPUs known to RDMA by its address.
bool has_peer_memory_module() {
  std::error_code ignored;
  return std::filesystem::exists("/sys/module/nvidia_peermem", ignored) ||
         std::filesystem::exists("/sys/module/nv_peer_mem", ignored);
}

Result<MemoryRegion> register_device_buffer(Device& device, const DeviceBuffer& buffer,
                                            std::string& by) {
  const auto by_dma_buf = [&]() -> Result<MemoryRegion> {
    TUTTI_TRY(device.takes_dma_buf());
    TUTTI_ASSIGN(const Fd exported, buffer.dma_buf());
    return device.register_dma_buf(exported.get(), 0, buffer.memory.size(),
                                   reinterpret_cast<std::uintptr_t>(buffer.memory.data()),
                                   kByPeers);
  };
  auto first = by_dma_buf();
  by = "DMA-BUF";
  if (first) return first;
  auto second = device.register_memory(buffer.memory, kByPeers);
  by = fmt::format("its address, with nvidia-peermem (not by DMA-BUF: {})", first.error().what);
  if (second) return second;
  return make_error(Code::kUnsupported, "not by DMA-BUF: {}; not by its address either: {}{}",
                    first.error().what, second.error().what,
                    has_peer_memory_module() ? "" : " (the module nvidia-peermem is not loaded)");
}

}  // namespace

Result<std::shared_ptr<const void>> RegisteredMemory::add(std::span<std::byte> memory) {
  return add(memory, std::nullopt,
             [&](Device& device) { return device.register_memory(memory, kByPeers); });
}

Result<DeviceRegistration> RegisteredMemory::add(const DeviceBuffer& buffer) {
  DeviceRegistration made;
  TUTTI_ASSIGN(made.keep,
               add(buffer.memory, OfGpu{.needs_flush = buffer.needs_flush}, [&](Device& device) {
                 return register_device_buffer(device, buffer, made.by);
               }));
  return made;
}

Result<std::shared_ptr<const void>> RegisteredMemory::add(std::span<std::byte> memory,
                                                          std::optional<OfGpu> gpu,
                                                          const Register& on) {
  const std::unique_lock lock(mutex_);
  std::erase_if(pieces_, [](const auto& entry) { return entry.second.expired(); });
  if (auto known = find_locked(memory)) return owned(std::move(known));
  auto piece = std::make_shared<RegisteredPiece>();
  piece->memory = memory;
  piece->gpu = gpu;
  for (const auto& device : devices_) {
    TUTTI_ASSIGN(MemoryRegion region, on(*device));
    piece->on.push_back(std::move(region));
  }
  pieces_.emplace(reinterpret_cast<std::uintptr_t>(memory.data()), piece);
  return owned(std::move(piece));
}

std::shared_ptr<const RegisteredPiece> RegisteredMemory::find(
    std::span<const std::byte> memory) const {
  const std::shared_lock lock(mutex_);
  return find_locked(memory);
}

// Pieces may overlap, since callers register what they like. Few start before an address and are of
// one buffer, so the nearest ones are enough.
std::shared_ptr<const RegisteredPiece> RegisteredMemory::find_locked(
    std::span<const std::byte> memory) const {
  constexpr int kMostLooks = 8;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  auto next = pieces_.upper_bound(begin);
  for (int looks = 0; looks < kMostLooks && next != pieces_.begin(); ++looks) {
    --next;
    auto piece = next->second.lock();
    if (piece && piece->owners.load() > 0 && begin - next->first <= piece->memory.size() &&
        memory.size() <= piece->memory.size() - (begin - next->first))
      return piece;
  }
  return nullptr;
}

}  // namespace tutti::verbs
