// The model of `tutti train` in LibTorch: makes it, feeds it text, loads it from a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <torch/types.h>

#include "tools/train/batches.hpp"
#include "tools/train/model_shape.hpp"
#include "training/checkpoint.hpp"
#include "training/torch/gpt.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::trainer {

Result<training::Gpt> make_model(const ModelShape& shape, std::uint64_t seed);

/// Of --device: the CPU, or the GPU whose turn it is for this rank of its host. kUnsupported
/// where LibTorch has no CUDA, or finds no GPU.
Result<torch::Device> device_of(const std::string& name, int rank_of_host);

/// kUnsupported where LibTorch cannot train a transformer in that type there.
Status check_precision(DataType compute, torch::Device device);

/// What body() returns. LibTorch reports by exceptions, of which missing memory is one: that
/// becomes kUnavailable.
Status caught(const std::function<Status()>& body);

/// The model of a checkpoint, with its parameters.
Result<training::Gpt> load_model(const training::Checkpoint& checkpoint);

/// What the model reads and what it is to predict: int64 [windows, context].
struct Examples {
  torch::Tensor tokens, targets;
};
/// Of the windows that begin there.
Examples examples_at(const Windows& windows, std::span<const std::size_t> begins);

/// `bytes` bytes of text that continue `prompt`. Throws what LibTorch throws.
Result<std::string> sample_text(training::Gpt& model, const std::string& prompt, std::size_t bytes,
                                double temperature, std::int64_t top_k, std::uint64_t seed);

}  // namespace tutti::trainer
