// How much a loss is multiplied with, so that gradients in float16 do not vanish: as much as they
// bear (Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2; the dynamic scale of
// its section 4).
#pragma once

#include <cstdint>

namespace tutti::training {

/// Grows after a number of good steps, halves at one that was skipped because a gradient was
/// infinite. Value: what it has to remember is its members.
struct LossScaler {
  static constexpr double kLeast = 1, kMost = 16777216;  // 2^24
  double scale = 65536;
  std::uint64_t growth_interval = 2000;  ///< good steps until it doubles; 0: the scale is fixed
  std::uint64_t good_steps = 0;          ///< since it last changed
  friend bool operator==(const LossScaler&, const LossScaler&) = default;

  /// After each step; alike on all ranks, since skipping is.
  void update(bool skipped);
};

}  // namespace tutti::training
