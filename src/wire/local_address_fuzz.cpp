// Any bytes decode to an error or to an address that encodes to the same bytes and is on one host
// with itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/wire/local_address.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto address = tutti::decode_local_address(bytes);
  if (!address) return 0;
  if (!std::ranges::equal(tutti::encode(*address), bytes)) std::abort();
  if (!tutti::on_one_host(*address, *address)) std::abort();
  return 0;
}
