// The programs that a communicator's calls may run.
//
// A call has a list of *candidates*, best first. All ranks come to the same list, and take the
// first candidate that lowers and fits.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/codec/format.hpp"
#include "src/comm/program_library.hpp"
#include "src/exec/plan.hpp"
#include "src/ir/algorithm.hpp"
#include "src/ir/compress.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// A call, as far as its programs depend on it. The same on all ranks. Value.
struct CallShape {
  ir::Request request;  ///< out of place
  DataType type = DataType::kFloat32;
  bool scales_input = false;
  bool uneven_blocks = false;
  bool for_devices = false;  ///< all ranks in place, and lower::only_messages()
  exec::LargestBuffers largest;
  std::shared_ptr<const codec::Format> wire;  ///< of compressed calls
};

/// What may run a call. Value.
struct Candidate {
  const ir::Algorithm* algorithm = nullptr;
  lower::ProgramProtocol protocol = lower::ProgramProtocol::kStaged;
  bool stores_to_peers = true;  ///< lower::LowerOptions::stores_to_peers
  /// Which messages carry CallShape::wire.
  std::optional<ir::CompressedMessages> compressed = {};
  bool in_network = false;  ///< there are trees for its groups; else messages do what these would
};

/// Generates schedules, proves and lowers them, each once. Keeps all that it has lowered: a call of
/// another size then costs a choice and a binding. Thread-safe.
class CallPrograms {
 public:
  using Program = ProgramLibrary::Program;

  /// `library` outlives it. `who`: whose logs these are.
  CallPrograms(ProgramLibrary& library, std::string who)
      : library_(library), who_(std::move(who)) {}

  /// `request`: the shape's, in place or not. `reach`: who reaches whose memory. Null: the
  /// candidate does not support the request, or does not lower to its protocol, or not for uneven
  /// blocks, or, compressed, would not give all ranks the same bits.
  Result<Program> lower(const Candidate& candidate, const CallShape& shape,
                        const ir::Request& request, const lower::Placement& reach);

 private:
  Result<Program> lower_anew(const Candidate& candidate, const CallShape& shape,
                             const ir::Request& request, const lower::Placement& reach) const;

  ProgramLibrary& library_;
  const std::string who_;
  std::mutex mutex_;
  /// Null: does not lower.
  std::map<ProgramLibrary::Key, Program> lowered_;
};

}  // namespace tutti
