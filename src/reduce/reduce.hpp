// Typed reductions on host memory: one pass over k sources into one or more destinations.
//
// Arithmetic: integers wrap; 8- and 16-bit floats are widened to float32, combined in source order
// and rounded once, to nearest even, when stored; float32 and float64 combine in their own type in
// source order. min and max of floats: a NaN operand yields NaN, and of zeros of both signs the
// earlier source's stays. Results therefore depend on the sources and their order alone, never on
// the instruction set (the payload of a NaN excepted). src/base/float_formats.hpp says what
// rounding does at the ends of each narrow format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/types.hpp"

namespace tutti {

/// The operator and what goes with it.
struct Reduction {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  /// kAvg: the combined value is divided by this before it is rounded and stored; 0 leaves it
  /// undivided, negative is undefined. Integers truncate toward zero.
  std::int32_t divisor = 0;
  /// kPreMulSum: one element of `type`, the factor for the sources marked in `scaled`.
  alignas(8) std::byte scalar[8] = {};
};

enum class Stores : std::uint8_t {
  /// Ordinary stores. The same elements of a reduction go through the same instructions wherever
  /// `data` lies, so that ranks that add the same get the same bits even of NaNs.
  kCached,
  kForPeers,     ///< ordinary stores of whole lines, of what this rank alone computes
  kContended,    ///< the same to lines that another core has read: asked for well ahead
  kNonTemporal,  ///< streaming stores; the function ends with a store fence
};

/// Where one pass writes. `stores` is a hint: small or unaligned parts may use ordinary stores.
struct Destination {
  std::byte* data = nullptr;
  Stores stores = Stores::kCached;
};

/// destinations[j][i] = combine(sources[0][i], sources[1][i], ...) for `count` elements.
///
/// 1 <= sources.size() <= kMaxSources, 1 <= destinations.size() <= kMaxDestinations. Bit s of
/// `scaled` set: source s is multiplied by reduction.scalar first (rounded to `type`, so that the
/// value equals one that was scaled, stored and read back); only kPreMulSum reads it. A destination
/// may equal a source exactly; any other overlap is undefined. Any alignment. With one source, no
/// scaling and no divisor this is a copy.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::uint64_t scaled, std::span<const Destination> destinations, std::size_t count);
inline constexpr std::size_t kMaxSources = 64;
inline constexpr std::size_t kMaxDestinations = 8;

/// Copies `bytes` to every destination with the best instructions of this machine. A destination
/// may equal the source; any other overlap is undefined.
void copy_bytes(const std::byte* source, std::span<const Destination> destinations,
                std::size_t bytes);

/// The instruction set in use: "scalar", "baseline" (SSE4.2 or NEON), "avx2" or "avx512", the best
/// this processor has. The setting SIMD can ask for a lower one by that name. Read once, at the
/// first reduction.
std::string_view simd_target();

}  // namespace tutti
