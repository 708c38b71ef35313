// Random calls of a job and what they must give, computed without any switch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "src/switch/operation.hpp"

namespace tutti::in_network {

using Bytes = std::vector<std::byte>;

struct CallCase {
  Operation operation;        ///< without buffers
  std::vector<Bytes> inputs;  ///< of each member; empty where it has none
  /// What each member must get, to the bit; empty where it gets nothing.
  std::vector<Bytes> outputs;
  bool is_finite = true;  ///< false: all must find out that it is not
};

/// Any collective, type and operator that a switch does. All blocks together have about `chunks`
/// chunks at most.
CallCase random_case(std::mt19937_64& random, unsigned members, std::size_t chunks);
/// This call with random inputs.
CallCase case_of(const Operation& operation, std::mt19937_64& random, unsigned members);

/// This call with these inputs.
CallCase with_inputs(const Operation& operation, std::vector<Bytes> inputs);

/// How far a value of a float sum may be from the exact sum, relative to what the contract states;
/// at most 1. The greatest of all values.
double error_of(const CallCase& call, unsigned member, const Bytes& output);

}  // namespace tutti::in_network
