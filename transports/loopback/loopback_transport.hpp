// A connection inside one process over a hostile wire, driven by a seed. It delivers late and in
// pieces of random size, lets streams overtake each other, and dies on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "src/transport/transport.hpp"

namespace tutti {

struct LoopbackOptions {
  /// Bytes become readable after at most this many read calls.
  std::uint32_t max_delay_steps = 8;
  /// Most bytes in flight in each direction.
  std::size_t capacity = 64 << 10;
  /// Number of wires of the connection, each with its own delays.
  std::size_t wires = 1;
  /// Cuts a wire, and loses bytes in flight, once this many bytes were written to it in total.
  std::optional<std::uint64_t> drop_after_bytes{};
};

struct LoopbackPair {
  std::shared_ptr<Connection> a;  ///< the end of rank 0
  std::shared_ptr<Connection> b;  ///< the end of rank 1
  /// Cuts the wire: both ends see their peer fail.
  std::function<void()> kill;
};

/// If one thread drives both ends, the seed determines everything that happens.
LoopbackPair make_loopback_pair(std::uint64_t seed, const LoopbackOptions& options = {});

}  // namespace tutti
