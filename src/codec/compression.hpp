// What a user asks of compression, in words: "int8:block=128:rounding=random:seed=7".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "src/codec/format.hpp"
#include "tutti/error.hpp"

namespace tutti::codec {

/// Value. Ranks must agree on all but the seed.
struct Compression {
  std::shared_ptr<const Format> format;
  bool random = false;    ///< rounding=random: see Rounding
  bool feedback = false;  ///< errors=feedback: what a call rounds off is added in the next one
  std::uint64_t seed = 0;

  /// With all settings, as parse_compression() takes it.
  [[nodiscard]] std::string text() const;
};

/// A format as make_format() takes it, with these settings among its own: rounding=nearest|random,
/// errors=feedback|dropped, seed=NUMBER. Errors name the word that is wrong.
Result<Compression> parse_compression(std::string_view text);

/// All that ranks must agree on, never 0. It fits the head of a message. `by_setting`: not by a
/// handle, but by TUTTI_COMPRESS.
std::uint32_t code_of(const Compression& compression, bool by_setting = false);
/// In words, for errors that show what a peer does: "int8:block=128:scale=fp16 by TUTTI_COMPRESS".
/// Takes any number; 0 is "no compression".
std::string describe_code(std::uint32_t code);

}  // namespace tutti::codec
