// Latency and bandwidth of one connection. One side leads, the other follows.
#pragma once

#include "src/transport/transport.hpp"
#include "tools/doctor/facts.hpp"
#include "tutti/types.hpp"

namespace tutti::doctor {

/// The two ends of a connection. `peer` is also whose fault an error is.
struct Ends {
  Rank self = 0;
  Rank peer = 1;
};

/// Measures and returns after a few seconds, whatever the network does: 8 bytes there and back,
/// then growing amounts each way until one takes 0.2 s or has 64 MiB. The peer runs follow().
LinkFacts lead(Connection& connection, Ends ends);
/// Answers until the leader ends, falls silent for some seconds, or asks for what makes no sense.
Status follow(Connection& connection, Ends ends);

}  // namespace tutti::doctor
