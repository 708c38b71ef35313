#include "src/comm/host_report.hpp"

#include <string>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/job/fuse.hpp"
#include "src/topo/model/words.hpp"

namespace tutti {
namespace {

enum class Kind : std::uint8_t { kProblem, kHost };

// Beside the text: the kind, its length, and the number of assumptions.
constexpr std::size_t kFrame = 1 + 4 + 4;
constexpr std::uint32_t kMostAssumptions = 256;
constexpr std::size_t kLongestAssumption = 1024;

/// Assumptions behind the text as far as there is room.
Blob put_together(Kind kind, std::string_view text, std::span<const std::string> assumptions,
                  std::size_t most) {
  Blob kept;
  ByteWriter writer(kept);
  std::uint32_t count = 0;
  for (const std::string& assumption : assumptions) {
    const std::string_view sentence = std::string_view(assumption).substr(0, kLongestAssumption);
    const std::size_t bytes = kFrame + text.size() + kept.size() + 4 + sentence.size();
    if (bytes > most || count == kMostAssumptions) break;
    writer.sized(as_bytes(sentence));
    ++count;
  }
  Blob blob;
  ByteWriter(blob).put(to_underlying(kind)).sized(as_bytes(text)).put(count).bytes(kept);
  return blob;
}

Result<topo::Noted> parse(std::string_view text) {
  TUTTI_ASSIGN(topo::Topology topology, topo::parse_topology_json(text));
  TUTTI_TRY(topo::check_host(topology));
  return topo::Noted{std::move(topology), {}};
}

}  // namespace

Blob encode_host_report(const Result<topo::Noted>& host, std::size_t most) {
  if (!host)
    return put_together(Kind::kProblem, std::string_view(host.error().what).substr(0, most / 2), {},
                        most);
  const std::string whole = topo::topology_json(host->topology);
  if (kFrame + whole.size() <= most)
    return put_together(Kind::kHost, whole, host->assumptions, most);
  topo::Noted less = topo::without_details(*host);
  std::string text = topo::topology_json(less.topology);
  less.assumptions.insert(
      less.assumptions.begin(),
      fmt::format("its description of {} bytes is more than the {} that a host of this job may "
                  "tell: attributes are left out",
                  whole.size(), most));
  if (kFrame + text.size() > most) {
    less = topo::unknown_host(
        topo::printable(host->topology.hosts().front().name, 64),
        fmt::format("its description of {} bytes is more than the {} that a host of this job may "
                    "tell: one CPU is assumed",
                    whole.size(), most));
    text = topo::topology_json(less.topology);
  }
  return put_together(Kind::kHost, text, less.assumptions, most);
}

Result<topo::Noted> decode_host_report(std::span<const std::byte> bytes, std::size_t most,
                                       Rank rank) {
  ByteReader reader(bytes.size() > most ? std::span<const std::byte>() : bytes);
  const auto kind = reader.get<std::uint8_t>();
  const std::string text = reader.text(most);
  const auto count = reader.get<std::uint32_t>();
  std::vector<std::string> assumptions;
  for (std::uint32_t i = 0; i < std::min(count, kMostAssumptions) && reader.ok(); ++i)
    assumptions.push_back(topo::printable(reader.text(kLongestAssumption), kLongestAssumption));
  if (!reader.complete() || count > kMostAssumptions || kind > to_underlying(Kind::kHost))
    return peer_error(Code::kPeerFailed, rank,
                      "rank {} sent a malformed description of its host, of {} bytes", rank,
                      bytes.size());
  if (kind == to_underlying(Kind::kProblem))
    return peer_error(Code::kInvalidArgument, rank, "rank {}: {}", rank, text);
  auto host = parse(text);
  if (!host)
    return peer_error(Code::kPeerFailed, rank, "rank {} describes its host wrongly: {}", rank,
                      host.error().what);
  host->assumptions = std::move(assumptions);
  return host;
}

}  // namespace tutti
