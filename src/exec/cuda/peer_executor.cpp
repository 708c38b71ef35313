#include "src/exec/cuda/peer_executor.hpp"

#include <atomic>
#include <chrono>
#include <span>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::exec::cuda {

using device::Failure;
using device::Wake;
using tutti::cuda::HostRegistration;

/// What host and kernels tell each other: pages of the host, which are pinned whole.
struct alignas(4096) PeerExecutor::Words {
  alignas(128) std::uint32_t ended = 0;
  alignas(128) std::uint64_t failure = 0;
};

PeerExecutor::PeerExecutor(tutti::cuda::SharedDriver driver, int device, Kernels& kernels,
                           Rank rank, std::unique_ptr<PeerMemory> memory, Nanos timeout)
    : driver_(std::move(driver)),
      device_(device),
      kernels_(kernels),
      rank_(rank),
      memory_(std::move(memory)),
      timeout_(timeout),
      words_(std::make_unique<Words>()) {}

PeerExecutor::~PeerExecutor() = default;

Result<std::unique_ptr<PeerExecutor>> PeerExecutor::create(tutti::cuda::SharedDriver driver,
                                                           int device, Kernels& kernels, Rank rank,
                                                           std::unique_ptr<PeerMemory> memory,
                                                           Nanos timeout) {
  std::unique_ptr<PeerExecutor> made(
      new PeerExecutor(std::move(driver), device, kernels, rank, std::move(memory), timeout));
  TUTTI_ASSIGN(made->registration_,
               HostRegistration::create(made->driver_, device,
                                        std::as_writable_bytes(std::span(made->words_.get(), 1))));
  return made;
}

Status PeerExecutor::launch(tutti::cuda::abi::Stream stream, const PeerCall& call) {
  const auto seen_by_device = [&](auto& word) {
    const auto offset = reinterpret_cast<std::byte*>(&word) - registration_->memory().data();
    return reinterpret_cast<std::remove_reference_t<decltype(word)>*>(
        registration_->device_address() + static_cast<std::size_t>(offset));
  };
  device::Launch launch;
  launch.image = call.image->address();
  const std::span<std::byte* const> areas = memory_->areas();
  for (std::size_t rank = 0; rank < areas.size(); ++rank) launch.bases.areas[rank] = areas[rank];
  launch.bases.inputs[rank_] = call.input;
  launch.bases.outputs[rank_] = call.output;
  launch.patience = {.abort_word = seen_by_device(words_->ended),
                     .timeout_ns = static_cast<std::uint64_t>(timeout_.count())};
  launch.failure = seen_by_device(words_->failure);
  return kernels_.interpret(device_, stream, call.type, call.blocks, launch);
}

void PeerExecutor::end() { std::atomic_ref(words_->ended).store(1, std::memory_order_release); }

std::uint64_t PeerExecutor::failure() const {
  return std::atomic_ref(words_->failure).load(std::memory_order_acquire);
}

bool PeerExecutor::gave_up() const { return failure() != 0; }

Status PeerExecutor::health() const {
  const std::uint64_t failure = this->failure();
  if (failure == 0 || Failure::wake(failure) == Wake::kAborted) return ok_status();
  const auto peer = static_cast<Rank>(Failure::peer(failure));
  return peer_error(Code::kTimeout, peer,
                    "rank {} waited for rank {} longer than TUTTI_TIMEOUT={} s", rank_, peer,
                    std::chrono::duration<double>(timeout_).count());
}

}  // namespace tutti::exec::cuda
