#include "src/comm/call.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/base/code_address.hpp"
#include "src/base/hash.hpp"
#include "src/comm/compressor.hpp"
#include "src/ir/request.hpp"

namespace tutti {

namespace {

/// Not 0. Rotates, so that high bits of a count reach low bits of the hash.
std::uint32_t hash_of(std::span<const std::size_t> counts) {
  std::uint64_t hash = kFnvStart;
  for (const std::size_t count : counts) hash = std::rotl(fnv_step(hash, count), 29);
  return static_cast<std::uint32_t>(hash ^ hash >> 32) | 1;
}

/// Bytes from the start of the buffer of all blocks to the one of `rank`.
std::size_t begin_of_block(const Call& call, Rank rank) {
  const auto block = static_cast<std::size_t>(rank);
  if (call.blocks) return call.blocks->starts[block] * size_of(call.type);
  return block * block_bytes(call);
}

}  // namespace

CallSignature signature_of(const Call& call) {
  const bool has_root = rooted(call.collective) || is_point_to_point(call);
  return {call.collective,
          call.type,
          reduces(call.collective) ? call.op : ReduceOp::kSum,
          has_root ? call.root : 0,
          call.count,
          call.blocks ? hash_of(call.blocks->counts) : 0,
          call.compressor != nullptr ? call.compressor->code() : 0};
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
      return send == recv + begin_of_block(call, rank);
    case Collective::kReduceScatter:
      return recv == send + begin_of_block(call, rank);
    case Collective::kGather:
      return rank == call.root && send == recv + begin_of_block(call, rank);
    case Collective::kScatter:
      return rank == call.root && recv == send + begin_of_block(call, rank);
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
  if (call.blocks) {
    const std::size_t own =
        call.blocks->counts[static_cast<std::size_t>(rank)] * size_of(call.type);
    return call.collective == Collective::kAllGather ? BufferBytes{own, block}
                                                     : BufferBytes{block, own};
  }
  const ir::Request request{call.collective, size, rooted(call.collective) ? call.root : 0, false};
  const ir::BlockCounts blocks = ir::block_counts(request, rank);
  return {static_cast<std::size_t>(blocks.input) * block,
          static_cast<std::size_t>(blocks.output) * block};
}

namespace {

/// `whole`: of the buffer without gaps.
std::vector<Stretch> stretches_of(const Call& call, std::size_t whole, ir::Space space) {
  std::vector<Stretch> stretches;
  const auto add = [&](std::size_t begin, std::size_t bytes) {
    if (bytes > 0) stretches.push_back({begin, bytes});
  };
  if (!call.blocks || ir::is_own_block(call.collective, space)) {
    add(0, whole);
    return stretches;
  }
  const std::size_t element = size_of(call.type);
  for (std::size_t block = 0; block < call.blocks->counts.size(); ++block)
    add(call.blocks->starts[block] * element, call.blocks->counts[block] * element);
  return stretches;
}

}  // namespace

std::vector<Stretch> input_stretches(const Call& call, Rank rank, std::int32_t size) {
  return stretches_of(call, buffer_bytes(call, rank, size).send, ir::Space::kInput);
}

std::vector<Stretch> output_stretches(const Call& call, Rank rank, std::int32_t size) {
  return stretches_of(call, buffer_bytes(call, rank, size).recv, ir::Space::kOutput);
}

BufferNames buffer_names(const Call& call) {
  if (std::string_view(call.site.function) == "ncclBcast") return {"buff", "buff"};
  return {"sendbuff", "recvbuff"};
}

std::string describe(const CallSite& site) {
  // The return address is one past the call, which may be the next line's.
  return describe_code_address(static_cast<const char*>(site.caller) - 1);
}

std::string describe_counts(const ir::Blocks& blocks) {
  constexpr std::size_t kMostShown = 64;
  const std::span<const std::size_t> counts(blocks.counts);
  const auto shown = counts.first(std::min(counts.size(), kMostShown));
  return fmt::format("counts={}{}", fmt::join(shown, ","),
                     shown.size() < counts.size() ? ",..." : "");
}

std::string describe(const Call& call) {
  const BufferNames names = buffer_names(call);
  const bool sends = call.collective != Collective::kRecv && names.send != names.recv;
  std::string text = fmt::format("{}(", call.site.function);
  if (sends) text += fmt::format("{}={}, ", names.send, call.send);
  if (call.collective != Collective::kSend) text += fmt::format("{}={}, ", names.recv, call.recv);
  text += call.blocks ? describe_counts(*call.blocks) : fmt::format("count={}", call.count);
  text += fmt::format(", {}", name_of(call.type));
  if (reduces(call.collective)) text += fmt::format(", {}", name_of(call.op));
  if (rooted(call.collective)) text += fmt::format(", root={}", call.root);
  if (is_point_to_point(call)) text += fmt::format(", peer={}", call.root);
  return fmt::format("{}) at {}", text, describe(call.site));
}

}  // namespace tutti
