// Ranks in different processes of one host exchange descriptors of their memory.
//
// Each rank dials all lower ranks in order, then accepts all higher ones. So there is no circular
// wait: rank 0 only accepts, and each rank that it has served goes on to the next. Before a
// descriptor is passed, both sides prove that they hold the request's key and belong to one user. A
// stranger that connects is dropped: at once if it sends something wrong, after kLongestHandshake
// if it sends nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "transports/cuda_p2p/offer.hpp"
#include "tutti/error.hpp"

namespace tutti::cuda_p2p {

/// How long a visitor without a key can make others wait.
inline constexpr auto kLongestHandshake = std::chrono::seconds(2);

struct DescriptorSwap {
  Rank rank = 0;
  std::uint64_t communicator = 0;
  std::span<const std::byte> key;
  std::span<const Offer> offers;  ///< of all ranks, including this one; none is a problem
  int listener = -1;              ///< listens at the address in this rank's offer
  int fd = -1;                    ///< what this rank passes; -1: its memory is not kDescriptor
  Deadline deadline;
};

/// By rank: the descriptors of ranks in other processes whose memory is kDescriptor, not inspected
/// yet. Tries all ranks and then returns the first error, so a missing rank does not hold up
/// others.
Result<std::vector<Fd>> swap_descriptors(const DescriptorSwap& swap);

}  // namespace tutti::cuda_p2p
