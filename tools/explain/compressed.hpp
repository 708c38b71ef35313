// What `tutti explain` says of a compressed call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/explain/candidates.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

struct CompressedCall {
  std::string format;  ///< with all settings
  double bits = 0;     ///< of a value
  std::string algorithm;
  std::uint32_t roundings = 0;  ///< of a contribution, at most
  bool between_hosts = false;   ///< only what crosses hosts is compressed
  double us = 0, plain_us = 0;  ///< predicted
  /// The least size, in bytes of the call, from which a compressed call is predicted to be faster;
  /// none up to a gigabyte.
  std::optional<std::size_t> pays_from;
};

/// `format` as parse_compression() takes it. Encoding and decoding take as long as here.
/// kInvalidArgument where the call's type or operator cannot be compressed.
Result<CompressedCall> explain_compressed(const Question& question, std::string_view format);

/// The format that TUTTI_COMPRESS asks for; "": none.
std::string format_of_setting(std::string_view setting, Collective collective);

}  // namespace tutti::tools
