#include "src/capi/buffers.hpp"

#include <string_view>
#include <vector>

#include "src/base/result.hpp"

namespace tutti::capi {
namespace {

/// One of a call's buffers.
struct Buffer {
  std::string_view name;
  const void* data = nullptr;
  std::size_t bytes = 0;

  [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  [[nodiscard]] std::uintptr_t end() const { return begin() + bytes; }
};

bool overlap(const Buffer& a, const Buffer& b) {
  return a.bytes > 0 && b.bytes > 0 && a.begin() < b.end() && b.begin() < a.end();
}

/// How the buffers of a call may overlap.
std::string_view in_place_rule(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kGather:
      return "sendbuff is block `rank` of recvbuff";
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return "recvbuff is block `rank` of sendbuff";
    default:
      return "sendbuff is recvbuff";
  }
}

std::vector<Buffer> parts_of(std::string_view name, const void* data,
                             const std::vector<Stretch>& stretches) {
  std::vector<Buffer> parts;
  for (const auto& [begin, bytes] : stretches)
    parts.push_back({name, static_cast<const std::byte*>(data) + begin, bytes});
  return parts;
}

Status check_overlap(const Call& call, Rank rank, const Buffer& send, const Buffer& recv) {
  if (!overlap(send, recv) || is_in_place(call, rank)) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "sendbuff {} of {} bytes and recvbuff {} of {} bytes overlap: keep them apart, "
                    "or make the call in place, where {} (called at {})",
                    send.data, send.bytes, recv.data, recv.bytes, in_place_rule(call.collective),
                    describe(call.site));
}

Status check_access(const Call& call, const Buffer& buffer, Access access,
                    const MemoryMap& memory) {
  const auto wrong = memory.first_without(access, buffer.data, buffer.bytes);
  if (!wrong) return ok_status();
  return make_error(
      Code::kInvalidArgument,
      "{} {} of {} bytes ({} elements of type {}) is not {} memory from {:#x} on: pass memory that "
      "is as large as the call needs and stays allocated until it is complete (called at {})",
      buffer.name, buffer.data, buffer.bytes, buffer.bytes / size_of(call.type), name_of(call.type),
      access == Access::kRead ? "readable" : "writable", *wrong, describe(call.site));
}

}  // namespace

Status check_buffers(const Call& call, Rank rank, std::int32_t size, const MemoryMap& memory) {
  const BufferNames names = buffer_names(call);
  const auto sent = parts_of(names.send, call.send, input_stretches(call, rank, size));
  const auto received = parts_of(names.recv, call.recv, output_stretches(call, rank, size));
  for (const Buffer& send : sent)
    for (const Buffer& recv : received) TUTTI_TRY(check_overlap(call, rank, send, recv));
  for (const Buffer& send : sent) TUTTI_TRY(check_access(call, send, Access::kRead, memory));
  for (const Buffer& recv : received) TUTTI_TRY(check_access(call, recv, Access::kWrite, memory));
  return ok_status();
}

}  // namespace tutti::capi
