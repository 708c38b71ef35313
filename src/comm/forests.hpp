// Forests that run: spanning trees that are the optimum of a job's machines (src/topo/forest), as
// an algorithm like any other, asked for by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "src/ir/algorithm.hpp"
#include "src/topo/forest/network.hpp"
#include "src/topo/job/fuse.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Where the ranks of a job are, for their forest: on the GPU whose bus id `devices[r]`, a label,
/// tells; else, on a host with a GPU for each of its ranks, the first on the first and so on; else
/// where the job has placed them.
topo::Placement places_for_forest(const topo::JobTopology& job,
                                  std::span<const std::string> devices);

/// The forests that the communicators of a process may use. Thread-safe.
class Forests {
 public:
  /// Makes the schedule of a request on a network.
  using Plan =
      std::function<Result<ir::Schedule>(const ir::Request&, const topo::forest::Network&)>;
  explicit Forests(Plan plan);
  ~Forests();
  Forests(const Forests&) = delete;
  Forests& operator=(const Forests&) = delete;

  /// The forest's algorithm for these ranks of `job`; it lives as long as this. Equal machines and
  /// places have the same, so they share programs: its name is "forest#" and a hash of both. Trees
  /// grow when a request first needs them: that takes milliseconds for 8 ranks and minutes for
  /// hundreds, so generate() is kUnsupported for more than 64.
  const ir::Algorithm* of(const std::shared_ptr<const topo::JobTopology>& job,
                          std::span<const std::string> devices);

 private:
  class Forest;

  const Plan plan_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Forest>> forests_;  ///< by name
};

}  // namespace tutti
