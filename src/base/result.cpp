#include "src/base/result.hpp"

#include <cstring>

namespace tutti {

Error formatted_error(Code code, Rank peer, fmt::string_view format, fmt::format_args args) {
  return Error{code, fmt::vformat(format, args), peer};
}

Error system_error(Code code, int os_errno, std::string what) {
  char buffer[128];
  const char* text = strerror_r(os_errno, buffer, sizeof buffer);
  return Error{code, fmt::format("{}: {} (errno {})", what, text, os_errno), kNoRank, os_errno};
}

}  // namespace tutti
