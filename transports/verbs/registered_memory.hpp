// Memory of this process that the devices may reach: registered once, found by address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "src/transport/transport.hpp"
#include "src/verbs/device.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// What others must know of memory of a GPU.
struct OfGpu {
  /// Kernels may miss what a device has written, until it has read from that memory.
  bool needs_flush = true;
};

/// A piece on all devices. It stays registered for as long as somebody holds it.
struct RegisteredPiece {
  std::span<std::byte> memory;
  std::vector<MemoryRegion> on;  ///< by device
  std::optional<OfGpu> gpu{};    ///< none: it is the host's
  /// Who registered it and has not taken that back. At 0 the memory may be another one already, and
  /// the piece is not found any more, though writes under way may still need it.
  mutable std::atomic<int> owners = 0;
};

/// Resource. Thread-safe.
class RegisteredMemory {
 public:
  explicit RegisteredMemory(std::vector<std::shared_ptr<Device>> devices)
      : devices_(std::move(devices)) {}

  /// Registers `memory` on all devices, with leave for peers to write it, until the result is
  /// destroyed. Memory that is part of a registered piece is not registered again. kUnavailable
  /// where a device has no room, or the process may lock no more memory.
  Result<std::shared_ptr<const void>> add(std::span<std::byte> memory);
  /// The same for memory of a GPU: by a DMA-BUF, or else by its address, which needs help from the
  /// kernel (nvidia-peermem). kUnsupported, with both reasons, where neither works.
  Result<DeviceRegistration> add(const DeviceBuffer& buffer);
  /// The registered piece that contains all of `memory`; null if there is none.
  [[nodiscard]] std::shared_ptr<const RegisteredPiece> find(
      std::span<const std::byte> memory) const;

 private:
  using Register = std::function<Result<MemoryRegion>(Device&)>;
  Result<std::shared_ptr<const void>> add(std::span<std::byte> memory, std::optional<OfGpu> gpu,
                                          const Register& on);
  static std::shared_ptr<const void> owned(std::shared_ptr<const RegisteredPiece> piece);
  [[nodiscard]] std::shared_ptr<const RegisteredPiece> find_locked(
      std::span<const std::byte> memory) const;

  const std::vector<std::shared_ptr<Device>> devices_;
  mutable std::shared_mutex mutex_;
  /// By first address. A piece that nobody holds any more is dropped at the next add().
  std::multimap<std::uintptr_t, std::weak_ptr<const RegisteredPiece>> pieces_;
};

}  // namespace tutti::verbs
