#include "src/switch/seal.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <sodium.h>

namespace tutti::in_network {
namespace {

using Mac = std::array<unsigned char, kMacBytes>;

Mac mac_of(const PacketKey& key, std::span<const std::byte> covered) {
  static_assert(crypto_shorthash_siphashx24_BYTES == kMacBytes &&
                crypto_shorthash_siphashx24_KEYBYTES == sizeof(PacketKey));
  Mac mac;
  crypto_shorthash_siphashx24(mac.data(), reinterpret_cast<const unsigned char*>(covered.data()),
                              covered.size(), reinterpret_cast<const unsigned char*>(key.data()));
  return mac;
}

}  // namespace

void seal(const PacketKey& key, std::span<std::byte> packet) {
  const Mac mac = mac_of(key, packet.first(packet.size() - kMacBytes));
  std::memcpy(packet.last(kMacBytes).data(), mac.data(), mac.size());
}

bool open(const PacketKey& key, std::span<const std::byte> packet) {
  const Mac mac = mac_of(key, packet.first(packet.size() - kMacBytes));
  return sodium_memcmp(mac.data(), packet.last(kMacBytes).data(), mac.size()) == 0;
}

bool ReplayWindow::take(std::uint64_t counter) {
  const std::uint64_t word = counter / 64;
  const std::uint64_t newest = newest_ / 64;
  if (word + kWords <= newest) return false;
  if (word > newest) {  // words that the window slides over begin empty
    const std::uint64_t steps = std::min(word - newest, kWords);
    for (std::uint64_t step = 0; step < steps; ++step) seen_[(word - step) % kWords] = 0;
  }
  newest_ = std::max(newest_, counter);
  std::uint64_t& bits = seen_[word % kWords];
  const std::uint64_t bit = std::uint64_t{1} << (counter % 64);
  if ((bits & bit) != 0) return false;
  bits |= bit;
  return true;
}

std::span<const std::byte> Sealer::seal(Packet packet, PacketBytes& out) {
  packet.counter = ++counter_;
  const std::span<std::byte> bytes = build(packet, out);
  in_network::seal(key_, bytes);
  return bytes;
}

bool Unsealer::accepts(const Packet& packet, std::span<const std::byte> bytes) {
  return open(key_, bytes) && window_.take(packet.counter);
}

}  // namespace tutti::in_network
