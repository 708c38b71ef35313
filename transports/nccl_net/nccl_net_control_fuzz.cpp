// Any bytes decode to an error, to nothing yet, or to a message that encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/nccl_net/control_message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto decoded = tutti::nccl_net::decode_control(bytes);
  if (!decoded || !*decoded) return 0;
  const auto& [message, taken] = **decoded;
  if (taken > bytes.size()) std::abort();
  if (!std::ranges::equal(tutti::nccl_net::encode(message), bytes.first(taken))) std::abort();
  return 0;
}
