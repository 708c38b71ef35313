// Tests with small copies whether GPUs really reach each other's memory.
//
// The driver's word is not enough. Behind PCIe switches with access control (ACS), or an IOMMU that
// translates, copies between GPUs may never end, or end without moving data. The driver says that
// peers are accessible all the same. So each rank stores a pattern that names writer and reader in
// every peer's memory. Then it checks the patterns that its peers stored in its own memory, and
// loads what each peer holds for it. All copies use the rank's own GPU and stream.
//
// Each rank has one probe page with three arrays, indexed by rank: what it offers to each reader,
// what each writer stored there, and what it loaded from each peer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "transports/cuda_p2p/watched_stream.hpp"

namespace tutti::cuda_p2p {

/// One rank's part of the probe.
struct ProbeSide {
  std::string gpu;            ///< for messages
  std::byte* page = nullptr;  ///< at least probe_page_bytes(), as this rank's GPU sees it
};
std::size_t probe_page_bytes(std::int32_t ranks);

/// Value that refers to its arguments, which must outlive it.
class Probe {
 public:
  /// `sides`: all ranks, including this one. The context of this rank's GPU must be current in all
  /// calls.
  Probe(const cuda::Driver& driver, WatchedStream& stream, Rank self, std::uint64_t communicator,
        std::vector<ProbeSide> sides);

  /// Stores in every peer's page. Errors name both GPUs and the remedy. Call load() when all ranks
  /// have finished this.
  Status store(Deadline deadline);
  /// Checks what all peers stored, and loads from every peer's page. After an error of store() or
  /// load(), check stream.stuck().
  Status load(Deadline deadline);

 private:
  using Pattern = std::array<std::uint64_t, 8>;
  enum class Part : std::uint8_t { kSaid, kStored, kLoaded };

  [[nodiscard]] std::byte* place(Rank side, Part part, Rank other) const;
  [[nodiscard]] Pattern pattern(Rank writer, Rank reader) const;
  Status copy(std::byte* to, const std::byte* from, Rank peer, Deadline deadline);
  Status check(std::span<const Pattern> found, Rank peer, std::string_view verb) const;
  [[nodiscard]] std::string pair(Rank peer) const;

  const cuda::Driver& driver_;
  WatchedStream& stream_;
  const Rank self_;
  const std::uint64_t communicator_;
  const std::vector<ProbeSide> sides_;
};

}  // namespace tutti::cuda_p2p
