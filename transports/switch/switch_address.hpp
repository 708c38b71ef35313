// Where switches that add in software are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

struct SwitchAddress {
  std::string host;
  std::uint16_t port = 0;
};
std::string to_text(const SwitchAddress& address);

/// "10.0.0.9:7000", "[fe80::1]:7000" or "node9:7000". `setting` is where it comes from, for errors.
Result<SwitchAddress> parse_switch(std::string_view text, std::string_view setting);
/// Of TUTTI_SWITCH: several, with commas between them.
Result<std::vector<SwitchAddress>> parse_switches(std::string_view text);

}  // namespace tutti
