// Times the training step of one GPT over ranks in several ways, which take turns in one run:
//
//   compute   each rank alone: the step without communication
//   gloo      LibTorch's own DDP: c10d::Reducer over ProcessGroupGloo
//   ddp, zero1, zero2, zero3   Tutti
//
//   tutti run -n 2 -- training_step [--width 192 --layers 8 ...] [--json FILE]
//
// compute and gloo step with Tutti's AdamW, so that communication is what differs. A step lasts
// from when all ranks begin it to when the last one has ended it. Rank 0 prints medians over all
// rounds. The ways train alike: their losses are compared at the end.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>

#include "training/torch/distributed.hpp"
#include "training/torch/gpt.hpp"

namespace tutti::training {
namespace {

struct Options {
  GptOptions gpt{.layers = 6, .heads = 4, .width = 240, .context = 64};
  std::int64_t batch = 4;
  BucketLimits buckets = {};  ///< of Tutti's ways
  int rounds = 12, steps = 5;
  std::vector<std::string> ways = {"compute", "gloo", "ddp", "zero3"};
  std::string json, interface;
};

[[noreturn]] void end(const std::string& why) {
  fmt::print(stderr, "training_step: {}\n", why);
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) end(result.error().what);
  return *std::move(result);
}
void must(const Status& status) {
  if (!status) end(status.error().what);
}

/// One way to train; the batch is this rank's.
class Way {
 public:
  virtual ~Way() = default;
  /// Its loss, per token.
  virtual double step(const torch::Tensor& tokens, const torch::Tensor& targets) = 0;
};

/// AdamW on each parameter by itself.
class Stepper {
 public:
  explicit Stepper(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const torch::Tensor& parameter : parameters_)
      moments_.emplace_back(torch::zeros_like(parameter), torch::zeros_like(parameter));
  }
  void step(float scale) {
    ++step_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto span = [](const torch::Tensor& tensor) {
        return std::span<float>(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
      };
      const torch::Tensor& parameter = parameters_[i];
      adamw_step(AdamW{}, step_, scale, parameter.dim() > 1, span(parameter.grad()),
                 span(parameter), {span(moments_[i].first), span(moments_[i].second)});
    }
  }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> moments_;
  std::int64_t step_ = 0;
};

class Alone : public Way {
 public:
  explicit Alone(const GptOptions& options)
      : model_(must(make_gpt(options, 1))), stepper_(model_->parameters()) {}
  double step(const torch::Tensor& tokens, const torch::Tensor& targets) override {
    const torch::Tensor loss = model_->loss(tokens, targets);
    loss.backward();
    const auto count = static_cast<double>(tokens.numel());
    stepper_.step(static_cast<float>(1 / count));
    model_->zero_grad(/*set_to_none=*/true);
    return loss.item<double>() / count;
  }

 private:
  Gpt model_;
  Stepper stepper_;
};

class Gloo : public Way {
 public:
  Gloo(const GptOptions& options, const Comm& world, const std::string& interface)
      : model_(must(make_gpt(options, 1))), stepper_(model_->parameters()) {
    const char* const host = std::getenv("MASTER_ADDR");
    const char* const port = std::getenv("MASTER_PORT");
    if (host == nullptr || port == nullptr) end("gloo needs MASTER_ADDR and MASTER_PORT");
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(std::atoi(port) + 1);
    store.isServer = world.rank() == 0;
    store.numWorkers = world.size();
    auto group = c10d::ProcessGroupGloo::Options::create();
    group->devices.push_back(interface.empty()
                                 ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                 : c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::TCPStore>(host, store), world.rank(), world.size(), group);
    // As torch.nn.parallel.DistributedDataParallel makes it, with gradients as views of buckets.
    const std::vector<torch::Tensor> parameters = model_->parameters();
    constexpr std::size_t kBucket = 25 << 20;
    auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
        parameters, {c10d::kDefaultFirstBucketBytes, kBucket}, {}, {}, {});
    std::reverse(buckets.begin(), buckets.end());
    std::reverse(limits.begin(), limits.end());
    reducer_ = std::make_unique<c10d::Reducer>(
        parameters, buckets, limits, group_, std::vector<bool>(parameters.size(), false), kBucket,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
        std::unordered_map<std::size_t, std::string>{}, c10d::kDefaultFirstBucketBytes);
  }
  double step(const torch::Tensor& tokens, const torch::Tensor& targets) override {
    reducer_->rebuild_buckets();
    const torch::Tensor loss = model_->loss(tokens, targets);
    reducer_->prepare_for_backward({loss});
    loss.backward();  // leaves means over ranks
    const auto count = static_cast<double>(tokens.numel());
    stepper_.step(static_cast<float>(1 / count));
    for (torch::Tensor& parameter : model_->parameters()) parameter.mutable_grad().zero_();
    return loss.item<double>() / count;
  }

 private:
  Gpt model_;
  Stepper stepper_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::unique_ptr<c10d::Reducer> reducer_;
};

class Tutti : public Way {
 public:
  Tutti(const Options& options, Strategy strategy, Comm& world)
      : world_(world), model_(must(make_gpt(options.gpt, 1))) {
    DistributedOptions how;
    how.plan.strategy = strategy;
    how.plan.buckets = options.buckets;
    distributed_ = must(DistributedModel::create(model_.ptr(), model_->units(), how, world));
  }
  double step(const torch::Tensor& tokens, const torch::Tensor& targets) override {
    const auto count = static_cast<double>(tokens.numel());
    const torch::Tensor loss =
        must(distributed_->forward([&] { return model_->loss(tokens, targets); }));
    must(distributed_->backward(loss, true));
    must(distributed_->step({1 / (count * world_.size()), AdamW{}.learning_rate}));
    return loss.item<double>() / count;
  }

