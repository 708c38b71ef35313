// Mutants of lowered programs: one small change each, everything else kept consistent.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>

#include "src/lower/program.hpp"

namespace tutti::lower {

enum class Mutation : std::uint8_t {
  kDropOp,
  kDuplicateOp,
  kSwapOps,
  kStage,
  kDropWait,
  kWaitRank,
  kWaitOp,
  kWaitSlice,
  kDropTransferWait,
  kTransferWait,
  kSourcePiece,
  kDestinationPiece,
  kSlotIndex,
  kOwner,
  kFormat,
  kMemory,
  kDropSource,
  kSwapSources,
  kDropDestination,
  kLength,
  kUnpublish,
  kCompletes,
  kFormats,
  kPeer,
  kLane,
  kSlotDepth,
  kScratchDepth,
  kSlotLayout,
  kProtocol,
  kGroup,  ///< of a part in an operation of a group
  kRaw,    ///< any field, any value, nothing kept consistent
};
inline constexpr int kMutations = 31;

std::string_view name_of(Mutation mutation);

/// A mutant that differs from `original`; nullopt when the dice fell on a place without what is to
/// be changed.
std::optional<Lowered> mutate(const Lowered& original, Mutation mutation, std::mt19937_64& random);

}  // namespace tutti::lower
