#include "src/capi/call.hpp"

#include <cstring>

#include "src/base/result.hpp"

namespace tutti::capi {
namespace {

bool is_message(Collective collective) {
  return collective == Collective::kSend || collective == Collective::kRecv;
}

Status check_root(const Comm& comm, const RawCall& raw) {
  if (!rooted(raw.collective) && !is_message(raw.collective)) return ok_status();
  if (raw.root >= 0 && raw.root < comm.size) return ok_status();
  return make_error(Code::kInvalidArgument, "{} {} is not a rank of this communicator (0..{})",
                    is_message(raw.collective) ? "peer" : "root", raw.root, comm.size - 1);
}

Status check_type(const RawCall& raw) {
  if (raw.type >= 0 && raw.type < kDataTypes) return ok_status();
  return make_error(Code::kInvalidArgument, "datatype {} is not one of NCCL's (0..{})", raw.type,
                    kDataTypes - 1);
}

/// Fills call.op and call.scalar.
Status resolve_op(const Comm& comm, const RawCall& raw, Call& call) {
  if (raw.op >= 0 && raw.op < ncclNumOps) {
    call.op = static_cast<ReduceOp>(raw.op);
    return ok_status();
  }
  TUTTI_ASSIGN(const ScaledSum scaled, comm.operators.find(raw.op));
  if (scaled.type != call.type) {
    return make_error(Code::kInvalidArgument, "op {} scales {}, but the call reduces {}", raw.op,
                      name_of(scaled.type), name_of(call.type));
  }
  call.op = ReduceOp::kPreMulSum;
  const void* scalar = scaled.device_scalar != nullptr ? scaled.device_scalar : scaled.scalar;
  std::memcpy(call.scalar, scalar, size_of(scaled.type));
  return ok_status();
}

/// The larger buffer of any collective is `size` blocks of count elements.
Status check_size(const Comm& comm, const RawCall& raw) {
  const std::size_t block =
      size_of(static_cast<DataType>(raw.type)) * static_cast<std::size_t>(comm.size);
  std::ptrdiff_t bytes = 0;
  if (!__builtin_mul_overflow(raw.count, block, &bytes)) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "count {} of {} over {} ranks exceeds the address space (at most {})",
                    raw.count, name_of(static_cast<DataType>(raw.type)), comm.size,
                    static_cast<std::size_t>(PTRDIFF_MAX) / block);
}

bool uses_send(const Comm& comm, const RawCall& raw) {
  switch (raw.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return comm.rank == raw.root;
    case Collective::kRecv:
      return false;
    default:
      return true;
  }
}

bool uses_recv(const Comm& comm, const RawCall& raw) {
  switch (raw.collective) {
    case Collective::kReduce:
    case Collective::kGather:
      return comm.rank == raw.root;
    case Collective::kSend:
      return false;
    default:
      return true;
  }
}

Status check_pointers(const Comm& comm, const RawCall& raw) {
  if (raw.count == 0) return ok_status();
  if (uses_send(comm, raw) && raw.send == nullptr) {
    return make_error(Code::kInvalidArgument, "sendbuff is NULL, with {} elements to send",
                      raw.count);
  }
  if (uses_recv(comm, raw) && raw.recv == nullptr) {
    return make_error(Code::kInvalidArgument, "recvbuff is NULL, with {} elements to receive",
                      raw.count);
  }
  return ok_status();
}

}  // namespace

Status check_call(const Comm& comm, const RawCall& raw, Call& call) {
  TUTTI_TRY(check_root(comm, raw));
  TUTTI_TRY(check_type(raw));
  call.collective = raw.collective;
  call.send = raw.send;
  call.recv = raw.recv;
  call.count = raw.count;
  call.type = static_cast<DataType>(raw.type);
  call.root = raw.root;
  if (reduces(raw.collective)) TUTTI_TRY(resolve_op(comm, raw, call));
  TUTTI_TRY(check_size(comm, raw));
  return check_pointers(comm, raw);
}

}  // namespace tutti::capi
