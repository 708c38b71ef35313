#include "src/wire/frames.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/hash.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::size_t kCheckOffset = 84;
// Of a brief header, by how much the sequence number has grown.
constexpr std::array<std::uint32_t, 2> kBriefMagic = {0x53545554, 0x4e545554};  // "TUTS", "TUTN"

// A value as the wire has it, and back: little-endian.
template <class T>
T as_on_wire(T value) {
  if constexpr (std::endian::native == std::endian::big && sizeof(T) > 1) {
    auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    std::ranges::reverse(bytes);
    return std::bit_cast<T>(bytes);
  }
  return value;
}

class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  template <class T>
  Writer& put(T value) {
    const T bits = as_on_wire(value);
    std::memcpy(at_, &bits, sizeof bits);
    at_ += sizeof bits;
    return *this;
  }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}
  template <class T>
  T get() {
    T bits;
    std::memcpy(&bits, at_, sizeof bits);
    at_ += sizeof bits;
    return as_on_wire(bits);
  }

 private:
  const std::byte* at_;
};

// Finds damage, proves nothing: FNV-1a over 32-bit words, in two strands side by side, since each
// step of one waits for the product of the step before.
std::uint32_t check_of(const std::byte* header) {
  std::uint64_t even = kFnvStart;
  std::uint64_t odd = ~even;
  Reader reader(header);
  even = fnv_step(even, reader.get<std::uint32_t>());
  for (std::size_t i = sizeof(std::uint32_t); i < kCheckOffset; i += 2 * sizeof(std::uint32_t)) {
    even = fnv_step(even, reader.get<std::uint32_t>());
    odd = fnv_step(odd, reader.get<std::uint32_t>());
  }
  const std::uint64_t hash = even ^ ((odd << 32) | (odd >> 32));
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

Error no_frame(std::uint32_t magic) {
  return make_error(Code::kPeerFailed, "bytes {:#010x} where a frame should begin", magic);
}

bool sizes_fit(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kEager:
      return frame.bytes <= kEagerLimit && frame.payload == frame.bytes && frame.offset == 0;
    case FrameType::kReadyToSend:
      return frame.payload == 0 && frame.offset == 0;
    case FrameType::kClearToSend:
      return frame.payload <= kMostKeyBytes && frame.offset == 0;
    case FrameType::kData:
      return frame.offset % kChunkBytes == 0 && frame.offset < frame.bytes &&
             frame.payload == std::min<std::uint64_t>(kChunkBytes, frame.bytes - frame.offset);
    case FrameType::kCredit:
      return frame.payload == 0 && frame.offset > 0 && frame.offset <= frame.bytes &&
             frame.bytes <= kConnectionCredits;
    case FrameType::kBreak:
      return frame.payload == (frame.reason == BreakReason::kMismatch ? kHeaderBytes : 0);
    case FrameType::kGoodbye:
      return frame.payload == 0;
  }
  return false;
}

}  // namespace

[[gnu::noinline]] FrameHeader encode(const Frame& frame) {
  FrameHeader header;
  const CallSignature& call = frame.tag.call;
  Writer(header.data())
      .put(kFrameMagic)
      .put(kFrameVersion)
      .put(static_cast<std::uint8_t>(frame.type))
      .put(frame.stream.lane)
      .put(frame.stream.communicator)
      .put(frame.stream.source)
      .put(frame.stream.destination)
      .put(frame.message)
      .put(frame.tag.sequence)
      .put(static_cast<std::uint8_t>(call.collective))
      .put(static_cast<std::uint8_t>(call.type))
      .put(static_cast<std::uint8_t>(call.op))
      .put(static_cast<std::uint8_t>(frame.reason))
      .put(call.root)
      .put(call.count)
      .put(call.blocks)
      .put(call.compression)
      .put(frame.bytes)
      .put(frame.offset)
      .put(frame.payload);
  Writer(header.data() + kCheckOffset).put(check_of(header.data()));
  return header;
}

