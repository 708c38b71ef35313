// Fuzz target: what a peer says of its GPU never does harm, and what is taken comes back as it was.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/comm/gpu_offer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto offer = tutti::decode_gpu_offer(std::as_bytes(std::span(data, size)), 0);
  if (!offer) return 0;
  const auto again = tutti::decode_gpu_offer(tutti::encode(*offer), 0);
  // Control bytes grow when they are shown, so long texts may be cut.
  if (!again || again->level != offer->level) std::abort();
  return 0;
}
