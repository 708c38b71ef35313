// Every decoder of the control plane, on any bytes: an accepted value encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "src/bootstrap/control_frame.hpp"
#include "src/bootstrap/standstill.hpp"

namespace {
void must_equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (!std::ranges::equal(a, b)) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const auto body = std::as_bytes(std::span(data + 1, size - 1));
  if (const auto header = decode_header(body)) {
    const auto frame = encode_frame(header->type, header->sequence);
    must_equal(std::span(*frame).subspan(4), body.subspan(4));
  }
  if (const auto join = decode_join(body)) must_equal(encode(*join), body);
  if (const auto members = decode_members(body)) must_equal(encode(*members), body);
  if (const auto error = decode_error(body)) (void)encode(*error);
  if (const auto call = decode_waiting_call(body, data[0])) {
    if (encode(*call).size() != body.size()) std::abort();
    (void)find_standstill(std::vector<const WaitingCall*>(data[0], &*call));
  }
  if (const auto blobs = decode_blobs(body, data[0])) must_equal(encode(*blobs), body);
  return 0;
}
