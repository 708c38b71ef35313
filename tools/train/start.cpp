#include "tools/train/start.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "training/checkpoint_folders.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using training::Checkpoint;

Status set_aside(const fs::path& folder, std::uint64_t step, std::vector<std::string>& notes) {
  const fs::path damaged = training::complete_checkpoint(folder, step);
  const fs::path aside = fs::path(damaged).concat(".damaged");
  std::error_code why;
  fs::rename(damaged, aside, why);
  if (why)
    return make_error(
        Code::kUnavailable, "{} is damaged, and cannot be renamed to {}: {}; remove it",
        tools::shown_path(damaged.string()), tools::shown_path(aside.string()), why.message());
  notes.push_back(fmt::format("the manifest of step {} is damaged: renamed it to {}", step,
                              tools::shown_path(aside.string())));
  return ok_status();
}

/// Ok where it is damaged for certain: not where it cannot be read now, or not by this version.
Status check_damaged(const fs::path& folder, std::uint64_t step) {
  const fs::path path = training::complete_checkpoint(folder, step);
  std::error_code why;
  if (!fs::exists(path / "manifest.json", why) && !why) return ok_status();
  const auto opened = Checkpoint::open(folder, step);
  if (opened)
    return make_error(Code::kUnavailable,
                      "{} could not be read a moment ago, and now can: start again",
                      tools::shown_path(path.string()));
  return opened.error().code == Code::kWrongData ? ok_status() : Status(opened.error());
}

}  // namespace

Result<Start> find_start(const fs::path& folder, const Resume& resume) {
  Start start;
  TUTTI_ASSIGN(const std::vector<std::uint64_t> steps, training::complete_steps(folder));
  if (!resume.wanted) {
    if (steps.empty()) return start;
    return make_error(Code::kInvalidArgument,
                      "--resume never: {} has a checkpoint of step {}; give another --out, or "
                      "--resume auto",
                      tools::shown_path(folder.string()), steps.back());
  }
  if (steps.empty() && !resume.step) return start;
  if (resume.step && std::ranges::find(steps, *resume.step) == steps.end())
    return make_error(Code::kInvalidArgument, "--resume {}: {} has checkpoints of steps [{}]",
                      *resume.step, tools::shown_path(folder.string()), fmt::join(steps, ", "));
  TUTTI_ASSIGN(start.checkpoint, Checkpoint::open(folder, resume.step));
  const std::uint64_t chosen = start.checkpoint->manifest().step;
  for (const std::uint64_t later : steps) {
    if (later <= chosen) continue;
    if (resume.step)
      return make_error(Code::kInvalidArgument,
                        "--resume {}: {} has a later checkpoint, of step {}, that this run would "
                        "write anew; move it away, or give a copy of the folder as --out",
                        chosen, tools::shown_path(folder.string()), later);
    TUTTI_TRY(check_damaged(folder, later));
    TUTTI_TRY(set_aside(folder, later, start.notes));
  }
  return start;
}

}  // namespace tutti::trainer
