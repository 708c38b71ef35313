// The plain meaning of reduce(): scalar loops, one element at a time. Tests compare the vector
// kernels with it, and machines without vector kernels run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/reduce/reduce.hpp"

namespace tutti {

/// As reduce() in reduce.hpp; ignores the destinations' `stores`.
void reduce_reference(const Reduction& reduction, std::span<const std::byte* const> sources,
                      std::uint64_t scaled, std::span<const Destination> destinations,
                      std::size_t count);

}  // namespace tutti
