// Any bytes decode to an error or to an address that decodes to itself when it is encoded again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/ucx/control_message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto address = tutti::ucx::decode_address(std::as_bytes(std::span(data, size)));
  if (!address) return 0;
  const auto again = tutti::ucx::decode_address(tutti::ucx::encode(*address));
  if (!again || again->transports != address->transports) std::abort();
  if (tutti::to_text(again->control) != tutti::to_text(address->control)) std::abort();
  return 0;
}
