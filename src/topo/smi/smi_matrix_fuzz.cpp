// Any bytes are read to an error that names a line, or to a topology.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topo/smi/matrix.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto noted = tutti::topo::read_smi_matrix(text);
  // No text that is read may break a rule of topologies: that would be found as another error.
  if (!noted && !noted.error().what.starts_with("line ")) std::abort();
  return 0;
}
