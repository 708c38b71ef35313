#include "src/capi/call.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/result.hpp"
#include "src/comm/valid_call.hpp"

namespace tutti::capi {
namespace {

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
  if (comm.device && scaled.device_scalar != nullptr) {  // read when the call runs
    call.device_scalar = scaled.device_scalar;
    return ok_status();
  }
  const void* scalar = scaled.device_scalar != nullptr ? scaled.device_scalar : scaled.scalar;
  std::memcpy(call.scalar, scalar, size_of(scaled.type));
  return ok_status();
}

/// Of a buffer that is not null, as far as its end may be addressed.
Result<ir::Blocks> blocks_of(const Comm& comm, const RawBlocks& raw, DataType type) {
  const auto ranks = static_cast<std::size_t>(comm.size);
  if (raw.counts == nullptr)
    return make_error(Code::kInvalidArgument, "{} is NULL: it needs a count for each of {} ranks",
                      raw.name, ranks);
  ir::Blocks blocks{{raw.counts, raw.counts + ranks}, std::vector<std::size_t>(ranks)};
  std::size_t next = 0;
  for (std::size_t block = 0; block < ranks; ++block) {
    const std::size_t count = blocks.counts[block];
    const std::size_t start = raw.displacements != nullptr ? raw.displacements[block] : next;
    std::size_t end = 0;
    std::ptrdiff_t bytes = 0;
    const bool fits = !__builtin_add_overflow(next, count, &next) &&
                      !__builtin_add_overflow(start, count, &end) &&
                      !__builtin_mul_overflow(std::max(next, end), size_of(type), &bytes);
    if (!fits)
      return make_error(Code::kInvalidArgument,
                        "{}[{}] is {}, of {}, at displacement {}: that exceeds the address space",
                        raw.name, block, count, name_of(type), start);
    blocks.starts[block] = start;
  }
  return blocks;
}

/// A part of a buffer, in bytes.
struct Interval {
  std::uintptr_t begin = 0, end = 0;
  std::size_t block = 0;
  bool written = false;
};

void add_intervals(const ir::Blocks& blocks, const void* buffer, DataType type, bool written,
                   std::vector<Interval>& intervals) {
  const auto at = reinterpret_cast<std::uintptr_t>(buffer);
  const std::size_t element = size_of(type);
  for (std::size_t block = 0; block < blocks.counts.size(); ++block) {
    if (blocks.counts[block] == 0) continue;
    const std::uintptr_t begin = at + blocks.starts[block] * element;
    intervals.push_back({begin, begin + blocks.counts[block] * element, block, written});
  }
}

/// Nothing that is written overlaps anything else.
Status check_apart(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  const Interval* furthest = nullptr;
  const Interval* furthest_written = nullptr;
  for (const Interval& next : intervals) {
    const Interval* const before = next.written ? furthest : furthest_written;
    if (before != nullptr && before->end > next.begin)
      return make_error(Code::kInvalidArgument,
                        "block {} of {} overlaps block {} of {}: give each a place of its own",
                        before->block, before->written ? "recvbuff" : "sendbuff", next.block,
                        next.written ? "recvbuff" : "sendbuff");
    if (furthest == nullptr || next.end > furthest->end) furthest = &next;
    if (next.written && (furthest_written == nullptr || next.end > furthest_written->end))
      furthest_written = &next;
  }
  return ok_status();
}

}  // namespace

Status check_call(const Comm& comm, const RawCall& raw, Call& call) {
  TUTTI_TRY(check_root(raw.collective, raw.root, comm.size));
  TUTTI_TRY(check_type(raw.type));
  call.collective = raw.collective;
  call.send = raw.send;
  call.recv = raw.recv;
  call.count = raw.count;
  call.type = static_cast<DataType>(raw.type);
  call.root = raw.root;
  if (reduces(raw.collective)) TUTTI_TRY(resolve_op(comm, raw, call));
  TUTTI_TRY(check_size(call, comm.size));
  return check_pointers(call, comm.rank);
}

Status check_uneven_call(const Comm& comm, const RawCall& raw, const RawBlocks& raw_blocks,
                         Call& call) {
  TUTTI_TRY(check_type(raw.type));
  call.collective = raw.collective;
  call.send = raw.send;
  call.recv = raw.recv;
  call.type = static_cast<DataType>(raw.type);
  if (reduces(raw.collective)) TUTTI_TRY(resolve_op(comm, raw, call));
  TUTTI_ASSIGN(const ir::Blocks blocks, blocks_of(comm, raw_blocks, call.type));
  const std::size_t own = blocks.counts[static_cast<std::size_t>(comm.rank)];
  const bool gathers = raw.collective == Collective::kAllGather;
  if (raw.count != own)
    return make_error(Code::kInvalidArgument, "{} is {}, but {}[{}] says that rank {} has {}",
                      gathers ? "sendcount" : "recvcount", raw.count, raw_blocks.name, comm.rank,
                      comm.rank, own);
  call.count = blocks.total();
  call.blocks = std::make_shared<const ir::Blocks>(blocks);
  TUTTI_TRY(check_pointers(call, comm.rank));
  if (gathers && !blocks.packed()) {
    std::vector<Interval> received;
    add_intervals(blocks, raw.recv, call.type, true, received);
    TUTTI_TRY(check_apart(std::move(received)));
  }
  return ok_status();
}

Result<std::vector<Call>> check_all_to_all(const Comm& comm, const RawCall& raw,
                                           const RawBlocks& raw_sent,
                                           const RawBlocks& raw_received) {
  TUTTI_TRY(check_type(raw.type));
  const auto type = static_cast<DataType>(raw.type);
  TUTTI_ASSIGN(const ir::Blocks sent, blocks_of(comm, raw_sent, type));
  TUTTI_ASSIGN(const ir::Blocks received, blocks_of(comm, raw_received, type));
  TUTTI_TRY(check_blocks_pointer("sendbuff", raw.send, sent.total()));
  TUTTI_TRY(check_blocks_pointer("recvbuff", raw.recv, received.total()));
  std::vector<Interval> places;
  add_intervals(sent, raw.send, type, false, places);
  add_intervals(received, raw.recv, type, true, places);
  TUTTI_TRY(check_apart(std::move(places)));
  std::vector<Call> messages;
  for (Rank distance = 0; distance < comm.size; ++distance) {
    const Rank to = (comm.rank + distance) % comm.size;
    const Rank from = (comm.rank + comm.size - distance) % comm.size;
    const auto part = [&](auto* buffer, const ir::Blocks& blocks, Rank peer) {
      const std::size_t start = blocks.starts[static_cast<std::size_t>(peer)];
      return buffer == nullptr ? nullptr : buffer + start * size_of(type);
    };
    Call send, recv;
    send.collective = Collective::kSend;
    send.send = part(static_cast<const std::byte*>(raw.send), sent, to);
    send.count = sent.counts[static_cast<std::size_t>(to)];
    send.root = to;
    recv.collective = Collective::kRecv;
    recv.recv = part(static_cast<std::byte*>(raw.recv), received, from);
    recv.count = received.counts[static_cast<std::size_t>(from)];
    recv.root = from;
    for (Call* message : {&send, &recv}) {
      message->type = type;
      messages.push_back(std::move(*message));
    }
  }
  return messages;
}

}  // namespace tutti::capi
