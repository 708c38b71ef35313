// Any bytes are refused with a reason, or are a machine; those of moderate size are built, or
// refused with a reason. Files are not read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/machines/machine.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::topo;
  const auto machine = parse_machine({reinterpret_cast<const char*>(data), size}, builtin_preset);
  if (!machine) {
    if (machine.error().what.empty()) std::abort();
    return 0;
  }
  constexpr std::uint32_t kMostHosts = 64, kMostSwitches = 64;  // larger ones take too long each
  if (machine->fabric) {
    const FabricShape& fabric = *machine->fabric;
    if (fabric.hosts > kMostHosts || fabric.groups > kMostSwitches ||
        fabric.routers > kMostSwitches || fabric.spines > kMostSwitches ||
        fabric.degree > kMostSwitches || fabric.global > kMostSwitches)
      return 0;
  }
  const auto topology = build(*machine);
  if (!topology && topology.error().what.empty()) std::abort();
  return 0;
}
