#include "src/topo/detect/acs.hpp"

#include <algorithm>
#include <string_view>

#include "src/base/result.hpp"
#include "src/topo/model/host_parts.hpp"

namespace tutti::topo {
namespace {

constexpr std::size_t kExtended = 0x100;  // where extended capabilities begin
constexpr std::size_t kConfigBytes = 4096;
constexpr std::uint32_t kAccessControl = 0x000d;
constexpr std::size_t kControlAt = 6;
constexpr std::size_t kFirst64 = 64;  // what anybody may read
constexpr std::uint16_t kRequestRedirect = 1 << 2;
constexpr std::uint16_t kCompletionRedirect = 1 << 3;
constexpr std::uint16_t kEgressControl = 1 << 5;

std::uint32_t word_at(std::span<const std::byte> config, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<std::uint32_t>(config[at + i]) << 8 * i;
  return value;
}

}  // namespace

std::optional<std::uint16_t> acs_control(std::span<const std::byte> config) {
  if (config.size() < kConfigBytes) return std::nullopt;
  std::size_t at = kExtended;
  // Each capability takes 4 bytes at least, so a longer chain goes in a circle.
  for (std::size_t steps = 0; steps < kConfigBytes / 4; ++steps) {
    const std::uint32_t header = word_at(config, at, 4);
    if (header == 0 || header == 0xffffffff) return std::nullopt;
    if ((header & 0xffff) == kAccessControl && at + kControlAt + 2 <= kConfigBytes)
      return static_cast<std::uint16_t>(word_at(config, at + kControlAt, 2));
    at = header >> 20 & ~std::size_t{3};
    if (at < kExtended || at > kConfigBytes - 4) return std::nullopt;
  }
  return std::nullopt;
}

bool acs_redirects(std::uint16_t control) {
  return (control & (kRequestRedirect | kCompletionRedirect | kEgressControl)) != 0;
}

Result<AcsOnPath> acs_on_path(SystemProbe& probe, const std::string& bus_id) {
  TUTTI_ASSIGN(const std::string link, probe.link_target("/sys/bus/pci/devices/" + bus_id));
  AcsOnPath found;
  std::string_view rest = link;  // "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0"
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string name(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (name == bus_id || !is_bus_id(name)) continue;
    const auto config = probe.read_file("/sys/bus/pci/devices/" + name + "/config");
    if (!config || config->size() <= kFirst64) {
      found.hidden.push_back(name);
      continue;
    }
    const auto control = acs_control(std::as_bytes(std::span(*config)));
    if (control && acs_redirects(*control)) found.redirecting.push_back(name);
  }
  return found;
}

}  // namespace tutti::topo
