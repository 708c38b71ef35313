// Combines data of which some is formatted: decodes what comes in, adds in float32, encodes what
// goes out. It works in tiles that stay in the processor's caches, and encodes a result once,
// whoever gets it.
//
// A result is rounded to the call's type before it is encoded: so it does not matter whether a
// schedule's steps were fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "src/codec/format.hpp"
#include "src/exec/scratch.hpp"
#include "src/reduce/reduce.hpp"
#include "tutti/error.hpp"

namespace tutti::exec {

/// Data to read. `format` is null for elements of the call's type.
struct CodedSource {
  const std::byte* data = nullptr;
  const codec::Format* format = nullptr;
  bool scaled = false;  ///< multiplied by Encoding::factor first
};
struct CodedDestination {
  Destination to;
  const codec::Format* format = nullptr;
};

/// How a result is encoded. Value.
struct Encoding {
  codec::Rounding rounding;
  /// Null, or what the encoding of these values was off by the last time. It is added to them, and
  /// replaced by what they are off now; by 0 where that is not finite.
  float* errors = nullptr;
  /// Of scaled sources; empty: the reduction's scalar.
  std::optional<float> factor = {};
};

/// Whether data of this type can be formatted: float32, float16, bfloat16.
bool is_convertible(DataType type);

/// Resource. Keeps its tiles from call to call.
class Converter {
 public:
  /// destinations = the sources, combined in order. `count` elements. reduction.type is float32,
  /// float16 or bfloat16. Formatted destinations have one format. The bytes of a formatted source
  /// may be any, since peers write them: false, if they are not valid.
  /// kUnavailable: no memory for the tiles.
  Result<bool> combine(const Reduction& reduction, std::span<const CodedSource> sources,
                       std::span<const CodedDestination> destinations, std::size_t count,
                       const Encoding& encoding);

 private:
  struct Job;
  bool run_tile(const Job& job, std::size_t first, std::size_t count);
  bool encode(const Encoding& encoding, const float* values, std::size_t first, std::size_t count,
              const codec::Format& format, std::byte* code);
  const float* add_up(const Job& job, std::size_t first, std::size_t count, bool& valid);
  float* tile(std::size_t number) const { return tiles_ + number * tile_elements_; }

  Scratch memory_;
  float* tiles_ = nullptr;
  std::size_t tile_elements_ = 0;
};

}  // namespace tutti::exec
