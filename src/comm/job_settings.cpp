#include "src/comm/job_settings.hpp"

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/comm/setup_version.hpp"

namespace tutti {
namespace {
constexpr std::size_t kLongestAlgorithm = 4096;
constexpr std::uint64_t kLeastStaging = 64 << 10, kMostStaging = 1 << 30;  // the setting's range

void put(ByteWriter& writer, const Verdict& verdict) {
  writer.put(to_underlying(verdict.of.collective)).put(verdict.of.ranks).put(verdict.of.size);
  writer.put(verdict.of.hosts).put(verdict.of.most_on_a_host);
  writer.put(verdict.of.machines).put(verdict.of.mbit_per_s);
  writer.sized(as_bytes(verdict.way.algorithm));
  writer.put(static_cast<std::uint8_t>(verdict.way.kernel_reads)).put(verdict.measured_s);
}

/// The algorithm's name may be unknown here: it is looked up where a call could run it.
Result<Verdict> get_verdict(ByteReader& reader, Rank rank) {
  Verdict verdict;
  const auto collective = reader.get<std::uint8_t>();
  verdict.of.ranks = reader.get<std::int32_t>();
  verdict.of.size = reader.get<std::uint8_t>();
  verdict.of.hosts = reader.get<std::int32_t>();
  verdict.of.most_on_a_host = reader.get<std::int32_t>();
  verdict.of.machines = reader.get<std::int32_t>();
  verdict.of.mbit_per_s = reader.get<std::uint32_t>();
  verdict.way.algorithm = reader.text(kLongestAlgorithm);
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

/// As with verdicts, the algorithm's name may be unknown here.
Result<MeasuredRange> get_range(ByteReader& reader, Rank rank) {
  MeasuredRange range;
  range.collective = static_cast<Collective>(reader.get<std::uint8_t>());
  range.arrangement.ranks = reader.get<std::int32_t>();
  range.arrangement.hosts = reader.get<std::int32_t>();
  range.arrangement.most_on_a_host = reader.get<std::int32_t>();
  range.arrangement.topology = reader.get<std::uint64_t>();
  range.from_bytes = reader.get<std::uint64_t>();
  range.to_bytes = reader.get<std::uint64_t>();
  range.way.algorithm = reader.text(kLongestAlgorithm);
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

Result<std::vector<Verdict>> get_verdicts(ByteReader& reader, Rank rank) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostSentVerdicts)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} verdicts", rank, count);
  std::vector<Verdict> verdicts;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    TUTTI_ASSIGN(Verdict verdict, get_verdict(reader, rank));
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

Result<std::vector<MeasuredRange>> get_ranges(ByteReader& reader, Rank rank) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostSentRanges)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} measured ranges", rank, count);
  std::vector<MeasuredRange> ranges;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    TUTTI_ASSIGN(MeasuredRange range, get_range(reader, rank));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

Result<std::optional<Calibration>> get_calibration(ByteReader& reader, Rank rank) {
  const std::string text = reader.text(kMostCalibrationBytes);
  if (text.empty()) return std::optional<Calibration>();
  auto parsed = parse_calibration(text);
  if (!parsed)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces a calibration: {}", rank,
                      parsed.error().what);
  return std::optional(*std::move(parsed));
}

}  // namespace

Blob encode(const JobSettings& settings) {
  Blob blob;
  ByteWriter writer(blob);
  writer.put(kSetupVersion);
  writer.sized(as_bytes(settings.agreement.algorithm));
  writer.put(settings.agreement.staging_bytes);
  writer.put(static_cast<std::uint8_t>(settings.agreement.deterministic));
  writer.put(static_cast<std::uint8_t>(settings.agreement.measures));
  writer.put(static_cast<std::uint32_t>(settings.verdicts.size()));
  for (const Verdict& verdict : settings.verdicts) put(writer, verdict);
  writer.put(static_cast<std::uint32_t>(settings.measured.size()));
  for (const MeasuredRange& range : settings.measured) put(writer, range);
  writer.sized(as_bytes(settings.calibration ? calibration_json(*settings.calibration) : ""));
  return blob;
}

Result<JobSettings> decode_job_settings(std::span<const std::byte> bytes, Rank rank) {
  ByteReader reader(bytes);
  TUTTI_TRY(check_setup_version(reader, rank));
  JobSettings settings;
  settings.agreement.algorithm = reader.text(kLongestAlgorithm);
  settings.agreement.staging_bytes = reader.get<std::uint64_t>();
  settings.agreement.deterministic = reader.get<std::uint8_t>() != 0;
  settings.agreement.measures = reader.get<std::uint8_t>() != 0;
  TUTTI_ASSIGN(settings.verdicts, get_verdicts(reader, rank));
  TUTTI_ASSIGN(settings.measured, get_ranges(reader, rank));
  TUTTI_ASSIGN(settings.calibration, get_calibration(reader, rank));
  const std::uint64_t staging = settings.agreement.staging_bytes;
  if (reader.ok() && (staging < kLeastStaging || staging > kMostStaging))
    return peer_error(Code::kPeerFailed, rank,
                      "rank {} announces STAGING_BYTES={}, which is not within {}..{}", rank,
                      staging, kLeastStaging, kMostStaging);
  if (!reader.complete())
    return peer_error(Code::kPeerFailed, rank, "rank {} sent malformed settings of {} bytes", rank,
                      bytes.size());
  return settings;
}

}  // namespace tutti
