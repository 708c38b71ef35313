// Rules of thumb: which algorithms suit a call, by size, ranks and hosts only. They decide where no
// user asked for anything and nothing was measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/ir/request.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// What the tuner knows about a call.
struct Situation {
  ir::Request request;
  std::size_t block_bytes = 0;    ///< count x element size
  std::size_t largest_input = 0;  ///< largest input of any rank, in bytes
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< for reductions
};

/// Algorithm names for one host, best first, where every rank reads every other's memory. `bytes`:
/// size of a block.
std::vector<std::string_view> on_one_host(Collective collective, std::size_t bytes,
                                          std::int32_t ranks);

/// Preferred to those where ranks load and store each other's buffers. There the root of a
/// broadcast does its share, and two ranks add half each.
std::vector<std::string_view> in_mapped_buffers(Collective collective, std::size_t bytes,
                                                std::int32_t ranks);

/// Whether the names for one host give equal results and are so close in speed that a machine may
/// prefer either. All sizes of one class (src/cost/tuning.hpp) get the same answer.
bool are_rivals(Collective collective, std::size_t bytes, std::int32_t ranks);

/// Algorithm names for several hosts, best first. `bytes`: size of the larger of a rank's two
/// buffers.
std::vector<std::string_view> over_hosts(const ir::Request& request, std::size_t bytes);

/// Those of over_hosts() that give the same bits and are so close in speed that machines and
/// network decide. All sizes of one class (src/cost/tuning.hpp) get the same answer, which includes
/// the guess. Collectives that only move data qualify, and reductions only if they are exact. Float
/// sums depend on the algorithm, and results that do not change between runs are worth more than
/// the time saved. So for them the guess stays.
std::vector<std::string_view> rivals_between_hosts(const Situation& situation);

/// What may run a compressed call, best first: few conversions on the way of a contribution count
/// more than few messages.
std::vector<std::string_view> compressed(const ir::Request& request, std::size_t bytes,
                                         bool one_host);

}  // namespace tutti
