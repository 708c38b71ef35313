// Of PeerCalls: how ranks find out whether their GPUs reach each other.
#include <chrono>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/gpu_offer.hpp"
#include "src/comm/peer_calls.hpp"

namespace tutti {

using exec::cuda::PeerExecutor;

namespace {

GpuOffer own_offer(const Runtime& runtime, const cuda::DeviceFacts& facts) {
  GpuOffer offer{.problem = "",
                 .bus_id = facts.bus_id,
                 .level = path_kind_of(runtime.settings.text("P2P_LEVEL"))};
  if (runtime.settings.flag("P2P_DISABLE")) {
    offer.problem = fmt::format("{}=1", runtime.settings.source("P2P_DISABLE"));
  } else if (!runtime.kernels->available()) {
    offer.problem = "the library was built without nvcc";
  } else if (const Status loaded = runtime.kernels->prepare(facts.ordinal); !loaded) {
    offer.problem = loaded.error().what;
  }
  return offer;
}

/// The same on all ranks.
Result<std::string> find_problem(const Runtime& runtime, GroupContext& communicator, int device,
                                 Deadline deadline) {
  TUTTI_ASSIGN(const cuda::DeviceFacts facts, runtime.cuda->device(device));
  TUTTI_ASSIGN(const std::vector<Blob> told,
               communicator.all_gather(encode(own_offer(runtime, facts)), deadline));
  std::vector<GpuOffer> offers;
  for (const Blob& blob : told) {
    TUTTI_ASSIGN(GpuOffer offer, decode_gpu_offer(blob, static_cast<Rank>(offers.size())));
    offers.push_back(std::move(offer));
  }
  return problem_among(offers, communicator.facts().job->topology,
                       communicator.facts().host_of_ranks);
}

/// All ranks know the reason, and one warns of what costs so much and nobody asked for.
void say_that_calls_pass_through_the_host(const GroupFacts& facts, const Settings& settings,
                                          const std::string& reason) {
  constexpr auto kLine = "calls on GPU memory pass through memory of the host, because {}";
  const bool asked_for = settings.flag("P2P_DISABLE") || settings.source("P2P_LEVEL") != "default";
  if (facts.rank == 0 && !asked_for)
    log_warn(facts.who(), kLine, reason);
  else
    log_info(Subsystem::kInit, facts.who(), kLine, reason);
}

}  // namespace

Result<std::unique_ptr<PeerCalls>> PeerCalls::create(const Runtime& runtime,
                                                     GroupContext& communicator, int device,
                                                     Deadline deadline) {
  const GroupFacts& facts = communicator.facts();
  if (facts.size == 1 || facts.shares_one_gpu) return std::unique_ptr<PeerCalls>();
  if (facts.size > static_cast<std::int32_t>(device::kMaxRanks)) {
    say_that_calls_pass_through_the_host(
        facts, runtime.settings, fmt::format("there are more than {} ranks", device::kMaxRanks));
    return std::unique_ptr<PeerCalls>();
  }
  TUTTI_ASSIGN(const auto scope, runtime.cuda->make_current(device));
  TUTTI_ASSIGN(const auto relaxed, cuda::RelaxedCapture::begin(*runtime.cuda));
  TUTTI_ASSIGN(const std::string problem, find_problem(runtime, communicator, device, deadline));
  if (!problem.empty()) {
    say_that_calls_pass_through_the_host(facts, runtime.settings, problem);
    return std::unique_ptr<PeerCalls>();
  }
  const PeerMemoryRequest request{.rank = facts.rank,
                                  .ranks = facts.size,
                                  .device = device,
                                  .bytes = PeerExecutor::kAreaBytes,
                                  .process_token = runtime.process_token,
                                  .communicator = facts.id,
                                  .key = communicator.key(),
                                  .all_gather =
                                      [&](std::span<const std::byte> mine) {
                                        return communicator.all_gather(
                                            Blob(mine.begin(), mine.end()), deadline);
                                      },
                                  .deadline = deadline};
  TUTTI_ASSIGN(auto memory, runtime.peer_memory->share(request));
  if (!memory) return std::unique_ptr<PeerCalls>();
  log_info(Subsystem::kInit, facts.who(),
           "GPUs run collectives in each other's memory ({}), with {} KiB of each",
           memory->describe(), PeerExecutor::kAreaBytes >> 10);
  const auto timeout = std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(runtime.settings.seconds("TIMEOUT")));
  TUTTI_ASSIGN(auto executor, PeerExecutor::create(runtime.cuda, device, *runtime.kernels,
                                                   facts.rank, std::move(memory), timeout));
  return std::unique_ptr<PeerCalls>(
      new PeerCalls(runtime, communicator, device, std::move(executor)));
}

}  // namespace tutti
