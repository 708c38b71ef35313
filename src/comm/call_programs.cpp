#include "src/comm/call_programs.hpp"

#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/ir/expand.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/check.hpp"
#include "src/lower/lower.hpp"

namespace tutti {

Result<CallPrograms::Program> CallPrograms::lower(const Candidate& candidate,
                                                  const CallShape& shape,
                                                  const ir::Request& request,
                                                  const lower::Placement& reach) {
  const ProgramLibrary::Key key{.algorithm = candidate.algorithm->name,
                                .collective = request.collective,
                                .root = request.root,
                                .in_place = request.in_place,
                                .scales_input = shape.scales_input,
                                .uneven_blocks = shape.uneven_blocks,
                                .protocol = candidate.protocol,
                                .stores_to_peers = candidate.stores_to_peers,
                                .compressed = candidate.compressed,
                                .in_network = candidate.in_network,
                                .host = reach.host};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = lowered_.find(key); known != lowered_.end()) return known->second;
  }
  TUTTI_ASSIGN(Program program,
               library_.get(key, [&] { return lower_anew(candidate, shape, request, reach); }));
  const std::scoped_lock lock(mutex_);
  return lowered_[key] = std::move(program);
}

Result<CallPrograms::Program> CallPrograms::lower_anew(const Candidate& candidate,
                                                       const CallShape& shape,
                                                       const ir::Request& request,
                                                       const lower::Placement& reach) const {
  const ir::Algorithm& algorithm = *candidate.algorithm;
  if (!algorithm.supports(request)) return Program();
  TUTTI_ASSIGN(ir::Schedule schedule, algorithm.generate(request));
  if (!candidate.in_network && !schedule.groups.empty()) {
    TUTTI_ASSIGN(schedule, ir::expand_groups(schedule));
  }
  if (candidate.compressed) {
    if (!schedule.formats.empty()) return Program();  // it has formats of its own
    schedule = ir::compress(schedule, *candidate.compressed);
  }
  const lower::LowerOptions options{.protocol = candidate.protocol,
                                    .scales_input = shape.scales_input,
                                    .stores_to_peers = candidate.stores_to_peers};
  if (!lower::can_lower(schedule, reach, options)) return Program();
  TUTTI_ASSIGN(const ir::Proof proof, ir::verify(schedule));
  auto program = lower::lower(schedule, proof, reach, options);
  if (!program) {
    if (candidate.protocol == lower::ProgramProtocol::kStaged) return std::move(program).error();
    log_warn(who_, "{} is staged: a defect of its {} program was found: {}", algorithm.name,
             name_of(candidate.protocol), program.error().what);
    return Program();
  }
  const lower::CheckOptions any_sizes{.scales_input = shape.scales_input, .uneven_blocks = true};
  if (shape.uneven_blocks && !lower::check(*program, reach, any_sizes)) return Program();
  if (candidate.compressed && !program->same_bits) return Program();
  return std::make_shared<const lower::Lowered>(*std::move(program));
}

}  // namespace tutti
