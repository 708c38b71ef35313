#include "tools/train/model.hpp"

#include <algorithm>
#include <vector>

#include <torch/cuda.h>
#include <torch/utils.h>
#include <torch/version.h>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "training/torch/distributed.hpp"

namespace tutti::trainer {
namespace {

using training::Checkpoint;
using training::Gpt;
using training::ParameterTable;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

Result<Gpt> make_model(const ModelShape& shape, std::uint64_t seed) {
  return training::make_gpt({.layers = shape.layers,
                             .heads = shape.heads,
                             .width = shape.width,
                             .context = shape.context,
                             .vocabulary = kVocabulary},
                            seed);
}

Result<torch::Device> device_of(const std::string& name, int rank_of_host) {
  if (name != "cuda") return torch::Device(torch::kCPU);
  if (!torch::cuda::is_available())
    return make_error(Code::kUnsupported,
                      "--device cuda: LibTorch " TORCH_VERSION
                      " as it is installed here {}: use --device cpu",
                      torch::hasCUDA() ? "finds no GPU" : "was built without CUDA");
  const int index = rank_of_host % static_cast<int>(torch::cuda::device_count());
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
}

Status check_precision(DataType compute, torch::Device device) {
  if (compute != DataType::kFloat16 || !device.is_cpu()) return ok_status();
  const auto half = [] {
    Gpt tiny = *make_model({.layers = 1, .heads = 1, .width = 2, .context = 2}, 0);
    tiny->to(torch::kFloat16);
    const torch::Tensor tokens = torch::zeros({1, 2}, torch::kInt64);
    tiny->loss(tokens, tokens).backward();
  };
  try {
    half();
  } catch (const c10::Error& error) {
    return make_error(Code::kUnsupported,
                      "--precision fp16: LibTorch " TORCH_VERSION
                      " cannot compute with it on the CPU ({}): take --precision bf16",
                      error.what_without_backtrace());
  }
  return ok_status();
}

Status caught(const std::function<Status()>& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    return make_error(Code::kUnavailable, "LibTorch: {}", error.what_without_backtrace());
  }
}

Result<Gpt> load_model(const Checkpoint& checkpoint) {
  const auto shape = shape_in(checkpoint.manifest().counters);
  if (!shape)
    return make_error(Code::kWrongData,
                      "{} does not say of which shape its model is: it is not by 'tutti train'",
                      tools::shown_path(checkpoint.folder().string()));
  TUTTI_ASSIGN(const ParameterTable table, parameters_of(*shape));
  TUTTI_TRY(checkpoint.check_model(table));  // before memory is taken for what may not be there
  TUTTI_TRY(checkpoint.check_files());
  TUTTI_ASSIGN(Gpt model, make_model(*shape, 0));
  TUTTI_ASSIGN(const training::TrainedParameters trained, training::trained_parameters(*model));
  const torch::NoGradGuard no_gradients;
  for (training::ParameterId id = 0; id < trained.table.size(); ++id) {
    const torch::Tensor& tensor = trained.tensors[id];
    TUTTI_TRY(checkpoint.read("parameter", id, 0,
                              {tensor.data_ptr<float>(), trained.table.elements(id)}));
  }
  return model;
}

Examples examples_at(const Windows& windows, std::span<const std::size_t> begins) {
  const auto rows = static_cast<std::int64_t>(begins.size());
  const auto context = static_cast<std::int64_t>(windows.context());
  torch::Tensor bytes = torch::empty({rows, context + 1}, torch::kInt64);
  auto* into = bytes.data_ptr<std::int64_t>();
  for (const std::size_t begin : begins) into = std::ranges::copy(windows.at(begin), into).out;
  return {bytes.narrow(1, 0, context).contiguous(), bytes.narrow(1, 1, context).contiguous()};
}

Result<std::string> sample_text(Gpt& model, const std::string& prompt, std::size_t bytes,
                                double temperature, std::int64_t top_k, std::uint64_t seed) {
  TUTTI_ASSIGN(
      const std::vector<std::uint8_t> added,
      training::sample(*model, bytes_of(prompt),
                       {.count = bytes, .temperature = temperature, .top_k = top_k, .seed = seed}));
  return std::string(added.begin(), added.end());
}

}  // namespace tutti::trainer
