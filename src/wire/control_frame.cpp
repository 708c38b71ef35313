#include "src/wire/control_frame.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::size_t kControlHeaderBytes = 4;

}  // namespace

Blob control_frame(std::uint8_t type, std::span<const std::byte> body) {
  const auto length = static_cast<std::uint16_t>(body.size());
  Blob frame(kControlHeaderBytes + body.size());
  frame[0] = static_cast<std::byte>(type);
  std::memcpy(&frame[2], &length, sizeof length);
  std::ranges::copy(body, frame.begin() + kControlHeaderBytes);
  return frame;
}

Result<std::optional<ControlFrame>> first_control_frame(std::span<const std::byte> bytes,
                                                        const ControlFrameLimits& limits) {
  if (bytes.size() < kControlHeaderBytes) return std::optional<ControlFrame>();
  ByteReader header(bytes.first(kControlHeaderBytes));
  const auto type = header.get<std::uint8_t>();
  const auto zero = header.get<std::uint8_t>();
  const auto length = header.get<std::uint16_t>();
  if (type < 1 || type > limits.types || zero != 0)
    return bad_control_message(limits.about, "the type", type);
  if (length > limits.most_bytes) return bad_control_message(limits.about, "bytes:", length);
  if (bytes.size() - kControlHeaderBytes < length) return std::optional<ControlFrame>();
  return std::optional(ControlFrame{.type = type,
                                    .body = bytes.subspan(kControlHeaderBytes, length),
                                    .bytes = kControlHeaderBytes + length});
}

Error bad_control_message(std::string_view about, std::string_view what, std::uint64_t value) {
  return make_error(Code::kPeerFailed, "its message about {} has {} {}", about, what, value);
}

}  // namespace tutti
