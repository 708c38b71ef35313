// Any text is refused or a header whose own text means the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "training/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tutti::training::parse_safetensors_header;
  if (size < 1) return 0;
  // The first byte is how much there is behind the header.
  const std::uint64_t bytes = std::uint64_t{data[0]} * sizeof(float);
  const auto header =
      parse_safetensors_header({reinterpret_cast<const char*>(data) + 1, size - 1}, bytes);
  if (!header) return 0;
  const auto again =
      parse_safetensors_header(tutti::training::safetensors_header_json(*header), bytes);
  if (!again || !(*again == *header)) std::abort();
  return 0;
}
