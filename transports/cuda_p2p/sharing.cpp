#include "transports/cuda_p2p/sharing.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "src/base/keep_for_good.hpp"
#include "src/base/log.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/local_socket.hpp"
#include "transports/cuda_p2p/descriptors.hpp"

namespace tutti::cuda_p2p {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

class MemoryOfAll final : public PeerMemory {
 public:
  explicit MemoryOfAll(std::vector<Reached> reached) : reached_(std::move(reached)) {
    for (const Reached& one : reached_) areas_.push_back(one.data);
  }
  [[nodiscard]] std::span<std::byte* const> areas() const override { return areas_; }
  [[nodiscard]] std::string describe() const override {
    constexpr std::pair<Way, std::string_view> kWays[] = {{Way::kDescriptor, "by file descriptors"},
                                                          {Way::kFabric, "by fabric handles"},
                                                          {Way::kIpc, "by IPC handles"},
                                                          {Way::kProcess, "in this process"}};
    const auto peers = std::ssize(reached_) - 1;
    if (peers == 0) return "no peers";
    const std::string_view noun = peers == 1 ? "peer" : "peers";
    std::vector<std::string> parts;
    for (const auto& [way, words] : kWays) {
      const auto count = std::ranges::count(reached_, way, &Reached::way);
      if (count == peers) return fmt::format("{} {} {}", peers, noun, words);
      if (count > 0) parts.push_back(fmt::format("{} {}", count, words));
    }
    return fmt::format("{} {}: {}", peers, noun, fmt::join(parts, ", "));
  }

 private:
  const std::vector<Reached> reached_;
  std::vector<std::byte*> areas_;
};

}  // namespace

Sharing::~Sharing() {
  board_.erase(request_.communicator, request_.rank);
  if (!stream_ || !stream_->stuck()) return;
  // To give back what a copy uses that may never end could wait for it, or pull the memory from
  // under it.
  keep_for_good(stream_->resource());
  keep_for_good(own_);
  for (Reached& one : reached_)
    if (one.owner) keep_for_good(std::move(one.owner));
}

Result<std::unique_ptr<PeerMemory>> Sharing::run() {
  TUTTI_CHECK(request_.key.size() == sizeof(Key), "a key of {} bytes", request_.key.size());
  TUTTI_ASSIGN(auto obstacle, exchange_offers());
  if (obstacle) return fall_back(*obstacle);
  for (const auto step : {&Sharing::import, &Sharing::store, &Sharing::load}) {
    TUTTI_ASSIGN(obstacle, agree((this->*step)()));
    if (obstacle) return fall_back(*obstacle);
  }
  return std::unique_ptr<PeerMemory>(std::make_unique<MemoryOfAll>(std::move(reached_)));
}

Result<std::vector<Blob>> Sharing::gather(const Blob& mine) {
  TUTTI_ASSIGN(auto blobs, request_.all_gather(mine));
  TUTTI_CHECK(blobs.size() == static_cast<std::size_t>(request_.ranks),
              "{} blobs gathered of {} ranks", blobs.size(), request_.ranks);
  return blobs;
}

Result<std::optional<Obstacle>> Sharing::exchange_offers() {
  auto mine = prepare();
  if (!mine) {
    Offer none;
    none.problem = mine.error().what;
    mine = std::move(none);
  }
  TUTTI_ASSIGN(const auto blobs, gather(encode(*mine)));
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    auto offer = decode_offer(blobs[rank]);
    if (!offer)
      return std::optional(Obstacle{fmt::format("rank {}: {}", rank, offer.error().what)});
    offers_.push_back(*std::move(offer));
  }
  return find_obstacle(offers_);
}

Result<std::optional<Obstacle>> Sharing::agree(const Status& mine) {
  TUTTI_ASSIGN(const auto blobs, gather(encode_verdict(mine ? "" : mine.error().what)));
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    const auto verdict = decode_verdict(blobs[rank]);
    const std::string& problem = verdict ? *verdict : verdict.error().what;
    if (!problem.empty())
      return std::optional(Obstacle{fmt::format("rank {}: {}", rank, without_controls(problem))});
  }
  return std::optional<Obstacle>();
}

