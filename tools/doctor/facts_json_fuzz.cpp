// Any bytes as facts: what is accepted encodes to what decodes to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/doctor/facts_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::doctor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto host = decode_host(text)) {
    const auto again = decode_host(encode(*host));
    if (!again || !(*again == *host)) std::abort();
  }
  if (const auto pair = decode_pair(text)) {
    const auto again = decode_pair(encode(*pair));
    if (!again || !(*again == *pair)) std::abort();
  }
  return 0;
}
