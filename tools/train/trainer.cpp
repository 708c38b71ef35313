#include "tools/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "tools/bench/launch.hpp"
#include "tools/train/same_options.hpp"
#include "tools/train/start.hpp"
#include "tools/train/stop_signal.hpp"
#include "tools/train/stopwatch.hpp"
#include "tools/train/with_model.hpp"
#include "training/agreement.hpp"
#include "tutti/stats.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using training::Checkpoint;

/// Of the ranks on this one's host, this one included.
struct Neighbours {
  int before = 0, all = 0;
};

Result<Neighbours> neighbours_in(const Comm& world) {
  TUTTI_ASSIGN(const std::string own, host_name(world, world.rank()));
  Neighbours neighbours;
  for (Rank rank = 0; rank < world.size(); ++rank) {
    TUTTI_ASSIGN(const std::string name, host_name(world, rank));
    if (name != own) continue;
    ++neighbours.all;
    if (rank < world.rank()) ++neighbours.before;
  }
  return neighbours;
}

/// On how many hosts the ranks are, in equal blocks; 0: in others.
Result<int> hosts_of(const Comm& world) {
  std::vector<int> hosts(static_cast<std::size_t>(world.size()));
  TUTTI_TRY(to_status(tuttiCommPlacement(world.native(), hosts.data(), nullptr), world.native()));
  const int count = *std::ranges::max_element(hosts) + 1;
  if (world.size() % count != 0) return 0;
  const int on_each = world.size() / count;
  for (int rank = 0; rank < world.size(); ++rank)
    if (hosts[static_cast<std::size_t>(rank)] != rank / on_each) return 0;
  return count;
}

}  // namespace

Status check_can_train() { return ok_status(); }

Status train_here(const Options& options) {
  ::setenv("TUTTI_DEVICE", "host", 1);  // what ranks exchange is in memory of the host
  TUTTI_ASSIGN(Comm world, Comm::from_environment());
  TUTTI_ASSIGN(const Neighbours neighbours, neighbours_in(world));
  const int share = std::max(1, bench::usable_processors() / neighbours.all);
  training::set_compute_threads(options.threads > 0 ? options.threads : share);
  training::keep_freed_memory();
  return caught([&]() -> Status {
    TUTTI_ASSIGN(const auto trainer, Trainer::create(options, std::move(world)));
    return trainer->run();
  });
}

// ---- Preparations

Result<std::unique_ptr<Trainer>> Trainer::create(Options options, Comm world) {
  TUTTI_ASSIGN(const int hosts, hosts_of(world));
  TUTTI_TRY(choose_secondary(options, world.size(), hosts));
  TUTTI_ASSIGN(Settings settings, settings_of(options, world.size()));
  TUTTI_ASSIGN(TextData data, TextData::open(options.data));
  TUTTI_ASSIGN(Comm control, world.split(0, world.rank()));
  TUTTI_ASSIGN(Comm own_of_saver, world.split(0, world.rank()));
  std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(settings), std::move(data),
                                               std::move(world), std::move(control)));
  trainer->hosts_ = std::max(1, hosts);
  trainer->has_equal_hosts_ = hosts > 0;
  TUTTI_TRY(agree_on_options(trainer->control_, shared_options(options, trainer->data_.hash())));
  TUTTI_TRY(trainer->find_windows());
  TUTTI_ASSIGN(trainer->seconds_per_byte_, seconds_per_byte(trainer->control_));
  TUTTI_TRY(trainer->make_distributed());
  TUTTI_TRY(trainer->hold_folder());
  TUTTI_TRY(trainer->resume());
  trainer->saver_ = std::make_unique<Saver>(options.out, trainer->model_->engine().layout().table(),
                                            options.keep, std::move(own_of_saver));
  return trainer;
}

Status Trainer::find_windows() {
  const auto context = static_cast<std::size_t>(settings_.shape.context);
  const std::string name = tools::shown_path(options_.data);
  const auto text = data_.training();
  auto windows = Windows::create(text, context, name);
  if (!windows)
    return make_error(windows.error().code, "{}: give it more text, or lower --context",
                      windows.error().what);
  training_ = *windows;
  if (text.size() < settings_.tokens())
    return make_error(Code::kWrongData,
                      "{} has {} bytes to train on, and a batch takes {}: give it more text, or "
                      "lower --batch",
                      name, text.size(), settings_.tokens());
  if (auto kept = Windows::create(data_.validation(), context, name)) {
    validation_ = *kept;
  } else if (options_.eval_batches > 0) {
    say(fmt::format("no validation: {} bytes for it are less than a sample",
                    data_.validation().size()));
  }
  return ok_status();
}

/// The model of this rank, where it computes.
Status Trainer::make_here() {
  TUTTI_ASSIGN(const Neighbours neighbours, neighbours_in(world_));
  TUTTI_ASSIGN(const torch::Device device, device_of(options_.device, neighbours.before));
  TUTTI_TRY(check_precision(settings_.plan.compute, device));
  TUTTI_ASSIGN(gpt_, make_model(settings_.shape, options_.seed));
  return training::move_to(*gpt_, device);
}

