// Any bytes parse to an error that says something, or to verdicts that are written and read as the
// same ones.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/cost/tuning_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kMachine = "m";
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto verdicts = tutti::parse_tuning(text, kMachine);
  if (!verdicts) {
    if (verdicts.error().what.empty()) std::abort();
    return 0;
  }
  const auto again = tutti::parse_tuning(tutti::tuning_text(kMachine, *verdicts), kMachine);
  if (!again || *again != *verdicts) std::abort();
  return 0;
}
