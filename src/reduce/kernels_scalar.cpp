// The reference as a kernel table: for processors without a vector target, and for comparison.
#include <cstring>

#include "src/reduce/kernels.hpp"
#include "src/reduce/reference.hpp"

namespace tutti {
namespace {

void reduce_scalar(const ReducePass& pass) {
  reduce_reference(*pass.reduction, {pass.sources, pass.source_count}, pass.scaled,
                   {pass.destinations, pass.destination_count}, pass.count);
}

void copy_scalar(const std::byte* source, const Destination* destinations,
                 std::size_t destination_count, std::size_t bytes) {
  for (std::size_t j = 0; j < destination_count; ++j) {
    std::memmove(destinations[j].data, source, bytes);
  }
}

constexpr KernelTable make_table() {
  KernelTable table{.name = "scalar", .reduce = {}, .copy = copy_scalar};
  for (auto& row : table.reduce) {
    for (auto& kernel : row) kernel = reduce_scalar;
  }
  return table;
}

}  // namespace

constinit const KernelTable kScalarKernels = make_table();

}  // namespace tutti
