// Trees by way of switches that add in software: TUTTI_SWITCH.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/transport/aggregation.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct SwitchAddress {
  std::string host;
  std::uint16_t port = 0;
};
/// "10.0.0.9:7000,[fe80::1]:7000,node9:7000"
Result<std::vector<SwitchAddress>> parse_switches(std::string_view text);

struct SwitchOptions {
  std::vector<SwitchAddress> switches;  ///< at least one; groups take turns at them
  Key key{};
  std::uint32_t slots = 128;  ///< wanted, of each session
};

/// Connects when a communicator is made. A switch that is not there then adds nothing for it.
std::unique_ptr<Aggregation> make_switch_aggregation(SwitchOptions options);

}  // namespace tutti
