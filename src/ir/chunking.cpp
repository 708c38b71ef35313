#include "src/ir/chunking.hpp"

#include <algorithm>

namespace tutti::ir {
namespace {

std::size_t units_in(std::size_t count, std::size_t unit) {
  return count / unit + (count % unit != 0 ? 1 : 0);
}

std::size_t choose_unit(std::size_t count, std::size_t element_bytes, std::uint32_t chunks) {
  const std::size_t unit = std::max<std::size_t>(1, Chunking::kUnitBytes / element_bytes);
  return units_in(count, unit) < chunks ? 1 : unit;
}

}  // namespace

Chunking::Chunking(std::size_t count, std::size_t element_bytes, std::uint32_t chunks_per_block)
    : count_(count),
      unit_(choose_unit(count, element_bytes, chunks_per_block)),
      chunks_per_block_(chunks_per_block) {
  // The longer chunks come last, and only the very last one may be cut short.
  const std::uint32_t last = chunks_per_block - 1;
  max_size_ = std::max(size(last), size(last == 0 ? 0 : last - 1));
}

ElementRange Chunking::elements(std::uint32_t chunk) const {
  const std::size_t units = units_in(count_, unit_);
  const std::size_t base = units / chunks_per_block_;
  const std::size_t longer = units % chunks_per_block_;  // the last `longer` chunks get base + 1
  const std::size_t first_longer = chunks_per_block_ - longer;
  // The longer chunks come last so that the incomplete unit shortens a longer chunk: sizes then
  // differ by at most one unit.
  const auto border = [&](std::size_t index) {
    const std::size_t extra = index > first_longer ? index - first_longer : 0;
    return std::min(count_, (index * base + extra) * unit_);
  };
  const std::size_t block_begin = std::size_t{chunk / chunks_per_block_} * count_;
  const std::size_t index = chunk % chunks_per_block_;
  return {block_begin + border(index), block_begin + border(index + 1)};
}

}  // namespace tutti::ir
