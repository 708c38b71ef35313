#include "training/slab.hpp"

#include <algorithm>

#include "training/outcome.hpp"
#include "tutti/tutti.h"

namespace tutti::training {

Result<Slab> Slab::allocate(std::size_t elements) {
  if (elements == 0) return Slab({});
  void* memory = nullptr;
  if (tuttiNcclMemAlloc(&memory, elements * sizeof(float)) != ncclSuccess)
    return failure(Code::kUnavailable, "no memory for {} bytes of parameters or gradients: {}",
                   elements * sizeof(float), tuttiNcclGetLastError(nullptr));
  const std::span<float> data(static_cast<float*>(memory), elements);
  std::ranges::fill(data, 0.0F);
  return Slab(data);
}

Slab::~Slab() {
  if (!data_.empty()) (void)tuttiNcclMemFree(data_.data());
}

}  // namespace tutti::training
