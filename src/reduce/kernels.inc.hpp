// The vector kernels: written once, compiled once per instruction set. Each kernels_<target>.cpp
// defines TUTTI_KERNEL_TABLE and TUTTI_KERNEL_NAME and includes this file, but nothing that emits
// inline functions (kernels.hpp says why).
//
// A kernel walks all operands in step, in blocks of a few registers. It loads a block of the first
// source, combines the other sources into it in registers, and stores it to every destination. All
// positions count in bytes, because narrow elements change their width in registers.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/highway.h>  // first: it reads the compiler's flags

#include "src/base/fetch_to_write.hpp"
#include "src/base/float_formats.hpp"
#include "src/reduce/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DBytes = hn::ScalableTag<std::uint8_t>;
using DFloat = hn::ScalableTag<float>;
using DInt = hn::ScalableTag<std::int32_t>;
using VBytes = hn::Vec<DBytes>;
using VFloat = hn::Vec<DFloat>;
using VInt = hn::Vec<DInt>;
constexpr std::size_t kVectorBytes = hn::MaxLanes(DBytes());

VInt HWY_INLINE bits_of(VFloat value) { return hn::BitCast(DInt(), value); }
VFloat HWY_INLINE float_of(VInt bits) { return hn::BitCast(DFloat(), bits); }
VInt HWY_INLINE constant(std::uint32_t bits) {
  return hn::Set(DInt(), static_cast<std::int32_t>(bits));
}

// --- Memory: whole registers, or the first bytes of one -----------------------------------------

struct WholeVector {
  VBytes HWY_INLINE load(const std::byte* from) const {
    return hn::LoadU(DBytes(), reinterpret_cast<const std::uint8_t*>(from));
  }
};

#if HWY_TARGET <= HWY_AVX3

/// The first `bytes` (less than a register) of a vector. Touches no memory beyond them.
struct PartOfVector {
  std::size_t bytes;
  VBytes HWY_INLINE load(const std::byte* from) const {
    return hn::MaskedLoad(hn::FirstN(DBytes(), bytes), DBytes(),
                          reinterpret_cast<const std::uint8_t*>(from));
  }
  void HWY_INLINE store(VBytes value, std::byte* to) const {
    hn::BlendedStore(value, hn::FirstN(DBytes(), bytes), DBytes(),
                     reinterpret_cast<std::uint8_t*>(to));
  }
};

#else

/// For kBytes <= bytes <= 2 * kBytes: copies the first and the last kBytes, which may overlap.
template <std::size_t kBytes>
void HWY_INLINE copy_both_ends(std::byte* to, const std::byte* from, std::size_t bytes) {
  struct {
    std::byte data[kBytes];
  } first, last;
  __builtin_memcpy(&first, from, kBytes);
  __builtin_memcpy(&last, from + bytes - kBytes, kBytes);
  __builtin_memcpy(to, &first, kBytes);
  __builtin_memcpy(to + bytes - kBytes, &last, kBytes);
}

void HWY_INLINE copy_few(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= 16) return copy_both_ends<16>(to, from, bytes);
  if (bytes >= 8) return copy_both_ends<8>(to, from, bytes);
  if (bytes >= 4) return copy_both_ends<4>(to, from, bytes);
  if (bytes >= 2) return copy_both_ends<2>(to, from, bytes);
  *to = *from;
}

using DSixteen = hn::FixedTag<std::uint8_t, 16>;
using DWords = hn::FixedTag<std::uint64_t, 2>;

/// Loads 1 to 8 bytes as an integer.
std::uint64_t HWY_INLINE load_word(const std::byte* from, std::size_t bytes) {
  const auto both_ends = [&](auto first, auto last) HWY_ATTR {
    __builtin_memcpy(&first, from, sizeof first);
    __builtin_memcpy(&last, from + bytes - sizeof last, sizeof last);
    return std::uint64_t{first} | std::uint64_t{last} << (8 * (bytes - sizeof last));
  };
  if (bytes >= 4) return both_ends(std::uint32_t{}, std::uint32_t{});
  if (bytes >= 2) return both_ends(std::uint16_t{}, std::uint16_t{});
  return std::to_integer<std::uint64_t>(*from);
}

