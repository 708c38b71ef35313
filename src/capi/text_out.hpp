// Texts that functions of the API write to a buffer of the caller.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "src/capi/answer.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Cut to `bytes`, always ended by a zero.
inline void copy_text(const std::string& text, char* out, std::size_t bytes) {
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

inline Status check_text_out(const char* out, std::size_t bytes) {
  TUTTI_TRY(check_out(out, "the text buffer"));
  if (bytes > 0) return ok_status();
  return make_error(Code::kInvalidArgument, "the text buffer has 0 bytes: it needs one at least");
}

}  // namespace tutti::capi
