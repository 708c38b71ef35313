// The words for one pass over a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::training {

enum class Pass : std::uint8_t { kForward, kBackward };

/// Where a gradient goes, and whether it is added to the contents or overwrites them.
struct GradientPlace {
  std::span<std::byte> data;
  bool adds = false;
};

}  // namespace tutti::training
