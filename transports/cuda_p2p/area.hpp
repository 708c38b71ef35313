// The GPU memory that a rank offers to other ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <variant>

#include "src/base/fd.hpp"
#include "src/cuda/driver.hpp"
#include "transports/cuda_p2p/offer.hpp"

namespace tutti::cuda_p2p {

/// Resource, shared by the ranks of this process that use it. Not zeroed.
class Area {
 public:
  /// Allocates the kind that reaches furthest: memory with fabric handles if the device offers them
  /// and the driver grants them, else with descriptors, else with IPC if the device has no memory
  /// handles.
  static Result<std::shared_ptr<const Area>> create(const cuda::SharedDriver& driver,
                                                    const cuda::DeviceFacts& device,
                                                    std::size_t bytes);

  [[nodiscard]] std::byte* data() const;
  /// Size as rounded up by the driver.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  /// For Offer::handle.
  [[nodiscard]] const HandleBytes& handle() const { return handle_; }
  /// The descriptor that processes of this host import; empty unless kDescriptor.
  [[nodiscard]] Result<Fd> export_fd() const;
  /// Lets another device of this process load and store the area at the same address.
  Status let_reach(int device) const;

 private:
  using Memory = std::variant<cuda::VmmAllocation, cuda::DeviceMemory>;
  Area(cuda::SharedDriver driver, Memory memory, MemoryKind kind)
      : driver_(std::move(driver)), memory_(std::move(memory)), kind_(kind) {}
  static Result<std::shared_ptr<const Area>> of_handles(const cuda::SharedDriver& driver,
                                                        const cuda::DeviceFacts& device,
                                                        std::size_t bytes);

  cuda::SharedDriver driver_;
  Memory memory_;
  MemoryKind kind_;
  HandleBytes handle_{};
};

}  // namespace tutti::cuda_p2p
