// Any bytes decode to an error, or to a message that encodes to one of the same meaning.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/collnet/join_message.hpp"

using namespace tutti::collnet;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto arrival = decode_arrival(bytes)) {
    const auto again = decode_arrival(encode(*arrival));
    if (arrival->seats.size() > kMostSeats || !again || *again != *arrival) std::abort();
  }
  if (const auto terms = decode_terms(bytes)) {
    const auto again = decode_terms(encode(*terms));
    if (!again || *again != *terms) std::abort();
  }
  return 0;
}
