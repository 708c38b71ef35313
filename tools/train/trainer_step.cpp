// A step of a training run.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.hpp"
#include "tools/train/stop_signal.hpp"
#include "tools/train/stopwatch.hpp"
#include "tools/train/trainer.hpp"

namespace tutti::trainer {

Result<StepRecord> Trainer::step() {
  Stopwatch whole;
  const std::uint64_t number = progress_.step + 1;
  StepRecord record{.step = number, .rate = rate_of(number)};
  (void)model_->engine().take_times();  // what happened between steps is no step's
  (void)model_->engine().take_traffic();
  double loss = 0;
  for (int i = 0; i < settings_.plan.passes; ++i) TUTTI_TRY(pass(i, record, loss));
  TUTTI_ASSIGN(const training::StepOutcome outcome, update(record));
  if (settings_.plan.compute == DataType::kFloat16) record.loss_scale = progress_.scaler.scale;
  TUTTI_TRY(after_step(loss, outcome, record));
  record.times.all = whole.lap();
  record.tokens_per_second = static_cast<double>(settings_.tokens()) / record.times.all;
  return record;
}

Examples Trainer::examples_of(int pass) const {
  const SampleRange range =
      samples_of(settings_.batch, control_.size(), settings_.plan.passes, control_.rank(), pass);
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < range.count; ++i)
    begins.push_back(training_->start(options_.seed, progress_.samples + range.begin + i));
  return examples_at(*training_, begins);
}

Status Trainer::pass(int pass, StepRecord& record, double& loss) {
  Stopwatch watch;
  const Examples examples = examples_of(pass);
  record.times.data += watch.lap();
  double of_pass = 0;
  TUTTI_ASSIGN(const torch::Tensor scaled, model_->forward([&] {
    const torch::Tensor nats = gpt_->loss(examples.tokens, examples.targets);
    of_pass = nats.item<double>();
    return progress_.scaler.scale == 1 ? nats : nats * progress_.scaler.scale;
  }));
  loss += of_pass;
  const double in_forward = waited(record);
  record.times.forward += watch.lap() - in_forward;
  TUTTI_TRY(model_->backward(scaled, pass + 1 == settings_.plan.passes, gradient_scale()));
  const double in_backward = waited(record);
  record.times.backward += watch.lap() - in_backward;
  record.times.waiting += in_forward + in_backward;
  return ok_status();
}

/// A loss is a sum over tokens.
double Trainer::gradient_scale() const {
  return 1 / (static_cast<double>(settings_.tokens()) * progress_.scaler.scale);
}

double Trainer::rate_of(std::uint64_t step) {
  const double done = settings_.steps > 0 ? static_cast<double>(progress_.step) /
                                                static_cast<double>(settings_.steps)
                                          : progress_.seconds / (settings_.minutes * 60);
  if (step == settings_.rate.warmup + 1) progress_.warmup_progress = done;
  return settings_.rate.at(step, done, progress_.warmup_progress);
}

Result<training::StepOutcome> Trainer::update(StepRecord& record) {
  TUTTI_ASSIGN(const training::StepOutcome outcome,
               model_->step({.gradient_scale = gradient_scale(),
                             .learning_rate = record.rate,
                             .clip_norm = settings_.clip}));
  const training::EngineTimes times = model_->engine().take_times();
  record.times.waiting += times.waiting;
  record.times.optimizer = times.optimizer;
  record.times.coding += times.coding;
  record.norm = outcome.norm;
  record.skipped = outcome.skipped;
  const training::Engine::Traffic sent = model_->engine().take_traffic();
  record.bytes = {.gathers = sent.payload.gathers,
                  .reductions = sent.payload.reductions,
                  .replicas = sent.payload.replicas,
                  .others = sent.others,
                  .other_hosts = sent.payload.other_hosts,
                  .uncompressed = uncompressed_};
  if (seconds_per_byte_ && record.bytes.all() > 0) {
    const double alone = *seconds_per_byte_ * static_cast<double>(record.bytes.all());
    record.overlap = std::clamp(1 - record.times.waiting / alone, 0.0, 1.0);
  }
  return outcome;
}

Status Trainer::after_step(double loss, const training::StepOutcome& outcome, StepRecord& record) {
  TUTTI_ASSIGN(const StepAgreement agreed,
               agree_on_step(control_, {.loss = loss,
                                        .stops = stop_was_asked(),
                                        .seconds = clock(),
                                        .owed = model_->engine().norm_owed()}));
  ++progress_.step;
  progress_.taken += outcome.skipped ? 0 : 1;
  progress_.samples += settings_.batch;
  progress_.seconds = agreed.seconds;
  record.loss = agreed.loss / static_cast<double>(settings_.tokens());
  progress_.average.add(record.loss);
  record.average = progress_.average.value();
  record.samples = progress_.samples;
  record.seconds = agreed.seconds;
  const training::GradientCompression& gradients = settings_.plan.gradients;
  const bool is_momentum = gradients.method == training::GradientCompression::Method::kMomentum;
  if (gradients.owes()) record.owed = agreed.owed * (is_momentum ? 1 : gradient_scale());
  record.memory = {.planned = model_->engine().plan().memory().all(),
                   .counted = model_->engine().memory().all(),
                   .resident = resident_bytes()};
  stops_ = agreed.stops;
  TUTTI_TRY(check_good(outcome, agreed));
  progress_.scaler.update(outcome.skipped);
  return ok_status();
}

/// Skipped steps are as it should be while a loss scale can still be lowered.
Status Trainer::check_good(const training::StepOutcome& outcome, const StepAgreement& agreed) {
  const bool can_be_lowered =
      progress_.scaler.growth_interval > 0 && progress_.scaler.scale > training::LossScaler::kLeast;
  bad_steps_ = outcome.skipped && !can_be_lowered ? bad_steps_ + 1 : 0;
  if (bad_steps_ < options_.max_bad_steps) return ok_status();
  const std::string whose =
      agreed.first_bad_loss == kNoRank
          ? std::string("the losses were finite, but gradients were not")
          : fmt::format("at step {} the loss of rank {} was infinite or no number", progress_.step,
                        agreed.first_bad_loss);
  return make_error(Code::kWrongData,
                    "steps {} to {} were skipped, since gradients were infinite or no numbers: {}. "
                    "Go on from the last checkpoint with a lower --lr, or without fp16",
                    progress_.step - static_cast<std::uint64_t>(bad_steps_) + 1, progress_.step,
                    whose);
}

}  // namespace tutti::trainer
