// Any bytes parse to an error that says something, or to a machine that can be built.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/machines/synthetic.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto spec = tutti::topo::parse_synthetic({reinterpret_cast<const char*>(data), size});
  if (!spec) {
    if (spec.error().what.empty()) std::abort();
    return 0;
  }
  constexpr std::uint64_t kLargest = 4096;  // ranks and NICs; larger ones take too long each
  std::uint64_t ranks = 1;
  for (const std::uint32_t size_of : spec->sizes) ranks *= size_of;
  if (ranks > kLargest || std::uint64_t{spec->nics} * spec->sizes[0] > kLargest) return 0;
  if (!tutti::topo::build(*spec)) std::abort();
  return 0;
}
