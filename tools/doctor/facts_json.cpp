#include "tools/doctor/facts_json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "src/base/bytes.hpp"
#include "src/wire/net.hpp"
#include "tools/doctor/fields.hpp"

namespace tutti::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kStates[] = {"not built", "no library", "no device", "devices"};
constexpr std::string_view kOutcomes[] = {"reached", "refused", "timed out", "no route", "failed"};
constexpr std::uint32_t kMostMtu = 1U << 20;
constexpr double kMostUs = 1e9;
constexpr double kMostMbPerS = 1e9;

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", to_underlying(byte));
  return text;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

Blob bytes_of(Fields& fields, const char* name) {
  const std::string text = fields.text(name);
  Blob bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = digit_of(text[i]);
    const int low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return fields.fail(name, "is not hexadecimal"), Blob();
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  if (text.size() % 2 != 0) fields.fail(name, "has an odd number of digits");
  return bytes;
}

/// The index of a word of a list.
template <class Enum, std::size_t N>
Enum word_of(Fields& fields, const char* name, const std::string_view (&words)[N]) {
  const std::string word = fields.text(name);
  const auto* const found = std::ranges::find(words, word);
  if (found == std::end(words)) return fields.fail(name, "is an unknown word"), Enum{};
  return static_cast<Enum>(found - std::begin(words));
}

Json rail_json(const verbs::Rail& rail) {
  return {{"device", rail.device},
          {"port", rail.port},
          {"link", to_underlying(rail.link)},
          {"gid_index", rail.gid_index},
          {"type", to_underlying(rail.type)},
          {"gid", hex_of(std::as_bytes(std::span(rail.gid)))},
          {"prefix_bits", rail.prefix_bits},
          {"lid", rail.lid},
          {"mtu", rail.mtu},
          {"mbit_per_s", rail.mbit_per_s}};
}

verbs::Rail rail_of(const nlohmann::json& json, Status& status) {
  Fields fields(json, status);
  verbs::Rail rail;
  rail.device = fields.text("device");
  rail.port = fields.number<std::uint8_t>("port");
  rail.link = static_cast<verbs::LinkLayer>(fields.number<std::uint8_t>("link", 0, 2));
  rail.gid_index = fields.number<std::uint32_t>("gid_index");
  rail.type = static_cast<verbs::GidType>(fields.number<std::uint8_t>("type", 0, 2));
  const Blob gid = bytes_of(fields, "gid");
  if (gid.size() == rail.gid.size())
    std::ranges::transform(gid, rail.gid.begin(), [](std::byte b) { return to_underlying(b); });
  else
    fields.fail("gid", "is not 16 bytes");
  rail.prefix_bits = fields.number<std::uint8_t>("prefix_bits", 0, 128);
  rail.lid = fields.number<std::uint16_t>("lid");
  rail.mtu = fields.number<std::uint32_t>("mtu", 0, kMostMtu);
  rail.mbit_per_s = fields.number<std::uint32_t>("mbit_per_s");
  return rail;
}

Json port_json(const RdmaPort& port) {
  return {{"device", port.device},     {"number", port.number},
          {"active", port.active},     {"state", port.state},
          {"link", port.link},         {"mtu", port.mtu},
          {"most_mtu", port.most_mtu}, {"mbit_per_s", port.mbit_per_s}};
}

RdmaPort port_of(const nlohmann::json& json, Status& status) {
  Fields fields(json, status);
  return {.device = fields.text("device"),
          .number = fields.number<int>("number", 0, 255),
          .active = fields.flag("active"),
          .state = fields.text("state"),
          .link = fields.text("link"),
          .mtu = fields.number<std::uint32_t>("mtu", 0, kMostMtu),
          .most_mtu = fields.number<std::uint32_t>("most_mtu", 0, kMostMtu),
          .mbit_per_s = fields.number<std::uint32_t>("mbit_per_s")};
}

Json rdma_json(const RdmaFacts& rdma) {
  Json json{{"state", kStates[to_underlying(rdma.state)]},
            {"why", rdma.why},
            {"kernel_devices", rdma.kernel_devices},
            {"absent_functions", rdma.absent_functions},
            {"broken_devices", rdma.broken_devices},
            {"ports", Json::array()},
            {"rails", Json::array()},
            {"left_out", rdma.left_out},
            {"transport_error", rdma.transport_error},
            {"traffic_class", rdma.traffic_class}};
  for (const RdmaPort& port : rdma.ports) json["ports"].push_back(port_json(port));
  for (const verbs::Rail& rail : rdma.rails) json["rails"].push_back(rail_json(rail));
  return json;
}

RdmaFacts rdma_of(const nlohmann::json& json, Status& status) {
  Fields fields(json, status);
  RdmaFacts rdma;
  rdma.state = word_of<RdmaFacts::State>(fields, "state", kStates);
  rdma.why = fields.text("why");
  rdma.kernel_devices = fields.texts("kernel_devices");
  rdma.absent_functions = fields.texts("absent_functions");
  rdma.broken_devices = fields.texts("broken_devices");
  fields.each("ports", [&](const auto& port) { rdma.ports.push_back(port_of(port, status)); });
  fields.each("rails", [&](const auto& rail) { rdma.rails.push_back(rail_of(rail, status)); });
  rdma.left_out = fields.texts("left_out");
  rdma.transport_error = fields.text("transport_error");
  rdma.traffic_class = fields.number<int>("traffic_class", 0, 255);
  return rdma;
}

