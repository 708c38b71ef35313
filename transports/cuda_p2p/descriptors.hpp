// Ranks in different processes of one host give each other the descriptors of their memory.
//
// Each rank dials all lower ranks, in order, and then accepts all higher ones, so nobody waits in a
// circle: rank 0 only accepts, and whoever it has let in goes on to the next. Both sides prove that
// they hold the request's key before a descriptor is passed, and are of one user. A stranger who
// knocks is dropped, at once if it says something wrong and after kPatience if it says nothing.
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

/// For how long a visitor that holds no key can keep others waiting.
inline constexpr auto kPatience = std::chrono::seconds(2);

struct DescriptorSwap {
  Rank rank = 0;
  std::uint64_t communicator = 0;
  std::span<const std::byte> key;
  std::span<const Offer> offers;  ///< of all ranks, this one's too; none of them a problem
  int listener = -1;              ///< at the address of this rank's offer
  int fd = -1;                    ///< what this rank gives; -1: its memory is not kDescriptor
  Deadline deadline;
};

/// By rank: what those gave that are in another process and whose memory is kDescriptor; nobody has
/// looked into it yet. Its first error is returned once all ranks were tried, so that one that is
/// missing holds nobody else up.
Result<std::vector<Fd>> swap_descriptors(const DescriptorSwap& swap);

}  // namespace tutti::cuda_p2p
