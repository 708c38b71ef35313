// What rank 0 sends as TUTTI_COMPRESS is an error or compressions that read as they are written;
// and any number in the head of a message has words.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "src/comm/compressor.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint32_t code = 0;
  std::memcpy(&code, data, std::min(size, sizeof code));
  if (tutti::codec::describe_code(code).empty()) std::abort();
  const auto asked =
      tutti::parse_compress_setting(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!asked) {
    if (asked.error().what.empty()) std::abort();
    return 0;
  }
  std::string text;
  for (const tutti::AskedCompression& one : *asked) {
    text += text.empty() ? "" : ",";
    text += std::string(name_of(one.collective)) + ":" + one.compression.text();
  }
  const auto again = tutti::parse_compress_setting(text);
  if (!again || again->size() != asked->size()) std::abort();
  for (std::size_t i = 0; i < again->size(); ++i)
    if ((*again)[i].compression.text() != (*asked)[i].compression.text()) std::abort();
  return 0;
}