/// Loads 1 to 16 bytes, combined in registers. One load that spans several fresh stores would wait
/// until they reach the cache (14 ns instead of 3).
hn::Vec<DSixteen> HWY_INLINE load_sixteen(const std::byte* from, std::size_t bytes) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (bytes > 8) {
    __builtin_memcpy(&low, from, 8);
    __builtin_memcpy(&high, from + bytes - 8, 8);
    high >>= 8 * (16 - bytes);
  } else {
    low = load_word(from, bytes);
  }
  return hn::BitCast(
      DSixteen(), hn::InterleaveLower(DWords(), hn::Set(DWords(), low), hn::Set(DWords(), high)));
}

template <class D>
hn::Vec<D> HWY_INLINE load_part(D d, const std::byte* from, std::size_t bytes) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return load_sixteen(from, bytes);
  } else {
    if (bytes <= 16) return hn::ZeroExtendVector(d, load_sixteen(from, bytes));
    const auto low = hn::LoadU(DSixteen(), reinterpret_cast<const std::uint8_t*>(from));
    return hn::Combine(d, load_sixteen(from + 16, bytes - 16), low);
  }
}

/// The first `bytes` (1 to a register less 1) of a vector. Touches no memory beyond them.
struct PartOfVector {
  static_assert(kVectorBytes <= 32, "written for registers of 16 and 32 bytes");
  std::size_t bytes;
  VBytes HWY_INLINE load(const std::byte* from) const { return load_part(DBytes(), from, bytes); }
  void HWY_INLINE store(VBytes value, std::byte* to) const {
    alignas(kVectorBytes) std::uint8_t buffer[kVectorBytes];
    hn::Store(value, DBytes(), buffer);
    copy_few(to, reinterpret_cast<const std::byte*>(buffer), bytes);
  }
};

#endif

// --- Elements: how a register of memory becomes registers of values, and back -------------------

/// kParts registers of values from one register of memory.
template <class Value, int kParts>
struct Parts {
  hn::Vec<hn::ScalableTag<Value>> part[kParts];
};

template <class T>
struct NativeElement {
  using Value = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static constexpr int kParts = 1;
  static Parts<T, 1> HWY_INLINE widen(VBytes stored) {
    return {{hn::BitCast(hn::ScalableTag<T>(), stored)}};
  }
  static VBytes HWY_INLINE narrow(const Parts<T, 1>& values) {
    return hn::BitCast(DBytes(), values.part[0]);
  }
};

/// The vector form of widen<Format> in float_formats.hpp. Each lane of `code` holds one code.
template <class Format>
VFloat HWY_INLINE widen_codes(VInt code) {
  constexpr int kToSign = 31 - Format::kExponentBits - Format::kMantissaBits;
  const VInt magnitude = hn::And(code, constant(Format::kSign - 1));
  const VInt sign = hn::ShiftLeft<kToSign>(hn::Xor(code, magnitude));
  const VInt normal = hn::Add(hn::ShiftLeft<Format::kShift>(magnitude), constant(Format::kRebias));
  const VInt denormal = bits_of(hn::Sub(float_of(hn::Add(normal, constant(1u << 23))),
                                        float_of(constant(Format::kMinNormal))));
  VInt wide = hn::IfThenElse(hn::Lt(normal, constant(Format::kMinNormal)), denormal, normal);
  const auto special = hn::Gt(magnitude, constant(Format::kSpecial - 1));
  const std::uint32_t special_bits = Format::kHasInfinity ? 0x7f800000u : 0x7fc00000u;
  wide = hn::Or(wide, hn::IfThenElseZero(special, constant(special_bits)));
  return float_of(hn::Or(wide, sign));
}

