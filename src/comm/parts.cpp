#include "src/comm/parts.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/ir/request.hpp"

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 128;  // of buffers in a slot: lines of peers never meet

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Blocks of the largest input and output of any rank.
ir::BlockCounts most_blocks(const Call& call, std::int32_t size) {
  const Rank root = rooted(call.collective) ? call.root : 0;
  const Rank other = root == 0 && size > 1 ? 1 : 0;
  const ir::Request request{call.collective, size, root, false};
  const ir::BlockCounts of_root = ir::block_counts(request, root);
  const ir::BlockCounts of_others = ir::block_counts(request, other);
  return {std::max(of_root.input, of_others.input), std::max(of_root.output, of_others.output)};
}

/// What all ranks know of the parts of a call.
struct PartSize {
  std::size_t elements = 0;  ///< of each block
  std::size_t bytes = 0;     ///< of the slot, at most, on any rank
};

std::size_t longest_block(const Call& call) {
  return call.blocks ? std::ranges::max(call.blocks->counts) : call.count;
}

PartSize size_of_parts(const Call& call, std::int32_t size, std::size_t slot_bytes) {
  constexpr std::size_t kGaps = 3 * kAlignment;  // behind the input, the scalar and the output
  const std::size_t longest = longest_block(call);
  const ir::BlockCounts most = most_blocks(call, size);
  const std::size_t all_blocks =
      static_cast<std::size_t>(most.input + most.output) * size_of(call.type);
  const std::size_t fit = (slot_bytes > kGaps ? slot_bytes - kGaps : 0) / all_blocks;
  const std::size_t line = kAlignment / size_of(call.type);
  const std::size_t cut = std::max<std::size_t>(fit > line ? fit / line * line : fit, 1);
  const std::size_t elements = fit >= longest ? longest : cut;
  return {elements, elements * all_blocks + kGaps};
}

/// Where a buffer's blocks lie, in elements: in the caller's memory, and in a part's.
struct BufferBlocks {
  std::vector<std::size_t> counts, starts;
};

BufferBlocks blocks_of(const Call& call, Rank rank, std::int32_t size, ir::Space space) {
  BufferBlocks blocks;
  if (call.blocks) {
    if (!ir::is_own_block(call.collective, space))
      return {call.blocks->counts, call.blocks->starts};
    return {{call.blocks->counts[static_cast<std::size_t>(rank)]}, {0}};
  }
  const ir::Request request{call.collective, size, rooted(call.collective) ? call.root : 0, false};
  const ir::BlockCounts both = ir::block_counts(request, rank);
  const auto many = static_cast<std::size_t>(space == ir::Space::kInput ? both.input : both.output);
  blocks.counts.assign(many, call.count);
  for (std::size_t block = 0; block < many; ++block) blocks.starts.push_back(block * call.count);
  return blocks;
}

/// Elements `from`.. of a block that belong to a part of `elements`.
std::size_t elements_in(std::size_t count, std::size_t from, std::size_t elements) {
  return count > from ? std::min(count - from, elements) : 0;
}

/// Merges ranges that follow each other on both sides.
void add(std::vector<CopyRange>& ranges, const CopyRange& next) {
  if (next.bytes == 0) return;
  if (!ranges.empty()) {
    CopyRange& last = ranges.back();
    if (last.buffer + last.bytes == next.buffer &&
        last.slot_offset + last.bytes == next.slot_offset) {
      last.bytes += next.bytes;
      return;
    }
  }
  ranges.push_back(next);
}

/// Lays the elements `from`.. of all blocks of a buffer at `slot_offset`; returns their bytes.
std::size_t lay_out(const BufferBlocks& blocks, std::byte* buffer, std::size_t element,
                    std::size_t from, std::size_t elements, std::size_t slot_offset,
                    std::vector<CopyRange>& ranges) {
  std::size_t bytes = 0;
  for (std::size_t block = 0; block < blocks.counts.size(); ++block) {
    const std::size_t here = elements_in(blocks.counts[block], from, elements) * element;
    if (here == 0) continue;
    add(ranges, {buffer + (blocks.starts[block] + from) * element, slot_offset + bytes, here});
    bytes += here;
  }
  return bytes;
}

std::byte* writable(const void* buffer) {
  return static_cast<std::byte*>(const_cast<void*>(buffer));
}

/// One part, and what passes for it, from `slot_offset` on.
struct LaidOut {
  Part part;
  std::vector<CopyRange> in, out;
  std::vector<DeviceCopy> moves;
  std::size_t end = 0;  ///< of its memory in the slot
};

/// The same elements of all blocks.
BufferBlocks part_of(const BufferBlocks& blocks, std::size_t from, std::size_t elements) {
  BufferBlocks part = blocks;
  for (std::size_t& count : part.counts) count = elements_in(count, from, elements);
  return part;
}

BufferBlocks packed(BufferBlocks blocks) {
  std::exclusive_scan(blocks.counts.begin(), blocks.counts.end(), blocks.starts.begin(),
                      std::size_t{0});
  return blocks;
}

