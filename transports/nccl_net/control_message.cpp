#include "transports/nccl_net/control_message.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/control_frame.hpp"

namespace tutti::nccl_net {
namespace {

constexpr std::size_t kMostControlBytes = 1024;
constexpr std::size_t kLongestSocketText = 128;
constexpr std::size_t kLongestPluginName = 128;
// No version of the interface takes more requests, and no link more bytes at once.
constexpr std::uint32_t kMostDataSlots = 32;
constexpr std::uint32_t kMostSlotBytes = 16 << 20;

/// Words in memory are words on their way: they are written for each message.
struct WordsAsTheyLie {
  std::uint64_t cookie;
  std::uint64_t consumed;
  std::uint32_t kind;
  std::uint32_t zero;
};
static_assert(sizeof(WordsAsTheyLie) == kWordsBytes);
static_assert(std::endian::native == std::endian::little);

void put_body(ByteWriter& out, const Hello& hello) {
  out.put(kControlVersion)
      .put(hello.cookie)
      .put(hello.slot_bytes)
      .put(hello.data_slots)
      .bytes(hello.listener);
}
void put_body(ByteWriter&, const Ready&) {}
void put_body(ByteWriter& out, const Bye& bye) { out.put(bye.data_messages); }
void put_body(ByteWriter& out, const Posted& posted) { out.put(posted.receives); }

constexpr ControlFrameLimits kFrameLimits{.types = std::variant_size_v<ControlMessage>,
                                          .most_bytes = kMostControlBytes,
                                          .about = "the network plugin"};

Error bad(std::string_view what, std::uint64_t value) {
  return bad_control_message(kFrameLimits.about, what, value);
}

Result<ControlMessage> get_hello(ByteReader& in) {
  Hello hello;
  const auto version = in.get<std::uint16_t>();
  if (version != kControlVersion)
    return make_error(Code::kPeerFailed,
                      "it speaks version {} of the nccl_net transport, this library {}; use one "
                      "version everywhere",
                      version, kControlVersion);
  hello.cookie = in.get<std::uint64_t>();
  hello.slot_bytes = in.get<std::uint32_t>();
  hello.data_slots = in.get<std::uint32_t>();
  const auto listener = in.bytes(hello.listener.size());
  std::ranges::copy(listener, hello.listener.begin());
  if (hello.slot_bytes <= kWordsBytes || hello.slot_bytes > kMostSlotBytes)
    return bad("slots of bytes:", hello.slot_bytes);
  if (hello.data_slots == 0 || hello.data_slots > kMostDataSlots)
    return bad("slots:", hello.data_slots);
  return ControlMessage(hello);
}

Result<ControlMessage> get_body(std::uint8_t type, ByteReader& in) {
  switch (type) {
    case 1:
      return get_hello(in);
    case 2:
      return ControlMessage(Ready{});
    case 3:
      return ControlMessage(Bye{in.get<std::uint64_t>()});
    case 4:
      return ControlMessage(Posted{in.get<std::uint64_t>()});
    default:
      return bad("the type", type);
  }
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

// --- before the data ---

void encode(const Words& words, std::span<std::byte, kWordsBytes> out) {
  const WordsAsTheyLie lie{words.cookie, words.consumed, to_underlying(words.kind), 0};
  std::memcpy(out.data(), &lie, sizeof lie);
}

Result<Words> decode_words(std::span<const std::byte> message, std::uint64_t cookie) {
  if (message.size() < kWordsBytes) return bad("bytes:", message.size());
  ByteReader in(message.first(kWordsBytes));
  Words words;
  words.cookie = in.get<std::uint64_t>();
  words.consumed = in.get<std::uint64_t>();
  const auto kind = in.get<std::uint32_t>();
  const auto zero = in.get<std::uint32_t>();
  if (words.cookie != cookie)
    return make_error(Code::kPeerFailed,
                      "a message came by the network plugin that does not show the secret");
  if (kind < 1 || kind > 3 || zero != 0) return bad("the kind", kind);
  words.kind = static_cast<Words::Kind>(kind);
  const std::size_t data = message.size() - kWordsBytes;
  if ((data > 0) != (words.kind == Words::Kind::kData)) return bad("bytes of data:", data);
  return words;
}

// --- addresses ---

Blob encode(const NcclNetAddress& address) {
  Blob blob;
  ByteWriter(blob)
      .put(kControlVersion)
      .sized(as_bytes(to_text(address.control)))
      .sized(as_bytes(std::string_view(address.plugin).substr(0, kLongestPluginName)));
  return blob;
}

Result<NcclNetAddress> decode_address(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto version = in.get<std::uint16_t>();
  const std::string text = in.text(kLongestSocketText);
  NcclNetAddress address;
  address.plugin = in.text(kLongestPluginName);
  if (!in.complete())
    return make_error(Code::kInvalidArgument, "a nccl_net address of {} bytes", bytes.size());
  if (version != kControlVersion)
    return make_error(Code::kInvalidArgument, "a nccl_net address of version {}", version);
  TUTTI_ASSIGN(address.control, parse_address(text));
  if (address.control.port == 0)
    return make_error(Code::kInvalidArgument, "a nccl_net address without a port");
  return address;
}

}  // namespace tutti::nccl_net
