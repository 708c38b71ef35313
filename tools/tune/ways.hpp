// The ways to run a collective on some ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/cost/tuning.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::tune {

/// Ok, or an error that suggests the nearest name.
Status check_names(std::span<const std::string> algorithms);

/// By every algorithm that loses no precision and can run the collective, from or to rank 0, on
/// ranks with these hosts; of `algorithms` alone unless that is empty. `large`: inputs are longer
/// than what ranks of one host publish, and so those that the kernel can read are two ways.
std::vector<Way> ways_of(Collective collective, const std::vector<int>& host, bool large,
                         std::span<const std::string> algorithms);

/// Whether inputs of so many bytes are large.
bool is_large(std::size_t input_bytes);

}  // namespace tutti::tune
