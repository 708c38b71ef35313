#include "transports/cuda_p2p/probe.hpp"

#include <string_view>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::cuda_p2p {
namespace {

constexpr std::size_t kParts = 3;
constexpr std::size_t kPatternBytes = 64;
constexpr std::string_view kRemedy =
    "access control (ACS) of PCIe switches and translating IOMMUs are known to break traffic "
    "between GPUs: turn them off in the BIOS, or boot with iommu=pt";

}  // namespace

std::size_t probe_page_bytes(std::int32_t ranks) {
  return kParts * kPatternBytes * static_cast<std::size_t>(ranks);
}

Probe::Probe(const cuda::Driver& driver, WatchedStream& stream, Rank self,
             std::uint64_t communicator, std::vector<ProbeSide> sides)
    : driver_(driver),
      stream_(stream),
      self_(self),
      communicator_(communicator),
      sides_(std::move(sides)) {
  static_assert(sizeof(Pattern) == kPatternBytes);
}

std::byte* Probe::place(Rank side, Part part, Rank other) const {
  const std::size_t index = static_cast<std::size_t>(part) * sides_.size() + other;
  return sides_[side].page + index * kPatternBytes;
}

Probe::Pattern Probe::pattern(Rank writer, Rank reader) const {
  const std::uint64_t pair = static_cast<std::uint64_t>(writer) << 32 | std::uint64_t(reader);
  Pattern words;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    words[i] = communicator_ + i;
    words[i + 1] = ~pair ^ i;
  }
  return words;
}

std::string Probe::pair(Rank peer) const {
  return fmt::format("GPU {} of rank {} and GPU {} of rank {}", sides_[self_].gpu, self_,
                     sides_[peer].gpu, peer);
}

Status Probe::copy(std::byte* to, const std::byte* from, Rank peer, Deadline deadline) {
  TUTTI_TRY(driver_.copy_async(to, from, kPatternBytes, stream_.get()));
  Status done = stream_.wait(deadline);
  if (done || done.error().code != Code::kTimeout) return done;
  return peer_error(Code::kTimeout, peer, "a copy of {} bytes between {} does not end: {}",
                    kPatternBytes, pair(peer), kRemedy);
}

Status Probe::check(std::span<const Pattern> found, Rank peer, std::string_view verb) const {
  if (found[peer] == pattern(peer, self_)) return ok_status();
  return peer_error(Code::kWrongData, peer, "what rank {} {} arrived wrong between {}: {}", peer,
                    verb, pair(peer), kRemedy);
}

Status Probe::store(Deadline deadline) {
  const auto ranks = static_cast<Rank>(sides_.size());
  std::vector<Pattern> said;
  said.reserve(sides_.size());
  for (Rank reader = 0; reader < ranks; ++reader) said.push_back(pattern(self_, reader));
  // Pageable memory may make the copy wait for the stream, which is empty.
  TUTTI_TRY(driver_.copy_async(place(self_, Part::kSaid, 0), said.data(),
                               said.size() * kPatternBytes, stream_.get()));
  TUTTI_TRY(stream_.wait(deadline));
  for (Rank peer = 0; peer < ranks; ++peer)
    if (peer != self_)
      TUTTI_TRY(
          copy(place(peer, Part::kStored, self_), place(self_, Part::kSaid, peer), peer, deadline));
  return ok_status();
}

Status Probe::load(Deadline deadline) {
  const auto ranks = static_cast<Rank>(sides_.size());
  for (Rank peer = 0; peer < ranks; ++peer)
    if (peer != self_)
      TUTTI_TRY(
          copy(place(self_, Part::kLoaded, peer), place(peer, Part::kSaid, self_), peer, deadline));
  std::vector<Pattern> found(2 * sides_.size());
  TUTTI_TRY(driver_.copy_async(found.data(), place(self_, Part::kStored, 0),
                               found.size() * kPatternBytes, stream_.get()));
  TUTTI_TRY(stream_.wait(deadline));
  const std::span<const Pattern> all(found);
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (peer == self_) continue;
    TUTTI_TRY(check(all.first(sides_.size()), peer, "stored"));
    TUTTI_TRY(check(all.last(sides_.size()), peer, "holds"));
  }
  return ok_status();
}

}  // namespace tutti::cuda_p2p
