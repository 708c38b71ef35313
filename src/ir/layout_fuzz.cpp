// Fuzz target: whatever parses as a layout is sound, and prints as text that parses to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/ir/layout.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto layout = tutti::ir::parse_layout({reinterpret_cast<const char*>(data), size});
  if (!layout) return 0;
  const auto ranks = static_cast<std::int32_t>(layout->cells.size());
  constexpr std::int32_t kMostRanks = 1 << 16;  // the fuzzer counts executions, not patience
  if (ranks > kMostRanks) return 0;
  if (!tutti::ir::check(*layout, ranks)) std::abort();
  const auto again = tutti::ir::parse_layout(print(*layout));
  if (!again || !(*again == *layout)) std::abort();
  if (layout->empty()) return 0;
  std::size_t placed = 0;
  for (const auto& node : tutti::ir::nodes_of(*layout)) placed += node.size();
  if (placed != layout->cells.size()) std::abort();
  return 0;
}
