// Reads ncclConfig_t of any version since 2.14, and keeps the fields that Tutti uses.
#pragma once

#include <optional>
#include <string>

#include "nccl.h"
#include "tutti/error.hpp"

namespace tutti::capi {

/// What a communicator is made with. Value.
struct CommConfig {
  bool blocking = true;
  std::string name;  ///< "": the library makes one up
  /// The GPU that the rank uses, as CUDA numbers it; none on a host communicator.
  std::optional<int> device = std::nullopt;

  /// Whether calls without a stream run in the caller's thread.
  [[nodiscard]] bool runs_at_once() const { return blocking && !device; }

  friend bool operator==(const CommConfig&, const CommConfig&) = default;
};

/// Reads min(config->size, ours) bytes of `config`, drops the fields that are newer than
/// config->version, and checks every field's range. Fields left undefined come from `defaults` (the
/// parent's configuration on split and shrink). nullptr means all undefined.
Result<CommConfig> parse_config(const ncclConfig_t* config, const CommConfig& defaults);

}  // namespace tutti::capi
