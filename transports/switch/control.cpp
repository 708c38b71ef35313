#include "transports/switch/control.hpp"

#include <algorithm>

#include "src/base/bytes.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::in_network {
namespace {

constexpr std::size_t kLongestRefusal = 600;
constexpr std::size_t kNonceBytes = 32;

/// Applied twice, it gives the key back.
PacketKey masked(const PacketKey& key, const Key& switch_key, std::span<const std::byte> nonce) {
  const Key mask = derive_key(switch_key, "tutti switch packet key", nonce);
  PacketKey result = key;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] ^= mask[i];
  return result;
}

Blob with_length(const Blob& message) {
  Blob framed;
  ByteWriter(framed).sized(message);
  return framed;
}

Status check_version(ByteReader& reader) {
  const auto version = reader.get<std::uint16_t>();
  if (reader.ok() && version == kControlVersion) return ok_status();
  return make_error(Code::kInvalidUsage,
                    "version {} of the switch's control messages, here {}: use the same Tutti on "
                    "the switch and on the ranks",
                    version, kControlVersion);
}

}  // namespace

Blob encode(const Join& join) {
  Blob message;
  ByteWriter writer(message);
  writer.put(kControlVersion).bytes(join.job);
  writer.put(join.workers).put(join.worker).put(join.slots);
  writer.put(join.leaves).put(join.leaf);
  return with_length(message);
}

Result<Join> decode_join(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  TUTTI_TRY(check_version(reader));
  Join join;
  std::ranges::copy(reader.bytes(join.job.size()), join.job.begin());
  join.workers = reader.get<std::uint32_t>();
  join.worker = reader.get<std::uint32_t>();
  join.slots = reader.get<std::uint32_t>();
  join.leaves = reader.get<std::uint32_t>();
  join.leaf = reader.get<std::uint32_t>();
  if (!reader.complete())
    return make_error(Code::kPeerFailed, "a malformed join of {} bytes", bytes.size());
  if (join.workers == 0 || join.worker >= join.workers || join.slots == 0)
    return make_error(Code::kPeerFailed, "a join of worker {} of {}, who wants {} slots",
                      join.worker, join.workers, join.slots);
  if (join.leaf >= join.leaves)
    return make_error(Code::kPeerFailed, "a join at leaf {} of {}", join.leaf, join.leaves);
  return join;
}

Blob encode(const Welcome& welcome, const Key& switch_key) {
  std::array<std::byte, kNonceBytes> nonce{};
  random_bytes(nonce);
  Blob message;
  ByteWriter writer(message);
  writer.put(kControlVersion);
  writer.sized(as_bytes(std::string_view(welcome.refusal).substr(0, kLongestRefusal)));
  writer.put(welcome.session).bytes(nonce).bytes(masked(welcome.key, switch_key, nonce));
  writer.put(welcome.slots).put(welcome.port);
  return with_length(message);
}

Result<Welcome> decode_welcome(std::span<const std::byte> bytes, const Key& switch_key) {
  ByteReader reader(bytes);
  TUTTI_TRY(check_version(reader));
  Welcome welcome;
  welcome.refusal = without_controls(reader.text(kLongestRefusal));
  welcome.session = reader.get<std::uint64_t>();
  const auto nonce = reader.bytes(kNonceBytes);
  std::ranges::copy(reader.bytes(welcome.key.size()), welcome.key.begin());
  welcome.slots = reader.get<std::uint32_t>();
  welcome.port = reader.get<std::uint16_t>();
  if (!reader.complete())
    return make_error(Code::kPeerFailed, "a malformed welcome of {} bytes", bytes.size());
  welcome.key = masked(welcome.key, switch_key, nonce);
  constexpr std::uint32_t kMostSlots = 1U << 20;
  if (welcome.refusal.empty() &&
      (welcome.slots == 0 || welcome.slots > kMostSlots || welcome.port == 0))
    return make_error(Code::kPeerFailed, "a welcome with {} slots and port {}", welcome.slots,
                      welcome.port);
  return welcome;
}

Result<std::optional<std::span<const std::byte>>> first_message(std::span<const std::byte> bytes) {
  using Found = std::optional<std::span<const std::byte>>;
  if (bytes.size() < sizeof(std::uint32_t)) return Found();
  ByteReader reader(bytes);
  const auto length = reader.get<std::uint32_t>();
  if (length > kMostControlBytes)
    return make_error(Code::kPeerFailed, "a control message of {} bytes; at most {} were expected",
                      length, kMostControlBytes);
  if (bytes.size() - sizeof length < length) return Found();
  return Found(bytes.subspan(sizeof length, length));
}

}  // namespace tutti::in_network
