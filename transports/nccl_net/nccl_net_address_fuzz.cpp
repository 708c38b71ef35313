// Any bytes decode to an error or to an address that decodes to itself when it is encoded again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/nccl_net/control_message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto address = tutti::nccl_net::decode_address(std::as_bytes(std::span(data, size)));
  if (!address) return 0;
  const auto again = tutti::nccl_net::decode_address(tutti::nccl_net::encode(*address));
  if (!again || again->plugin != address->plugin) std::abort();
  if (tutti::to_text(again->control) != tutti::to_text(address->control)) std::abort();
  return 0;
}
