#include "training/torch/shared_state.hpp"

#include <cstdint>
#include <span>

#include <fmt/ranges.h>
#include <torch/utils.h>

#include "training/agreement.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

/// A line for each tensor.
std::string describe(const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  std::string lines;
  for (const auto& [name, tensor] : tensors) {
    lines += fmt::format("'{}' of [{}] and {}\n", name, fmt::join(tensor.sizes(), ", "),
                         torch::toString(tensor.scalar_type()));
  }
  return lines;
}

}  // namespace

Status broadcast_tensors(const std::vector<std::pair<std::string, torch::Tensor>>& tensors,
                         Comm& world) {
  TRAINING_ASSIGN(const auto all, gather_texts(world, describe(tensors)));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    Error error = failure(Code::kPeerFailed,
                          "rank {} has other frozen parameters and buffers than rank 0:\n{}rank "
                          "0:\n{}",
                          rank, all[rank], all[0]);
    error.peer = static_cast<Rank>(rank);
    return error;
  }
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : tensors) {
    torch::Tensor values = tensor.to(torch::kCPU).contiguous();
    const std::span<std::uint8_t> bytes(static_cast<std::uint8_t*>(values.data_ptr()),
                                        values.nbytes());
    if (bytes.empty()) continue;
    TRAINING_TRY(world.broadcast<std::uint8_t>(bytes, 0));
    if (!values.is_same(tensor)) tensor.copy_(values);
  }
  return ok_status();
}

}  // namespace tutti::training
