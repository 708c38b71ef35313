// One rank's part in one PeerMemoryTransport::share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/transport/peer_memory.hpp"
#include "transports/cuda_p2p/board.hpp"
#include "transports/cuda_p2p/cuda_p2p.hpp"
#include "transports/cuda_p2p/probe.hpp"

namespace tutti::cuda_p2p {

/// How a rank's memory is reached, for PeerMemory::describe.
enum class Way : std::uint8_t { kOwn, kProcess, kDescriptor, kFabric, kIpc };

/// One rank's memory, as this rank's GPU reaches it.
struct Reached {
  Way way = Way::kOwn;
  std::byte* data = nullptr;
  std::shared_ptr<const void> owner;  ///< keeps the memory alive
};

/// Resource. One thread.
class Sharing {
 public:
  /// All arguments must outlive it.
  Sharing(const cuda::SharedDriver& driver, const CudaP2pOptions& options, Board& board,
          const PeerMemoryRequest& request)
      : driver_(driver), options_(options), board_(board), request_(request) {}
  ~Sharing();
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;

  /// Does PeerMemoryTransport::share. Call once.
  Result<std::unique_ptr<PeerMemory>> run();

 private:
  // What this rank does in each step.
  Result<Offer> prepare();
  Status import();
  Status store();
  Status load();

  Status allocate(const cuda::DeviceFacts& device);
  Status clear(const cuda::DeviceFacts& device);
  Result<Reached> reach(Rank peer, const Fd& fd);
  Result<Reached> reach_in_process(Rank peer);
  Result<Reached> reach_by_handle(Rank peer, const Fd& fd);
  Status check_access(Rank peer);
  Probe probe();

  // What all ranks decide together.
  Result<std::vector<Blob>> gather(const Blob& mine);
  Result<std::optional<Obstacle>> exchange_offers();
  Result<std::optional<Obstacle>> agree(const Status& mine);
  std::unique_ptr<PeerMemory> fall_back(const Obstacle& obstacle) const;

  [[nodiscard]] const Offer& own_offer() const { return offers_[request_.rank]; }
  [[nodiscard]] std::size_t page_offset() const;

  const cuda::SharedDriver& driver_;
  const CudaP2pOptions& options_;
  Board& board_;
  const PeerMemoryRequest& request_;

  std::shared_ptr<const Area> own_;
  std::optional<WatchedStream> stream_;
  Fd own_fd_;                         // of own_, until it is passed on
  Fd listener_;                       // until descriptors are passed
  std::vector<Offer> offers_;         // by rank
  std::vector<std::string> visible_;  // uuids of this process's devices, by ordinal
  std::vector<Reached> reached_;
};

}  // namespace tutti::cuda_p2p
