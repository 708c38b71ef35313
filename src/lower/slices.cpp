#include "src/lower/slices.hpp"

#include <algorithm>

#include "src/ir/chunking.hpp"

namespace tutti::lower {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}
std::size_t round_down(std::size_t value, std::size_t unit) { return value / unit * unit; }

}  // namespace

std::uint8_t formats_that_travel(const Lowered& lowered) {
  std::uint8_t formats = 0;
  for (const Program& program : lowered.programs)
    for (const Op& op : program.ops)
      for (const auto* operands : {&op.sources, &op.destinations})
        for (const Operand& operand : *operands)
          if (is_transfer(op.kind) || operand.memory == ProgramMemory::kSlot)
            formats |= static_cast<std::uint8_t>(1U << operand.format);
  return formats;
}

namespace {

/// Whether the network does all of it from buffer to buffer. It has a pipeline of its own.
bool only_in_network(const Lowered& lowered) {
  const auto stays = [](const Program& program) {
    return program.slots.empty() && program.scratch_pieces == 0 &&
           std::ranges::none_of(program.ops, [](const Op& op) { return op.peer != kNoRank; });
  };
  return !lowered.groups.empty() && std::ranges::all_of(lowered.programs, stays);
}

}  // namespace

std::size_t slice_elements(const Lowered& lowered, std::size_t longest_chunk,
                           std::size_t element_bytes, std::size_t staging_bytes, SlotUnit unit) {
  if (unit.bytes == 0) unit.bytes = unit.elements * element_bytes;
  const std::size_t step = std::max(unit.elements, ir::Chunking::kUnitBytes / element_bytes);
  const std::size_t chunk = longest_chunk;
  const std::size_t whole_chunk = round_up(std::max<std::size_t>(chunk, 1), step);
  if (lowered.protocol != ProgramProtocol::kStaged || only_in_network(lowered)) return whole_chunk;
  // Bytes of a slice. Each costs a wait for the other side, unless one side runs ahead.
  const bool ahead = runs_ahead(lowered);
  const std::size_t worth_splitting = std::size_t{ahead ? 16U : 64U} * 1024;
  constexpr std::size_t kWireSlice = std::size_t{256} * 1024;  // on the wire
  constexpr std::size_t kPlainSlice = std::size_t{1} << 20;    // before it is encoded
  constexpr std::size_t kSlices = kSlicesAhead;
  const std::size_t pieces =
      std::max<std::size_t>(1, lowered.max_slot_pieces * std::size_t{lowered.slot_depth});
  // What does not fit as a whole keeps to half of the region, unless one side runs ahead: a
  // pipeline gains nothing by the rest, and the caches have to hold it.
  const std::size_t chunk_bytes = (chunk + unit.elements - 1) / unit.elements * unit.bytes;
  const std::size_t whole = pieces * round_up(chunk_bytes, kStrideUnit);
  const std::size_t share = ahead || whole <= staging_bytes ? staging_bytes : staging_bytes / 2;
  const std::size_t room = lowered.max_slot_pieces > 0
                               ? std::max(round_down(share / pieces, kStrideUnit), kStrideUnit)
                               : kWireSlice;
  const std::size_t fits = std::min(room / unit.bytes * unit.elements, kPlainSlice / element_bytes);
  const std::size_t part = round_up((chunk + kSlices - 1) / kSlices, step);
  const std::size_t wanted = std::max({part, worth_splitting / element_bytes, step});
  return std::min({whole_chunk, wanted, std::max(step, round_down(fits, step))});
}

}  // namespace tutti::lower
