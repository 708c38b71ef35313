#include "src/comm/card.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/cost/asked.hpp"

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

void put(ByteWriter& writer, const Verdict& verdict) {
  writer.put(to_underlying(verdict.of.collective)).put(verdict.of.ranks).put(verdict.of.size);
  writer.put(verdict.of.hosts).put(verdict.of.most_on_a_host);
  writer.put(verdict.of.machines).put(verdict.of.mbit_per_s);
  writer.sized(as_bytes(verdict.way.algorithm));
  writer.put(static_cast<std::uint8_t>(verdict.way.kernel_reads)).put(verdict.measured_s);
}

/// Whether there is such a way nobody asks before it is looked for among those that there are.
Result<Verdict> get_verdict(ByteReader& reader, Rank rank) {
  Verdict verdict;
  const auto collective = reader.get<std::uint8_t>();
  verdict.of.ranks = reader.get<std::int32_t>();
  verdict.of.size = reader.get<std::uint8_t>();
  verdict.of.hosts = reader.get<std::int32_t>();
  verdict.of.most_on_a_host = reader.get<std::int32_t>();
  verdict.of.machines = reader.get<std::int32_t>();
  verdict.of.mbit_per_s = reader.get<std::uint32_t>();
  verdict.way.algorithm = reader.text(kLongestText);
  verdict.way.kernel_reads = reader.get<std::uint8_t>() != 0;
  verdict.measured_s = reader.get<std::int64_t>();
  const auto is_count = [&](std::int32_t n) { return n > 0 && n <= verdict.of.ranks; };
  if (collective >= kCollectives || verdict.of.size > kLargestSize || !is_count(verdict.of.hosts) ||
      !is_count(verdict.of.most_on_a_host) || verdict.of.machines < 1 ||
      verdict.of.machines > verdict.of.hosts)
    return peer_error(Code::kPeerFailed, rank,
                      "rank {} announces a verdict on collective {}, {} ranks on {} hosts", rank,
                      collective, verdict.of.ranks, verdict.of.hosts);
  verdict.of.collective = static_cast<Collective>(collective);
  return verdict;
}

void put(ByteWriter& writer, const MeasuredRange& range) {
  const Arrangement& ranks = range.arrangement;
  writer.put(to_underlying(range.collective)).put(ranks.ranks).put(ranks.hosts);
  writer.put(ranks.most_on_a_host).put(ranks.topology);
  writer.put(range.from_bytes).put(range.to_bytes);
  writer.sized(as_bytes(range.way.algorithm));
  writer.put(static_cast<std::uint8_t>(range.way.kernel_reads)).put(range.at_bytes);
  writer.put(range.nanos).put(range.next_nanos).put(range.measured_s);
}

/// As with verdicts, the algorithm may be unknown here.
Result<MeasuredRange> get_range(ByteReader& reader, Rank rank) {
  MeasuredRange range;
  range.collective = static_cast<Collective>(reader.get<std::uint8_t>());
  range.arrangement.ranks = reader.get<std::int32_t>();
  range.arrangement.hosts = reader.get<std::int32_t>();
  range.arrangement.most_on_a_host = reader.get<std::int32_t>();
  range.arrangement.topology = reader.get<std::uint64_t>();
  range.from_bytes = reader.get<std::uint64_t>();
  range.to_bytes = reader.get<std::uint64_t>();
  range.way.algorithm = reader.text(kLongestText);
  range.way.kernel_reads = reader.get<std::uint8_t>() != 0;
  range.at_bytes = reader.get<std::uint64_t>();
  range.nanos = reader.get<std::uint64_t>();
  range.next_nanos = reader.get<std::uint64_t>();
  range.measured_s = reader.get<std::int64_t>();
  if (const Status sound = check(range); !sound)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces a measured range: {}", rank,
                      sound.error().what);
  return range;
}

}  // namespace

