// The factor for a loss that keeps gradients in float16 from vanishing, as large as possible
// without overflow (Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2; dynamic
// scaling from its section 4).
#pragma once

#include <cstdint>

namespace tutti::training {

/// Grows after a number of good steps, halves after a step that was skipped because a gradient was
/// infinite. Value: its members are its whole state.
struct LossScaler {
  static constexpr double kLeast = 1, kMost = 16777216;  // 2^24
  double scale = 65536;
  std::uint64_t growth_interval = 2000;  ///< good steps until it doubles; 0: the scale is fixed
  std::uint64_t good_steps = 0;          ///< since the scale last changed
  friend bool operator==(const LossScaler&, const LossScaler&) = default;

  /// Call after each step. Equal on all ranks, because they all skip the same steps.
  void update(bool skipped);
};

}  // namespace tutti::training
