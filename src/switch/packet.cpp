#include "src/switch/packet.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti::in_network {
namespace {

static_assert(std::endian::native == std::endian::little, "values are stored as they arrive");

constexpr std::uint8_t kHasValues = 1;
constexpr std::uint8_t kWants = 2;
constexpr std::uint8_t kLeftOut = 4;

class HeaderWriter {
 public:
  explicit HeaderWriter(std::byte* at) : at_(at) {}
  template <class T>
  HeaderWriter& put(T value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
    return *this;
  }

 private:
  std::byte* at_;
};

class HeaderReader {
 public:
  explicit HeaderReader(const std::byte* at) : at_(at) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  const std::byte* at_;
};

bool fields_fit(const Packet& packet, std::uint8_t flags) {
  const bool from_worker = packet.kind == PacketKind::kContribution;
  if (from_worker != (packet.sender < kMostWorkers)) return false;
  if (!from_worker && packet.sender != kTheSwitch) return false;
  if (packet.count > most_values(packet.lanes) || (flags & ~(kHasValues | kWants | kLeftOut)) != 0)
    return false;
  const bool may_have_values = from_worker || packet.kind == PacketKind::kResult;
  if ((flags & kHasValues) != 0 && (!may_have_values || packet.count == 0)) return false;
  if (packet.wants && !from_worker) return false;
  const bool brief = packet.kind == PacketKind::kResult && (flags & kHasValues) == 0;
  if (packet.left_out && !brief) return false;
  if ((packet.kind == PacketKind::kRefusal) != (packet.reason != Refusal::kNone)) return false;
  if (packet.kind == PacketKind::kWaiting) return true;
  return packet.level == 0 && (packet.workers == 0 || packet.kind == PacketKind::kResult);
}

}  // namespace

std::string_view name_of(Lanes lanes) {
  constexpr std::string_view kNames[] = {"int8 sum",   "int8 min",   "int8 max",   "uint8 sum",
                                         "uint8 min",  "uint8 max",  "int32 sum",  "int32 min",
                                         "int32 max",  "uint32 sum", "uint32 min", "uint32 max",
                                         "int64 sum",  "int64 min",  "int64 max",  "uint64 sum",
                                         "uint64 min", "uint64 max", "int16 sum",  "moved words"};
  return kNames[static_cast<std::size_t>(lanes)];
}

std::string_view meaning_of(Refusal refusal) {
  constexpr std::string_view kMeanings[] = {
      "nothing is refused",
      "the switch does not know the session: it restarted, or closed the session",
      "workers use different types or operators",
      "workers use different numbers of elements",
      "workers make different calls",
      "two workers send what only one may send",
      "a worker sent a chunk before it had the result that frees the slot"};
  return kMeanings[static_cast<std::size_t>(refusal)];
}

Flaw parse(std::span<const std::byte> bytes, Packet& out) {
  if (bytes.size() < kLeastPacketBytes || bytes.size() > kMostPacketBytes) return Flaw::kLength;
  HeaderReader in(bytes.data());
  if (in.get<std::uint32_t>() != kPacketMagic) return Flaw::kMagic;
  if (in.get<std::uint8_t>() != kPacketVersion) return Flaw::kVersion;
  const auto kind = in.get<std::uint8_t>();
  out.sender = in.get<std::uint8_t>();
  const auto lanes = in.get<std::uint8_t>();
  out.session = in.get<std::uint64_t>();
  out.counter = in.get<std::uint64_t>();
  out.chunk = in.get<std::uint64_t>();
  out.count = in.get<std::uint16_t>();
  out.exponent = in.get<std::int16_t>();
  out.workers = in.get<std::uint32_t>();
  const auto flags = in.get<std::uint8_t>();
  const auto reason = in.get<std::uint8_t>();
  out.level = in.get<std::uint8_t>();
  const auto zero = in.get<std::uint8_t>();
  out.call = in.get<std::uint32_t>();
  if (kind < 1 || kind > static_cast<std::uint8_t>(PacketKind::kRefusal) || lanes >= kLanes ||
      reason >= kRefusals || zero != 0)
    return Flaw::kRange;
  out.kind = static_cast<PacketKind>(kind);
  out.lanes = static_cast<Lanes>(lanes);
  out.reason = static_cast<Refusal>(reason);
  out.wants = (flags & kWants) != 0;
  out.left_out = (flags & kLeftOut) != 0;
  if (!fields_fit(out, flags)) return Flaw::kRange;
  const std::size_t value_bytes = (flags & kHasValues) != 0 ? out.count * width_of(out.lanes) : 0;
  if (bytes.size() != kLeastPacketBytes + value_bytes) return Flaw::kLength;
  out.values = bytes.subspan(kPacketHeaderBytes, value_bytes);
  return Flaw::kNone;
}

std::span<std::byte> build(const Packet& packet, PacketBytes& out) {
  const bool has_values = !packet.values.empty();
  const auto flags =
      static_cast<std::uint8_t>((has_values ? kHasValues : 0) | (packet.wants ? kWants : 0) |
                                (packet.left_out ? kLeftOut : 0));
  HeaderWriter(out.data())
      .put(kPacketMagic)
      .put(kPacketVersion)
      .put(static_cast<std::uint8_t>(packet.kind))
      .put(packet.sender)
      .put(static_cast<std::uint8_t>(packet.lanes))
      .put(packet.session)
      .put(packet.counter)
      .put(packet.chunk)
      .put(packet.count)
      .put(packet.exponent)
      .put(packet.workers)
      .put(flags)
      .put(static_cast<std::uint8_t>(packet.reason))
      .put(packet.level)
      .put(std::uint8_t{0})
      .put(packet.call);
  const std::size_t bytes = std::min(packet.values.size(), kChunkBytes);
  std::byte* const values = out.data() + kPacketHeaderBytes;
  if (has_values && packet.values.data() != values)
    std::memcpy(values, packet.values.data(), bytes);
  return std::span(out).first(kLeastPacketBytes + bytes);
}

}  // namespace tutti::in_network
