#include "tests/device/codec_kernels.hpp"

namespace tutti::testing_device {

#define TUTTI_CODEC_KERNEL(spec, name, ...)                                              \
  extern "C" __global__ void codec_##name(const CodecWork work) {                        \
    encode_and_decode(__VA_ARGS__, work,                                                 \
                      static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, \
                      static_cast<std::uint64_t>(gridDim.x) * blockDim.x);               \
  }
TUTTI_CODEC_KERNELS(TUTTI_CODEC_KERNEL)

}  // namespace tutti::testing_device