[[gnu::noinline]] Result<Frame> decode(std::span<const std::byte, kHeaderBytes> header) {
  Reader in(header.data());
  const auto magic = in.get<std::uint32_t>();
  const auto version = in.get<std::uint8_t>();
  if (magic != kFrameMagic) return no_frame(magic);
  if (version != kFrameVersion)
    return make_error(Code::kPeerFailed,
                      "a frame of version {}, this library speaks {}; use one version everywhere",
                      version, kFrameVersion);
  if (Reader(header.data() + kCheckOffset).get<std::uint32_t>() != check_of(header.data()))
    return make_error(Code::kPeerFailed, "a frame header whose check does not match its content");

  Frame frame;
  const auto type = in.get<std::uint8_t>();
  frame.stream.lane = in.get<Lane>();
  frame.stream.communicator = in.get<std::uint64_t>();
  frame.stream.source = in.get<Rank>();
  frame.stream.destination = in.get<Rank>();
  frame.message = in.get<std::uint64_t>();
  frame.tag.sequence = in.get<std::uint64_t>();
  const auto collective = in.get<std::uint8_t>();
  const auto data_type = in.get<std::uint8_t>();
  const auto op = in.get<std::uint8_t>();
  const auto reason = in.get<std::uint8_t>();
  if (type < static_cast<std::uint8_t>(FrameType::kEager) ||
      type > static_cast<std::uint8_t>(FrameType::kGoodbye) || collective >= kCollectives ||
      data_type >= kDataTypes || op >= kReduceOps ||
      reason > static_cast<std::uint8_t>(BreakReason::kMismatch))
    return make_error(Code::kPeerFailed,
                      "a frame with type {}, collective {}, data type {}, op {}, reason {}: one is "
                      "out of range",
                      type, collective, data_type, op, reason);
  frame.type = static_cast<FrameType>(type);
  frame.reason = static_cast<BreakReason>(reason);
  frame.tag.call.collective = static_cast<Collective>(collective);
  frame.tag.call.type = static_cast<DataType>(data_type);
  frame.tag.call.op = static_cast<ReduceOp>(op);
  frame.tag.call.root = in.get<Rank>();
  frame.tag.call.count = in.get<std::uint64_t>();
  frame.tag.call.blocks = in.get<std::uint32_t>();
  frame.tag.call.compression = in.get<std::uint32_t>();
  frame.bytes = in.get<std::uint64_t>();
  frame.offset = in.get<std::uint64_t>();
  frame.payload = in.get<std::uint32_t>();
  if (!sizes_fit(frame) || (frame.type == FrameType::kBreak) != (reason != 0))
    return make_error(
        Code::kPeerFailed,
        "a frame of type {} with {} bytes, offset {}, payload {}, reason {}: they do not fit", type,
        frame.bytes, frame.offset, frame.payload, reason);
  return frame;
}

std::optional<BriefHeader> encode_brief(const Frame& frame, const Frame& before) {
  const std::uint64_t step = frame.tag.sequence - before.tag.sequence;
  if (frame.type != FrameType::kEager || before.type != FrameType::kEager ||
      step >= kBriefMagic.size() || frame.message != before.message + 1 ||
      frame.bytes != before.bytes || frame.stream != before.stream ||
      frame.tag.call != before.tag.call)
    return std::nullopt;
  BriefHeader header;
  Writer(header.data()).put(kBriefMagic[step]).put(static_cast<std::uint32_t>(frame.message));
  return header;
}

Result<std::size_t> header_length(std::span<const std::byte, kBriefHeaderBytes> begin) {
  const auto magic = Reader(begin.data()).get<std::uint32_t>();
  if (magic == kBriefMagic[0] || magic == kBriefMagic[1]) return kBriefHeaderBytes;
  if (magic == kFrameMagic) return kHeaderBytes;
  return no_frame(magic);
}

Status decode_brief(std::span<const std::byte, kBriefHeaderBytes> header, Frame& frame) {
  Reader in(header.data());
  const auto magic = in.get<std::uint32_t>();
  const auto message = in.get<std::uint32_t>();
  if (frame.type != FrameType::kEager || message != static_cast<std::uint32_t>(frame.message + 1))
    return make_error(
        Code::kPeerFailed,
        "a brief header of message {} (modulo 2^32), where the message before it was {}", message,
        frame.message);
  ++frame.message;
  frame.tag.sequence += magic == kBriefMagic[1] ? 1 : 0;
  return ok_status();
}

}  // namespace tutti