Status Trainer::make_distributed() {
  TUTTI_TRY(training::agree(control_, make_here()));
  gpt_->set_recomputes(settings_.recomputes);
  TUTTI_ASSIGN(model_, training::DistributedModel::create(
                           gpt_.ptr(), gpt_->units(),
                           {.plan = settings_.plan, .optimizer = settings_.optimizer}, world_));
  const training::Plan& plan = model_->engine().plan();
  const bool compresses = !plan.weights().is_plain() || plan.options().gradients.is_on();
  if (compresses && has_equal_hosts_)
    uncompressed_ = hosts_ > 1 ? plan.uncompressed().traffic(hosts_).other_hosts
                               : plan.uncompressed().traffic().all();
  progress_ = {.seed = options_.seed,
               .data = data_.hash(),
               .scaler = settings_.scaler,
               .shape = settings_.shape};
  return ok_status();
}

/// Of this run alone, and the same one for all ranks: said before anything is trained.
Status Trainer::hold_folder() {
  auto taken = leads() ? RunFolder::take(options_.out) : Result<RunFolder>(RunFolder());
  TUTTI_TRY(training::agree(control_, taken ? ok_status() : Status(taken.error())));
  folder_ = *std::move(taken);
  if (leads()) remove_unfinished(options_.out);
  std::array<std::uint64_t, 1> mark = {folder_.mark()};
  TUTTI_TRY(from_rank_0(control_, mark));
  return training::agree(control_, find_mark(options_.out, mark[0]));
}

/// Rank 0 looks at what there is; all load the step that it found.
Status Trainer::resume() {
  TUTTI_ASSIGN(const Resume wanted, resume_of(options_));
  auto found = leads() ? find_start(options_.out, wanted) : Result<Start>(Start{});
  TUTTI_TRY(training::agree(control_, found ? ok_status() : Status(found.error())));
  for (const std::string& sentence : found->notes) say(sentence);
  std::array<std::uint64_t, 2> chosen = {};
  if (found->checkpoint) chosen = {1, found->checkpoint->manifest().step};
  TUTTI_TRY(from_rank_0(control_, chosen));
  if (chosen[0] == 0) return ok_status();
  auto checkpoint = Checkpoint::open(options_.out, chosen[1]);
  TUTTI_TRY(training::agree(control_, checkpoint ? ok_status() : Status(checkpoint.error())));
  return load(*checkpoint);
}

Status Trainer::load(const Checkpoint& checkpoint) {
  const training::Manifest& manifest = checkpoint.manifest();
  TUTTI_ASSIGN(Progress progress, progress_in(manifest.step, manifest.counters));
  if (!(progress.shape == settings_.shape))
    return make_error(Code::kInvalidArgument,
                      "{} has {} layers, {} heads, width {} and context {}: give the same, or "
                      "another --out",
                      tools::shown_path(checkpoint.folder().string()), progress.shape.layers,
                      progress.shape.heads, progress.shape.width, progress.shape.context);
  TUTTI_ASSIGN(const std::vector<std::string> notes,
               model_->engine().load(checkpoint, static_cast<std::int64_t>(progress.taken)));
  for (const std::string& sentence : notes) say(sentence);
  if (progress.seed != options_.seed)
    say(fmt::format("goes on with seed {}; it began with {}", options_.seed, progress.seed));
  if (progress.data != data_.hash()) say("goes on with other data than it was trained on");
  // Where the scale is fixed, or there is none, the options say so.
  progress.scaler.growth_interval = settings_.scaler.growth_interval;
  if (settings_.scaler.growth_interval == 0 || progress.scaler.scale == 0)
    progress.scaler = settings_.scaler;
  progress.seed = options_.seed;
  progress.data = data_.hash();
  progress_ = progress;
  resumed_seconds_ = progress.seconds;
  first_step_ = progress.step + 1;
  say(fmt::format("goes on after step {} of {}", progress.step,
                  tools::shown_path(checkpoint.folder().string())));
  return ok_status();
}

Status Trainer::open_reports() {
  if (!leads()) return ok_status();
  TUTTI_ASSIGN(reporter_,
               Reporter::open(options_.out,
                              {.ranks = static_cast<std::uint64_t>(control_.size()),
                               .parameters = model_->engine().layout().table().elements(),
                               .tokens_per_step = settings_.tokens(),
                               .first_step = first_step_,
                               .steps = settings_.steps,
                               .strategy = options_.strategy,
                               .precision = options_.precision,
                               .data = fs::path(options_.data).filename().string()},
                              options_.log_every, first_step_ > 1));
  return ok_status();
}

// ---- The run

