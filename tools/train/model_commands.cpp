// The commands that use a trained model in one process: eval and sample.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include <torch/utils.h>

#include "src/base/result.hpp"
#include "tools/bench/launch.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/train/checkpoints.hpp"
#include "tools/train/commands.hpp"
#include "tools/train/model.hpp"
#include "tools/train/text_data.hpp"
#include "training/torch/distributed.hpp"

namespace tutti::trainer {
namespace {

int exit_code(std::string_view program, const std::function<Status()>& body) {
  const Status done = caught(body);
  return done ? static_cast<int>(tools::kExitFine) : tools::fail(program, done.error());
}

struct EvalOptions {
  std::string checkpoint, data, json_path;
  std::size_t windows = 0, batch = 16;
  int threads = 0;
  bool on_training = false;
};

Status evaluate(const EvalOptions& options) {
  TUTTI_ASSIGN(const training::Checkpoint checkpoint, open_checkpoint(options.checkpoint));
  TUTTI_ASSIGN(training::Gpt model, load_model(checkpoint));
  TUTTI_ASSIGN(const TextData data, TextData::open(options.data));
  const auto context = static_cast<std::size_t>(model->options().context);
  const std::string name = tools::shown_path(options.data);
  auto made = options.on_training
                  ? Windows::create(data.training(), context, name)
                  : Windows::create(data.validation(), context, "the validation part of " + name);
  if (!made)
    return make_error(made.error().code, "{}: give {}another text", made.error().what,
                      options.on_training ? "" : "--training, or ");
  const Windows windows = *made;
  const auto begins = windows.spread(options.windows == 0 ? windows.in_a_row() : options.windows);
  const tools::ProgressBar bar(true);
  const torch::NoGradGuard no_gradients;
  double nats = 0;
  for (std::size_t first = 0; first < begins.size(); first += options.batch) {
    bar.show(first, begins.size(), "windows");
    const std::size_t count = std::min(options.batch, begins.size() - first);
    const Examples examples = examples_at(windows, std::span(begins).subspan(first, count));
    nats += model->loss(examples.tokens, examples.targets).item<double>();
  }
  bar.clear();
  const auto tokens = static_cast<double>(begins.size() * context);
  const double loss = nats / tokens;
  const std::string text =
      fmt::format("step {}: {:.4f} nats a byte, {:.4f} bits a byte, over {} bytes\n",
                  checkpoint.manifest().step, loss, loss / std::numbers::ln2, tokens);
  return tools::write_results(options.json_path, text, [&] {
    // JSON has no infinity and no NaN.
    const auto number = [](double value) {
      return std::isfinite(value) ? fmt::format("{}", value) : std::string("null");
    };
    return fmt::format(R"({{"step": {}, "loss": {}, "bits_per_byte": {}, "bytes": {}}})"
                       "\n",
                       checkpoint.manifest().step, number(loss), number(loss / std::numbers::ln2),
                       tokens);
  });
}

struct SampleCommand {
  std::string checkpoint, prompt = "And ";
  std::size_t bytes = 500;
  double temperature = 0.8;
  std::int64_t top_k = 40;
  std::uint64_t seed = 1;
  int threads = 0;
};

Status write_sample(const SampleCommand& options) {
  TUTTI_ASSIGN(const training::Checkpoint checkpoint, open_checkpoint(options.checkpoint));
  TUTTI_ASSIGN(training::Gpt model, load_model(checkpoint));
  TUTTI_ASSIGN(const std::string text,
               sample_text(model, options.prompt, options.bytes, options.temperature, options.top_k,
                           options.seed));
  return tools::print(options.prompt + text + "\n");
}

void add_threads(tools::CommandLine& app, int& threads) {
  app.add_option("--threads", threads, "that compute (one for each processor)")
      .in_range(1, 1 << 12);
}

void use_threads(int threads) {
  training::set_compute_threads(threads > 0 ? threads : bench::usable_processors());
}

}  // namespace

int eval_command(int argc, char** argv) {
  tools::CommandLine app("Measures the loss of a checkpoint on the validation part of a text.",
                         "tutti train eval");
  EvalOptions options;
  app.add_option("checkpoint", options.checkpoint, "folder of a run, or one of its steps")
      .required();
  app.add_option("--data", options.data, "text, plain or prepared").required();
  app.add_option("--windows", options.windows, "samples that are read; 0: all").shows_default();
  app.add_option("--batch", options.batch, "of them at a time")
      .shows_default()
      .in_range(1, 1 << 20);
  app.add_flag("--training", options.on_training, "instead: on what it was trained on");
  app.add_option("--json", options.json_path, "write it as JSON; '-': standard output");
  add_threads(app, options.threads);
  if (const auto code = app.parse(argc, argv)) return *code;
  use_threads(options.threads);
  return tools::within_memory(
      app.name(), [&] { return exit_code(app.name(), [&] { return evaluate(options); }); });
}

int sample_command(int argc, char** argv) {
  tools::CommandLine app("Writes text with a checkpoint.", "tutti train sample");
  SampleCommand options;
  app.add_option("checkpoint", options.checkpoint, "folder of a run, or one of its steps")
      .required();
  app.add_option("--prompt", options.prompt, "with which it begins").shows_default();
  app.add_option("--bytes", options.bytes, "to write").shows_default().in_range(1, 1 << 24);
  app.add_option("--temperature", options.temperature, "0: the likeliest byte, always")
      .shows_default()
      .in_range(0, 100);
  app.add_option("--top-k", options.top_k, "among so many of the likeliest; 0: all")
      .shows_default()
      .in_range(0, 256);
  app.add_option("--seed", options.seed, "of the choices").shows_default();
  add_threads(app, options.threads);
  if (const auto code = app.parse(argc, argv)) return *code;
  use_threads(options.threads);
  return tools::within_memory(
      app.name(), [&] { return exit_code(app.name(), [&] { return write_sample(options); }); });
}

}  // namespace tutti::trainer
