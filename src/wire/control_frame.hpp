// The frames of control messages between two processes: type u8, zero u8, bytes u16, little-endian,
// and a body. They come from a peer: nothing about them is believed before it is checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct ControlFrame {
  std::uint8_t type = 1;
  std::span<const std::byte> body;  ///< of the bytes that the frame was found in
  std::size_t bytes = 0;            ///< header and body
};

struct ControlFrameLimits {
  std::size_t types = 1;       ///< 1 to so many
  std::size_t most_bytes = 0;  ///< of a body; less than 64 KiB
  std::string_view about;      ///< for errors: "UCX"
};

Blob control_frame(std::uint8_t type, std::span<const std::byte> body);

/// The first frame of what has come; nothing if it is not there in full. kPeerFailed says what is
/// wrong with it.
Result<std::optional<ControlFrame>> first_control_frame(std::span<const std::byte> bytes,
                                                        const ControlFrameLimits& limits);

/// "its message about UCX has the type 9"
Error bad_control_message(std::string_view about, std::string_view what, std::uint64_t value);

}  // namespace tutti
