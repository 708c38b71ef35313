// The cryptography that Tutti needs: random keys, a keyed hash, constant-time comparison.
//
// BLAKE2b (RFC 7693) from libsodium. Any thread may call any function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// 256 secret bits. Never log one.
using Key = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;

Key random_key();
std::uint64_t random_u64();
void random_bytes(std::span<std::byte> out);

/// Keyed hash of the concatenated `parts`. Nothing marks where a part ends, so callers pass parts
/// of fixed size.
Digest keyed_hash(const Key& key, std::span<const std::span<const std::byte>> parts);

/// Derives a key for one purpose, independent of the keys of other labels or contexts. `label` has
/// at most 255 bytes.
Key derive_key(const Key& key, std::string_view label, std::span<const std::byte> context = {});
/// The same, folded to 64 bits: an id that may be shown.
std::uint64_t derive_id(const Key& key, std::string_view label,
                        std::span<const std::byte> context = {});

/// Unkeyed hash folded to 64 bits. Detects damage, not forgery.
std::uint64_t checksum(std::span<const std::byte> data);

/// Constant time: does not depend on where the first difference is.
bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b);
void wipe(std::span<std::byte> secret);

/// Lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> data);
/// Fills `out` from exactly 2 * out.size() hexadecimal digits; false when `text` is anything else.
bool from_hex(std::string_view text, std::span<std::byte> out);

}  // namespace tutti