Json tcp_json(const TcpInterface& tcp) {
  return {{"interface", tcp.name},
          {"address", tcp.address},
          {"mbit_per_s", tcp.mbit_per_s},
          {"mtu", tcp.mtu}};
}

/// An address that connect() may be given.
std::string address_of(Fields& fields, const char* name) {
  std::string text = fields.text(name);
  const auto address = parse_address(text);
  if (!address || address->port == 0) fields.fail(name, "is no address with a port");
  return text;
}

TcpInterface tcp_of(const nlohmann::json& json, Status& status) {
  Fields fields(json, status);
  return {.name = fields.text("interface"),
          .address = address_of(fields, "address"),
          .mbit_per_s = fields.number<std::uint32_t>("mbit_per_s"),
          .mtu = fields.number<std::uint32_t>("mtu", 0, kMostMtu)};
}

LinkFacts link_of(const nlohmann::json& json, Status& status) {
  Fields fields(json, status);
  return {.connected = fields.flag("connected"),
          .error = fields.text("error"),
          .large_hangs = fields.flag("large_hangs"),
          .latency_us = fields.number<double>("latency_us", 0, kMostUs),
          .there_mb_s = fields.number<double>("there_mb_s", 0, kMostMbPerS),
          .back_mb_s = fields.number<double>("back_mb_s", 0, kMostMbPerS)};
}

/// No exception leaves it; nesting costs no stack.
Result<nlohmann::json> parsed(std::string_view text) {
  if (text.size() > kLongestFacts)
    return make_error(Code::kWrongData, "{} bytes are too many", text.size());
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return make_error(Code::kWrongData, "it is not JSON");
  return json;
}

}  // namespace

std::string_view name_of(Reach::Outcome outcome) { return kOutcomes[to_underlying(outcome)]; }

Json to_json(const LinkFacts& link) {
  return {{"connected", link.connected},     {"error", link.error},
          {"large_hangs", link.large_hangs}, {"latency_us", link.latency_us},
          {"there_mb_s", link.there_mb_s},   {"back_mb_s", link.back_mb_s}};
}

Json to_json(const HostFacts& host) {
  return {{"rank", host.rank},
          {"name", host.name},
          {"version", host.version},
          {"kernel", host.kernel},
          {"clock_offset_s", host.clock_offset_s},
          {"clock_round_trip_s", host.clock_round_trip_s},
          {"lock_limit", host.lock_limit},
          {"shm_bytes", host.shm_bytes},
          {"shm_free_bytes", host.shm_free_bytes},
          {"open_files", host.open_files},
          {"most_open_files", host.most_open_files},
          {"tcp", tcp_json(host.tcp)},
          {"first_port", host.first_port},
          {"last_port", host.last_port},
          {"firewall", host.firewall},
          {"settings", Json(host.settings)},
          {"rdma", rdma_json(host.rdma)}};
}

std::string encode(const HostFacts& host) {
  Json json = to_json(host);
  json["identity"] = host.identity;
  json["token"] = host.token;
  json["tcp_address"] = hex_of(host.tcp_address);
  json["rdma_address"] = hex_of(host.rdma_address);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<HostFacts> decode_host(std::string_view text) {
  TUTTI_ASSIGN(const nlohmann::json json, parsed(text));
  Status status;
  Fields fields(json, status);
  HostFacts host;
  host.rank = fields.number<int>("rank", 0);
  host.name = fields.text("name");
  host.identity = fields.text("identity");
  host.version = fields.text("version");
  host.kernel = fields.text("kernel");
  host.lock_limit = fields.number<std::int64_t>("lock_limit", -1);
  host.shm_bytes = fields.number<std::uint64_t>("shm_bytes");
  host.shm_free_bytes = fields.number<std::uint64_t>("shm_free_bytes");
  host.open_files = fields.number<std::uint64_t>("open_files");
  host.most_open_files = fields.number<std::uint64_t>("most_open_files");
  host.tcp = tcp_of(fields.object("tcp"), status);
  host.first_port = fields.number<int>("first_port", 0, 65535);
  host.last_port = fields.number<int>("last_port", 0, 65535);
  host.firewall = fields.text("firewall");
  fields.each_pair("settings", [&](const std::string& name, std::string value) {
    host.settings[name] = std::move(value);
  });
  host.rdma = rdma_of(fields.object("rdma"), status);
  host.token = fields.number<std::uint64_t>("token");
  host.tcp_address = bytes_of(fields, "tcp_address");
  host.rdma_address = bytes_of(fields, "rdma_address");
  if (!status) return status.error();
  return host;
}

std::string encode(const PairReport& report) {
  Json json{{"reach", name_of(report.reach.outcome)},
            {"text", report.reach.text},
            {"tcp", to_json(report.tcp)}};
  if (report.rdma) json["rdma"] = to_json(*report.rdma);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<PairReport> decode_pair(std::string_view text) {
  TUTTI_ASSIGN(const nlohmann::json json, parsed(text));
  Status status;
  Fields fields(json, status);
  PairReport report;
  report.reach.outcome = word_of<Reach::Outcome>(fields, "reach", kOutcomes);
  report.reach.text = fields.text("text");
  report.tcp = link_of(fields.object("tcp"), status);
  if (fields.has("rdma")) report.rdma = link_of(fields.object("rdma"), status);
  if (!status) return status.error();
  return report;
}

}  // namespace tutti::doctor