/// In place, where the call receives: there or in the slot.
LaidOut lay_out_put(const Call& call, Rank rank, std::int32_t size, std::size_t from,
                    std::size_t elements, std::size_t slot_offset, bool stays) {
  const std::size_t element = size_of(call.type);
  const bool gathers = call.collective == Collective::kAllGather;
  const std::size_t own = gathers ? static_cast<std::size_t>(rank) : 0;
  const BufferBlocks there =
      part_of(blocks_of(call, rank, size, ir::Space::kOutput), from, elements);
  const BufferBlocks here = stays ? there : packed(there);
  LaidOut laid;
  laid.end = slot_offset;
  Part& part = laid.part;
  part.call = call;
  part.call.device_memory = stays;
  part.call.send = part.call.recv = nullptr;
  if (gathers && (call.blocks || elements < call.count)) {
    const auto blocks = std::make_shared<const ir::Blocks>(ir::Blocks{here.counts, here.starts});
    part.call.blocks = blocks;
    part.call.count = blocks->total();
  } else {  // as a whole it is packed
    part.call.count = here.counts.front();
  }
  const std::size_t input = gathers || rank == call.root ? here.counts[own] * element : 0;
  const std::byte* const source = writable(call.send) + from * element;
  part.sends = input > 0;
  if (stays) {
    std::byte* const base = writable(call.recv) + from * element;
    std::byte* const place = base + here.starts[own] * element;
    part.call.recv = base;
    part.call.send = part.sends ? place : nullptr;
    if (part.sends && place != source) laid.moves.push_back({place, source, input});
    part.receives = part.call.count > 0;
    return laid;
  }
  part.recv_offset = slot_offset;
  part.send_offset = slot_offset + here.starts[own] * element;
  if (part.sends) add(laid.in, {writable(source), part.send_offset, input});
  const std::size_t received =
      lay_out(blocks_of(call, rank, size, ir::Space::kOutput), writable(call.recv), element, from,
              elements, slot_offset, laid.out);
  part.receives = received > 0;
  laid.end = aligned(slot_offset + received);
  return laid;
}

LaidOut lay_out_part(const Call& call, Rank rank, std::int32_t size, std::size_t from,
                     std::size_t elements, std::size_t slot_offset) {
  const std::size_t element = size_of(call.type);
  LaidOut laid;
  Part& part = laid.part;
  part.call = call;
  part.call.send = nullptr;
  part.call.recv = nullptr;
  if (call.blocks) {
    auto counts = call.blocks->counts;
    for (std::size_t& count : counts) count = elements_in(count, from, elements);
    std::vector<std::size_t> starts(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::size_t{0});
    const auto packed = std::make_shared<const ir::Blocks>(ir::Blocks{counts, starts});
    part.call.count = packed->total();
    part.call.blocks = packed;
  } else {
    part.call.count = elements_in(call.count, from, elements);
  }
  part.send_offset = slot_offset;
  const BufferBlocks input = blocks_of(call, rank, size, ir::Space::kInput);
  const std::size_t sent =
      lay_out(input, writable(call.send), element, from, elements, part.send_offset, laid.in);
  part.scalar_offset = aligned(part.send_offset + sent);
  if (call.device_scalar != nullptr)
    laid.in.push_back({writable(call.device_scalar), part.scalar_offset, element});
  part.recv_offset =
      call.device_scalar == nullptr ? part.scalar_offset : aligned(part.scalar_offset + element);
  const BufferBlocks output = blocks_of(call, rank, size, ir::Space::kOutput);
  const std::size_t received =
      lay_out(output, writable(call.recv), element, from, elements, part.recv_offset, laid.out);
  part.sends = sent > 0;
  part.receives = received > 0;
  laid.end = aligned(part.recv_offset + received);
  return laid;
}

LaidOut lay_out_message(const Call& call, std::size_t slot_offset, bool stays) {
  const bool sends = call.collective == Collective::kSend;
  LaidOut laid;
  laid.part = {call, slot_offset, slot_offset, sends, !sends, 0};
  laid.end = slot_offset;
  laid.part.call.device_memory = stays;
  if (stays) return laid;
  laid.part.call.send = nullptr;
  laid.part.call.recv = nullptr;
  const std::size_t bytes = block_bytes(call);
  add(sends ? laid.in : laid.out,
      {sends ? writable(call.send) : writable(call.recv), slot_offset, bytes});
  laid.end = aligned(slot_offset + bytes);
  return laid;
}

void put(LaidOut laid, StagingStep& step) {
  step.parts.push_back(std::move(laid.part));
  for (const CopyRange& range : laid.in) step.in.push_back(range);
  for (const CopyRange& range : laid.out) step.out.push_back(range);
  for (const DeviceCopy& move : laid.moves) step.moves.push_back(move);
  step.bytes = laid.end;
}

}  // namespace

std::vector<StagingStep> cut(std::span<const Call> calls, Rank rank, std::int32_t size,
                             std::size_t slot_bytes, const Stays& stays) {
  std::vector<StagingStep> steps;
  std::size_t room = 0;  // in the last step, on the rank that needs most
  StagingStep messages;
  for (const Call& call : calls) {
    const bool stays_here = call.for_devices && stays && stays(call);
    if (is_point_to_point(call)) {
      put(lay_out_message(call, messages.bytes, stays_here), messages);
      continue;
    }
    const PartSize part = size_of_parts(call, size, slot_bytes);
    const std::size_t longest = longest_block(call);
    std::size_t from = 0;
    do {
      if (steps.empty() || room < part.bytes) {
        steps.emplace_back();
        room = std::max(slot_bytes, part.bytes);
      }
      room -= part.bytes;
      const std::size_t at = steps.back().bytes;
      put(call.for_devices ? lay_out_put(call, rank, size, from, part.elements, at, stays_here)
                           : lay_out_part(call, rank, size, from, part.elements, at),
          steps.back());
      from += part.elements;
    } while (from < longest);
  }
  if (!messages.parts.empty()) steps.push_back(std::move(messages));
  return steps;
}

}  // namespace tutti
