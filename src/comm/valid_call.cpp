#include "src/comm/valid_call.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"
#include "src/exec/converter.hpp"

namespace tutti {
namespace {

/// Sums of places and sizes of so many elements cannot overflow.
constexpr std::size_t kMostElements = std::size_t{1} << 60;

bool uses_send(const Call& call, Rank rank) {
  switch (call.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return rank == call.root;
    case Collective::kRecv:
      return false;
    default:
      return true;
  }
}

bool uses_recv(const Call& call, Rank rank) {
  switch (call.collective) {
    case Collective::kReduce:
    case Collective::kGather:
      return rank == call.root;
    case Collective::kSend:
      return false;
    default:
      return true;
  }
}

Status check_blocks(const Call& call, std::int32_t size) {
  const ir::Blocks& blocks = *call.blocks;
  const auto ranks = static_cast<std::size_t>(size);
  if (!ir::may_be_uneven(call.collective))
    return make_error(Code::kInvalidArgument, "{}: blocks have one size", name_of(call.collective));
  if (blocks.counts.size() != ranks || blocks.starts.size() != ranks)
    return make_error(Code::kInvalidArgument, "{}: {} counts and {} displacements for {} ranks",
                      name_of(call.collective), blocks.counts.size(), blocks.starts.size(), ranks);
  if (blocks.total() != call.count)
    return make_error(Code::kInvalidArgument, "{}: counts of {} elements in all, and count {}",
                      name_of(call.collective), blocks.total(), call.count);
  return ok_status();
}

}  // namespace

Status check_root(Collective collective, Rank root, std::int32_t size) {
  const bool is_message = collective == Collective::kSend || collective == Collective::kRecv;
  if (!rooted(collective) && !is_message) return ok_status();
  if (root >= 0 && root < size) return ok_status();
  return make_error(Code::kInvalidArgument, "{} {} is not a rank of this communicator (0..{})",
                    is_message ? "peer" : "root", root, size - 1);
}

Status check_type(int type) {
  if (type >= 0 && type < kDataTypes) return ok_status();
  return make_error(Code::kInvalidArgument, "datatype {} is not one of NCCL's (0..{})", type,
                    kDataTypes - 1);
}

Status check_size(const Call& call, std::int32_t size) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t block = size_of(call.type) * ranks;
  std::ptrdiff_t bytes = 0;
  if (!__builtin_mul_overflow(call.count, block, &bytes) && call.count * ranks <= kMostElements)
    return ok_status();
  const std::size_t most =
      std::min(static_cast<std::size_t>(PTRDIFF_MAX) / block, kMostElements / ranks);
  return make_error(Code::kInvalidArgument,
                    "count {} of {} over {} ranks exceeds the address space (at most {})",
                    call.count, name_of(call.type), size, most);
}

Status check_blocks_pointer(const char* name, const void* buffer, std::size_t elements) {
  if (buffer != nullptr || elements == 0) return ok_status();
  return make_error(Code::kInvalidArgument, "{} is NULL, with {} elements in its blocks", name,
                    elements);
}

Status check_pointers(const Call& call, Rank rank) {
  if (call.count == 0) return ok_status();
  if (call.blocks) {
    const std::size_t own = call.blocks->counts[static_cast<std::size_t>(rank)];
    const bool gathers = call.collective == Collective::kAllGather;
    TUTTI_TRY(check_blocks_pointer("sendbuff", call.send, gathers ? own : call.count));
    return check_blocks_pointer("recvbuff", call.recv, gathers ? call.count : own);
  }
  if (call.send == nullptr && uses_send(call, rank))
    return make_error(Code::kInvalidArgument, "sendbuff is NULL, with {} elements to send",
                      call.count);
  if (call.recv == nullptr && uses_recv(call, rank))
    return make_error(Code::kInvalidArgument, "recvbuff is NULL, with {} elements to receive",
                      call.count);
  return ok_status();
}

Status check_call(const Call& call, Rank rank, std::int32_t size) {
  TUTTI_TRY(check_root(call.collective, call.root, size));
  TUTTI_TRY(check_type(static_cast<int>(call.type)));
  TUTTI_TRY(check_size(call, size));
  if (call.blocks) TUTTI_TRY(check_blocks(call, size));
  if (call.compressor != nullptr) TUTTI_TRY(check_compression(call, size));
  return check_pointers(call, rank);
}

Status check_compression(const Call& call, std::int32_t size) {
  if (is_point_to_point(call) && call.compressor->compression().feedback)
    return make_error(Code::kInvalidArgument,
                      "an all_to_all with blocks of different sizes keeps no errors: use a "
                      "compression without errors=feedback");
  if (!exec::is_convertible(call.type))
    return make_error(Code::kInvalidArgument,
                      "{} data cannot be compressed: float, half and bfloat16 can",
                      name_of(call.type));
  if (!is_point_to_point(call) && !is_compressible(call))
    return make_error(Code::kInvalidArgument,
                      "a compressed {} cannot be a {}: sums and averages can",
                      name_of(call.collective), name_of(call.op));
  if (!(call.factor - call.factor == 0))
    return make_error(Code::kInvalidArgument,
                      "a compressed {} scales its input by {}: a finite number was expected",
                      name_of(call.collective), call.factor);
  const float least = call.type == DataType::kFloat16 ? 0x1p-14F : 0x1p-126F;
  const float most = call.type == DataType::kFloat16 ? 65504.0F : 0x1.fep127F;
  const float parts = call.op == ReduceOp::kAvg ? static_cast<float>(size) : 1;
  const float magnitude = std::abs(call.factor) / parts;
  if (call.factor != 0 && (magnitude < least || magnitude > most))
    return make_error(
        Code::kInvalidArgument,
        "a compressed {} of {} scales its input by {}: a factor from {:g} to {:g} was "
        "expected",
        name_of(call.collective), name_of(call.type), call.factor, least * parts, most * parts);
  return ok_status();
}

Status check_group(std::span<const Call> calls, Rank rank) {
  std::vector<const Call*> sends, receives;
  for (const Call& call : calls)
    if (is_point_to_point(call) && call.root == rank)
      (call.collective == Collective::kSend ? sends : receives).push_back(&call);
  if (sends.size() != receives.size())
    return make_error(Code::kInvalidUsage,
                      "rank {} posts {} sends to itself and {} receives from itself in one group: "
                      "post the missing ones in the same group, since nobody else can",
                      rank, sends.size(), receives.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const CallSignature send = signature_of(*sends[i]), recv = signature_of(*receives[i]);
    if (send.type != recv.type || send.count != recv.count || send.compression != recv.compression)
      return make_error(Code::kInvalidUsage,
                        "rank {} to itself: {} meets {}: both must name the same type, count and "
                        "compression",
                        rank, describe(send), describe(recv));
  }
  return ok_status();
}

}  // namespace tutti
