// Bytes that come by a switch's control connection, in both directions.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/switch/control.hpp"

using namespace tutti;              // NOLINT(google-build-using-namespace)
using namespace tutti::in_network;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Key key{};
  const auto message = first_message(bytes);
  if (message && *message && (*message)->size() > kMostControlBytes) std::abort();
  if (const auto join = decode_join(bytes);
      join && (join->worker >= join->workers || join->leaf >= join->leaves))
    std::abort();
  if (const auto welcome = decode_welcome(bytes, key);
      welcome && welcome->refusal.empty() && welcome->slots == 0)
    std::abort();
  return 0;
}
