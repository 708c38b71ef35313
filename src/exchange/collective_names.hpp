// The names of collectives in MSCCL, RCCL, SCCL and MSCCL++.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tutti/types.hpp"

namespace tutti::exchange {

struct CollectiveName {
  std::string_view name;
  Collective collective;
};

inline constexpr CollectiveName kCollectiveNames[] = {
    {"allreduce", Collective::kAllReduce},
    {"allgather", Collective::kAllGather},
    {"reduce_scatter", Collective::kReduceScatter},
    {"reducescatter", Collective::kReduceScatter},
    {"broadcast", Collective::kBroadcast},
    {"reduce", Collective::kReduce},
    {"alltoall", Collective::kAllToAll},
    {"gather", Collective::kGather},
    {"scatter", Collective::kScatter},
};

inline std::optional<Collective> collective_of(std::string_view name) {
  for (const CollectiveName& each : kCollectiveNames)
    if (each.name == name) return each.collective;
  return std::nullopt;
}

/// " allreduce allgather ...", for messages.
inline std::string all_collective_names() {
  std::string text;
  for (const CollectiveName& each : kCollectiveNames) text += fmt::format(" {}", each.name);
  return text;
}

}  // namespace tutti::exchange
