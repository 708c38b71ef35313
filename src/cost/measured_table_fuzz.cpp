// Any bytes parse to an error that says something, or to a table that is written and read as the
// same one, which merging with itself does not change and which finds what it holds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/cost/measured_table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = tutti::MeasuredTable::parse(text);
  if (!table) {
    if (table.error().what.empty()) std::abort();
    return 0;
  }
  const auto again = tutti::MeasuredTable::parse(table->text());
  if (!again || *again != *table) std::abort();
  tutti::MeasuredTable twice = *table;
  twice.merge(*table);
  if (twice != *table) std::abort();
  for (const tutti::MeasuredRange& range : table->ranges()) {
    if (!tutti::check(range)) std::abort();
    if (table->find(range.collective, range.arrangement, range.to_bytes) != &range) std::abort();
  }
  return 0;
}
