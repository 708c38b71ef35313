// Any bytes in an auditor's file: what comes out of them refers to what is there.
#include <cstdint>
#include <cstdlib>

#include "tools/dropin/events.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto processes = tutti::tools::parse_events({reinterpret_cast<const char*>(data), size});
  for (std::size_t index = 0; index < processes.size(); ++index)
    if (processes[index].forked_from && *processes[index].forked_from >= index) std::abort();
  return 0;
}