Status Trainer::run() {
  if (is_done()) {
    say(fmt::format("there is nothing left to do: step {} is done", progress_.step));
    return ok_status();
  }
  TUTTI_TRY(training::agree(control_, open_reports()));
  remember_stop_signals();
  started_ = Stopwatch::now();
  StepRecord last;
  while (!is_done()) {
    TUTTI_ASSIGN(last, step());
    TUTTI_TRY(validate_and_sample(last));
    TUTTI_TRY(report(last));
    if (stops_ || is_done() || (options_.save_every > 0 && is_due(options_.save_every)))
      TUTTI_TRY(save());
  }
  return finish(last);
}

bool Trainer::is_done() const {
  if (stops_) return true;
  if (settings_.steps > 0) return progress_.step >= settings_.steps;
  return progress_.seconds >= settings_.minutes * 60;
}

double Trainer::clock() const { return resumed_seconds_ + Stopwatch::now() - started_; }

/// Since the last time; notes what else took time.
double Trainer::waited(StepRecord& record) {
  const training::EngineTimes times = model_->engine().take_times();
  record.times.coding += times.coding;
  return times.waiting;
}

void Trainer::say(const std::string& sentence) const {
  if (!leads()) return;
  if (reporter_)
    reporter_->say(sentence);
  else
    tools::note("tutti train: " + sentence + "\n");
}

// ---- Between steps

/// Each `every` steps; 0: at none.
bool Trainer::is_due(std::uint64_t every) const { return every > 0 && progress_.step % every == 0; }

Status Trainer::validate_and_sample(StepRecord& record) {
  const bool ends = is_done() && !stops_;
  if (validation_ && options_.eval_batches > 0 && (ends || is_due(options_.eval_every))) {
    TUTTI_ASSIGN(record.validation, validate());
  }
  if (options_.sample_bytes > 0 && (ends || is_due(options_.sample_every))) {
    TUTTI_ASSIGN(const std::string text, sample());
    if (leads()) record.sample = text;
  }
  return ok_status();
}

/// Ranks take turns at parts of the text. All compute as often, since some gathers are of all: who
/// has no part left computes one for nothing.
Result<double> Trainer::validate() {
  const std::vector<std::size_t> begins =
      validation_->spread(options_.eval_batches * settings_.batch);
  const auto ranks = static_cast<std::size_t>(control_.size());
  const auto rank = static_cast<std::size_t>(control_.rank());
  const std::size_t part = std::max<std::size_t>(
      1, settings_.batch / ranks / static_cast<std::size_t>(settings_.plan.passes));
  std::array<double, 2> sums = {};  // nats, windows
  TUTTI_TRY(model_->evaluate([&] {
    for (std::size_t round = 0; round < begins.size(); round += ranks * part) {
      const std::size_t first = std::min(round + rank * part, begins.size());
      const std::size_t count = std::min(part, begins.size() - first);
      const auto own =
          std::span(begins).subspan(count > 0 ? first : 0, std::max<std::size_t>(1, count));
      const Examples examples = examples_at(*validation_, own);
      const double nats = gpt_->loss(examples.tokens, examples.targets).item<double>();
      if (count == 0) continue;
      sums[0] += nats;
      sums[1] += static_cast<double>(count);
    }
  }));
  TUTTI_TRY(add_up(control_, sums));
  return sums[0] / (sums[1] * static_cast<double>(settings_.shape.context));
}

/// Where every rank has all parameters, rank 0 alone.
Result<std::string> Trainer::sample() {
  constexpr double kTemperature = 0.8;
  constexpr std::int64_t kTopK = 40;
  Result<std::string> text = std::string();
  if (!leads() && model_->engine().plan().parameters_are_whole()) return text;
  TUTTI_TRY(model_->evaluate([&] {
    text = sample_text(gpt_, options_.prompt, options_.sample_bytes, kTemperature, kTopK,
                       mixed(options_.seed, progress_.step));
  }));
  if (text) return options_.prompt + *text;
  return text;
}

std::optional<double> Trainer::seconds_left() const {
  if (settings_.steps == 0) return settings_.minutes * 60 - progress_.seconds;
  const auto done = static_cast<double>(progress_.step + 1 - first_step_);
  const auto left = static_cast<double>(settings_.steps - progress_.step);
  return (progress_.seconds - resumed_seconds_) / done * left;
}

Status Trainer::report(const StepRecord& record) {
  return reporter_ ? reporter_->step(record, seconds_left()) : ok_status();
}

Status Trainer::save() {
  TUTTI_TRY(saver_->save({progress_.step, counters_of(progress_)}, model_->engine().owned()));
  return ok_status();
}

Status Trainer::finish(const StepRecord& last) {
  TUTTI_TRY(saver_->finish());
  if (!leads()) return ok_status();
  say(fmt::format("{} after step {}; saved in {}", stops_ ? "asked to end" : "done", progress_.step,
                  tools::shown_path(options_.out)));
  if (stops_) return ok_status();
  return tools::print("\n" + comparison_text(model_->engine().plan(), hosts_,
                                             model_->engine().memory(), last.bytes));
}

}  // namespace tutti::trainer
