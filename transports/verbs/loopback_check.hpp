// A port writes to itself, and the bytes are compared: what an I/O memory unit, access control on
// PCI bridges or a virtual machine spoil is better found before a job than in its results.
#pragma once

#include <memory>

#include "src/verbs/device.hpp"
#include "transports/verbs/rails.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

enum class LoopbackCheck : std::uint8_t {
  kPassed,
  kUnanswered,  ///< within a moment: some ports do not reach themselves
};

/// Takes milliseconds. kUnavailable, with the place of the first one, if wrong bytes arrive; other
/// errors if the device lacks what the test needs.
Result<LoopbackCheck> write_to_itself(const std::shared_ptr<Device>& device, const Rail& rail);

}  // namespace tutti::verbs
