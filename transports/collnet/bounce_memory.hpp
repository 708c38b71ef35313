// Registered memory through which a tree's data passes.
//
// Why not the caller's memory: a plugin's request cannot be cancelled. A tree that breaks has to
// let go of what is posted at once, since the call then runs again without the network, from the
// same inputs and to the same outputs. The plugin may still read and write then, but only this
// memory. The price is a copy on each side.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "src/plugin/collnet_plugin.hpp"
#include "tutti/error.hpp"

namespace tutti::collnet {

/// Steps under way at a time: while one is in the network, data of others is copied.
inline constexpr std::size_t kSlots = 4;
inline constexpr std::size_t kSlotBytes = std::size_t{1} << 20;

/// Value; shares its memory with the requests that use it.
class BounceMemory {
 public:
  static Result<BounceMemory> create(plugin::CollNetGroup& group);

  /// The first `bytes` of a slot.
  [[nodiscard]] plugin::Part send(std::size_t slot, std::size_t bytes) const {
    return part(2 * slot, bytes);
  }
  [[nodiscard]] plugin::Part receive(std::size_t slot, std::size_t bytes) const {
    return part(2 * slot + 1, bytes);
  }

 private:
  explicit BounceMemory(plugin::SharedRegistration memory) : memory_(std::move(memory)) {}
  [[nodiscard]] plugin::Part part(std::size_t number, std::size_t bytes) const {
    return {memory_->bytes().subspan(number * kSlotBytes, bytes), memory_};
  }

  plugin::SharedRegistration memory_;
};

}  // namespace tutti::collnet
