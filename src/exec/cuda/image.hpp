// From a lowered schedule and sizes to the image that the device interpreter runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/device/program.hpp"
#include "src/exec/chunk_places.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

/// What all ranks of a call agree on besides its program and its volume.
struct ImageOptions {
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t blocks = 1;  ///< thread blocks, each with a share of every chunk
  device::AreaShape area;    ///< of the memory that ranks have for each other
};

/// The image of one rank's program; pure. `lowered` must have passed lower::check(). Its memory is
/// aligned for device::Header.
///
/// kUnsupported, with the remedy: the program needs what no device code does (messages to other
/// hosts, codecs, more than device::kMaxRanks ranks), or more memory than areas of this shape have.
Result<std::vector<std::byte>> build_image(const lower::Lowered& lowered, const Volume& volume,
                                           Rank rank, const ImageOptions& options);

/// Whether every number in `image` has something behind it: sections, ranks, locations, packets,
/// slots and scratch. User buffers, whose sizes an image does not say, are left out. build_image()
/// returns nothing that fails it. Any bytes end in ok or in kInternal.
Status check_image(std::span<const std::byte> image);

}  // namespace tutti::exec::cuda
