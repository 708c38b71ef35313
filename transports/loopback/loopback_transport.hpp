// A connection inside one process over a hostile wire made from a seed: it delivers in pieces of
// random size, late, lets streams overtake each other, and dies on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "src/transport/transport.hpp"

namespace tutti {

struct LoopbackOptions {
  /// Bytes become readable after up to this many read calls.
  std::uint32_t max_delay_steps = 8;
  /// Bytes in flight each way.
  std::size_t capacity = 64 << 10;
  /// Wires of the connection, each with delays of its own.
  std::size_t wires = 1;
  /// A wire is cut, and what is in flight is lost, once this many bytes were written to it in all.
  std::optional<std::uint64_t> drop_after_bytes{};
};

struct LoopbackPair {
  std::shared_ptr<Connection> a;  ///< the end of rank 0
  std::shared_ptr<Connection> b;  ///< the end of rank 1
  /// Cuts the wire: both ends see their peer fail.
  std::function<void()> kill;
};

/// Driven by one thread, everything that happens follows from the seed.
LoopbackPair make_loopback_pair(std::uint64_t seed, const LoopbackOptions& options = {});

}  // namespace tutti
