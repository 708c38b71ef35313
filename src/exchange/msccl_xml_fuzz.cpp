// Any bytes are refused with a reason, or become schedules that are proved; those that can be
// written are read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/exchange/msccl_xml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schedules =
      tutti::exchange::read_msccl_xml({reinterpret_cast<const char*>(data), size});
  if (!schedules) {
    if (schedules.error().what.empty() || schedules.error().code == tutti::Code::kInternal)
      std::abort();
    return 0;
  }
  for (const tutti::ir::Schedule& schedule : *schedules)
    if (const auto text = tutti::exchange::write_msccl_xml(schedule);
        text && !tutti::exchange::read_msccl_xml(*text))
      std::abort();
  return 0;
}