std::unique_ptr<PeerMemory> Sharing::fall_back(const Obstacle& obstacle) const {
  const std::string who = fmt::format("[rank {}/{}]", request_.rank, request_.ranks);
  constexpr auto kLine =
      "the ranks' GPUs do not use each other's memory, and calls pass through host memory instead: "
      "{}";
  if (obstacle.expected)
    log_info(Subsystem::kInit, who, kLine, obstacle.what);
  else
    log_warn(who, kLine, obstacle.what);
  return nullptr;
}

std::size_t Sharing::page_offset() const { return whole_pages(request_.bytes); }

Result<Offer> Sharing::prepare() {
  Offer offer;
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(request_.device));
  TUTTI_ASSIGN(const cuda::DeviceFacts device, driver_->device(request_.device));
  TUTTI_TRY(allocate(device));
  TUTTI_TRY(clear(device));
  TUTTI_ASSIGN(own_fd_, own_->export_fd());
  TUTTI_ASSIGN(offer.address, own_local_address(options_.host_id));
  TUTTI_ASSIGN(listener_, listen_local(offer.address.socket_name));
  board_.put(request_.communicator, request_.rank, own_);
  offer.gpu = device.bus_id;
  offer.uuid = device.uuid;
  offer.process_token = request_.process_token;
  offer.area_bytes = request_.bytes;
  offer.allocated_bytes = own_->bytes();
  offer.kind = own_->kind();
  offer.handle = own_->handle();
  return offer;
}

Status Sharing::allocate(const cuda::DeviceFacts& device) {
  if (request_.bytes > kMostAreaBytes)
    return make_error(Code::kInvalidArgument, "an area of {} bytes: at most {} can be shared",
                      request_.bytes, kMostAreaBytes);
  TUTTI_ASSIGN(own_,
               Area::create(driver_, device, page_offset() + probe_page_bytes(request_.ranks)));
  return ok_status();
}

Status Sharing::clear(const cuda::DeviceFacts& device) {
  TUTTI_ASSIGN(stream_, WatchedStream::create(driver_, request_.device));
  TUTTI_TRY(driver_->fill_async(own_->data(), std::byte{0}, own_->bytes(), stream_->get()));
  Status done = stream_->wait(request_.deadline.within(options_.probe_deadline));
  if (done || done.error().code != Code::kTimeout) return done;
  return make_error(Code::kTimeout,
                    "GPU {} has not cleared {} bytes in time: it is very busy, or something on it "
                    "does not end",
                    device.bus_id, own_->bytes());
}

Status Sharing::import() {
  // From now on other processes may open it, and memory under IPC must not be freed while any has
  // it open; nobody tells when the last has closed it.
  const bool leaves_process = std::ranges::any_of(
      offers_, [&](const Offer& offer) { return offer.process_token != request_.process_token; });
  if (own_->kind() == MemoryKind::kIpc && leaves_process) keep_for_good(own_);
  auto fds = swap_descriptors({.rank = request_.rank,
                               .communicator = request_.communicator,
                               .key = request_.key,
                               .offers = offers_,
                               .listener = listener_.get(),
                               .fd = own_fd_.get(),
                               .deadline = request_.deadline.within(options_.swap_deadline)});
  listener_.reset();  // whoever still waits there learns it now
  own_fd_.reset();
  if (!fds) return std::move(fds).error();
  for (int device = 0; device < driver_->device_count(); ++device) {
    TUTTI_ASSIGN(cuda::DeviceFacts facts, driver_->device(device));
    visible_.push_back(std::move(facts.uuid));
  }
  for (Rank peer = 0; peer < request_.ranks; ++peer) {
    TUTTI_ASSIGN(Reached one, reach(peer, (*fds)[peer]));
    reached_.push_back(std::move(one));
  }
  return ok_status();
}

