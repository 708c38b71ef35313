// The command line of `tutti train`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/program/command_line.hpp"

namespace tutti::trainer {

/// As it stands on the command line; 0 and "" where a value is made from others.
struct Options {
  std::string data = {}, out = "train-out";

  std::string size = "1m";
  std::int64_t layers = 0, heads = 0, width = 0, context = 0;

  std::string strategy = "ddp";
  int shard_size = 0, hpz = 0;
  std::string reshard_after_forward = {};
  std::optional<double> bucket_mb = {}, first_bucket_mb = {}, prefetch_mb = {};
  int accumulate = 1;
  bool sharded_accumulation = false, whole_gradients = false;
  std::string quantize_weights = {}, quantize_gradients = {}, compress = {};
  bool secondary = false;
  std::string error_feedback = {};
  std::optional<std::uint64_t> compress_warmup = {};
  std::optional<double> compress_momentum = {};
  std::string precision = "fp32", reduce_precision = {}, loss_scale = {};
  std::string checkpoint_activations = "none";
  bool deterministic = false;
  std::optional<int> virtual_shards = {};

  std::size_t batch = 0, tokens_per_batch = 0;
  std::uint64_t steps = 0;
  double minutes = 0;
  double lr = 1e-3;
  std::optional<double> min_lr = {};
  std::optional<std::uint64_t> warmup = {};
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, clip = 1;
  std::uint64_t seed = 1;

  std::uint64_t save_every = 0, keep = 2;
  std::string resume = "auto";
  std::uint64_t eval_every = 100, eval_batches = 8;
  std::uint64_t sample_every = 0;
  std::size_t sample_bytes = 200;
  std::string prompt = "And ";
  std::uint64_t log_every = 1;
  int max_bad_steps = 10;

  std::string device = "cpu";
  int threads = 0, ranks = 0, restarts = 0;
  bool dry_run = false;
  int hosts = 0;
  std::string link = {};
  double compute_ms = 0;
  std::string json_path = {};
};

void add_options(tools::CommandLine& app, Options& options);

}  // namespace tutti::trainer
