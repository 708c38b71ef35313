// Elements as bits, for tests that compare results bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "tutti/types.hpp"

namespace tutti::device::testing {

/// Numbers of all kinds: ordinary ones, that round when added, and among them the ends of the
/// format, infinities, denormals and NaNs. A rest of less than an element is any bytes.
void fill_with_elements(DataType type, std::mt19937_64& random, std::span<std::byte> bytes);

/// Ordinary numbers alone.
void fill_with_numbers(DataType type, std::mt19937_64& random, std::span<std::byte> bytes);

/// Makes every NaN the same: which of several a sum is, is not promised.
void unify_nans(DataType type, std::span<std::byte> bytes);

}  // namespace tutti::device::testing
