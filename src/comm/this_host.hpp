// What a process knows of the machine that it runs on.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/base/settings.hpp"
#include "src/topo/detect/probe.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Resource; any thread.
class ThisHost {
 public:
  ThisHost(std::unique_ptr<topo::SystemProbe> system, const Settings& settings);

  /// What TUTTI_TOPO_FILE describes, else what `system` tells. The first call finds it out and
  /// keeps it. A system that tells nothing counts as one CPU. kInvalidArgument: the file cannot be
  /// used; the next call looks again.
  Result<topo::Noted> describe();

  /// The GPU of the first communicator of this process that has one, by its PCI address, as in
  /// "0000:07:00.0". Later ones change nothing.
  void place_at_gpu(std::string bus_id);
  /// Empty where there is none.
  [[nodiscard]] std::string gpu_bus_id() const;

 private:
  Result<topo::Noted> read_file() const;

  const std::unique_ptr<topo::SystemProbe> system_;
  const std::string file_, file_setting_;
  mutable std::mutex mutex_;
  std::optional<topo::Noted> known_;
  std::string gpu_bus_id_;
};

}  // namespace tutti
