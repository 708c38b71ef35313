// Makes a format of its settings, a function for each file. Callers use make_format().
#pragma once

#include <cstdint>
#include <memory>

#include "src/codec/block_format.hpp"
#include "src/codec/format.hpp"

namespace tutti::codec {

enum class ScaleKind : std::uint8_t { kFloat16, kFloat32 };
enum class Half : std::uint8_t { kBfloat16, kFloat16 };
enum class Eight : std::uint8_t { kE4m3, kE5m2 };
enum class Micro : std::uint8_t { kE4m3, kE5m2, kE2m1, kInt8 };

/// bf16, fp16: no blocks.
std::unique_ptr<const Format> half_format(Half half, Loops loops);
/// int8, int8a, int4, int4a: integers times a scale; with `offset` ("a") from the least value on.
/// `bits`: 4 or 8. `block`: a power of two.
std::unique_ptr<const Format> integer_format(int bits, bool offset, std::uint32_t block,
                                             ScaleKind scale, Loops loops);
/// bfp16, bfp8: integers of 16 or 8 bits times a power of two for each 512.
std::unique_ptr<const Format> block_floating_point_format(int bits, Loops loops);
/// e4m3, e5m2: floats of 8 bits times a scale.
std::unique_ptr<const Format> float8_format(Eight eight, std::uint32_t block, ScaleKind scale,
                                            Loops loops);
/// mxfp8, mxfp8e5m2, mxfp4, mxint8: OCP Microscaling.
std::unique_ptr<const Format> microscaling_format(Micro micro, Loops loops);
/// nvfp4: floats of 4 bits, a scale of 8 bits for each 16, one of 32 bits for each 4,096.
std::unique_ptr<const Format> nvfp4_format(Loops loops);
/// sign: one bit a value, one scale for each 4,096.
std::unique_ptr<const Format> sign_format(Loops loops);
/// topk: the `kept` values of largest magnitude of each block. 1 <= kept <= block <= 65,536.
std::unique_ptr<const Format> top_k_format(std::uint32_t kept, std::uint32_t block, Loops loops);

}  // namespace tutti::codec
