// Codecs: encode and decode on spans, for a schedule's kEncode and kDecode steps.
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
  DataType decoded = DataType::kFloat32;  ///< element type before encoding
  bool lossless = false;
  bool sums_encoded = false;         ///< whether encoded data can be added directly
  std::uint32_t block_elements = 1;  ///< elements that share state; slices are multiples of it
};

/// A codec has no state: the caller keeps error feedback. Thread-safe.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual CodecTraits traits() const = 0;
  /// Encoded size of `count` elements in bytes: exact, whatever the data.
  virtual std::size_t encoded_bytes(std::size_t count) const = 0;
  /// `in` has `count` elements of traits().decoded; `out` has encoded_bytes(count) bytes.
  virtual void encode(std::span<const std::byte> in, std::span<std::byte> out,
                      std::size_t count) const = 0;
  virtual void decode(std::span<const std::byte> in, std::span<std::byte> out,
                      std::size_t count) const = 0;
};

/// Stores float32 as bfloat16, rounded to nearest even: half the bytes, lossy.
const Codec& bfloat16_codec();

}  // namespace tutti
