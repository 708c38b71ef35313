// Any bytes decode to an error or to settings that encode to the same meaning.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/comm/job_settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = tutti::decode_job_settings(std::as_bytes(std::span(data, size)), 0);
  if (!value) return 0;
  const tutti::Blob bytes = tutti::encode(*value);
  const auto again = tutti::decode_job_settings(bytes, 0);
  if (!again || tutti::encode(*again) != bytes) std::abort();
  return 0;
}
