// Any bytes parse to an error that says something, or to a topology that is written and read as an
// equal one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topo/format/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto topology = tutti::topo::parse_topology_json(text);
  if (!topology) {
    if (topology.error().what.empty()) std::abort();
    return 0;
  }
  const auto again = tutti::topo::parse_topology_json(tutti::topo::topology_json(*topology));
  if (!again || *again != *topology || again->hash() != topology->hash()) std::abort();
  return 0;
}
