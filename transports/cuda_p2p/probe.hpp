// Whether GPUs really reach each other's memory, tried with small copies.
//
// The driver's word is not enough: behind PCIe switches with access control (ACS) on, or under an
// IOMMU that translates, copies between GPUs may never end, or end without having moved anything,
// while the driver says that peers can be accessed. So each rank stores a pattern, which names
// writer and reader, in every peer's memory, finds those of all peers in its own, and loads what
// each peer holds for it. All copies are of the rank's own GPU and stream.
//
// Each rank has one probe page, of an array for each of three purposes, by rank: what it says to
// each reader, what each writer stored there, and what was loaded from each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "transports/cuda_p2p/watched_stream.hpp"

namespace tutti::cuda_p2p {

/// A rank in the probe.
struct ProbeSide {
  std::string gpu;            ///< for messages
  std::byte* page = nullptr;  ///< at least probe_page_bytes(), as this rank's GPU sees it
};
std::size_t probe_page_bytes(std::int32_t ranks);

/// Value over what outlives it.
class Probe {
 public:
  /// `sides`: all ranks, this one's too. The context of its GPU is current in all calls.
  Probe(const cuda::Driver& driver, WatchedStream& stream, Rank self, std::uint64_t communicator,
        std::vector<ProbeSide> sides);

  /// Stores in every peer's page. Errors name both GPUs and the remedy. Once all ranks are done
  /// with it:
  Status store(Deadline deadline);
  /// finds what all peers stored, and loads from every peer's page. After an error of either,
  /// look at stream.stuck().
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
