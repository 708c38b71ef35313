// One rank of a training run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tools/train/batches.hpp"
#include "tools/train/model.hpp"
#include "tools/train/progress.hpp"
#include "tools/train/reporter.hpp"
#include "tools/train/run_folder.hpp"
#include "tools/train/saver.hpp"
#include "tools/train/settings.hpp"
#include "tools/train/step_agreement.hpp"
#include "tools/train/text_data.hpp"
#include "training/torch/distributed.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Resource.
class Trainer {
 public:
  /// Collective, over all ranks of the job.
  static Result<std::unique_ptr<Trainer>> create(Options options, Comm world);

  /// Trains to the end, or until somebody asks a rank to end; the last state is saved then.
  /// Collective; an error on one rank ends it on all.
  Status run();

 private:
  Trainer(Options options, Settings settings, TextData data, Comm world, Comm control)
      : options_(std::move(options)),
        settings_(std::move(settings)),
        data_(std::move(data)),
        world_(std::move(world)),
        control_(std::move(control)) {}

  // Preparations.
  Status find_windows();
  Status hold_folder();
  Status resume();
  Status make_here();
  Status make_distributed();
  Status load(const training::Checkpoint& checkpoint);
  Status open_reports();

  // A step.
  Result<StepRecord> step();
  Status pass(int pass, StepRecord& record, double& loss);
  Result<training::StepOutcome> update(StepRecord& record);
  Status after_step(double loss, const training::StepOutcome& outcome, StepRecord& record);
  Status check_good(const training::StepOutcome& outcome, const StepAgreement& agreed);
  [[nodiscard]] Examples examples_of(int pass) const;
  [[nodiscard]] double rate_of(std::uint64_t step);
  [[nodiscard]] double gradient_scale() const;

  // What is done between steps.
  Status validate_and_sample(StepRecord& record);
  Result<double> validate();
  Result<std::string> sample();
  Status report(const StepRecord& record);
  Status save();
  Status finish(const StepRecord& last);

  [[nodiscard]] bool is_done() const;
  [[nodiscard]] bool is_due(std::uint64_t every) const;
  [[nodiscard]] std::optional<double> seconds_left() const;
  [[nodiscard]] double clock() const;
  [[nodiscard]] double waited(StepRecord& record);
  [[nodiscard]] bool leads() const { return control_.rank() == 0; }
  void say(const std::string& sentence) const;

  const Options options_;
  const Settings settings_;
  const TextData data_;
  Comm world_, control_;
  std::optional<Windows> training_, validation_;
  training::Gpt gpt_{nullptr};
  std::unique_ptr<training::DistributedModel> model_;
  RunFolder folder_;  ///< rank 0's
  std::unique_ptr<Saver> saver_;
  std::optional<Reporter> reporter_;        ///< rank 0's
  std::optional<double> seconds_per_byte_;  ///< where nothing else is done
  int hosts_ = 1;                           ///< on which ranks are, in equal blocks; else 1
  bool has_equal_hosts_ = true;
  std::uint64_t uncompressed_ = 0;  ///< StepBytes::uncompressed

  Progress progress_;
  double resumed_seconds_ = 0, started_ = 0;
  std::uint64_t first_step_ = 1;  ///< of this process
  int bad_steps_ = 0;             ///< one after the other
  bool stops_ = false;
};

}  // namespace tutti::trainer