Blob encode(const Card& card) {
  Blob blob;
  ByteWriter writer(blob);
  writer.put(card.version).put(card.process_token).put(card.block_offset);
  writer.put(card.block_address).put(card.pid);
  writer.sized(as_bytes(card.host)).sized(as_bytes(card.boot)).put(card.mbit_per_s);
  writer.sized(as_bytes(std::string_view(card.device).substr(0, kLongestText)));
  writer.sized(as_bytes(card.agreement.algorithm));
  writer.put(card.agreement.staging_bytes);
  writer.put(static_cast<std::uint8_t>(card.agreement.deterministic));
  writer.put(static_cast<std::uint8_t>(card.agreement.measures));
  writer.put(static_cast<std::uint32_t>(card.file_hashes.size()));
  for (const std::uint64_t hash : card.file_hashes) writer.put(hash);
  writer.sized(as_bytes(std::string_view(card.file_problem).substr(0, kLongestText)));
  put(writer, card.cpus);
  writer.put(static_cast<std::uint32_t>(card.addresses.size()));
  for (const Card::Address& address : card.addresses)
    writer.sized(as_bytes(address.transport)).sized(address.address);
  writer.put(static_cast<std::uint32_t>(card.verdicts.size()));
  for (const Verdict& verdict : card.verdicts) put(writer, verdict);
  writer.put(static_cast<std::uint32_t>(card.measured.size()));
  for (const MeasuredRange& range : card.measured) put(writer, range);
  writer.sized(as_bytes(card.calibration ? calibration_json(*card.calibration) : ""));
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
  card.boot = reader.text(kLongestText);
  card.mbit_per_s = reader.get<std::uint32_t>();
  card.device = reader.text(kLongestText);
  card.agreement.algorithm = reader.text(kLongestText);
  card.agreement.staging_bytes = reader.get<std::uint64_t>();
  card.agreement.deterministic = reader.get<std::uint8_t>() != 0;
  card.agreement.measures = reader.get<std::uint8_t>() != 0;
  const auto files = reader.get<std::uint32_t>();
  if (files > kMostFiles)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} files", rank, files);
  for (std::uint32_t i = 0; i < files && reader.ok(); ++i)
    card.file_hashes.push_back(reader.get<std::uint64_t>());
  card.file_problem = reader.text(kLongestText);
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
  const auto verdicts = reader.get<std::uint32_t>();
  if (verdicts > kMostCardVerdicts)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} verdicts", rank, verdicts);
  for (std::uint32_t i = 0; i < verdicts && reader.ok(); ++i) {
    TUTTI_ASSIGN(Verdict verdict, get_verdict(reader, rank));
    card.verdicts.push_back(std::move(verdict));
  }
  const auto ranges = reader.get<std::uint32_t>();
  if (ranges > kMostCardRanges)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} measured ranges", rank,
                      ranges);
  for (std::uint32_t i = 0; i < ranges && reader.ok(); ++i) {
    TUTTI_ASSIGN(MeasuredRange range, get_range(reader, rank));
    card.measured.push_back(std::move(range));
  }
  const std::string calibration = reader.text(kMostCalibrationBytes);
  if (!calibration.empty()) {
    auto parsed = parse_calibration(calibration);
    if (!parsed)
      return peer_error(Code::kPeerFailed, rank, "rank {} announces a calibration: {}", rank,
                        parsed.error().what);
    card.calibration = *std::move(parsed);
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

Status check_files(std::span<const Card> cards, std::span<const std::string> paths) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    if (!cards[rank].file_problem.empty())
      return peer_error(Code::kInvalidArgument, static_cast<Rank>(rank), "rank {}: {}", rank,
                        cards[rank].file_problem);
  for (std::size_t file = 0; file < paths.size(); ++file) {
    std::vector<std::size_t> others;
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
      if (cards[rank].file_hashes.size() != paths.size())
        return peer_error(Code::kPeerFailed, static_cast<Rank>(rank),
                          "rank {} announces {} files instead of {}", rank,
                          cards[rank].file_hashes.size(), paths.size());
      if (cards[rank].file_hashes[file] != cards[0].file_hashes[file]) others.push_back(rank);
    }
    if (!others.empty())
      return peer_error(Code::kInvalidUsage, static_cast<Rank>(others.front()),
                        "TUTTI_ALGO: '{}' has other contents on the ranks {} than on rank 0; give "
                        "all ranks the same file",
                        paths[file], fmt::join(others, ", "));
  }
  return ok_status();
}

Status check_devices(std::span<const Card> cards) {
  std::vector<std::size_t> with, without;
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    (cards[rank].device.empty() ? without : with).push_back(rank);
  if (with.empty() || without.empty()) return ok_status();
  return make_error(Code::kInvalidUsage,
                    "the ranks {} use GPUs (rank {}: {}) and the ranks {} do not: set "
                    "TUTTI_DEVICE=host for all ranks, or give the latter a GPU",
                    fmt::join(with, ","), with.front(), cards[with.front()].device,
                    fmt::join(without, ","));
}

CallClass class_of_calls(std::span<const Card> cards, const lower::Placement& placement) {
  CallClass of;
  of.ranks = static_cast<std::int32_t>(cards.size());
  std::map<std::int32_t, std::int32_t> ranks_on;
  for (const std::int32_t host : placement.host) ++ranks_on[host];
  of.hosts = static_cast<std::int32_t>(ranks_on.size());
  of.most_on_a_host = std::ranges::max(ranks_on | std::views::values);
  if (of.hosts == 1) return of;
  std::set<std::string> boots;
  for (const Card& card : cards) boots.insert(card.boot);
  of.machines = std::min(of.hosts, static_cast<std::int32_t>(boots.size()));
  of.mbit_per_s = std::ranges::min(cards | std::views::transform(&Card::mbit_per_s));
  return of;
}

}  // namespace tutti
