// Any text is refused or a manifest whose own text means the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "training/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto manifest =
      tutti::training::parse_manifest({reinterpret_cast<const char*>(data), size});
  if (!manifest) return 0;
  const auto again = tutti::training::parse_manifest(tutti::training::manifest_json(*manifest));
  if (!again || !(*again == *manifest)) std::abort();
  return 0;
}
