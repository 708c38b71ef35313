// The calls that the tests of collectives make, and what must come of them by a plain reference.
// Inputs are small integers, so every sum and product is exact in every type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/shared_heap.hpp"
#include "src/comm/communicator.hpp"
#include "src/ir/request.hpp"

namespace tutti::testing {

/// A call on every rank.
struct Case {
  ir::Request request;  ///< in_place: of the ranks in `in_place_ranks`
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t in_place_ranks = ~std::uint32_t{0};  ///< bit r: rank r
};

std::vector<DataType> all_types();

/// Writes one element; exact for small integers in all types.
void store(DataType type, double value, std::byte* at);

/// Every collective x type x operator, in place and not. Counts and roots: all of them up to three
/// ranks; above, and at any number under a sanitizer, each case takes the next ones in turn, so
/// that all occur with all collectives.
std::vector<Case> cases_of(std::int32_t ranks, const std::vector<std::size_t>& counts,
                           const std::vector<DataType>& types);

/// Of float and int32; every other one in place on some ranks only.
std::vector<Case> cases_for(std::int32_t ranks, const std::vector<std::size_t>& counts);

/// One rank's part of all cases, each checked; gives up after the first that is wrong. Buffers are
/// of `heap`, or ordinary memory.
void run_cases(Communicator& communicator, const std::vector<Case>& cases,
               SharedHeap* heap = nullptr);

}  // namespace tutti::testing
