#include "src/topo/nccl/format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "src/base/result.hpp"

namespace tutti::topo::nccl {
namespace {

enum class Form : std::uint8_t { kText, kInteger, kReal, kHex, kNumber, kMask, kBusId };

struct KnownAttribute {
  std::string_view element;
  const char* name;
  Form form = Form::kText;
  IntegerRange range = {};  ///< of kInteger
};

constexpr IntegerRange kAnyId = {-1, std::numeric_limits<std::int32_t>::max()};
constexpr IntegerRange kFlag = {-1, 1};
constexpr IntegerRange kLinkCount = {1, 4096};
constexpr IntegerRange kBandwidth = {1, 1'000'000'000};  // MB/s
constexpr IntegerRange kSpeed = {-1, 1'000'000'000};     // Mbit/s; none is known below 1

constexpr std::array kKnown = {
    KnownAttribute{"system", "version", Form::kInteger, {1, 2}},
    KnownAttribute{"cpu", "numaid", Form::kInteger, kAnyId},
    KnownAttribute{"cpu", "affinity", Form::kMask},
    KnownAttribute{"cpu", "arch"},
    KnownAttribute{"cpu", "vendor"},
    KnownAttribute{"cpu", "familyid", Form::kInteger, kAnyId},
    KnownAttribute{"cpu", "modelid", Form::kInteger, kAnyId},
    KnownAttribute{"cpu", "host_hash", Form::kHex},
    KnownAttribute{"cpu", "tutti_latency_us", Form::kReal},
    KnownAttribute{"pci", "busid", Form::kBusId},
    KnownAttribute{"pci", "class", Form::kHex},
    KnownAttribute{"pci", "vendor", Form::kHex},
    KnownAttribute{"pci", "device", Form::kHex},
    KnownAttribute{"pci", "subsystem_vendor", Form::kHex},
    KnownAttribute{"pci", "subsystem_device", Form::kHex},
    KnownAttribute{"pci", "link_speed"},
    KnownAttribute{"pci", "link_width", Form::kInteger, {-1, 255}},
    KnownAttribute{"pci", "tutti_latency_us", Form::kReal},
    KnownAttribute{"pcilink", "target", Form::kBusId},
    KnownAttribute{"pcilink", "tutti_latency_us", Form::kReal},
    KnownAttribute{"gpu", "dev", Form::kInteger, kAnyId},
    KnownAttribute{"gpu", "sm", Form::kInteger, {1, 100'000}},
    KnownAttribute{"gpu", "gcn"},
    KnownAttribute{"gpu", "rank", Form::kInteger, kAnyId},
    KnownAttribute{"gpu", "gdr", Form::kInteger, kFlag},
    KnownAttribute{"gpu", "mlopart", Form::kInteger, kAnyId},
    KnownAttribute{"nvlink", "target", Form::kBusId},
    KnownAttribute{"nvlink", "count", Form::kInteger, kLinkCount},
    KnownAttribute{"nvlink", "tclass", Form::kHex},
    KnownAttribute{"nvlink", "tutti_latency_us", Form::kReal},
    KnownAttribute{"xgmi", "target", Form::kBusId},
    KnownAttribute{"xgmi", "count", Form::kInteger, kLinkCount},
    KnownAttribute{"xgmi", "tclass", Form::kHex},
    KnownAttribute{"xgmi", "tutti_latency_us", Form::kReal},
    KnownAttribute{"c2c", "bw", Form::kInteger, kBandwidth},
    KnownAttribute{"c2c", "count", Form::kInteger, kLinkCount},
    KnownAttribute{"c2c", "tutti_latency_us", Form::kReal},
    KnownAttribute{"net", "name"},
    KnownAttribute{"net", "dev", Form::kInteger, kAnyId},
    KnownAttribute{"net", "latency", Form::kReal},
    KnownAttribute{"net", "speed", Form::kInteger, kSpeed},
    KnownAttribute{"net", "port", Form::kInteger, kAnyId},
    KnownAttribute{"net", "guid", Form::kNumber},
    KnownAttribute{"net", "maxconn", Form::kInteger, kAnyId},
    KnownAttribute{"net", "gdr", Form::kInteger, kFlag},
    KnownAttribute{"net", "keep", Form::kInteger, kFlag},
    KnownAttribute{"net", "coll", Form::kInteger, kFlag},
    KnownAttribute{"net", "gin", Form::kInteger, kAnyId},
    KnownAttribute{"net", "rma", Form::kInteger, kAnyId},
    KnownAttribute{"net", "rail", Form::kInteger, kAnyId},
    KnownAttribute{"net", "plane", Form::kInteger, kAnyId},
};

const KnownAttribute* find_known(std::string_view element, std::string_view attribute) {
  const auto* const known = std::ranges::find_if(kKnown, [&](const KnownAttribute& candidate) {
    return candidate.element == element && candidate.name == attribute;
  });
  return known == kKnown.end() ? nullptr : known;
}

/// Reads `digits` hexadecimal digits at most, all of `text`.
std::optional<std::uint64_t> parse_hex(std::string_view text, std::size_t digits) {
  std::uint64_t value = 0;
  if (text.empty() || text.size() > digits) return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_0x(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  return parse_hex(text.substr(2), 16);
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status check_value(const XmlText& xml, pugi::xml_node element, pugi::xml_attribute attribute,
                   const KnownAttribute& known) {
  const std::string_view text = attribute.value();
  switch (known.form) {
    case Form::kText:
      return ok_status();
    case Form::kInteger:
      TUTTI_TRY(xml.integer(element, known.name, known.range));
      return ok_status();
    case Form::kReal:
      TUTTI_TRY(xml.real_or(element, known.name, 0));
      return ok_status();
    case Form::kHex:
      if (text.empty() || parse_0x(text)) return ok_status();  // NCCL leaves it empty in VMs
      return xml.wrong_value(attribute, element, "a hexadecimal number such as 0x030200");
    case Form::kNumber:
      if (text.empty() || parse_0x(text) || parse_decimal(text)) return ok_status();
      return xml.wrong_value(attribute, element, "a number such as 0x506b4b0300a10000");
    case Form::kMask:
      if (text.find_first_not_of("0123456789abcdefABCDEF,x") == std::string_view::npos)
        return ok_status();
      return xml.wrong_value(attribute, element, "hexadecimal words between commas");
    case Form::kBusId:
      if (parse_bus_id(text)) return ok_status();
      return xml.wrong_value(attribute, element, "a PCI address such as 0000:07:00.0");
  }
  return ok_status();
}

}  // namespace

bool is_known(std::string_view element, std::string_view attribute) {
  return find_known(element, attribute) != nullptr;
}

Status check_values(const XmlText& xml, pugi::xml_node element) {
  for (const pugi::xml_attribute attribute : element.attributes())
    if (const auto* const known = find_known(element.name(), attribute.name()))
      TUTTI_TRY(check_value(xml, element, attribute, *known));
  return ok_status();
}

std::string key_of(std::string_view element, std::string_view attribute) {
  if (element != "system" && is_known(element, attribute)) return std::string(attribute);
  return fmt::format("{}.{}", element, attribute);
}

std::string key_of_child(std::string_view element, std::size_t position) {
  return fmt::format("{}/{}", element, position);
}

Key parse_key(std::string_view key) {
  constexpr std::array<std::string_view, 6> kKept = {"system", "cpu", "pci", "gpu", "nic", "net"};
  const std::size_t end = key.find_first_of("./");
  const std::string_view element = key.substr(0, end);
  if (end == std::string_view::npos || std::ranges::find(kKept, element) == kKept.end())
    return {"", key, std::nullopt};
  const std::string_view rest = key.substr(end + 1);
  if (key[end] == '.') return {element, rest, std::nullopt};
  std::size_t position = 0;
  const auto [after, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), position);
  if (failure != std::errc{} || after != rest.data() + rest.size()) return {"", key, std::nullopt};
  return {element, "", position};
}

std::string_view usual_elements(NodeKind kind) {
  switch (kind) {
    case NodeKind::kCpu:
      return "cpu";
    case NodeKind::kPci:
      return "pci";
    case NodeKind::kGpu:
      return "pci/gpu";
    case NodeKind::kNic:
      return "pci/nic/net";
    case NodeKind::kNvswitch:
    case NodeKind::kSwitch:
      return "";
  }
  return "";
}

bool can_be_made_of(NodeKind kind, std::string_view elements) {
  if (elements.empty()) return false;
  if (elements == usual_elements(kind)) return true;
  if (kind == NodeKind::kGpu) return elements == "gpu" || elements == "pci";
  constexpr std::array<std::string_view, 5> kOfNics = {"pci/nic", "nic/net", "nic", "net", "pci"};
  return kind == NodeKind::kNic && std::ranges::find(kOfNics, elements) != kOfNics.end();
}

std::optional<std::uint64_t> parse_bus_id(std::string_view text) {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos || text.size() != first + 8) return std::nullopt;
  const std::string_view rest = text.substr(first + 1);  // 07:00.0
  if (rest[2] != ':' || rest[5] != '.') return std::nullopt;
  const auto domain = parse_hex(text.substr(0, first), 8);
  const auto bus = parse_hex(rest.substr(0, 2), 2);
  const auto device = parse_hex(rest.substr(3, 2), 2);
  const auto function = parse_hex(rest.substr(6, 1), 1);
  if (!domain || !bus || !device || !function) return std::nullopt;
  return *domain << 20U | *bus << 12U | *device << 4U | *function;
}

PciClass pci_class(std::string_view text) {
  const auto code = parse_0x(text);
  if (!code) return PciClass::kOther;
  if (*code == 0x068000) return PciClass::kNvswitch;
  if (*code == 0x068001) return PciClass::kCpu;
  if (*code >> 16U == 0x03) return PciClass::kGpu;
  if (*code >> 16U == 0x02) return PciClass::kNic;
  return PciClass::kOther;
}

}  // namespace tutti::topo::nccl