/// The vector form of narrow<Format> in float_formats.hpp.
template <class Format>
VInt HWY_INLINE narrow_to_codes(VFloat value) {
  constexpr int kToSign = 31 - Format::kExponentBits - Format::kMantissaBits;
  constexpr std::uint32_t kHalf = (1u << (Format::kShift - 1)) - 1;
  const VInt bits = bits_of(value);
  const VInt magnitude = hn::And(bits, constant(0x7fffffffu));
  const VInt sign = hn::And(hn::ShiftRight<kToSign>(bits), constant(Format::kSign));
  const VInt denormal =
      hn::Sub(bits_of(hn::Add(float_of(magnitude), float_of(constant(Format::kDenormalMagic)))),
              constant(Format::kDenormalMagic));
  const VInt odd = hn::And(hn::ShiftRight<Format::kShift>(magnitude), constant(1));
  const VInt rounded = hn::ShiftRight<Format::kShift>(
      hn::Add(hn::Add(magnitude, constant(kHalf - Format::kRebias)), odd));
  VInt code = hn::Min(rounded, constant(Format::kOverflow));
  code = hn::IfThenElse(hn::Lt(magnitude, constant(Format::kMinNormal)), denormal, code);
  code = hn::IfThenElse(hn::Gt(magnitude, constant(0x7f800000u)), constant(Format::kNan), code);
  return hn::Or(code, sign);
}

/// Part p holds elements p, p + kParts, p + 2 * kParts ... Splitting and merging every kParts-th
/// element needs only shifts, and order within a register does not matter here.
template <class Format>
struct NarrowElement {
  using Value = float;
  static constexpr std::size_t kBytes = sizeof(typename Format::Bits);
  static constexpr int kParts = 4 / static_cast<int>(kBytes);
  static constexpr int kBits = 8 * static_cast<int>(kBytes);
  using Values = Parts<float, kParts>;

  static Values HWY_INLINE widen(VBytes stored) {
    Values values;
    widen_from<0>(hn::BitCast(DInt(), stored), values);
    return values;
  }
  static VBytes HWY_INLINE narrow(const Values& values) {
    return hn::BitCast(DBytes(), narrow_from<0>(values));
  }

 private:
  template <int kPart>
  static void HWY_INLINE widen_from(VInt words, Values& values) {
    const VInt code = hn::And(hn::ShiftRight<kPart * kBits>(words), constant((1u << kBits) - 1));
    values.part[kPart] = widen_codes<Format>(code);
    if constexpr (kPart + 1 < kParts) widen_from<kPart + 1>(words, values);
  }
  template <int kPart>
  static VInt HWY_INLINE narrow_from(const Values& values) {
    const VInt code = hn::ShiftLeft<kPart * kBits>(narrow_to_codes<Format>(values.part[kPart]));
    if constexpr (kPart + 1 < kParts) {
      return hn::Or(code, narrow_from<kPart + 1>(values));
    } else {
      return code;
    }
  }
};

/// A bfloat16 is the upper half of a float32, so widening is one instruction.
struct Bfloat16Element {
  using Value = float;
  static constexpr std::size_t kBytes = 2;
  static constexpr int kParts = 2;

  static Parts<float, 2> HWY_INLINE widen(VBytes stored) {
    const VInt words = hn::BitCast(DInt(), stored);
    return {{float_of(hn::ShiftLeft<16>(words)), float_of(hn::And(words, constant(0xffff0000u)))}};
  }
  static VBytes HWY_INLINE narrow(const Parts<float, 2>& values) {
    const auto low = hn::BitCast(hn::ScalableTag<std::uint32_t>(), rounded(values.part[0]));
    const VInt high = hn::And(rounded(values.part[1]), constant(0xffff0000u));
    return hn::BitCast(DBytes(), hn::Or(hn::BitCast(DInt(), hn::ShiftRight<16>(low)), high));
  }

