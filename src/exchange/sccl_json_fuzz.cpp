// Any bytes are refused with a reason, or become schedules that are proved.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/exchange/sccl_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schedules =
      tutti::exchange::read_sccl_json({reinterpret_cast<const char*>(data), size});
  if (!schedules &&
      (schedules.error().what.empty() || schedules.error().code == tutti::Code::kInternal))
    std::abort();
  return 0;
}
