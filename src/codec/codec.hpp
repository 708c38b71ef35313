// Codecs: encode and decode on spans, for the kEncode and kDecode steps of a schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

struct CodecTraits {
  std::string_view name;
  DataType decoded = DataType::kFloat32;  ///< the element type it works on
  bool lossless = false;
  bool sums_encoded = false;         ///< whether encoded data may be added
  std::uint32_t block_elements = 1;  ///< elements that share state; slices are multiples of it
};

/// A codec has no state: error feedback belongs to the caller. Thread-safe.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual CodecTraits traits() const = 0;
  /// Bytes that `count` elements take when encoded: exact, and the same for any data.
  virtual std::size_t encoded_bytes(std::size_t count) const = 0;
  /// `in`: count elements of traits().decoded; `out`: encoded_bytes(count).
  virtual void encode(std::span<const std::byte> in, std::span<std::byte> out,
                      std::size_t count) const = 0;
  virtual void decode(std::span<const std::byte> in, std::span<std::byte> out,
                      std::size_t count) const = 0;
};

/// float32 as bfloat16, rounded to nearest even: half the bytes, lossy.
const Codec& bfloat16_codec();

}  // namespace tutti
