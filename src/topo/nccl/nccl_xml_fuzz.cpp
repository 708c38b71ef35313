// Any bytes are read to an error that says something, or to a topology that is written and read as
// the same one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topo/nccl/xml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = tutti::topo::read_nccl_xml(text);
  if (!read) {
    if (read.error().what.empty() || read.error().code != tutti::Code::kInvalidArgument)
      std::abort();
    return 0;
  }
  const auto written = tutti::topo::write_nccl_xml(read->topology);
  if (!written) std::abort();
  const auto again = tutti::topo::read_nccl_xml(*written);
  if (!again || !(again->topology == read->topology)) std::abort();
  const auto rewritten = tutti::topo::write_nccl_xml(again->topology);
  if (!rewritten || *rewritten != *written) std::abort();
  return 0;
}
