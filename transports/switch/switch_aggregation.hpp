// Trees by way of switches that add in software: TUTTI_SWITCH.
#pragma once

#include <memory>
#include <vector>

#include "src/base/clock.hpp"
#include "src/transport/aggregation.hpp"
#include "src/wire/crypto.hpp"
#include "transports/switch/switch_address.hpp"

namespace tutti {

struct SwitchOptions {
  std::vector<SwitchAddress> switches;  ///< at least one; groups take turns at them
  Key key{};
  std::uint32_t slots = 128;                ///< wanted, of each session
  Nanos silence = std::chrono::seconds(1);  ///< after which a switch is given up
};

/// Connects when a communicator is made. A switch that is not there then adds nothing for it. Ranks
/// may name other switches than their peers do: these are then leaves of one tree.
std::unique_ptr<Aggregation> make_switch_aggregation(SwitchOptions options);

}  // namespace tutti
