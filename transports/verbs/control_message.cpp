#include "transports/verbs/control_message.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/control_frame.hpp"

namespace tutti::verbs {
namespace {

enum class ControlType : std::uint8_t {
  kOffer = 1,
  kOpen = 2,
  kReady = 3,
  kClosed = 4,
  kRevoke = 5
};

constexpr std::size_t kLongestName = 63;
constexpr std::uint32_t kMost24 = 0xffffff;

void put_gid(ByteWriter& out, const Gid& gid) { out.bytes(std::as_bytes(std::span(gid))); }

Gid get_gid(ByteReader& in) {
  Gid gid{};
  const auto raw = in.bytes(gid.size());
  std::ranges::transform(raw, gid.begin(),
                         [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  return gid;
}

void put_body(ByteWriter& out, const Offer& offer) {
  out.put(kControlVersion)
      .put(offer.pairs_of_each_rail)
      .put(static_cast<std::uint8_t>(offer.rails.size()))
      .put(offer.ring_address)
      .put(offer.ring_bytes);
  for (const auto& [rail, key] : offer.rails) {
    out.sized(as_bytes(std::string_view(rail.device)))
        .put(rail.port)
        .put(to_underlying(rail.link))
        .put(to_underlying(rail.type))
        .put(rail.prefix_bits)
        .put(rail.gid_index)
        .put(rail.lid)
        .put(rail.mtu)
        .put(rail.mbit_per_s)
        .put(static_cast<std::uint8_t>(rail.far))
        .put(key);
    put_gid(out, rail.gid);
  }
}

void put_body(ByteWriter& out, const OpenPath& open) {
  out.put(open.path)
      .put(open.generation)
      .put(open.queue_pair)
      .put(open.first_packet)
      .put(open.mtu)
      .put(open.lid);
  put_gid(out, open.gid);
}

void put_body(ByteWriter& out, const ReadyPath& ready) {
  out.put(ready.path).put(ready.generation);
}

void put_body(ByteWriter& out, const ClosedPath& closed) {
  out.put(closed.path).put(closed.generation).put(closed.stream_bytes).put(closed.puts);
}

void put_body(ByteWriter& out, const RevokeTarget& revoke) { out.put(revoke.number); }

constexpr ControlFrameLimits kFrameLimits{.types = std::variant_size_v<ControlMessage>,
                                          .most_bytes = kMostControlBytes,
                                          .about = "RDMA paths"};

Error bad(std::string_view what, std::uint64_t value) {
  return bad_control_message(kFrameLimits.about, what, value);
}

bool is_mtu(std::uint32_t mtu) { return std::has_single_bit(mtu) && mtu >= 256 && mtu <= 4096; }

Result<Offer::OfferedRail> get_rail(ByteReader& in) {
  Offer::OfferedRail offered;
  Rail& rail = offered.rail;
  const auto length = in.get<std::uint32_t>();
  if (length == 0 || length > kLongestName) return bad("a device's name of bytes", length);
  for (const std::byte byte : in.bytes(length)) {
    const char c = static_cast<char>(byte);
    if (c <= ' ' || c > '~')
      return bad("a device's name with the character", static_cast<unsigned char>(c));
    rail.device += c;
  }
  rail.port = in.get<std::uint8_t>();
  const auto link = in.get<std::uint8_t>();
  const auto type = in.get<std::uint8_t>();
  rail.prefix_bits = in.get<std::uint8_t>();
  rail.gid_index = in.get<std::uint32_t>();
  rail.lid = in.get<std::uint16_t>();
  rail.mtu = in.get<std::uint32_t>();
  rail.mbit_per_s = in.get<std::uint32_t>();
  const auto far = in.get<std::uint8_t>();
  offered.ring_key = in.get<std::uint32_t>();
  rail.gid = get_gid(in);
  if (link > to_underlying(LinkLayer::kEthernet)) return bad("a link of kind", link);
  if (type > to_underlying(GidType::kRoceV2)) return bad("a GID of kind", type);
  if (rail.prefix_bits > 128) return bad("a prefix of bits", rail.prefix_bits);
  if (far > 1) return bad("a distance of", far);
  if (rail.gid_index > 0xff) return bad("a GID at index", rail.gid_index);
  if (in.ok() && !is_mtu(rail.mtu)) return bad("an MTU of", rail.mtu);
  rail.link = static_cast<LinkLayer>(link);
  rail.type = static_cast<GidType>(type);
  rail.far = far != 0;
  return offered;
}

Result<ControlMessage> get_offer(ByteReader& in) {
  Offer offer;
  const auto version = in.get<std::uint16_t>();
  if (version != kControlVersion)
    return make_error(Code::kPeerFailed,
                      "it speaks version {} of the RDMA protocol, this library {}; use one version "
                      "everywhere",
                      version, kControlVersion);
  offer.pairs_of_each_rail = in.get<std::uint8_t>();
  const auto rails = in.get<std::uint8_t>();
  offer.ring_address = in.get<std::uint64_t>();
  offer.ring_bytes = in.get<std::uint64_t>();
  if (rails > kMostRails) return bad("rails", rails);
  if (offer.pairs_of_each_rail == 0 || offer.pairs_of_each_rail > kMostPaths / kMostRails)
    return bad("queue pairs of each rail", offer.pairs_of_each_rail);
  if (!std::has_single_bit(offer.ring_bytes) || offer.ring_bytes < kLeastRing ||
      offer.ring_bytes > kMostRing)
    return bad("a ring of bytes", offer.ring_bytes);
  if (offer.ring_address + offer.ring_bytes < offer.ring_address)
    return bad("a ring at", offer.ring_address);
  for (unsigned i = 0; i < rails && in.ok(); ++i) {
    TUTTI_ASSIGN(Offer::OfferedRail rail, get_rail(in));
    offer.rails.push_back(std::move(rail));
  }
  return ControlMessage(std::move(offer));
}

Result<ControlMessage> get_open(ByteReader& in) {
  OpenPath open;
  open.path = in.get<std::uint16_t>();
  open.generation = in.get<std::uint32_t>();
  open.queue_pair = in.get<std::uint32_t>();
  open.first_packet = in.get<std::uint32_t>();
  open.mtu = in.get<std::uint32_t>();
  open.lid = in.get<std::uint16_t>();
  open.gid = get_gid(in);
  if (open.path >= kMostPaths) return bad("a path", open.path);
  if (open.queue_pair > kMost24) return bad("a queue pair", open.queue_pair);
  if (open.first_packet > kMost24) return bad("a first packet", open.first_packet);
  if (!is_mtu(open.mtu)) return bad("an MTU of", open.mtu);
  return ControlMessage(open);
}

Result<ControlMessage> get_ready(ByteReader& in) {
  ReadyPath ready;
  ready.path = in.get<std::uint16_t>();
  ready.generation = in.get<std::uint32_t>();
  if (ready.path >= kMostPaths) return bad("a path", ready.path);
  return ControlMessage(ready);
}

Result<ControlMessage> get_closed(ByteReader& in) {
  ClosedPath closed;
  closed.path = in.get<std::uint16_t>();
  closed.generation = in.get<std::uint32_t>();
  closed.stream_bytes = in.get<std::uint64_t>();
  closed.puts = in.get<std::uint64_t>();
  if (closed.path >= kMostPaths) return bad("a path", closed.path);
  return ControlMessage(closed);
}

Result<ControlMessage> get_body(std::uint8_t type, ByteReader& in) {
  switch (static_cast<ControlType>(type)) {
    case ControlType::kOffer:
      return get_offer(in);
    case ControlType::kOpen:
      return get_open(in);
    case ControlType::kReady:
      return get_ready(in);
    case ControlType::kClosed:
      return get_closed(in);
    case ControlType::kRevoke:
      return ControlMessage(RevokeTarget{in.get<std::uint16_t>()});
  }
  return bad("the type", type);
}

}  // namespace

Blob encode(const ControlMessage& message) {
  Blob body;
  ByteWriter out(body);
  std::visit([&](const auto& said) { put_body(out, said); }, message);
  return control_frame(static_cast<std::uint8_t>(message.index() + 1), body);
}

Result<std::optional<DecodedControl>> decode_control(std::span<const std::byte> bytes) {
  TUTTI_ASSIGN(const auto frame, first_control_frame(bytes, kFrameLimits));
  if (!frame) return std::optional<DecodedControl>();
  ByteReader in(frame->body);
  TUTTI_ASSIGN(ControlMessage message, get_body(frame->type, in));
  if (!in.complete()) return bad("bytes that do not fit its type:", frame->body.size());
  return std::optional(DecodedControl{std::move(message), frame->bytes});
}

}  // namespace tutti::verbs
