// What the kernels in kernels.cu take besides device::Launch.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/base/device_macros.hpp"
#include "src/device/combine.hpp"
#include "src/device/share.hpp"

namespace tutti::device {

/// Upper limit. With this many, a thread may have 128 registers.
inline constexpr std::uint32_t kThreadsPerBlock = 512;

/// One pass over buffers of one GPU. If ranks share a GPU, a call is a few of these, each for all
/// ranks. Plain data, passed by value.
struct LocalPass {
  Operands operands;
  Arithmetic arithmetic;
  std::uint64_t elements = 0;
  std::uint32_t completes = 0;  ///< kAvg divides
};
static_assert(std::is_trivially_copyable_v<LocalPass> && sizeof(LocalPass) < 4096);

/// Runs this block's part; its threads share `operands`.
template <class Types = AllTypes, class Block>
TUTTI_DEVICE inline void run_local_pass(const Block& block, Operands& operands,
                                        const LocalPass& pass) {
  const std::uint64_t element_bytes = size_of(pass.arithmetic.type);
  const Range share = share_of(pass.elements, element_bytes, block.index(), block.count());
  const std::uint64_t begin = share.begin * element_bytes;
  block.for_each(pass.operands.source_count,
                 [&](std::uint64_t s) { operands.sources[s] = pass.operands.sources[s] + begin; });
  block.for_each(pass.operands.destination_count, [&](std::uint64_t d) {
    operands.destinations[d] = pass.operands.destinations[d] + begin;
  });
  block.elect([&] {
    operands.source_count = pass.operands.source_count;
    operands.destination_count = pass.operands.destination_count;
    operands.scaled = pass.operands.scaled;
  });
  block.barrier();
  combine<Types>(block, pass.arithmetic, pass.completes != 0, operands, share.size());
}

}  // namespace tutti::device
