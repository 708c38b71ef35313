#include "transports/switch/switch_address.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti {

std::string to_text(const SwitchAddress& address) {
  return fmt::format("{}:{}", address.host, address.port);
}

Result<SwitchAddress> parse_switch(std::string_view text, std::string_view setting) {
  const auto bad = [&] {
    return make_error(Code::kInvalidArgument,
                      "{}: HOST:PORT was expected, such as 10.0.0.9:7000, found '{}'", setting,
                      text);
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  SwitchAddress address;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  address.host = host;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || address.port == 0) return bad();
  return address;
}

Result<std::vector<SwitchAddress>> parse_switches(std::string_view text) {
  std::vector<SwitchAddress> switches;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    TUTTI_ASSIGN(SwitchAddress each, parse_switch(text.substr(0, end), "TUTTI_SWITCH"));
    switches.push_back(std::move(each));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return switches;
}

}  // namespace tutti