 private:
  Comm& world_;
  Gpt model_;
  std::unique_ptr<DistributedModel> distributed_;
};

std::unique_ptr<Way> make_way(const std::string& name, const Options& options, Comm& world) {
  const std::map<std::string, Strategy> strategies = {{"ddp", Strategy::kDdp},
                                                      {"zero1", Strategy::kZero1},
                                                      {"zero2", Strategy::kZero2},
                                                      {"zero3", Strategy::kZero3}};
  if (name == "compute") return std::make_unique<Alone>(options.gpt);
  if (name == "gloo") return std::make_unique<Gloo>(options.gpt, world, options.interface);
  if (const auto found = strategies.find(name); found != strategies.end())
    return std::make_unique<Tutti>(options, found->second, world);
  end(fmt::format("--ways: there is no '{}'; there are compute gloo ddp zero1 zero2 zero3", name));
}

using Clock = std::chrono::steady_clock;

/// Bytes that left by an interface of this network namespace, headers included; 0 for none.
double sent_by(const std::string& interface) {
  std::ifstream table("/proc/net/dev");
  for (std::string line; std::getline(table, line);) {
    const auto name = line.find_first_not_of(' ');
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.substr(name, colon - name) != interface) continue;
    std::istringstream fields(line.substr(colon + 1));
    double field = 0;
    for (int i = 0; i < 9; ++i) fields >> field;  // eight of what came, then what was sent
    return field;
  }
  return 0;
}

/// What one way gave over all rounds.
struct Measured {
  std::vector<double> ms;     ///< of each step, of the rank for which it took longest
  double sent = 0, loss = 0;  ///< bytes by the interface; of the last step
};

void time_steps(Way& way, const Options& options, int round, Comm& world, Measured& measured) {
  for (int step = 0; step < options.steps; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(round) * 1000 +
                       static_cast<std::uint64_t>(step) * 64 +
                       static_cast<std::uint64_t>(world.rank()));
    const torch::Tensor tokens =
        torch::randint(options.gpt.vocabulary, {options.batch, options.gpt.context + 1});
    const torch::Tensor input = tokens.slice(1, 0, -1).contiguous(),
                        targets = tokens.slice(1, 1).contiguous();
    int all_here = 0;
    must(world.all_reduce<int>(std::span(&all_here, 1), std::span(&all_here, 1)));
    const double sent = sent_by(options.interface);
    const auto begin = Clock::now();
    measured.loss = way.step(input, targets);
    double took = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    must(world.all_reduce<double>(std::span(&took, 1), std::span(&took, 1), ReduceOp::kMax));
    if (round == 0) continue;  // warms up
    measured.ms.push_back(took);
    measured.sent += sent_by(options.interface) - sent;
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

void report(const Options& options, const Comm& world,
            const std::map<std::string, Measured>& ways) {
  nlohmann::json json = {{"ranks", world.size()},
                         {"parameters", parameter_count(options.gpt)},
                         {"batch", options.batch},
                         {"context", options.gpt.context}};
  fmt::print("{} ranks, {} parameters, {} x {} tokens for each rank\n", world.size(),
             parameter_count(options.gpt), options.batch, options.gpt.context);
  fmt::print("{:<10}{:>12}{:>14}{:>14}{:>10}\n", "way", "median ms", "fastest ms", "sent MB/step",
             "loss");
  for (const std::string& name : options.ways) {
    const Measured& way = ways.at(name);
    const double middle = median(way.ms), sent = way.sent / static_cast<double>(way.ms.size());
    fmt::print("{:<10}{:>12.2f}{:>14.2f}{:>14.2f}{:>10.4f}\n", name, middle,
               *std::ranges::min_element(way.ms), sent / 1e6, way.loss);
    json["ways"][name] = {
        {"median_ms", middle}, {"sent_bytes", sent}, {"loss", way.loss}, {"ms", way.ms}};
  }
  if (!options.json.empty()) std::ofstream(options.json) << json.dump(1) << '\n';
}

int run(const Options& options) {
  set_compute_threads(1);
  keep_freed_memory();
  Comm world = must(Comm::from_environment());
  std::map<std::string, std::unique_ptr<Way>> ways;
  std::map<std::string, Measured> measured;
  for (const std::string& way : options.ways) ways[way] = make_way(way, options, world);
  for (int round = 0; round <= options.rounds; ++round) {
    std::vector<std::string> order = options.ways;
    std::ranges::rotate(order, order.begin() + round % static_cast<int>(order.size()));
    for (const std::string& way : order)
      time_steps(*ways[way], options, round, world, measured[way]);
  }
  if (world.rank() == 0) report(options, world, measured);
  return 0;
}

}  // namespace
}  // namespace tutti::training

int main(int argc, char** argv) {
  tutti::training::Options options;
  CLI::App app("Times a training step in several ways that take turns");
  app.add_option("--layers", options.gpt.layers);
  app.add_option("--heads", options.gpt.heads);
  app.add_option("--width", options.gpt.width);
  app.add_option("--context", options.gpt.context);
  app.add_option("--batch", options.batch, "sequences of each rank");
  app.add_option("--rounds", options.rounds);
  app.add_option("--steps", options.steps, "of each way in a round");
  app.add_option("--ways", options.ways, "compute gloo ddp zero1 zero2 zero3")->delimiter(',');
  app.add_option("--interface", options.interface,
                 "that Gloo uses and whose bytes count; without, that of 127.0.0.1");
  app.add_option("--first-bucket", options.buckets.first_elements, "elements, of Tutti's ways");
  app.add_option("--bucket", options.buckets.elements, "of the others");
  app.add_option("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  return tutti::training::run(options);
}
