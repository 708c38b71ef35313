// Typed reductions on host memory: one pass over k sources into one or more destinations.
//
// Arithmetic: integers wrap. 8- and 16-bit floats are widened to float32, combined in source order,
// and rounded once to nearest even when stored. float32 and float64 are combined in their own type,
// in source order. For min and max of floats, a NaN operand yields NaN, and of zeros with different
// signs the earlier source's stays. So results depend only on the sources and their order, never on
// the instruction set (except for the payload of a NaN). src/base/float_formats.hpp describes
// rounding at the limits of each narrow format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/types.hpp"

namespace tutti {

/// The operator and its parameters.
struct Reduction {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  /// kAvg: the combined value is divided by this before rounding and storing. 0 leaves it
  /// undivided; negative values are undefined. Integers truncate toward zero.
  std::int32_t divisor = 0;
  /// kPreMulSum: one element of `type`, the factor for the sources marked in `scaled`.
  alignas(8) std::byte scalar[8] = {};
};

enum class Stores : std::uint8_t {
  /// Ordinary stores. An element goes through the same instructions wherever `data` lies, so ranks
  /// that add the same values get the same bits, even of NaNs.
  kCached,
  kForPeers,     ///< ordinary stores of whole lines, for results that only this rank computes
  kContended,    ///< the same for lines that another core has read: prefetched well ahead
  kNonTemporal,  ///< streaming stores; the function ends with a store fence
};

/// Where a pass writes. `stores` is a hint: small or unaligned parts may use ordinary stores.
struct Destination {
  std::byte* data = nullptr;
  Stores stores = Stores::kCached;
};

/// destinations[j][i] = combine(sources[0][i], sources[1][i], ...) for `count` elements.
///
/// 1 <= sources.size() <= kMaxSources, 1 <= destinations.size() <= kMaxDestinations. If bit s of
/// `scaled` is set, source s is first multiplied by reduction.scalar. The product is rounded to
/// `type`, so it equals one that was scaled, stored and read back. Only kPreMulSum reads `scaled`.
/// A destination may equal a source exactly; any other overlap is undefined. Any alignment is
/// allowed. With one source, no scaling and no divisor this is a copy.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::uint64_t scaled, std::span<const Destination> destinations, std::size_t count);
inline constexpr std::size_t kMaxSources = 64;
inline constexpr std::size_t kMaxDestinations = 8;

/// Copies `bytes` bytes to every destination with this machine's best instructions. A destination
/// may equal the source; any other overlap is undefined.
void copy_bytes(const std::byte* source, std::span<const Destination> destinations,
                std::size_t bytes);

/// The instruction set in use: "scalar", "baseline" (SSE4.2 or NEON), "avx2" or "avx512". It is the
/// best that this processor has, unless the setting SIMD names a lower one. Read once, at the first
/// reduction.
std::string_view simd_target();

}  // namespace tutti
