// Any bytes decode to an error or to an offer that encodes to the same bytes, and offers of peers
// can be judged together.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/cuda_p2p/offer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::cuda_p2p;  // NOLINT(google-build-using-namespace)
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto problem = decode_verdict(bytes))
    if (!std::ranges::equal(encode_verdict(*problem), bytes)) std::abort();
  const auto offer = decode_offer(bytes);
  if (!offer) return 0;
  if (!std::ranges::equal(encode(*offer), bytes)) std::abort();
  const std::array twice{*offer, *offer};
  if (!find_obstacle(twice)) std::abort();  // they share a GPU, or have a problem
  return 0;
}
