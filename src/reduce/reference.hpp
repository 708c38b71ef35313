// The plain meaning of reduce(): scalar loops, one element at a time. The oracle of the vector
// kernels, and what runs where there are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/reduce/reduce.hpp"

namespace tutti {

/// As reduce() in reduce.hpp; `stores` of the destinations is ignored.
void reduce_reference(const Reduction& reduction, std::span<const std::byte* const> sources,
                      std::uint64_t scaled, std::span<const Destination> destinations,
                      std::size_t count);

}  // namespace tutti
