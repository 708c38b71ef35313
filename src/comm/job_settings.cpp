#include "src/comm/job_settings.hpp"

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/comm/setup_version.hpp"

namespace tutti {
namespace {
constexpr std::size_t kLongestAlgorithm = 4096;
constexpr std::uint64_t kLeastStaging = 64 << 10, kMostStaging = 1 << 30;  // the setting's range

void put(ByteWriter& writer, const MeasuredTable& table) {
  writer.put(static_cast<std::uint32_t>(table.ranges().size()));
  for (const MeasuredRange& range : table.ranges()) {
    const Arrangement& ranks = range.arrangement;
    writer.put(to_underlying(range.collective)).put(ranks.ranks).put(ranks.hosts);
    writer.put(ranks.most_on_a_host).put(ranks.topology).put(ranks.machines).put(ranks.mbit_per_s);
    writer.put(range.from_bytes).put(range.to_bytes);
    writer.sized(as_bytes(range.way.algorithm));
    writer.put(static_cast<std::uint8_t>(range.way.kernel_reads)).put(range.at_bytes);
    writer.put(range.nanos).put(range.next_nanos).put(range.measured_s);
  }
}

/// The algorithm's name may be unknown here: it is looked up where a call could run it.
Result<MeasuredRange> get_range(ByteReader& reader, Rank rank) {
  MeasuredRange range;
  range.collective = static_cast<Collective>(reader.get<std::uint8_t>());
  range.arrangement.ranks = reader.get<std::int32_t>();
  range.arrangement.hosts = reader.get<std::int32_t>();
  range.arrangement.most_on_a_host = reader.get<std::int32_t>();
  range.arrangement.topology = reader.get<std::uint64_t>();
  range.arrangement.machines = reader.get<std::int32_t>();
  range.arrangement.mbit_per_s = reader.get<std::uint32_t>();
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

Result<MeasuredTable> get_table(ByteReader& reader, Rank rank) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostSentRanges)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces {} measured ranges", rank, count);
  MeasuredTable table;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    TUTTI_ASSIGN(const MeasuredRange range, get_range(reader, rank));
    table.add(range);
  }
  if (table.ranges().size() > count)
    return peer_error(Code::kPeerFailed, rank, "rank {} announces measured ranges that overlap",
                      rank);
  return table;
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
  writer.put(static_cast<std::uint8_t>(settings.agreement.checksum));
  writer.sized(as_bytes(settings.agreement.compress));
  writer.sized(as_bytes(settings.agreement.in_network));
  put(writer, settings.verdicts);
  put(writer, settings.table);
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
  settings.agreement.checksum = reader.get<std::uint8_t>() != 0;
  settings.agreement.compress = reader.text(kLongestAlgorithm);
  settings.agreement.in_network = reader.text(kLongestAlgorithm);
  TUTTI_ASSIGN(settings.verdicts, get_table(reader, rank));
  TUTTI_ASSIGN(settings.table, get_table(reader, rank));
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
