// What each collective moves: block counts, in-place rules, and nccl-tests' bandwidth formulas.
//
// Pure arithmetic. A *block* is `count` elements, NCCL's count argument of the call. In this tool
// Collective::kSend stands for the send_recv test: each rank sends to the next and receives from
// the previous one, in one group.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "tutti/types.hpp"

namespace tutti::bench {

inline constexpr Collective kSendRecv = Collective::kSend;

/// In the order `all` runs them.
std::span<const Collective> all_tests();

/// "all_reduce", ..., "send_recv".
std::string_view test_name(Collective test);
/// By the names of `tutti bench --help`, and by nccl-tests' spellings "alltoall" and "sendrecv".
std::optional<Collective> test_by_name(std::string_view name);
/// From a program's name: "/usr/bin/all_reduce_perf" -> all_reduce; nullopt for other programs.
std::optional<Collective> test_by_program(std::string_view argv0);

/// One row of the table, but for its measurements.
struct Shape {
  Collective test = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< meaningful when reduces(test)
  Rank ranks = 1;
  Rank root = 0;          ///< meaningful when rooted(test)
  std::size_t count = 0;  ///< elements of a block

  [[nodiscard]] std::size_t block_bytes() const { return count * size_of(type); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The count for a wished size in bytes: whole elements, rounded down, and split evenly over the
/// ranks where the larger buffer holds a block per rank; at least 1 unless the size is 0.
std::size_t count_for(Collective test, DataType type, Rank ranks, std::size_t bytes);

/// Blocks of the send and receive buffer of one rank; 0 where the rank has none.
struct Blocks {
  std::size_t send = 0;
  std::size_t recv = 0;
};
Blocks blocks_of(const Shape& shape, Rank rank);

/// The size column: bytes of the larger buffer over all ranks.
std::size_t shown_bytes(const Shape& shape);

/// In place, both buffers lie in one; these are their starts in it, in blocks. nullopt: the
/// collective has no in-place form (all_to_all, send_recv).
std::optional<Blocks> in_place_offsets(const Shape& shape, Rank rank);

/// Where block `block` of the receive buffer of `rank` comes from, for collectives that only move.
struct Origin {
  Rank rank = 0;
  std::size_t block = 0;  ///< in that rank's send buffer
};
Origin origin_of(const Shape& shape, Rank rank, std::size_t block);

/// GB/s (1e9), nccl-tests' formulas. `us` is microseconds of one iteration; 0 yields 0.
double algorithm_bandwidth(const Shape& shape, double us);
/// Factor from algorithm to bus bandwidth: 2(n-1)/n, (n-1)/n or 1.
double bus_factor(Collective test, Rank ranks);

}  // namespace tutti::bench
