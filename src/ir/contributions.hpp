// Sets of ranks: bitsets in one pool, named by small numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::ir {

using SetId = std::uint32_t;

/// Set number r is {r} for each rank r; join() adds more. Sets are never changed or freed. Joining
/// the same two sets again returns the same number, so memory grows with the number of distinct
/// sums and not with the number of steps.
class RankSets {
 public:
  explicit RankSets(std::int32_t ranks)
      : ranks_(static_cast<std::size_t>(ranks)), words_((ranks_ + 63) / 64) {}

  static SetId only(Rank rank) { return static_cast<SetId>(rank); }

  [[nodiscard]] bool disjoint(SetId a, SetId b) const {
    if (is_single(a)) return !contains(b, static_cast<Rank>(a));
    if (is_single(b)) return !contains(a, static_cast<Rank>(b));
    for (std::size_t word = 0; word < words_; ++word)
      if ((pool_[begin(a) + word] & pool_[begin(b) + word]) != 0) return false;
    return true;
  }

  /// The union of two disjoint sets; nullopt when the pool is full.
  std::optional<SetId> join(SetId a, SetId b) {
    const auto [known, is_new] = joined_.try_emplace(std::uint64_t{a} << 32 | b, SetId{0});
    if (!is_new) return known->second;
    if (pool_.size() + words_ > kMostWords) return std::nullopt;
    known->second = static_cast<SetId>(ranks_ + sizes_.size());
    sizes_.push_back(static_cast<std::uint32_t>(size(a) + size(b)));
    pool_.resize(pool_.size() + words_, 0);
    add_to_last(a);
    add_to_last(b);
    return known->second;
  }

  [[nodiscard]] bool contains(SetId set, Rank rank) const {
    if (is_single(set)) return set == only(rank);
    const auto bit = static_cast<std::size_t>(rank);
    return (pool_[begin(set) + bit / 64] >> (bit % 64) & 1) != 0;
  }
  [[nodiscard]] std::size_t size(SetId set) const {
    return is_single(set) ? 1 : sizes_[set - ranks_];
  }
  [[nodiscard]] bool is_all(SetId set) const { return size(set) == ranks_; }

 private:
  static constexpr std::size_t kMostWords = std::size_t{1} << 24;  // 128 MiB

  [[nodiscard]] bool is_single(SetId set) const { return set < ranks_; }
  [[nodiscard]] std::size_t begin(SetId set) const { return (set - ranks_) * words_; }
  void add_to_last(SetId set) {
    const std::size_t last = pool_.size() - words_;
    if (is_single(set)) {
      pool_[last + set / 64] |= std::uint64_t{1} << (set % 64);
      return;
    }
    for (std::size_t word = 0; word < words_; ++word)
      pool_[last + word] |= pool_[begin(set) + word];
  }

  std::size_t ranks_;
  std::size_t words_;                 // per set
  std::vector<std::uint64_t> pool_;   // words_ words per set, except for sets of one rank
  std::vector<std::uint32_t> sizes_;  // number of ranks, for the same sets
  std::unordered_map<std::uint64_t, SetId> joined_;
};

}  // namespace tutti::ir
