// Any bytes decode to an error or to an id that encodes to the same meaning. With the checksum put
// right, so that the fuzzer reaches what is behind it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/base/bytes.hpp"
#include "src/bootstrap/unique_id.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto raw = std::as_bytes(std::span(data, size));
  (void)tutti::decode_unique_id(raw);

  tutti::Blob bytes(raw.begin(), raw.end());
  bytes.resize(tutti::kUniqueIdBytes - 8);
  const auto sum = tutti::checksum(bytes);
  tutti::ByteWriter(bytes).put(sum);
  const auto id = tutti::decode_unique_id(bytes);
  if (!id) return 0;
  const auto again = tutti::decode_unique_id(tutti::encode(*id));
  if (!again || !(*again == *id)) std::abort();
  return 0;
}
