// Sets of ranks, stored as bitsets in one pool and named by small numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::ir {

using SetId = std::uint32_t;

/// Set r is {r} for each rank r; join() adds more. Sets are never changed or freed.
class RankSets {
 public:
  explicit RankSets(std::int32_t ranks)
      : ranks_(static_cast<std::size_t>(ranks)), words_((ranks_ + 63) / 64) {
    pool_.assign(ranks_ * words_, 0);
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      pool_[rank * words_ + rank / 64] = std::uint64_t{1} << (rank % 64);
    sizes_.assign(ranks_, 1);
  }

  static SetId only(Rank rank) { return static_cast<SetId>(rank); }

  /// The union of two disjoint sets; nullopt when they share a rank.
  std::optional<SetId> join(SetId a, SetId b) {
    for (std::size_t word = 0; word < words_; ++word)
      if ((pool_[a * words_ + word] & pool_[b * words_ + word]) != 0) return std::nullopt;
    for (std::size_t word = 0; word < words_; ++word)
      pool_.push_back(pool_[a * words_ + word] | pool_[b * words_ + word]);
    sizes_.push_back(sizes_[a] + sizes_[b]);
    return static_cast<SetId>(sizes_.size() - 1);
  }

  [[nodiscard]] bool contains(SetId set, Rank rank) const {
    const auto bit = static_cast<std::size_t>(rank);
    return (pool_[set * words_ + bit / 64] >> (bit % 64) & 1) != 0;
  }
  [[nodiscard]] bool is_all(SetId set) const { return sizes_[set] == ranks_; }
  [[nodiscard]] std::size_t size(SetId set) const { return sizes_[set]; }

 private:
  std::size_t ranks_;
  std::size_t words_;                // per set
  std::vector<std::uint64_t> pool_;  // words_ for each set
  std::vector<std::uint32_t> sizes_;
};

}  // namespace tutti::ir
