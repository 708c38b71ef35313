// Any text is refused as an address, or is one: made of an address's characters alone, and read
// back unchanged from what is written for it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/wire/net.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto address = tutti::parse_address(text);
  if (!address) return 0;
  constexpr std::string_view kCharacters = "0123456789abcdefABCDEF.:[]%";
  if (text.find_first_not_of(kCharacters) != std::string_view::npos) std::abort();
  const auto again = tutti::parse_address(tutti::to_text(*address));
  if (!again || !(*again == *address)) std::abort();
  return 0;
}
