#include "training/slab.hpp"

#include <algorithm>

#include "training/outcome.hpp"
#include "tutti/tutti.h"

namespace tutti::training {

Result<Slab> Slab::allocate(const Comm& comm, std::size_t bytes) {
  int device = -1;
  if (tuttiNcclCommCuDevice(comm.native(), &device) == ncclSuccess && device >= 0)
    return failure(Code::kUnsupported,
                   "this communicator works on memory of GPU {}, and training on that of the host "
                   "alone: set TUTTI_DEVICE=host",
                   device);
  if (bytes == 0) return Slab();
  void* memory = nullptr;
  if (tuttiNcclMemAlloc(&memory, bytes) != ncclSuccess)
    return failure(Code::kUnavailable, "no memory for {} bytes of parameters or gradients: {}",
                   bytes, tuttiNcclGetLastError(nullptr));
  const std::span<std::byte> data(static_cast<std::byte*>(memory), bytes);
  std::ranges::fill(data, std::byte{0});
  return Slab(data);
}

Slab::~Slab() {
  if (!data_.empty()) (void)tuttiNcclMemFree(data_.data());
}

}  // namespace tutti::training
