// Addresses that ranks in threads of one process tell each other. They do not lie in shared memory,
// because no other process may be able to forge them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/base/shared_by_key.hpp"
#include "src/exec/layout.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

/// Where a rank's buffers of its last kEntries calls lie. Element `sequence % kEntries` is filled
/// before the entry of that call, and refilled by the same rule.
struct LocalPlaces {
  struct Place {
    std::atomic<std::uint64_t> sequence{0};  ///< of the call; stored last
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    bool mapped_by_all = false;
  };
  Place places[kEntries];
  std::atomic<std::uint64_t> touching{0};  ///< like Progress::touching
};

/// One per process: the places of a rank of a communicator.
using LocalBoard = SharedByKey<std::pair<std::uint64_t, Rank>, LocalPlaces>;

}  // namespace tutti::exec
