#include "src/comm/peer_info.hpp"

#include <algorithm>
#include <ranges>
#include <set>

#include <fmt/ranges.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/comm/setup_version.hpp"
#include "src/cost/asked.hpp"

namespace tutti {
namespace {
constexpr std::size_t kLongestInfoText = 4096;
constexpr std::uint32_t kMostAddresses = 16;
constexpr std::uint32_t kMostMaskWords = kMostCpus / 64;

void put(ByteWriter& writer, const CpuShare& cpus) {
  writer.put(static_cast<std::uint32_t>(cpus.mask.size()));
  for (const std::uint64_t word : cpus.mask) writer.put(word);
  writer.put(cpus.quota.thousandths).put(cpus.quota.group);
}

Result<CpuShare> get_cpus(ByteReader& reader, Rank rank) {
  CpuShare cpus;
  const auto words = reader.get<std::uint32_t>();
  if (words > kMostMaskWords)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces a mask of {} x 64 CPUs", rank,
                      words);
  for (std::uint32_t i = 0; i < words && reader.ok(); ++i)
    cpus.mask.push_back(reader.get<std::uint64_t>());
  cpus.quota.thousandths = reader.get<std::uint32_t>();
  cpus.quota.group = reader.get<std::uint64_t>();
  return cpus;
}

Result<std::vector<std::uint64_t>> get_file_hashes(ByteReader& reader, Rank rank) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostFiles)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} files", rank, count);
  std::vector<std::uint64_t> hashes;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i)
    hashes.push_back(reader.get<std::uint64_t>());
  return hashes;
}

Result<std::vector<PeerInfo::Address>> get_addresses(ByteReader& reader, Rank rank) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostAddresses)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} addresses", rank, count);
  std::vector<PeerInfo::Address> addresses;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    PeerInfo::Address address;
    address.transport = reader.text(kLongestInfoText);
    const auto raw = reader.sized(kLongestInfoText);
    address.address.assign(raw.begin(), raw.end());
    addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace

Blob encode(const PeerInfo& info) {
  Blob blob;
  ByteWriter writer(blob);
  writer.put(kSetupVersion).put(info.process_token).put(info.block_offset);
  writer.put(info.block_address).put(info.pid);
  writer.sized(as_bytes(info.host)).sized(as_bytes(info.boot)).put(info.mbit_per_s);
  writer.sized(as_bytes(std::string_view(info.device).substr(0, kLongestInfoText)));
  writer.put(static_cast<std::uint8_t>(info.aggregates));
  writer.put(static_cast<std::uint32_t>(info.file_hashes.size()));
  for (const std::uint64_t hash : info.file_hashes) writer.put(hash);
  writer.sized(as_bytes(std::string_view(info.file_problem).substr(0, kLongestInfoText)));
  put(writer, info.cpus);
  writer.put(static_cast<std::uint32_t>(info.addresses.size()));
  for (const PeerInfo::Address& address : info.addresses)
    writer.sized(as_bytes(address.transport)).sized(address.address);
  return blob;
}

Result<PeerInfo> decode_peer_info(std::span<const std::byte> bytes, Rank rank) {
  ByteReader reader(bytes);
  TUTTI_TRY(check_setup_version(reader, rank));
  PeerInfo info;
  info.process_token = reader.get<std::uint64_t>();
  info.block_offset = reader.get<std::uint64_t>();
  info.block_address = reader.get<std::uint64_t>();
  info.pid = reader.get<std::uint32_t>();
  info.host = reader.text(kLongestInfoText);
  info.boot = reader.text(kLongestInfoText);
  info.mbit_per_s = reader.get<std::uint32_t>();
  info.device = reader.text(kLongestInfoText);
  info.aggregates = reader.get<std::uint8_t>() != 0;
  TUTTI_ASSIGN(info.file_hashes, get_file_hashes(reader, rank));
  info.file_problem = reader.text(kLongestInfoText);
  TUTTI_ASSIGN(info.cpus, get_cpus(reader, rank));
  TUTTI_ASSIGN(info.addresses, get_addresses(reader, rank));
  if (!reader.complete())
    return peer_error(Code::kPeerFailed, rank, "rank {} sent malformed facts of {} bytes", rank,
                      bytes.size());
  return info;
}

Status check_files(std::span<const PeerInfo> peers, std::span<const std::string> paths) {
  for (std::size_t rank = 0; rank < peers.size(); ++rank)
    if (!peers[rank].file_problem.empty())
      return peer_error(Code::kInvalidArgument, static_cast<Rank>(rank), "rank {}: {}", rank,
                        peers[rank].file_problem);
  for (std::size_t file = 0; file < paths.size(); ++file) {
    std::vector<std::size_t> others;
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      if (peers[rank].file_hashes.size() != paths.size())
        return peer_error(Code::kPeerFailed, static_cast<Rank>(rank),
                          "rank {} announces {} files instead of {}", rank,
                          peers[rank].file_hashes.size(), paths.size());
      if (peers[rank].file_hashes[file] != peers[0].file_hashes[file]) others.push_back(rank);
    }
    if (!others.empty())
      return peer_error(Code::kInvalidUsage, static_cast<Rank>(others.front()),
                        "TUTTI_ALGO: '{}' has other contents on the ranks {} than on rank 0; give "
                        "all ranks the same file",
                        paths[file], fmt::join(others, ", "));
  }
  return ok_status();
}

Status check_devices(std::span<const PeerInfo> peers) {
  std::vector<std::size_t> with, without;
  for (std::size_t rank = 0; rank < peers.size(); ++rank)
    (peers[rank].device.empty() ? without : with).push_back(rank);
  if (with.empty() || without.empty()) return ok_status();
  return make_error(Code::kInvalidUsage,
                    "the ranks {} use GPUs (rank {}: {}) and the ranks {} do not: set "
                    "TUTTI_DEVICE=host for all ranks, or give the latter a GPU",
                    fmt::join(with, ","), with.front(), peers[with.front()].device,
                    fmt::join(without, ","));
}

Arrangement arrangement_of(std::span<const PeerInfo> peers, const lower::Placement& placement) {
  Arrangement arrangement = arrangement_of(placement.host);
  if (arrangement.hosts == 1) return arrangement;
  std::set<std::string> boots;
  for (const PeerInfo& peer : peers) boots.insert(peer.boot);
  arrangement.machines = std::min(arrangement.hosts, static_cast<std::int32_t>(boots.size()));
  arrangement.mbit_per_s = std::ranges::min(peers | std::views::transform(&PeerInfo::mbit_per_s));
  return arrangement;
}

}  // namespace tutti
