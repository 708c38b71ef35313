// Any bytes parse to an error that says something, or to a calibration that is written and read as
// the same one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/cost/calibration.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto calibration = tutti::parse_calibration(text);
  if (!calibration) {
    if (calibration.error().what.empty()) std::abort();
    return 0;
  }
  const auto again = tutti::parse_calibration(tutti::calibration_json(*calibration));
  if (!again || *again != *calibration) std::abort();
  return 0;
}
