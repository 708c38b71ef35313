// One rank of a team, as another rank of it sees that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <sys/types.h>

#include "src/base/process_life.hpp"
#include "src/exec/layout.hpp"
#include "src/exec/local_board.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

/// Resource.
struct Member {
  RankBlock* block = nullptr;              ///< null if not mapped
  std::span<std::byte> heap;               ///< the mapping that contains `block`
  pid_t process = -1;                      ///< pid of a mapped rank, as seen from here
  ProcessLife life;                        ///< of that process, unless it is this process
  std::shared_ptr<Connection> connection;  ///< null for this process's own ranks
  std::shared_ptr<LocalPlaces> places;     ///< for this process's own ranks
  std::string label;                       ///< "rank 3 (host:pid)", for messages
};

/// [offset, offset+bytes) of the heap of `peer`, which is mapped and is rank `rank`. An invalid
/// range is an error that blames the peer.
Result<std::byte*> memory_of(const Member& peer, Rank rank, std::uint64_t offset,
                             std::size_t bytes);

}  // namespace tutti::exec