 private:
  /// The upper half of each lane is the result; the lower half is undefined.
  static VInt HWY_INLINE rounded(VFloat value) {
    const VInt bits = bits_of(value);
    const VInt odd = hn::And(hn::ShiftRight<16>(bits), constant(1));
    const VInt nearest = hn::Add(hn::Add(bits, constant(0x7fffu)), odd);
    const VInt nan = hn::Or(hn::And(bits, constant(0xff800000u)), constant(0x00400000u));
    return hn::IfThenElse(hn::RebindMask(DInt(), hn::IsNaN(value)), nan, nearest);
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
/// F16C converts in hardware, to nearest even, denormals included.
struct Float16Element {
  using Value = float;
  using DHalf = hn::Rebind<hwy::float16_t, DFloat>;
  using DBits = hn::ScalableTag<std::uint16_t>;
  using DHalfBits = hn::Half<DBits>;
  static constexpr std::size_t kBytes = 2;
  static constexpr int kParts = 2;

  static Parts<float, 2> HWY_INLINE widen(VBytes stored) {
    const auto bits = hn::BitCast(DBits(), stored);
    return {{promote(hn::LowerHalf(DHalfBits(), bits)), promote(hn::UpperHalf(DHalfBits(), bits))}};
  }
  static VBytes HWY_INLINE narrow(const Parts<float, 2>& values) {
    return hn::BitCast(DBytes(),
                       hn::Combine(DBits(), demote(values.part[1]), demote(values.part[0])));
  }

 private:
  static VFloat HWY_INLINE promote(hn::Vec<DHalfBits> bits) {
    return hn::PromoteTo(DFloat(), hn::BitCast(DHalf(), bits));
  }
  static hn::Vec<DHalfBits> HWY_INLINE demote(VFloat value) {
    return hn::BitCast(DHalfBits(), hn::DemoteTo(DHalf(), value));
  }
};
#else
using Float16Element = NarrowElement<Float16>;
#endif

// --- Operators ----------------------------------------------------------------------------------

template <class V>
V HWY_INLINE multiply(V a, V b) {
  using D = hn::DFromV<V>;
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    // There is no 8-bit product. The low byte of a 16-bit product is right, whatever its upper byte
    // is.
    const hn::ScalableTag<std::uint16_t> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(wide, std::uint16_t{0x00ff}));
    const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
    return hn::BitCast(D(), hn::Or(even, hn::ShiftLeft<8>(odd)));
  } else {
    return hn::Mul(a, b);
  }
}

