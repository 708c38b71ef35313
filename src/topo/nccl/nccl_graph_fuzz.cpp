// Any bytes are read to an error that says something, or to graphs that are written and read as the
// same ones.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topo/nccl/graph.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graphs = tutti::topo::read_nccl_graph(text);
  if (!graphs) {
    if (graphs.error().what.empty() || graphs.error().code != tutti::Code::kInvalidArgument)
      std::abort();
    return 0;
  }
  const auto again = tutti::topo::read_nccl_graph(tutti::topo::write_nccl_graph(*graphs));
  if (!again || *again != *graphs) std::abort();
  return 0;
}
