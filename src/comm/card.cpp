#include "src/comm/card.hpp"

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {
constexpr std::size_t kLongestText = 4096;
constexpr std::uint32_t kMostAddresses = 16;
constexpr std::uint32_t kMostMaskWords = kMostCpus / 64;
constexpr std::uint64_t kLeastStaging = 64 << 10, kMostStaging = 1 << 30;  // the setting's range

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

}  // namespace

Blob encode(const Card& card) {
  Blob blob;
  ByteWriter writer(blob);
  writer.put(card.version).put(card.process_token).put(card.block_offset);
  writer.put(card.block_address).put(card.pid);
  writer.sized(as_bytes(card.host)).sized(as_bytes(card.agreement.algorithm));
  writer.put(card.agreement.staging_bytes);
  writer.put(static_cast<std::uint8_t>(card.agreement.deterministic));
  put(writer, card.cpus);
  writer.put(static_cast<std::uint32_t>(card.addresses.size()));
  for (const Card::Address& address : card.addresses)
    writer.sized(as_bytes(address.transport)).sized(address.address);
  return blob;
}

Result<Card> decode_card(std::span<const std::byte> bytes, Rank rank) {
  ByteReader reader(bytes);
  Card card;
  card.version = reader.get<std::uint32_t>();
  if (!reader.ok() || card.version != kCardVersion)
    return peer_error(Code::kInvalidUsage, rank,
                      "rank {} runs another version of Tutti (card version {}, here {}): all ranks "
                      "must use the same library",
                      rank, card.version, kCardVersion);
  card.process_token = reader.get<std::uint64_t>();
  card.block_offset = reader.get<std::uint64_t>();
  card.block_address = reader.get<std::uint64_t>();
  card.pid = reader.get<std::uint32_t>();
  card.host = reader.text(kLongestText);
  card.agreement.algorithm = reader.text(kLongestText);
  card.agreement.staging_bytes = reader.get<std::uint64_t>();
  card.agreement.deterministic = reader.get<std::uint8_t>() != 0;
  TUTTI_ASSIGN(card.cpus, get_cpus(reader, rank));
  const auto addresses = reader.get<std::uint32_t>();
  if (addresses > kMostAddresses)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} addresses", rank, addresses);
  for (std::uint32_t i = 0; i < addresses && reader.ok(); ++i) {
    Card::Address address;
    address.transport = reader.text(kLongestText);
    const auto raw = reader.sized(kLongestText);
    address.address.assign(raw.begin(), raw.end());
    card.addresses.push_back(std::move(address));
  }
  const std::uint64_t staging = card.agreement.staging_bytes;
  if (reader.ok() && (staging < kLeastStaging || staging > kMostStaging))
    return peer_error(Code::kPeerFailed, rank,
                      "rank {} announces STAGING_BYTES={}, which is not within {}..{}", rank,
                      staging, kLeastStaging, kMostStaging);
  if (!reader.complete())
    return peer_error(Code::kPeerFailed, rank, "rank {} sent a malformed card of {} bytes", rank,
                      bytes.size());
  return card;
}

}  // namespace tutti
