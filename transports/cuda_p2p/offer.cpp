#include "transports/cuda_p2p/offer.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::cuda_p2p {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kLongestProblem = 1024;
constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestAddress = 1024;

std::string_view cut(std::string_view text, std::size_t longest) { return text.substr(0, longest); }

}  // namespace

Blob encode(const Offer& offer) {
  Blob blob;
  ByteWriter out(blob);
  out.put(kVersion).sized(as_bytes(cut(offer.problem, kLongestProblem)));
  if (!offer.problem.empty()) return blob;
  out.sized(as_bytes(cut(offer.gpu, kLongestName)))
      .sized(as_bytes(cut(offer.uuid, kLongestName)))
      .put(offer.process_token)
      .sized(encode(offer.address))
      .put(offer.area_bytes)
      .put(offer.allocated_bytes)
      .put(to_underlying(offer.kind))
      .bytes(offer.handle);
  return blob;
}

Result<Offer> decode_offer(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Offer offer;
  const auto version = in.get<std::uint8_t>();
  const auto malformed = [&] {
    return make_error(Code::kPeerFailed,
                      "its offer of {} bytes (version {}) is malformed; all ranks have to run the "
                      "same release",
                      bytes.size(), version);
  };
  offer.problem = in.text(kLongestProblem);
  if (!in.ok() || version != kVersion) return malformed();
  if (!offer.problem.empty()) {
    if (!in.complete()) return malformed();
    return offer;
  }
  offer.gpu = in.text(kLongestName);
  offer.uuid = in.text(kLongestName);
  offer.process_token = in.get<std::uint64_t>();
  auto address = decode_local_address(in.sized(kLongestAddress));
  offer.area_bytes = in.get<std::uint64_t>();
  offer.allocated_bytes = in.get<std::uint64_t>();
  const auto kind = in.get<std::uint8_t>();
  std::ranges::copy(in.bytes(kHandleBytes), offer.handle.begin());
  if (!in.complete() || !address || kind > to_underlying(MemoryKind::kIpc) || offer.uuid.empty() ||
      offer.area_bytes > kMostAreaBytes || offer.allocated_bytes <= offer.area_bytes ||
      offer.allocated_bytes > 2 * kMostAreaBytes)
    return malformed();
  offer.address = *std::move(address);
  offer.kind = static_cast<MemoryKind>(kind);
  return offer;
}

Blob encode_verdict(const std::string& problem) {
  Blob blob;
  ByteWriter(blob).put(kVersion).sized(as_bytes(cut(problem, kLongestProblem)));
  return blob;
}

Result<std::string> decode_verdict(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto version = in.get<std::uint8_t>();
  std::string problem = in.text(kLongestProblem);
  if (!in.complete() || version != kVersion)
    return make_error(Code::kPeerFailed, "its verdict of {} bytes (version {}) is malformed",
                      bytes.size(), version);
  return problem;
}

std::optional<Obstacle> find_obstacle(std::span<const Offer> offers) {
  std::map<std::string_view, std::size_t> users;  // of GPUs
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& one = offers[rank];
    if (!one.problem.empty())
      return Obstacle{fmt::format("rank {}: {}", rank, without_controls(one.problem))};
    if (one.area_bytes != offers.front().area_bytes)
      return Obstacle{fmt::format("rank {} offers {} bytes and rank 0 offers {}", rank,
                                  one.area_bytes, offers.front().area_bytes)};
    const auto [user, alone] = users.emplace(one.uuid, rank);
    if (!alone)
      return Obstacle{fmt::format("ranks {} and {} share GPU {}", user->second, rank, one.gpu),
                      true};
  }
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& one = offers[rank];
    if (one.kind == MemoryKind::kFabric) continue;
    for (std::size_t other = 0; other < offers.size(); ++other)
      if (!on_one_host(one.address, offers[other].address))
        return Obstacle{
            fmt::format("rank {} is not on the host of rank {}, whose GPU {} has no memory "
                        "handles for the fabric",
                        other, rank, one.gpu),
            true};
  }
  return std::nullopt;
}

}  // namespace tutti::cuda_p2p
