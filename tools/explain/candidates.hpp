// The algorithms considered for a call, the time that each would take, and why one is chosen.
//
// Communicators use the same tuner (src/cost/tuner.hpp). Times come from the model
// (src/cost/predict.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/cost/calibration.hpp"
#include "src/cost/tuner.hpp"
#include "src/ir/request.hpp"
#include "src/lower/program.hpp"
#include "src/sim/fabric.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// A call as it is asked about.
struct Question {
  ir::Request request;
  std::size_t count = 0;  ///< elements of a block
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  lower::Placement placement;
  TunerPolicy policy;
  Calibration calibration;
  sim::Fabric* fabric = nullptr;  ///< nullptr: hosts as `calibration` has them
};

struct Candidate {
  std::string name;
  bool chosen = false;
  std::optional<double> us;  ///< none where it cannot run
  std::string why;           ///< it runs, or does not
};

struct Explanation {
  std::string algorithm;
  std::string reason;  ///< the tuner's
  bool forced = false;
  /// Fastest first, then those that cannot run, in the order of `tutti algo list`. Only algorithms
  /// that know the collective.
  std::vector<Candidate> candidates;
  [[nodiscard]] const Candidate& chosen() const;
};

/// The errors of the tuner, and of the model for the choice itself.
Result<Explanation> explain(const Question& question);

}  // namespace tutti::tools
