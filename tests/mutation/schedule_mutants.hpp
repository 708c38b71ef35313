// Small defects, made at random in correct schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

enum class Mutation : std::uint8_t {
  kDrop,        ///< a step is gone; dependencies on it too
  kDuplicate,   ///< a step happens twice
  kSwap,        ///< two steps of a rank change places
  kChunk,       ///< an operand names another chunk
  kPeer,        ///< a message goes to, or comes from, another rank
  kLane,        ///< a message takes another lane
  kVerb,        ///< reduce becomes copy and so on
  kSpace,       ///< an operand names another memory
  kDependency,  ///< a dependency is gone
  kCount,       ///< an operand has more or fewer chunks
  kStride,      ///< an operand's chunks lie further apart, or closer
  kScratch,     ///< a scratch chunk is sized like another chunk
  kFormat,      ///< an operand is read or written in another format
  kGroup,       ///< a group step goes over another group
  kMember,      ///< a group has one member more, or one less
};
inline constexpr int kMutations = 15;

std::string_view name_of(Mutation mutation);

/// A schedule that differs from `original` by one mutation; nullopt when the chosen place has no
/// such mutation. Mutants stay inside their memory where they can, so that what is tested is
/// the proof rather than the bounds check.
std::optional<Schedule> mutate(const Schedule& original, Mutation mutation,
                               std::mt19937_64& random);

}  // namespace tutti::ir
