#include "tests/device/sequential.hpp"

#include <algorithm>
#include <cstring>

#include "src/reduce/reference.hpp"

namespace tutti::device::testing {
namespace {

using lower::Operand;
using lower::ProgramMemory;

class Sequential {
 public:
  Sequential(const Call& call, std::vector<RankMemory>& ranks)
      : call_(call), lowered_(*call.lowered), ranks_(ranks), element_(size_of(call.volume.type)) {
    for (Rank rank = 0; rank < lowered_.request.ranks; ++rank) {
      places_.emplace_back(lowered_, call.volume, rank);
      const lower::Program& program = lowered_.programs[rank];
      const std::size_t piece = places_.back().longest() * element_;
      slots_.emplace_back(program.slot_pieces, std::vector<std::byte>(piece));
      scratch_.emplace_back(program.scratch_pieces, std::vector<std::byte>(piece));
      published_.push_back(lowered_.protocol == lower::ProgramProtocol::kPublished
                               ? published_input(rank)
                               : std::vector<std::byte>());
    }
    done_.assign(lowered_.programs.size(), 0);
  }

  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < lowered_.request.ranks; ++rank)
        for (; done_[rank] < ops(rank).size() && may_run(ops(rank)[done_[rank]]); moved = true) {
          run_op(rank, ops(rank)[done_[rank]]);
          ++done_[rank];
        }
    }
    for (Rank rank = 0; rank < lowered_.request.ranks; ++rank)
      if (done_[rank] < ops(rank).size()) return false;
    return true;
  }

 private:
  [[nodiscard]] const std::vector<lower::Op>& ops(Rank rank) const {
    return lowered_.programs[rank].ops;
  }

  /// There is one slice: waits for earlier ones are for nothing.
  [[nodiscard]] bool may_run(const lower::Op& op) const {
    return std::ranges::all_of(op.waits, [&](const lower::Wait& wait) {
      return wait.slice_delta < 0 || done_[wait.rank] > wait.op;
    });
  }

  /// A copy of it, scaled, without gaps.
  std::vector<std::byte> published_input(Rank rank) {
    const std::size_t count = exec::buffer_elements(lowered_.request, call_.volume, rank).input;
    std::vector<std::byte> copy(count * element_);
    const std::byte* const from = ranks_[rank].bytes.data() + ranks_[rank].input;
    const Destination to{copy.data()};
    reduce_reference(reduction(rank, false), {&from, 1}, 1, {&to, 1}, count);
    return copy;
  }

  [[nodiscard]] Reduction reduction(Rank rank, bool completes) const {
    Reduction made;
    made.type = call_.volume.type;
    made.op = call_.op;
    if (completes && call_.op == ReduceOp::kAvg) made.divisor = lowered_.request.ranks;
    std::memcpy(made.scalar, &call_.factor_bits[rank], sizeof made.scalar);
    return made;
  }

  void run_op(Rank rank, const lower::Op& op) {
    const bool copies = op.sources.size() == 1;
    std::uint64_t scaled = 0;
    for (std::size_t s = 0; s < op.sources.size(); ++s)
      if (op.sources[s].memory == ProgramMemory::kInput) scaled |= std::uint64_t{1} << s;
    for (std::size_t piece = 0; piece < op.like.size(); ++piece) {
      std::vector<const std::byte*> sources;
      std::vector<Destination> destinations;
      for (const Operand& source : op.sources) sources.push_back(locate(rank, source, piece));
      for (const Operand& to : op.destinations) destinations.push_back({locate(rank, to, piece)});
      reduce_reference(reduction(rank, op.completes && !copies), sources, scaled, destinations,
                       places_[rank].size(op.like[piece]));
    }
  }

  std::byte* locate(Rank rank, const Operand& operand, std::size_t piece) {
    const std::uint32_t chunk = operand.pieces[piece];
    RankMemory& own = ranks_[rank];
    const auto packed = [&](ir::Space space) {
      return places_[rank].in_packed(space, operand.owner, chunk) * element_;
    };
    switch (operand.memory) {
      case ProgramMemory::kInput:
        return own.bytes.data() + own.input + places_[rank].in_input(chunk) * element_;
      case ProgramMemory::kOutput:
        return own.bytes.data() + own.output + places_[rank].in_output(chunk) * element_;
      case ProgramMemory::kScratch:
        return scratch_[rank][chunk].data();
      case ProgramMemory::kSlot: {
        const lower::Slot& slot = lowered_.programs[operand.owner].slots[operand.index];
        return slots_[operand.owner][slot.first_piece + chunk].data();
      }
      case ProgramMemory::kPublished:
        if (lowered_.protocol == lower::ProgramProtocol::kPublished)
          return published_[operand.owner].data() + packed(ir::Space::kInput);
        return ranks_[operand.owner].bytes.data() + ranks_[operand.owner].input +
               packed(ir::Space::kInput);
      case ProgramMemory::kPeerOutput:
        return ranks_[operand.owner].bytes.data() + ranks_[operand.owner].output +
               packed(ir::Space::kOutput);
    }
    return nullptr;
  }

  const Call& call_;
  const lower::Lowered& lowered_;
  std::vector<RankMemory>& ranks_;
  std::size_t element_;
  std::vector<exec::ChunkPlaces> places_;                   // per rank
  std::vector<std::vector<std::vector<std::byte>>> slots_;  // per rank and piece
  std::vector<std::vector<std::vector<std::byte>>> scratch_;
  std::vector<std::vector<std::byte>> published_;
  std::vector<std::size_t> done_;  // ops of each rank
};

}  // namespace

bool run_sequentially(const Call& call, std::vector<RankMemory>& ranks) {
  return Sequential(call, ranks).run();
}

}  // namespace tutti::device::testing
