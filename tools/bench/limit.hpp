// The fastest time that this machine allows: the column "%limit" (docs/bench.md).
//
// Whatever the algorithm, on one host every byte that a collective needs is loaded at least once,
// and every byte of its results is stored at least once. So its ranks together move at least
//
//   traffic = sum over ranks of (bytes of the send buffer + bytes of the receive buffer)
//
// less what an in-place call leaves where it is. For an all-reduce of S bytes that is 2nS, what
// the two-shot algorithm moves: rank r loads slice r of all n inputs and stores it into all n
// outputs. The machine's bandwidth is what as many threads reach together when each copies
// between its own buffers: loads and stores, as STREAM counts them (McCalpin, "Memory bandwidth
// and machine balance in current high performance computers", 1995). Then
//
//   limit = traffic / bandwidth           %limit = 100 * limit / time
//
// The bandwidth depends on how much is copied, since caches are faster than memory; a row is held
// to copies as large as its own share of the traffic. Latency is no part of the limit: small
// messages are far from it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/shape.hpp"

namespace tutti::bench {

/// Bytes that the ranks together load and store at least.
std::size_t least_traffic(const Shape& shape, bool in_place);

/// Measured copy bandwidth of all ranks together. Value.
struct CopyBandwidth {
  struct Point {
    std::size_t bytes;  ///< that each rank copied from its send to its receive buffer
    double gb_s;        ///< loaded and stored by all ranks, 1e9 bytes/s
  };
  std::vector<Point> points;  ///< by ascending bytes; never empty

  /// Between two points along the logarithm of the size; beyond the ends, the nearest one.
  [[nodiscard]] double gb_s(std::size_t bytes) const;
};

/// The sizes to measure for rows whose largest buffer is `largest` bytes.
std::vector<std::size_t> probe_sizes(std::size_t largest);

/// 100 means as fast as the limit. nullopt when there is nothing to move or no time.
std::optional<double> limit_percent(const Shape& shape, bool in_place,
                                    const CopyBandwidth& bandwidth, double us);

/// "32K 81.2, 256K 60.1 GB/s"
std::string bandwidth_text(const CopyBandwidth& bandwidth);

}  // namespace tutti::bench
