// Cuts parameters into buckets. The gradients of one bucket are reduced together, while others are
// computed.
//
// Buckets are filled in the order in which gradients become ready, roughly the reverse order of
// use. The first bucket is small, so sending can start early. The others are large enough to use
// the network well. (Li et al., PyTorch Distributed, VLDB 2020, section 3.2.3.)
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "training/flat_layout.hpp"
#include "training/parameters.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// If a link takes most of the time, more buckets hide more of it, until each costs more than it
/// hides: docs/performance.md.
struct BucketLimits {
  std::size_t first_elements = (1 << 19) / 4;  ///< half a MiB of float32
  std::size_t elements = (2 << 20) / 4;        ///< for the other buckets
  friend bool operator==(const BucketLimits&, const BucketLimits&) = default;
};

/// From the last parameter of the table to the first.
std::vector<ParameterId> reverse_order(const ParameterTable& table);

/// Groups for FlatLayout. The parameter that reaches or exceeds the limit closes its bucket, so a
/// bucket may exceed the limit by less than this parameter. kInvalidArgument: `order` is not every
/// parameter once, or a limit is 0.
Result<std::vector<Group>> cut_buckets(const ParameterTable& table,
                                       std::span<const ParameterId> order,
                                       const BucketLimits& limits);

}  // namespace tutti::training
