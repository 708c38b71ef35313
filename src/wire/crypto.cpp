#include "src/wire/crypto.hpp"

#include <cstdlib>

#include <sodium.h>

#include "src/base/bytes.hpp"

namespace tutti {
namespace {

const unsigned char* raw(std::span<const std::byte> data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}
unsigned char* raw_out(std::span<std::byte> data) {
  return reinterpret_cast<unsigned char*>(data.data());
}

// libsodium picks its implementations once; it can only fail without a source of randomness, and
// then nothing here can be promised.
void ready() {
  static const bool ok = sodium_init() >= 0;
  if (!ok) std::abort();
}

}  // namespace

void random_bytes(std::span<std::byte> out) {
  ready();
  randombytes_buf(out.data(), out.size());
}

Key random_key() {
  Key key;
  random_bytes(key);
  return key;
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  random_bytes(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

Digest keyed_hash(const Key& key, std::span<const std::span<const std::byte>> parts) {
  ready();
  crypto_generichash_state state;
  crypto_generichash_init(&state, raw(key), key.size(), sizeof(Digest));
  for (const auto part : parts) crypto_generichash_update(&state, raw(part), part.size());
  Digest digest;
  crypto_generichash_final(&state, raw_out(digest), digest.size());
  return digest;
}

Key derive_key(const Key& key, std::string_view label, std::span<const std::byte> context) {
  const auto length = static_cast<std::byte>(label.size());
  const std::span<const std::byte> parts[] = {std::span(&length, 1), as_bytes(label), context};
  return keyed_hash(key, parts);
}

std::uint64_t derive_id(const Key& key, std::string_view label,
                        std::span<const std::byte> context) {
  const Key derived = derive_key(key, label, context);
  return ByteReader(derived).get<std::uint64_t>();
}

std::uint64_t checksum(std::span<const std::byte> data) {
  ready();
  std::array<std::byte, 16> digest;
  crypto_generichash(raw_out(digest), digest.size(), raw(data), data.size(), nullptr, 0);
  return ByteReader(digest).get<std::uint64_t>();
}

bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::span<std::byte> secret) { sodium_memzero(secret.data(), secret.size()); }

std::string to_hex(std::span<const std::byte> data) {
  std::string text(data.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), raw(data), data.size());
  text.pop_back();
  return text;
}

bool from_hex(std::string_view text, std::span<std::byte> out) {
  if (text.size() != out.size() * 2) return false;
  std::size_t written = 0;
  const char* end = nullptr;
  const int rc =
      sodium_hex2bin(raw_out(out), out.size(), text.data(), text.size(), nullptr, &written, &end);
  return rc == 0 && written == out.size() && end == text.data() + text.size();
}

}  // namespace tutti
