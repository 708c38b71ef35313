#include "transports/ucx/control_message.hpp"

#include <algorithm>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/control_frame.hpp"

namespace tutti::ucx {
namespace {

enum class UcxControl : std::uint8_t { kHello = 1, kReady = 2, kBye = 3 };

constexpr std::size_t kLongestSocketText = 128;
constexpr std::size_t kLongestTransport = 31;

void put_body(ByteWriter& out, const Hello& hello) {
  out.put(kControlVersion)
      .put(hello.generation)
      .put(static_cast<std::uint8_t>(hello.notices_failures))
      .put(hello.cookie)
      .put(hello.ring_bytes)
      .put(hello.arrived)
      .put(hello.read)
      .bytes(hello.worker);
}
void put_body(ByteWriter& out, const Ready& ready) { out.put(ready.generation); }
void put_body(ByteWriter& out, const Bye& bye) { out.put(bye.written); }

constexpr ControlFrameLimits kFrameLimits{
    .types = std::variant_size_v<ControlMessage>, .most_bytes = kMostControlBytes, .about = "UCX"};

Error bad(std::string_view what, std::uint64_t value) {
  return bad_control_message(kFrameLimits.about, what, value);
}

Result<ControlMessage> get_hello(ByteReader& in) {
  Hello hello;
  const auto version = in.get<std::uint16_t>();
  if (version != kControlVersion)
    return make_error(Code::kPeerFailed,
                      "it speaks version {} of the UCX transport, this library {}; use one version "
                      "everywhere",
                      version, kControlVersion);
  hello.generation = in.get<std::uint32_t>();
  const auto notices = in.get<std::uint8_t>();
  hello.cookie = in.get<std::uint64_t>();
  hello.ring_bytes = in.get<std::uint64_t>();
  hello.arrived = in.get<std::uint64_t>();
  hello.read = in.get<std::uint64_t>();
  const auto worker = in.bytes(in.left());
  hello.worker.assign(worker.begin(), worker.end());
  hello.notices_failures = notices != 0;
  if (notices > 1) return bad("a flag of", notices);
  if (hello.generation == 0) return bad("the generation", hello.generation);
  if (hello.read > hello.arrived) return bad("more read than has arrived:", hello.read);
  if (hello.worker.empty()) return bad("a worker's address of bytes:", hello.worker.size());
  return ControlMessage(std::move(hello));
}

Result<ControlMessage> get_body(std::uint8_t type, ByteReader& in) {
  switch (static_cast<UcxControl>(type)) {
    case UcxControl::kHello:
      return get_hello(in);
    case UcxControl::kReady:
      return ControlMessage(Ready{in.get<std::uint32_t>()});
    case UcxControl::kBye:
      return ControlMessage(Bye{in.get<std::uint64_t>()});
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

// --- addresses ---

Blob encode(const UcxAddress& address) {
  Blob blob;
  ByteWriter out(blob);
  out.put(kControlVersion).sized(as_bytes(to_text(address.control)));
  const std::size_t count = std::min(address.transports.size(), kMostNames);
  for (std::size_t i = 0; i < count; ++i)
    out.sized(as_bytes(std::string_view(address.transports[i]).substr(0, kLongestTransport)));
  return blob;
}

Result<UcxAddress> decode_address(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto version = in.get<std::uint16_t>();
  const std::string text = in.text(kLongestSocketText);
  UcxAddress address;
  while (in.ok() && in.left() > 0 && address.transports.size() < kMostNames) {
    const std::string name = in.text(kLongestTransport);
    const bool plain = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
    if (!in.ok() || name.empty() || !plain)
      return make_error(Code::kInvalidArgument, "a UCX address with an unreadable transport");
    address.transports.push_back(name);
  }
  if (!in.complete())
    return make_error(Code::kInvalidArgument, "a UCX address of {} bytes", bytes.size());
  if (version != kControlVersion)
    return make_error(Code::kInvalidArgument, "a UCX address of version {}", version);
  TUTTI_ASSIGN(address.control, parse_address(text));
  if (address.control.port == 0)
    return make_error(Code::kInvalidArgument, "a UCX address without a port");
  return address;
}

}  // namespace tutti::ucx
