// Reports what a run does, to people and files. Only rank 0 of a job has one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tools/program/cli.hpp"
#include "tools/train/step_log.hpp"
#include "training/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Resource.
class Reporter {
 public:
  /// Opens `folder`/log.jsonl, of which nothing is kept unless `continues`, and writes the run's
  /// line. kUnavailable: it cannot be written.
  static Result<Reporter> open(const std::filesystem::path& folder, const RunRecord& run,
                               std::uint64_t log_every, bool continues);

  /// One step: a line of the log; one for people each `log_every` steps, and where something is
  /// special. `left`: seconds to the end of the run, where that is known.
  Status step(const StepRecord& record, std::optional<double> left);
  /// A sentence for people.
  void say(const std::string& sentence) const;

 private:
  Reporter(std::filesystem::path path, std::ofstream log, RunRecord run, std::uint64_t log_every)
      : path_(std::move(path)), log_(std::move(log)), run_(std::move(run)), log_every_(log_every) {}
  std::filesystem::path path_;
  std::ofstream log_;
  RunRecord run_;
  std::uint64_t log_every_;
  tools::ProgressBar bar_{true};
};

/// What was predicted, and what came: memory in all, and bytes of the last step.
/// `hosts`: see training::Plan::traffic().
std::string comparison_text(const training::Plan& plan, int hosts,
                            const training::MemoryPlan& counted, const StepBytes& sent);

/// Bytes of memory that this process has. 0 where there is no /proc.
std::uint64_t resident_bytes();

}  // namespace tutti::trainer
