// Says which data goes where in each round of a schedule. `tutti algo show` draws and lists it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// What one rank sends to another in one round, on all lanes. Or to or from the network: group g of
/// a schedule of n ranks has the number n + g.
struct Arrow {
  std::uint32_t round = 0;  ///< from 1 on
  Rank source = kNoRank;
  Rank destination = kNoRank;
  /// Chunks of data, ascending, wherever they lie at either end: numbered as in the vector, as in
  /// the output of an all_gather or gather, and as in the sender's first input of an all_to_all.
  std::vector<std::uint32_t> chunks;
  bool is_partial = false;  ///< carries sums of some ranks' contributions, still to be added to
};

struct Traffic {
  std::vector<Arrow> arrows;  ///< by round, then source, then destination
  std::uint32_t rounds = 0;
  std::uint32_t chunks = 0;  ///< of data there are
};

/// `proof` must be verify(schedule)'s.
Result<Traffic> traffic_of(const ir::Schedule& schedule, const ir::Proof& proof);

/// "ring all_reduce, 4 ranks", "hierarchical_ring all_reduce, 8 ranks as 2x4"
std::string title_of(const ir::Schedule& schedule);

/// "6 rounds; 4 chunks of data, S in all; a rank sends 6 chunks at most, 1.5 S"; without the last
/// where chunks travel encoded.
std::string summary_of(const ir::Schedule& schedule, const ir::Proof& proof,
                       const Traffic& traffic);

/// {0,1,2,5} -> "0-2 5"
std::string ranges(const std::vector<std::uint32_t>& ascending);

/// A line per message, by rounds: "1  0 -> 1  3  added".
std::string to_rounds(const ir::Schedule& schedule, const ir::Proof& proof, const Traffic& traffic);

/// SVG: a lane per rank and group, a column per round, an arrow per message, of one strand for each
/// chunk it carries, in that chunk's colour. A plus at an arrow's end: what arrives is added there.
/// Lanes of a node stand together on a band with its name. kInvalidArgument where it would be more
/// than anyone can read.
Result<std::string> to_svg(const ir::Schedule& schedule, const ir::Proof& proof,
                           const Traffic& traffic);

}  // namespace tutti::tools
