// The passes by which ranks that share a GPU run a call together, over the buffers of all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "src/exec/chunk_places.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// Bytes of a rank's buffer, from `offset` on. Value.
struct RankPlace {
  Rank rank = 0;
  bool output = false;  ///< else its input
  std::size_t offset = 0;
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// One pass: destinations = sources combined in order, `elements` of each. Value.
struct LocalPassPlaces {
  std::vector<RankPlace> sources, destinations;
  std::size_t elements = 0;
  bool completes = false;  ///< see lower::Op
  friend bool operator==(const LocalPassPlaces&, const LocalPassPlaces&) = default;
};

/// The programs of all ranks, one after the other. Passes over the same sources are merged, so that
/// the sources are loaded once. `lowered` must be ProgramProtocol::kDirect: no rank touches what
/// another one writes, so the programs of ranks may run in any order. At most lower::kMaxSources
/// sources; any number of destinations. kUnsupported: blocks of different sizes.
Result<std::vector<LocalPassPlaces>> local_passes(const lower::Lowered& lowered,
                                                  const Volume& volume);

}  // namespace tutti::exec::cuda