Result<Reached> Sharing::reach(Rank peer, const Fd& fd) {
  if (peer == request_.rank) return Reached{Way::kOwn, own_->data(), own_};
  const Offer& offer = offers_[peer];
  if (offer.allocated_bytes < page_offset() + probe_page_bytes(request_.ranks))
    return peer_error(Code::kPeerFailed, peer, "rank {} offers {} bytes, too few for {} and a page",
                      peer, offer.allocated_bytes, request_.bytes);
  TUTTI_TRY(check_access(peer));
  return offer.process_token == request_.process_token ? reach_in_process(peer)
                                                       : reach_by_handle(peer, fd);
}

Status Sharing::check_access(Rank peer) {
  const Offer& offer = offers_[peer];
  // A device of another process need not be visible in this one: then importing its memory decides.
  const auto device = std::ranges::find(visible_, offer.uuid);
  if (device == visible_.end()) return ok_status();
  TUTTI_ASSIGN(const bool can, driver_->can_access_peer(
                                   request_.device, static_cast<int>(device - visible_.begin())));
  if (can) return ok_status();
  return peer_error(Code::kUnsupported, peer,
                    "the driver lets GPU {} not access GPU {} of rank {}; `nvidia-smi topo -p2p r` "
                    "shows which can",
                    own_offer().gpu, offer.gpu, peer);
}

Result<Reached> Sharing::reach_in_process(Rank peer) {
  std::shared_ptr<const Area> area = board_.find(request_.communicator, peer);
  if (!area)
    return peer_error(Code::kPeerFailed, peer, "rank {} claims to be of this process, and is not",
                      peer);
  TUTTI_TRY(area->let_reach(request_.device));
  std::byte* const data = area->data();
  return Reached{Way::kProcess, data, std::move(area)};
}

Result<Reached> Sharing::reach_by_handle(Rank peer, const Fd& fd) {
  const Offer& offer = offers_[peer];
  const auto kept = [](auto memory, Way way) {
    auto* const data = static_cast<std::byte*>(memory.data());
    return Reached{way, data, std::make_shared<const decltype(memory)>(std::move(memory))};
  };
  switch (offer.kind) {
    case MemoryKind::kDescriptor: {
      TUTTI_ASSIGN(auto memory, cuda::VmmAllocation::import(driver_, request_.device, fd.get(),
                                                            offer.allocated_bytes));
      return kept(std::move(memory), Way::kDescriptor);
    }
    case MemoryKind::kFabric: {
      const auto handle = std::bit_cast<cuda::abi::FabricHandle>(offer.handle);
      TUTTI_ASSIGN(auto memory, cuda::VmmAllocation::import(driver_, request_.device, handle,
                                                            offer.allocated_bytes));
      return kept(std::move(memory), Way::kFabric);
    }
    case MemoryKind::kIpc: {
      const auto handle = std::bit_cast<cuda::abi::IpcHandle>(offer.handle);
      TUTTI_ASSIGN(auto memory, cuda::IpcMemory::open(driver_, request_.device, handle));
      return kept(std::move(memory), Way::kIpc);
    }
  }
  TUTTI_CHECK(false, "memory of kind {}", static_cast<int>(offer.kind));
}

Probe Sharing::probe() {
  std::vector<ProbeSide> sides;
  sides.reserve(reached_.size());
  for (Rank rank = 0; rank < request_.ranks; ++rank)
    sides.push_back({offers_[rank].gpu, reached_[rank].data + page_offset()});
  return {*driver_, *stream_, request_.rank, request_.communicator, std::move(sides)};
}

Status Sharing::store() {
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(request_.device));
  return probe().store(request_.deadline.within(options_.probe_deadline));
}

Status Sharing::load() {
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(request_.device));
  return probe().load(request_.deadline.within(options_.probe_deadline));
}

}  // namespace tutti::cuda_p2p
