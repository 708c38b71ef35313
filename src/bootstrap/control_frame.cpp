#include "src/bootstrap/control_frame.hpp"

#include <algorithm>

#include "src/base/bytes.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMaxErrorText = 2048;
constexpr std::size_t kAddressBytes = 24;

void put_address(ByteWriter& out, const SocketAddress& address) {
  out.put(address.family).put(std::uint8_t{0}).put(address.port).put(address.scope);
  out.bytes(std::as_bytes(std::span(address.address)));
}

/// Marks `in` as not ok when it is no address.
std::optional<SocketAddress> get_address(ByteReader& in) {
  SocketAddress address;
  address.family = in.get<std::uint8_t>();
  const auto zero = in.get<std::uint8_t>();
  address.port = in.get<std::uint16_t>();
  address.scope = in.get<std::uint32_t>();
  const auto raw = in.bytes(address.address.size());
  if (!in.ok() || zero != 0 || (address.family != 4 && address.family != 6)) return std::nullopt;
  std::ranges::transform(raw, address.address.begin(),
                         [](std::byte b) { return static_cast<std::uint8_t>(b); });
  return address;
}

}  // namespace

FrameBytes encode_frame(FrameType type, std::uint64_t sequence, std::span<const std::byte> body) {
  auto frame = std::make_shared<Blob>();
  frame->reserve(kFrameHeaderBytes + body.size());
  ByteWriter(*frame)
      .put(static_cast<std::uint32_t>(body.size()))
      .put(to_underlying(type))
      .put(std::uint8_t{0})
      .put(std::uint16_t{0})
      .put(sequence)
      .bytes(body);
  return frame;
}

std::optional<FrameHeader> decode_header(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  FrameHeader header;
  header.body_bytes = in.get<std::uint32_t>();
  const auto type = in.get<std::uint8_t>();
  const auto zeros = in.get<std::uint8_t>() | in.get<std::uint16_t>();
  header.sequence = in.get<std::uint64_t>();
  if (!in.complete() || zeros != 0) return std::nullopt;
  if (type < to_underlying(FrameType::kJoin) || type > to_underlying(FrameType::kStandstill)) {
    return std::nullopt;
  }
  header.type = static_cast<FrameType>(type);
  return header;
}

Blob encode(const JoinBody& join) {
  Blob out;
  ByteWriter writer(out);
  writer.put(join.group).put(join.rank).put(join.size).bytes(join.members);
  put_address(writer, join.listener);
  return out;
}

std::optional<JoinBody> decode_join(std::span<const std::byte> body) {
  ByteReader in(body);
  JoinBody join;
  join.group = in.get<std::uint64_t>();
  join.rank = in.get<Rank>();
  join.size = in.get<std::int32_t>();
  std::ranges::copy(in.bytes(join.members.size()), join.members.begin());
  const auto listener = get_address(in);
  if (!listener || !in.complete()) return std::nullopt;
  join.listener = *listener;
  return join;
}

Blob encode(std::span<const MemberInfo> members) {
  Blob out;
  ByteWriter writer(out);
  for (const auto& member : members) {
    writer.put(member.token);
    put_address(writer, member.listener);
  }
  return out;
}

std::optional<std::vector<MemberInfo>> decode_members(std::span<const std::byte> body) {
  ByteReader in(body);
  std::vector<MemberInfo> members;
  members.reserve(body.size() / (8 + kAddressBytes));
  while (in.left() > 0) {
    MemberInfo member;
    member.token = in.get<std::uint64_t>();
    const auto listener = get_address(in);
    if (!listener) return std::nullopt;
    member.listener = *listener;
    members.push_back(member);
  }
  return members;
}

Blob encode(const Error& error) {
  Blob out;
  const std::string_view text = std::string_view(error.what).substr(0, kMaxErrorText);
  ByteWriter(out)
      .put(to_underlying(error.code))
      .put(error.peer)
      .put(static_cast<std::int32_t>(error.os_errno))
      .sized(as_bytes(text));
  return out;
}

std::optional<Error> decode_error(std::span<const std::byte> body) {
  ByteReader in(body);
  Error error;
  const auto code = in.get<std::uint8_t>();
  error.peer = in.get<Rank>();
  error.os_errno = in.get<std::int32_t>();
  error.what = in.text(kMaxErrorText);
  if (!in.complete() || code > to_underlying(Code::kInternal) || error.peer < kNoRank) {
    return std::nullopt;
  }
  // It will be printed: a peer does not get to control a terminal.
  std::ranges::replace_if(
      error.what, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
  error.code = static_cast<Code>(code);
  return error;
}

Blob encode(std::span<const Blob> blobs) {
  Blob out;
  std::size_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.size() + sizeof(std::uint32_t);
  out.reserve(bytes);
  for (const Blob& blob : blobs) ByteWriter(out).sized(blob);
  return out;
}

std::optional<std::vector<Blob>> decode_blobs(std::span<const std::byte> body, std::size_t count) {
  ByteReader in(body);
  std::vector<Blob> blobs;
  while (in.left() > 0 && in.ok() && blobs.size() < count) {
    const auto blob = in.sized(kMaxBlobBytes);
    blobs.emplace_back(blob.begin(), blob.end());
  }
  if (!in.complete() || blobs.size() != count) return std::nullopt;
  return blobs;
}

}  // namespace tutti
