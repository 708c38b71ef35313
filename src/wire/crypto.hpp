// The little cryptography Tutti needs: random keys, a keyed hash, comparison in constant time.
//
// BLAKE2b (RFC 7693) through libsodium. Every function may be called from any thread.
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

/// Keyed hash of the concatenation of `parts`. The parts are not delimited: callers pass fixed-size
/// ones.
Digest keyed_hash(const Key& key, std::span<const std::span<const std::byte>> parts);

/// A key for one use, independent of keys of other labels or contexts. `label` at most 255 bytes.
Key derive_key(const Key& key, std::string_view label, std::span<const std::byte> context = {});
/// The same, folded to a number that may be shown: an id.
std::uint64_t derive_id(const Key& key, std::string_view label,
                        std::span<const std::byte> context = {});

/// Unkeyed hash folded to 64 bits: finds damage, proves nothing.
std::uint64_t checksum(std::span<const std::byte> data);

/// Takes the same time wherever the first difference is.
bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b);
void wipe(std::span<std::byte> secret);

/// Lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> data);
/// Fills `out` from exactly 2 * out.size() hexadecimal digits; false when `text` is not that.
bool from_hex(std::string_view text, std::span<std::byte> out);

}  // namespace tutti
