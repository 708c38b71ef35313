// An MSCCL++ plan as numbers, with its indirections resolved. mscclpp_json.cpp interprets its
// operations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/exchange/assembly.hpp"
#include "src/exchange/json_node.hpp"

namespace tutti::exchange {

enum class PlanVerb : std::uint8_t {
  kNothing,  ///< nop, flush: order that a thread block has anyway
  kSignal,
  kWait,
  kBarrier,
  kCopy,    ///< first destination = first source
  kReduce,  ///< first destination = sum of all sources
};

/// A run of chunks of any gpu.
struct PlanOperand {
  Rank rank = 0;
  Run run;
};

/// Channel j of one kind between two gpus is channel j on both sides.
struct PlanChannel {
  Rank peer = 0;
  int kind = 0;
  int number = 0;
};

struct PlanOp {
  PlanVerb verb = PlanVerb::kNothing;
  bool awaits_packets = false;  ///< waits until the sources in scratch have arrived
  bool signals = false;         ///< signals on its channels afterwards
  std::vector<PlanOperand> sources;
  std::vector<PlanOperand> destinations;  ///< all but the first get a copy of the first's value
  std::vector<PlanChannel> channels;
  int barrier = 0;
  int barrier_blocks = 0;
  std::string path;
};

struct PlanGpu {
  BufferSizes sizes;
  std::vector<std::vector<PlanOp>> blocks;
};

struct Plan {
  std::string name;
  ir::Request request;
  std::uint32_t chunks_per_block = 1;
  std::vector<PlanGpu> gpus;
};

Result<Plan> parse_mscclpp_plan(const JsonNode& root);

}  // namespace tutti::exchange
