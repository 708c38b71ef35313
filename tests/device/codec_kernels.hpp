// Encoding and decoding on a GPU, a thread a block of the format. The same source runs on the CUDA
// driver in memory. That is a check of src/codec, and not how a call will do it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/base/float_formats.hpp"
#include "src/codec/float8.hpp"
#include "src/codec/half.hpp"
#include "src/codec/integer.hpp"
#include "src/codec/microscaling.hpp"
#include "src/codec/nvfp4.hpp"
#include "src/codec/sign.hpp"
#include "src/codec/top_k.hpp"

namespace tutti::testing_device {

/// What a kernel does: encodes `in`, and decodes what it wrote. Plain data, passed by value.
struct CodecWork {
  const float* in = nullptr;
  std::byte* encoded = nullptr;
  float* decoded = nullptr;
  std::uint32_t* refused = nullptr;  ///< becomes 1 if decode() takes its own encoding for invalid
  std::uint64_t count = 0;
  std::uint32_t block = 1;  ///< of the format
  codec::Rounding rounding;
};

/// Blocks `first`, `first + step` and so on.
template <class Block>
TUTTI_DEVICE inline void encode_and_decode(const Block& format, const CodecWork& work,
                                           std::uint64_t first, std::uint64_t step) {
  const std::uint64_t blocks = (work.count + work.block - 1) / work.block;
  for (std::uint64_t i = first; i < blocks; i += step) {
    const std::uint64_t begin = i * work.block, left = work.count - begin;
    const std::size_t count = left < work.block ? left : work.block;
    std::byte* const encoded = work.encoded + i * format.bytes(work.block);
    codec::Rounding rounding = work.rounding;
    rounding.first += begin;
    if (rounding.random)
      format.template encode<true>(work.in + begin, count, rounding, encoded);
    else
      format.template encode<false>(work.in + begin, count, rounding, encoded);
    if (!format.decode(encoded, count, work.decoded + begin)) *work.refused = 1;
  }
}

/// The kernels: the format by name, the kernel's own name, and the block. Of formats that differ in
/// the length of their blocks alone there is one, but of topk, which works otherwise then.
#define TUTTI_CODEC_KERNELS(KERNEL)                                                        \
  KERNEL("bf16", bf16, codec::HalfBlock<Bfloat16>{})                                       \
  KERNEL("fp16", fp16, codec::HalfBlock<Float16>{})                                        \
  KERNEL("int8", int8, codec::IntegerBlock<8, false, codec::Float16Scale>{})               \
  KERNEL("int8:block=32:scale=fp32", int8_fp32,                                            \
         codec::IntegerBlock<8, false, codec::Float32Scale>{})                             \
  KERNEL("int8a", int8a, codec::IntegerBlock<8, true, codec::Float16Scale>{})              \
  KERNEL("int8a:block=256:scale=fp32", int8a_fp32,                                         \
         codec::IntegerBlock<8, true, codec::Float32Scale>{})                              \
  KERNEL("int4", int4, codec::IntegerBlock<4, false, codec::Float16Scale>{})               \
  KERNEL("int4:block=1024:scale=fp32", int4_fp32,                                          \
         codec::IntegerBlock<4, false, codec::Float32Scale>{})                             \
  KERNEL("int4a", int4a, codec::IntegerBlock<4, true, codec::Float16Scale>{})              \
  KERNEL("int4a:block=64:scale=fp32", int4a_fp32,                                          \
         codec::IntegerBlock<4, true, codec::Float32Scale>{})                              \
  KERNEL("bfp16", bfp16, codec::IntegerBlock<16, false, codec::PowerOfTwoScale>{})         \
  KERNEL("bfp8", bfp8, codec::IntegerBlock<8, false, codec::PowerOfTwoScale>{})            \
  KERNEL("e4m3", e4m3, codec::Float8Block<Float8e4m3, codec::Float16Scale>{})              \
  KERNEL("e4m3:block=32:scale=fp32", e4m3_fp32,                                            \
         codec::Float8Block<Float8e4m3, codec::Float32Scale>{})                            \
  KERNEL("e5m2", e5m2, codec::Float8Block<Float8e5m2, codec::Float16Scale>{})              \
  KERNEL("e5m2:block=512:scale=fp32", e5m2_fp32,                                           \
         codec::Float8Block<Float8e5m2, codec::Float32Scale>{})                            \
  KERNEL("mxfp8", mxfp8, codec::MicroBlock<codec::FloatElement<Float8e4m3, 8>>{})          \
  KERNEL("mxfp8e5m2", mxfp8e5m2, codec::MicroBlock<codec::FloatElement<Float8e5m2, 15>>{}) \
  KERNEL("mxfp4", mxfp4, codec::MicroBlock<codec::FloatElement<codec::Float4e2m1, 2>>{})   \
  KERNEL("mxint8", mxint8, codec::MicroBlock<codec::IntegerElement>{})                     \
  KERNEL("nvfp4", nvfp4, codec::Nvfp4Block{})                                              \
  KERNEL("sign", sign, codec::SignBlock{})                                                 \
  KERNEL("topk:k=7:block=64", topk, codec::TopKBlock{7, 64})                               \
  KERNEL("topk", topk_default, codec::TopKBlock{41, 4096})                                 \
  KERNEL("topk:k=600:block=4096", topk_many, codec::TopKBlock{600, 4096})                  \
  KERNEL("topk:k=656:block=65536", topk_long, codec::TopKBlock{656, 65536})

}  // namespace tutti::testing_device
