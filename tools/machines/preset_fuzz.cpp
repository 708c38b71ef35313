// Any bytes are refused with a reason, or are a preset: a host that has a way through JSON and
// back, or a fabric whose parameters are checked.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topo/format/json.hpp"
#include "tools/machines/preset.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::topo;
  const auto preset = parse_preset({reinterpret_cast<const char*>(data), size});
  if (!preset) {
    if (preset.error().what.empty()) std::abort();
    return 0;
  }
  if (const Topology* host = preset->host()) {
    const auto again = parse_topology_json(topology_json(*host));
    if (!again || *again != *host) std::abort();
  }
  if (const FabricShape* fabric = preset->fabric()) (void)check(*fabric);
  return 0;
}
