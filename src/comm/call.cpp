#include "src/comm/call.hpp"

#include <fmt/format.h>

#include "src/base/code_address.hpp"
#include "src/ir/request.hpp"

namespace tutti {

bool is_point_to_point(const Call& call) {
  return call.collective == Collective::kSend || call.collective == Collective::kRecv;
}

CallSignature signature_of(const Call& call) {
  const bool has_root = rooted(call.collective) || is_point_to_point(call);
  return {call.collective, call.type, reduces(call.collective) ? call.op : ReduceOp::kSum,
          has_root ? call.root : 0, call.count};
}

std::size_t block_bytes(const Call& call) { return call.count * size_of(call.type); }

bool is_in_place(const Call& call, Rank rank) {
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* recv = static_cast<const std::byte*>(call.recv);
  if (send == nullptr || recv == nullptr) return false;
  switch (call.collective) {
    case Collective::kAllReduce:
      return send == recv;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return rank == call.root && send == recv;
    case Collective::kAllGather:
      return send == recv + rank * block_bytes(call);
    case Collective::kReduceScatter:
      return recv == send + rank * block_bytes(call);
    case Collective::kGather:
      return rank == call.root && send == recv + rank * block_bytes(call);
    case Collective::kScatter:
      return rank == call.root && recv == send + rank * block_bytes(call);
    case Collective::kAllToAll:
      return send == recv;
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return false;
}

BufferBytes buffer_bytes(const Call& call, Rank rank, std::int32_t size) {
  const std::size_t block = block_bytes(call);
  if (call.collective == Collective::kSend) return {block, 0};
  if (call.collective == Collective::kRecv) return {0, block};
  const ir::Request request{call.collective, size, rooted(call.collective) ? call.root : 0, false};
  const ir::BlockCounts blocks = ir::block_counts(request, rank);
  return {static_cast<std::size_t>(blocks.input) * block,
          static_cast<std::size_t>(blocks.output) * block};
}

BufferNames buffer_names(const Call& call) {
  if (std::string_view(call.site.function) == "ncclBcast") return {"buff", "buff"};
  return {"sendbuff", "recvbuff"};
}

std::string describe(const CallSite& site) {
  // The return address is one past the call, which may be the next line's.
  return describe_code_address(static_cast<const char*>(site.caller) - 1);
}

std::string describe(const Call& call) {
  const BufferNames names = buffer_names(call);
  const bool sends = call.collective != Collective::kRecv && names.send != names.recv;
  std::string text = fmt::format("{}(", call.site.function);
  if (sends) text += fmt::format("{}={}, ", names.send, call.send);
  if (call.collective != Collective::kSend) text += fmt::format("{}={}, ", names.recv, call.recv);
  text += fmt::format("count={}, {}", call.count, name_of(call.type));
  if (reduces(call.collective)) text += fmt::format(", {}", name_of(call.op));
  if (rooted(call.collective)) text += fmt::format(", root={}", call.root);
  if (is_point_to_point(call)) text += fmt::format(", peer={}", call.root);
  return fmt::format("{}) at {}", text, describe(call.site));
}

}  // namespace tutti
