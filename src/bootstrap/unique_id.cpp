#include "src/bootstrap/unique_id.hpp"

#include <algorithm>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::string_view kIdMagic = "TUTTIUID";
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kChecked = kUniqueIdBytes - sizeof(std::uint64_t);

template <class... Args>
Error bad_id(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(Code::kInvalidArgument, "the unique id is not usable: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}

void put_address(ByteWriter& out, const SocketAddress& address) {
  out.put(address.family).put(std::uint8_t{0}).put(address.port);
  out.bytes(std::as_bytes(std::span(address.address)));
}

SocketAddress get_address(ByteReader& in) {
  SocketAddress address;
  address.family = in.get<std::uint8_t>();
  in.get<std::uint8_t>();
  address.port = in.get<std::uint16_t>();
  const auto raw = in.bytes(address.address.size());
  std::ranges::transform(raw, address.address.begin(),
                         [](std::byte b) { return static_cast<std::uint8_t>(b); });
  return address;
}

}  // namespace

UniqueIdBytes encode(const UniqueId& id) {
  Blob out;
  ByteWriter writer(out);
  writer.bytes(as_bytes(kIdMagic)).put(kVersion);
  writer.put(static_cast<std::uint8_t>(id.addresses.size())).put(std::uint8_t{0});
  writer.put(std::uint32_t{0}).put(id.job).bytes(id.key);
  for (std::size_t i = 0; i < kUniqueIdAddresses; ++i) {
    put_address(writer, i < id.addresses.size() ? id.addresses[i] : SocketAddress{});
  }
  writer.put(std::uint32_t{0});
  writer.put(checksum(out));
  UniqueIdBytes bytes{};
  std::ranges::copy(std::span(out).first(kUniqueIdBytes), bytes.begin());
  wipe(out);
  return bytes;
}

Result<UniqueId> decode_unique_id(std::span<const std::byte> bytes) {
  if (bytes.size() != kUniqueIdBytes) {
    return bad_id("it has {} bytes, not {}", bytes.size(), kUniqueIdBytes);
  }
  if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) {
    return bad_id("it is all zeros; make it on one rank and send it to all others first");
  }
  ByteReader in(bytes);
  if (!std::ranges::equal(in.bytes(kIdMagic.size()), as_bytes(kIdMagic))) {
    return bad_id(
        "it does not begin as one of Tutti's; it was damaged on its way, or another "
        "library made it");
  }
  if (const auto version = in.get<std::uint16_t>(); version != kVersion) {
    return bad_id(
        "it has version {}, this library reads version {}; run one release of Tutti on "
        "all ranks",
        version, kVersion);
  }
  if (checksum(bytes.first(kChecked)) != ByteReader(bytes.subspan(kChecked)).get<std::uint64_t>()) {
    return bad_id("its checksum is wrong; it was cut or damaged on its way");
  }
  UniqueId id;
  const auto count = in.get<std::uint8_t>();
  in.bytes(5);
  id.job = in.get<std::uint64_t>();
  std::ranges::copy(in.bytes(id.key.size()), id.key.begin());
  if (count < 1 || count > kUniqueIdAddresses) return bad_id("it holds {} addresses", count);
  for (std::size_t i = 0; i < count; ++i) {
    const SocketAddress address = get_address(in);
    if ((address.family != 4 && address.family != 6) || address.port == 0) {
      return bad_id("its address {} has family {} and port {}", i, address.family, address.port);
    }
    id.addresses.push_back(address);
  }
  return id;
}

}  // namespace tutti
