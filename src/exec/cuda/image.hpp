// Builds the image that the device interpreter runs, from a lowered program and sizes.
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

/// What all ranks of a call must choose alike, besides its program and its volume.
struct ImageOptions {
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t blocks = 1;  ///< thread blocks, each with a share of every chunk
  device::AreaShape area;    ///< of the memory that ranks have for each other
};

/// The image of one rank's program; pure. `lowered` must have passed lower::check(). Its memory is
/// aligned for device::Header.
///
/// kUnsupported, with the remedy: device code cannot run the program (it has messages to other
/// hosts, formats, or more than device::kMaxRanks ranks), or areas of this shape have too little
/// memory.
Result<std::vector<std::byte>> build_image(const lower::Lowered& lowered, const Volume& volume,
                                           Rank rank, const ImageOptions& options);

/// Whether every number in `image` refers to something that exists: sections, ranks, locations,
/// packets, slots and scratch. User buffers are not checked, since an image does not say their
/// sizes. Every image of build_image() passes. Accepts any bytes: the result is ok or kInternal.
Status check_image(std::span<const std::byte> image);

}  // namespace tutti::exec::cuda
