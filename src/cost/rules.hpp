// Which algorithms suit a call, by size, ranks and hosts alone: what is chosen where nobody asked
// for anything and nothing was measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/ir/request.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Facts about a call that the tuner looks at.
struct Situation {
  ir::Request request;
  std::size_t block_bytes = 0;    ///< count x element size
  std::size_t largest_input = 0;  ///< of any rank, in bytes
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< of reductions
};

/// Names, best first, on one host, where every rank reads every other's memory. `bytes`: of a
/// block.
std::vector<std::string_view> on_one_host(Collective collective, std::size_t bytes,
                                          std::int32_t ranks);

/// What comes before those where ranks load and store each other's buffers: there the root of a
/// broadcast does its share, and two ranks add a half each.
std::vector<std::string_view> in_mapped_buffers(Collective collective, std::size_t bytes,
                                                std::int32_t ranks);

/// Whether the names for one host are of equal results, and so near in speed that a machine may
/// prefer either. All sizes of one class (src/cost/tuning.hpp) have the same answer.
bool are_rivals(Collective collective, std::size_t bytes, std::int32_t ranks);

/// Names, best first, on several hosts. `bytes`: the longer of a rank's two buffers.
std::vector<std::string_view> over_hosts(const ir::Request& request, std::size_t bytes);

/// Those of them that give the same bits and are so near in speed that the machines and the network
/// may prefer either; all sizes of one class (src/cost/tuning.hpp) have the same answer, and the
/// guess is among them. What is only moved arrives the same whichever way it took; what is added
/// has to be exact. Sums of floats differ with the algorithm, and results that do not change from
/// run to run are worth more than what the fastest one saves: there the guess stays.
std::vector<std::string_view> rivals_between_hosts(const Situation& situation);

}  // namespace tutti
