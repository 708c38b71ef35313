// Proves many schedules, for `tutti algo verify`: lists them, orders them, and sums up the results
// for each collective of each algorithm.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ir/algorithm.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

struct RankRange {
  int first = 1;
  int last = 1;
};

/// Of rooted collectives every root is proved up to here; above, roots 0, 1, n/2 and n-1.
inline constexpr int kEveryRootUpTo = 64;

/// What was proved of one collective of one algorithm.
struct Proved {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  int first_ranks = 0;
  int last_ranks = 0;
  std::vector<std::string> layouts;  ///< as print() writes them; none where there was no layout
  bool every_root = true;            ///< false: of more than kEveryRootUpTo ranks only some
  std::uint64_t schedules = 0;
  std::uint64_t steps = 0;
  std::uint32_t rounds = 0;  ///< most of any schedule
  /// The same schedules, made to send compressed data in all messages, and in those between hosts
  /// alone (where there are hosts). Of schedules with formats of their own: these.
  struct Compressed {
    std::uint32_t roundings = 0;  ///< of a contribution: most of any schedule
    bool same_bits = true;        ///< all ranks get the same bits, in each schedule
  };
  Compressed compressed;
  std::optional<Compressed> between_hosts;
  double seconds = 0;  ///< of work, on however many threads
};

/// The schedules that are one row of the table.
struct Claim {
  const ir::Algorithm* algorithm = nullptr;
  Collective collective = Collective::kAllReduce;
  std::vector<ir::Request> requests;  ///< in ascending order of ranks
};

/// What an algorithm has of a collective for these numbers of ranks, in place and not. An algorithm
/// that needs a layout is asked for over two levels of every shape from 2x2 to 8x8, some of nodes
/// that differ in size or interleave, and some grids, where they have so many ranks.
Claim claim_for_ranks(const ir::Algorithm& algorithm, Collective collective, RankRange range);
/// The same over one layout, which must not be empty.
Claim claim_for_layout(const ir::Algorithm& algorithm, Collective collective,
                       const ir::Layout& layout);

/// Called now and then, from the thread that called prove(), while others work.
using OnProgress = std::function<void(std::size_t done, std::size_t all)>;

/// A row for each claim that has requests, in their order, whatever `threads` (at least 1) do.
/// The error is that of the first schedule that is wrong, in that order, and names it.
Result<std::vector<Proved>> prove(std::span<const Claim> claims, unsigned threads,
                                  const OnProgress& on_progress);

}  // namespace tutti::tools
