// The memory that a rank offers.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <variant>

#include "src/base/fd.hpp"
#include "src/cuda/driver.hpp"
#include "transports/cuda_p2p/offer.hpp"

namespace tutti::cuda_p2p {

/// Resource, shared by the ranks of this process that use it. Not cleared.
class Area {
 public:
  /// Of the kind that reaches furthest: by handles for the fabric where the device offers those and
  /// the driver gives them, by descriptors, and by IPC where the device has no memory handles.
  static Result<std::shared_ptr<const Area>> create(const cuda::SharedDriver& driver,
                                                    const cuda::DeviceFacts& device,
                                                    std::size_t bytes);

  [[nodiscard]] std::byte* data() const;
  /// With what the driver rounded up.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  /// For Offer::handle.
  [[nodiscard]] const HandleBytes& handle() const { return handle_; }
  /// What processes of this host import; empty unless kDescriptor.
  [[nodiscard]] Result<Fd> export_fd() const;
  /// Lets another device of this process load and store it at the same address.
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
