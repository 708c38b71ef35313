// Any bytes are a recording that is written and read as the same one, or an error that says
// something; and detection finds a topology in every recording that answers anything.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topo/detect/detect.hpp"
#include "src/topo/detect/recorded.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tutti::topo::Recording;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto recording = Recording::parse(text);
  if (!recording) {
    if (recording.error().what.empty()) std::abort();
    return 0;
  }
  const auto again = Recording::parse(recording->text());
  if (!again || *again != *recording) std::abort();
  tutti::topo::RecordedProbe probe(*recording);
  const auto noted = tutti::topo::detect(probe);
  if (!noted && noted.error().code != tutti::Code::kUnavailable) std::abort();
  return 0;
}