struct Sum {
  template <class V>
  static V HWY_INLINE apply(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Average : Sum {};
struct ScaledSum : Sum {};

struct Product {
  template <class V>
  static V HWY_INLINE apply(V a, V b) {
    return multiply(a, b);
  }
};

/// Floats: `a` stays unless `b` is strictly better or only `b` is NaN, as in reference.cpp.
struct Maximum {
  template <class V>
  static V HWY_INLINE apply(V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromV<V>>) {
      return hn::IfThenElse(hn::Or(hn::Ge(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct Minimum {
  template <class V>
  static V HWY_INLINE apply(V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromV<V>>) {
      return hn::IfThenElse(hn::Or(hn::Le(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

/// Truncates toward zero. Quotients of 32-bit integers are exact enough in double: a quotient that
/// is not an integer differs from the nearest one by at least 2^-32 of its size.
template <class T>
T HWY_INLINE divide_integer(T value, std::int32_t divisor) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<T>(
        static_cast<std::int64_t>(static_cast<double>(value) / static_cast<double>(divisor)));
  } else {
    return static_cast<T>(value / static_cast<T>(divisor));
  }
}

template <class V>
V HWY_INLINE divide(V value, std::int32_t divisor) {
  using T = hn::TFromV<V>;
  const hn::DFromV<V> d;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::Div(value, hn::Set(d, static_cast<T>(divisor)));
  } else {
    constexpr std::size_t kLanes = kVectorBytes / sizeof(T);
    alignas(kVectorBytes) T lanes[kLanes];
    hn::Store(value, d, lanes);
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = divide_integer(lanes[i], divisor);
    return hn::Load(d, lanes);
  }
}

// --- The pass -----------------------------------------------------------------------------------

template <class Element>
using ValuesOf = Parts<typename Element::Value, Element::kParts>;

/// kVectors registers of memory, widened.
template <class Element, int kVectors>
struct Block {
  ValuesOf<Element> at[kVectors];
};

/// The element of PreMulSum, in every lane.
template <class Element>
ValuesOf<Element> HWY_INLINE broadcast_scalar(const std::byte* scalar) {
  alignas(kVectorBytes) std::byte lanes[kVectorBytes];
  for (std::size_t i = 0; i < kVectorBytes; i += Element::kBytes) {
    __builtin_memcpy(lanes + i, scalar, Element::kBytes);
  }
  return Element::widen(WholeVector().load(lanes));
}

/// values * factors, rounded to the precision of memory.
template <class Element>
ValuesOf<Element> HWY_INLINE scale(ValuesOf<Element> values, const ValuesOf<Element>& factors) {
  for (int p = 0; p < Element::kParts; ++p) {
    values.part[p] = multiply(values.part[p], factors.part[p]);
  }
  return Element::widen(Element::narrow(values));
}

/// Combines the sources of one pass, a block at a time. kFixedSources 0: the number of sources is
/// known at run time only.
template <class Element, class Op, int kFixedSources>
class Combiner {
 public:
  explicit HWY_INLINE Combiner(const ReducePass& pass) : pass_(pass) {
    if constexpr (kScaled) factors_ = broadcast_scalar<Element>(pass.reduction->scalar);
  }

  template <int kVectors, class Access>
  Block<Element, kVectors> HWY_INLINE block(std::size_t offset, Access access) const {
    Block<Element, kVectors> result = operand<kVectors>(0, offset, access);
    const std::size_t sources =
        kFixedSources != 0 ? static_cast<std::size_t>(kFixedSources) : pass_.source_count;
    for (std::size_t s = 1; s < sources; ++s) {
      const Block<Element, kVectors> next = operand<kVectors>(s, offset, access);
      for (int v = 0; v < kVectors; ++v) {
        for (int p = 0; p < Element::kParts; ++p) {
          result.at[v].part[p] = Op::apply(result.at[v].part[p], next.at[v].part[p]);
        }
      }
    }
    if constexpr (std::is_same_v<Op, Average>) average(result);
    return result;
  }

 private:
  static constexpr bool kScaled = std::is_same_v<Op, ScaledSum>;
  struct Nothing {};

  template <int kVectors, class Access>
  Block<Element, kVectors> HWY_INLINE operand(std::size_t s, std::size_t offset,
                                              Access access) const {
    const std::byte* const from = pass_.sources[s] + offset;
    Block<Element, kVectors> values;
    for (int v = 0; v < kVectors; ++v) {
      values.at[v] = Element::widen(access.load(from + v * kVectorBytes));
    }
    if constexpr (kScaled) {
      if ((pass_.scaled >> s & 1) != 0) {
        for (int v = 0; v < kVectors; ++v) values.at[v] = scale<Element>(values.at[v], factors_);
      }
    }
    return values;
  }

  template <int kVectors>
  void HWY_INLINE average(Block<Element, kVectors>& values) const {
    const std::int32_t divisor = pass_.reduction->divisor;
    if (divisor == 0) return;
    for (int v = 0; v < kVectors; ++v) {
      for (int p = 0; p < Element::kParts; ++p) {
        values.at[v].part[p] = divide(values.at[v].part[p], divisor);
      }
    }
  }

  const ReducePass& pass_;
  std::conditional_t<kScaled, ValuesOf<Element>, Nothing> factors_;
};

/// Writes the destinations of one pass. With Heads::kAligned, `head_bytes()` go first, so that
/// later stores to one destination are aligned. That is the first destination that wants streaming
/// stores, because these need whole aligned registers; another one that is not aligned then gets
/// ordinary stores. If nothing is streamed it is the first destination, because a store across two
/// cache lines costs about two stores.
class Writer {
 public:
  enum class Heads : std::uint8_t { kNone, kAligned };

  HWY_INLINE Writer(const Destination* destinations, std::size_t count, std::size_t bytes,
                    Heads heads)
      : destinations_(destinations), count_(count) {
    if (heads == Heads::kAligned && bytes >= kWorthAligning) align(bytes);
  }

  /// Less than a register.
  std::size_t HWY_INLINE head_bytes() const { return head_bytes_; }

  /// Stores at `offset`, which is head_bytes() plus a multiple of the register size.
  template <int kVectors>
  void HWY_INLINE store(const VBytes (&values)[kVectors], std::size_t offset) const {
    for (std::size_t j = 0; j < count_; ++j) {
      auto* to = reinterpret_cast<std::uint8_t*>(destinations_[j].data + offset);
      if ((streamed_ >> j & 1) != 0) {
        for (int v = 0; v < kVectors; ++v) hn::Stream(values[v], DBytes(), to + v * kVectorBytes);
      } else {
        if ((fetched_ >> j & 1) != 0) fetch_ahead<kVectors>(to);
        for (int v = 0; v < kVectors; ++v) hn::StoreU(values[v], DBytes(), to + v * kVectorBytes);
      }
    }
  }
  void HWY_INLINE store_part(VBytes value, std::size_t offset, PartOfVector part) const {
    for (std::size_t j = 0; j < count_; ++j) part.store(value, destinations_[j].data + offset);
  }
  /// Orders the streaming stores before the caller's next stores.
  void HWY_INLINE finish() const {
    if (streamed_ != 0) hwy::FlushStream();
  }

 private:
  static constexpr std::size_t kWorthAligning = 1024;
  static constexpr std::size_t kFetchAhead = 1024;  // bytes

  template <int kVectors>
  static void HWY_INLINE fetch_ahead(const std::uint8_t* to) {
    constexpr std::size_t kCacheLine = 64;
    for (std::size_t at = 0; at < kVectors * kVectorBytes; at += kCacheLine)
      fetch_to_write(to + kFetchAhead + at);
  }

  static std::size_t head_of(const Destination& destination) {
    const auto address = reinterpret_cast<std::uintptr_t>(destination.data);
    return (kVectorBytes - address % kVectorBytes) % kVectorBytes;
  }

  void align(std::size_t bytes) {
    head_bytes_ = head_of(destinations_[0]);
    for (std::size_t j = 0; j < count_; ++j) {
      const bool fetches = destinations_[j].stores == Stores::kContended && bytes > kFetchAhead;
      if (fetches) fetched_ |= 1u << j;
      if (destinations_[j].stores != Stores::kNonTemporal) continue;
      const std::size_t head = head_of(destinations_[j]);
      if (streamed_ == 0) head_bytes_ = head;
      if (head == head_bytes_) streamed_ |= 1u << j;
    }
  }

  const Destination* destinations_;
  std::size_t count_;
  std::size_t head_bytes_ = 0;
  std::uint32_t streamed_ = 0, fetched_ = 0;  // bit j: destination j
};

/// Walks `bytes` from the front: a head smaller than a register, blocks, single registers, the
/// rest. `block(size, offset)` handles whole registers; `size` is std::integral_constant<int,
/// registers>. `part(bytes, offset)` handles less than a register.
template <int kBlock, class BlockFunction, class PartFunction>
void HWY_INLINE walk(std::size_t head, std::size_t bytes, BlockFunction block, PartFunction part) {
  std::size_t offset = 0;
  if (head != 0) {
    part(PartOfVector{head}, offset);
    offset = head;
  }
  for (; bytes - offset >= kBlock * kVectorBytes; offset += kBlock * kVectorBytes) {
    block(std::integral_constant<int, kBlock>(), offset);
  }
  for (; bytes - offset >= kVectorBytes; offset += kVectorBytes) {
    block(std::integral_constant<int, 1>(), offset);
  }
  if (bytes != offset) part(PartOfVector{bytes - offset}, offset);
}

/// Which of two NaNs becomes their sum depends on whether they meet in a block or in its head.
/// Stores::kCached promises that addresses do not decide that, so it gets no aligned head.
bool HWY_INLINE is_cached(const ReducePass& pass) {
  for (std::size_t j = 0; j < pass.destination_count; ++j)
    if (pass.destinations[j].stores != Stores::kCached) return false;
  return true;
}

template <class Element, class Op, int kFixedSources>
void HWY_INLINE reduce_sources(const ReducePass& pass) {
  const std::size_t bytes = pass.count * Element::kBytes;
  const Combiner<Element, Op, kFixedSources> combiner(pass);
  const auto heads = is_cached(pass) ? Writer::Heads::kNone : Writer::Heads::kAligned;
  Writer writer(pass.destinations, pass.destination_count, bytes, heads);
  // The head would split an element: the destination is not even aligned to its elements.
  const bool splits = writer.head_bytes() % Element::kBytes != 0;
  if (splits)
    writer = Writer(pass.destinations, pass.destination_count, bytes, Writer::Heads::kNone);

  const auto block = [&](auto size, std::size_t offset) HWY_ATTR {
    constexpr int kVectors = decltype(size)::value;
    const auto values = combiner.template block<kVectors>(offset, WholeVector());
    VBytes stored[kVectors];
    for (int v = 0; v < kVectors; ++v) stored[v] = Element::narrow(values.at[v]);
    writer.store(stored, offset);
  };
  const auto part = [&](PartOfVector some, std::size_t offset) HWY_ATTR {
    const auto values = combiner.template block<1>(offset, some);
    writer.store_part(Element::narrow(values.at[0]), offset, some);
  };
  walk<4 / Element::kParts>(writer.head_bytes(), bytes, block, part);
  writer.finish();
}

template <class Element, class Op>
void reduce_kernel(const ReducePass& pass) {
  if (pass.source_count == 2) return reduce_sources<Element, Op, 2>(pass);
  reduce_sources<Element, Op, 0>(pass);
}

void copy_kernel(const std::byte* source, const Destination* destinations,
                 std::size_t destination_count, std::size_t bytes) {
  const Writer writer(destinations, destination_count, bytes, Writer::Heads::kAligned);
  const auto block = [&](auto size, std::size_t offset) HWY_ATTR {
    constexpr int kVectors = decltype(size)::value;
    VBytes values[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      values[v] = WholeVector().load(source + offset + v * kVectorBytes);
    }
    writer.store(values, offset);
  };
  const auto part = [&](PartOfVector some, std::size_t offset)
                        HWY_ATTR { writer.store_part(some.load(source + offset), offset, some); };
  walk<4>(writer.head_bytes(), bytes, block, part);
  writer.finish();
}

}  // namespace
}  // namespace HWY_NAMESPACE

// In the order of ReduceOp; below, in the order of DataType. `Added`: the element whose sums and
// products have the same bits.
#define TUTTI_KERNEL_ROW_AS(Added, ...)                                  \
  {                                                                      \
      HWY_NAMESPACE::reduce_kernel<Added, HWY_NAMESPACE::Sum>,           \
      HWY_NAMESPACE::reduce_kernel<Added, HWY_NAMESPACE::Product>,       \
      HWY_NAMESPACE::reduce_kernel<__VA_ARGS__, HWY_NAMESPACE::Maximum>, \
      HWY_NAMESPACE::reduce_kernel<__VA_ARGS__, HWY_NAMESPACE::Minimum>, \
      HWY_NAMESPACE::reduce_kernel<__VA_ARGS__, HWY_NAMESPACE::Average>, \
      HWY_NAMESPACE::reduce_kernel<Added, HWY_NAMESPACE::ScaledSum>,     \
  }
#define TUTTI_KERNEL_ROW(...) TUTTI_KERNEL_ROW_AS(__VA_ARGS__, __VA_ARGS__)
// Integers are added as unsigned ones, which wrap around.
#define TUTTI_INTEGER_ROWS(bits)                                         \
  TUTTI_KERNEL_ROW_AS(HWY_NAMESPACE::NativeElement<std::uint##bits##_t>, \
                      HWY_NAMESPACE::NativeElement<std::int##bits##_t>), \
      TUTTI_KERNEL_ROW(HWY_NAMESPACE::NativeElement<std::uint##bits##_t>)

constinit const KernelTable TUTTI_KERNEL_TABLE = {
    TUTTI_KERNEL_NAME,
    {
        TUTTI_INTEGER_ROWS(8),
        TUTTI_INTEGER_ROWS(32),
        TUTTI_INTEGER_ROWS(64),
        TUTTI_KERNEL_ROW(HWY_NAMESPACE::Float16Element),
        TUTTI_KERNEL_ROW(HWY_NAMESPACE::NativeElement<float>),
        TUTTI_KERNEL_ROW(HWY_NAMESPACE::NativeElement<double>),
        TUTTI_KERNEL_ROW(HWY_NAMESPACE::Bfloat16Element),
        TUTTI_KERNEL_ROW(HWY_NAMESPACE::NarrowElement<Float8e4m3>),
        TUTTI_KERNEL_ROW(HWY_NAMESPACE::NarrowElement<Float8e5m2>),
    },
    HWY_NAMESPACE::copy_kernel,
};

#undef TUTTI_INTEGER_ROWS
#undef TUTTI_KERNEL_ROW
#undef TUTTI_KERNEL_ROW_AS

}  // namespace tutti
HWY_AFTER_NAMESPACE();
