// Makes a Format of the encoding of one block. The loops over blocks are plain C++: the compiler
// vectorises them once for any processor and once for AVX2. All give the same bits, because no
// operation is contracted or reordered (folder.cmake).
//
// A Block is a small value with
//   std::size_t bytes(std::size_t count) const;
//   void encode(const float* in, std::size_t count, const Rounding&, std::byte* out) const;
//   bool decode(const std::byte* in, std::size_t count, float* out) const;
// for 1 to traits.block values. Both functions are [[gnu::always_inline]], and encode() is a
// template over whether it rounds at random.
#pragma once

#include <memory>
#include <utility>

#include "src/codec/format.hpp"

namespace tutti::codec {

/// Which compiled form of the loops is used. kScalar is there for comparison: it takes one value at
/// a time (compiled by clang, it is kBaseline).
enum class Loops : std::uint8_t { kBest, kBaseline, kScalar };

#if defined(__GNUC__) && !defined(__clang__)
#define TUTTI_SCALAR [[gnu::optimize("no-tree-vectorize")]]
#else
#define TUTTI_SCALAR
#endif

template <class Block>
class BlockFormat final : public Format {
 public:
  BlockFormat(FormatTraits traits, Block block, Loops loops)
      : traits_(std::move(traits)), block_(block), loops_(functions_of(loops)) {}

  const FormatTraits& traits() const override { return traits_; }
  std::size_t bytes(std::size_t count) const override {
    const std::size_t rest = count % traits_.block;
    return count / traits_.block * block_.bytes(traits_.block) +
           (rest > 0 ? block_.bytes(rest) : 0);
  }
  void encode(const float* in, std::size_t count, const Rounding& rounding,
              std::byte* out) const override {
    (rounding.random ? loops_.encode_random : loops_.encode)(*this, in, count, rounding, out);
  }
  bool decode(const std::byte* in, std::size_t count, float* out) const override {
    return loops_.decode(*this, in, count, out);
  }

 private:
  struct Functions {
    void (*encode)(const BlockFormat&, const float*, std::size_t, const Rounding&, std::byte*);
    void (*encode_random)(const BlockFormat&, const float*, std::size_t, const Rounding&,
                          std::byte*);
    bool (*decode)(const BlockFormat&, const std::byte*, std::size_t, float*);
  };

  template <bool kRandom>
  [[gnu::always_inline]] static void encode_blocks(const BlockFormat& self, const float* in,
                                                   std::size_t count, Rounding rounding,
                                                   std::byte* out) {
    const std::size_t block = self.traits_.block, bytes = self.block_.bytes(block);
    for (; count >= block; count -= block, in += block, out += bytes, rounding.first += block)
      self.block_.template encode<kRandom>(in, block, rounding, out);
    if (count > 0) self.block_.template encode<kRandom>(in, count, rounding, out);
  }
  [[gnu::always_inline]] static bool decode_blocks(const BlockFormat& self, const std::byte* in,
                                                   std::size_t count, float* out) {
    const std::size_t block = self.traits_.block, bytes = self.block_.bytes(block);
    bool valid = true;
    for (; count >= block; count -= block, in += bytes, out += block)
      valid &= self.block_.decode(in, block, out);
    if (count > 0) valid &= self.block_.decode(in, count, out);
    return valid;
  }

  template <bool kRandom>
  static void encode_baseline(const BlockFormat& self, const float* in, std::size_t count,
                              const Rounding& rounding, std::byte* out) {
    encode_blocks<kRandom>(self, in, count, rounding, out);
  }
  static bool decode_baseline(const BlockFormat& self, const std::byte* in, std::size_t count,
                              float* out) {
    return decode_blocks(self, in, count, out);
  }
  template <bool kRandom>
  TUTTI_SCALAR static void encode_scalar(const BlockFormat& self, const float* in,
                                         std::size_t count, const Rounding& rounding,
                                         std::byte* out) {
    encode_blocks<kRandom>(self, in, count, rounding, out);
  }
  TUTTI_SCALAR static bool decode_scalar(const BlockFormat& self, const std::byte* in,
                                         std::size_t count, float* out) {
    return decode_blocks(self, in, count, out);
  }
#if defined(__x86_64__)
  template <bool kRandom>
  [[gnu::target("avx2")]] static void encode_avx2(const BlockFormat& self, const float* in,
                                                  std::size_t count, const Rounding& rounding,
                                                  std::byte* out) {
    encode_blocks<kRandom>(self, in, count, rounding, out);
  }
  [[gnu::target("avx2")]] static bool decode_avx2(const BlockFormat& self, const std::byte* in,
                                                  std::size_t count, float* out) {
    return decode_blocks(self, in, count, out);
  }
#endif

  static Functions functions_of(Loops loops) {
    if (loops == Loops::kScalar) return {encode_scalar<false>, encode_scalar<true>, decode_scalar};
#if defined(__x86_64__)
    if (loops == Loops::kBest && __builtin_cpu_supports("avx2"))
      return {encode_avx2<false>, encode_avx2<true>, decode_avx2};
#endif
    return {encode_baseline<false>, encode_baseline<true>, decode_baseline};
  }

  FormatTraits traits_;
  Block block_;
  Functions loops_;
};

template <class Block>
std::unique_ptr<const Format> block_format(FormatTraits traits, Block block, Loops loops) {
  return std::make_unique<const BlockFormat<Block>>(std::move(traits), block, loops);
}

}  // namespace tutti::codec
