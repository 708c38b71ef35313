#include "src/comm/tuner_setup.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

/// Files that are all for another number of ranks are a mistake.
Status check_fits(const Assembly& assembly) {
  const std::int32_t size = assembly.team->size();
  const auto fits = [size](const auto& file) { return file.second->request().ranks == size; };
  if (assembly.files.empty() || std::ranges::any_of(assembly.files, fits)) return ok_status();
  const auto& [path, file] = *assembly.files.begin();
  return make_error(Code::kInvalidArgument,
                    "TUTTI_ALGO: '{}' is for {} ranks and this communicator has {}: start {} "
                    "ranks, name a file for {}, or take it out of TUTTI_ALGO",
                    path, file->request().ranks, size, file->request().ranks, size);
}

void say_what_files_are_for(const Assembly& assembly) {
  for (const auto& [path, file] : assembly.files) {
    const ir::Request& request = file->request();
    const std::string root =
        rooted(request.collective) ? fmt::format(" from or to rank {}", request.root) : "";
    log_info(Subsystem::kInit,
             fmt::format("[rank {}/{}]", assembly.team->rank(), assembly.team->size()),
             "TUTTI_ALGO: {} runs {} of {} ranks{}; all other calls choose as without it",
             file->name, name_of(request.collective), request.ranks, root);
  }
}

/// Whether TUTTI_ALGO and the table name what these ranks can run.
Status check_choices(const Tuner& tuner, const exec::Team& team, bool is_part) {
  const std::string who = fmt::format("[rank {}/{}]", team.rank(), team.size());
  const ir::Layout layout = ir::Layout::of_hosts(team.placement().host);
  for (int c = 0; c < kCollectives; ++c) {
    const Status can = tuner.check_setting(
        {.collective = static_cast<Collective>(c), .ranks = team.size(), .layout = layout});
    if (can) continue;
    if (!is_part) return can;
    log_info(Subsystem::kTuning, who, "{}; the library chooses", can.error().what);
  }
  const std::vector<std::string> unusable = tuner.unusable_in_table(layout);
  if (!unusable.empty() && team.rank() == 0)
    log_warn(who, "the measured table names what cannot run here, and rules choose instead: {}",
             fmt::join(unusable, ", "));
  return ok_status();
}

}  // namespace

Result<Tuner> tuner_for(const Runtime& runtime, const Assembly& assembly, bool is_part) {
  if (!is_part) TUTTI_TRY(check_fits(assembly));
  say_what_files_are_for(assembly);
  TunerPolicy policy{assembly.agreement.algorithm, assembly.agreement.deterministic};
  for (const auto& [path, file] : assembly.files) policy.files[path] = &file->algorithm;
  policy.forest = [&forests = *runtime.forests, job = assembly.job, devices = assembly.devices] {
    return forests.of(job, devices);
  };
  policy.table = assembly.table;
  policy.calibration = assembly.calibration;
  policy.staging_bytes = assembly.agreement.staging_bytes;
  policy.arrangement = arrangement_of(assembly.team->placement().host);
  policy.arrangement.topology = assembly.job->wiring;
  TUTTI_ASSIGN(Tuner tuner, Tuner::create(runtime.algorithms, std::move(policy)));
  TUTTI_TRY(check_choices(tuner, *assembly.team, is_part));
  return tuner;
}

}  // namespace tutti
