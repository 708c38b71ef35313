#include "src/lower/well_formed.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/ir/blocks.hpp"

namespace tutti::lower {
namespace {

/// Far beyond what any schedule needs; keeps the memory of a replay bounded.
constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 25;
constexpr std::uint32_t kMostInstances = 4096;

template <class... Args>
Error malformed(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(Code::kInternal, "malformed lowered program: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}

template <class Enum>
bool beyond(Enum value, Enum last) {
  return static_cast<int>(value) > static_cast<int>(last);
}

/// The whole, before any rank is looked at.
Status check_frame(const Lowered& lowered, const Placement& placement) {
  const ir::Request& request = lowered.request;
  if (request.ranks < 1 || lowered.programs.size() != static_cast<std::size_t>(request.ranks) ||
      placement.host.size() != lowered.programs.size())
    return malformed("{} ranks have {} programs and {} hosts", request.ranks,
                     lowered.programs.size(), placement.host.size());
  if (beyond(request.collective, Collective::kScatter))
    return malformed("collective {} has no schedule", static_cast<int>(request.collective));
  if (request.root < 0 || request.root >= request.ranks)
    return malformed("root {} of {} ranks", request.root, request.ranks);
  if (lowered.chunks_per_block == 0 ||
      std::uint64_t{lowered.chunks_per_block} * static_cast<std::uint64_t>(request.ranks) >
          kMostChunks)
    return malformed("{} chunks per block", lowered.chunks_per_block);
  if (beyond(lowered.protocol, ProgramProtocol::kDirect))
    return malformed("protocol {}", static_cast<int>(lowered.protocol));
  if (lowered.formats.size() > ir::kMostFormats)
    return malformed("{} formats", lowered.formats.size());
  for (const ir::Group& group : lowered.groups)
    for (const Rank rank : group.ranks)
      if (rank < 0 || rank >= request.ranks) return malformed("rank {} in a group", rank);
  if (lowered.groups.size() > ir::kMostGroups) return malformed("{} groups", lowered.groups.size());
  if (one_round(lowered.protocol) && !placement.all_mapped())
    return malformed("ranks of several hosts read each other's inputs");
  if (lowered.slot_depth == 0 || lowered.slot_depth > kMostInstances)
    return malformed("slot depth {}", lowered.slot_depth);
  std::uint32_t most = 0;
  for (const Program& program : lowered.programs) most = std::max(most, program.slot_pieces);
  if (lowered.max_slot_pieces != most)
    return malformed("at most {} slot pieces announced, {} used", lowered.max_slot_pieces, most);
  return ok_status();
}

/// One rank's program.
class Form {
 public:
  Form(const Lowered& lowered, const Placement& placement, bool uneven_blocks, Rank rank)
      : lowered_(lowered),
        placement_(placement),
        uneven_blocks_(uneven_blocks),
        rank_(rank),
        program_(lowered.programs[rank]),
        chunks_(std::uint64_t{lowered.chunks_per_block} *
                static_cast<std::uint64_t>(ir::largest_block_count(lowered.request))) {}

  Status check() {
    TUTTI_TRY(check_memory());
    TUTTI_TRY(check_stages());
    std::uint32_t published = 0;
    for (op_ = 0; op_ < program_.ops.size(); ++op_) {
      const Op& op = program_.ops[op_];
      if (op.published && op.ordinal != published++)
        return wrong("ordinal {} of published op number {}", op.ordinal, published - 1);
      TUTTI_TRY(check_kind(op));
      TUTTI_TRY(check_operands(op));
      TUTTI_TRY(check_waits(op));
    }
    if (published != program_.published_ops)
      return malformed("rank {} publishes {} ops, not {}", rank_, published,
                       program_.published_ops);
    return ok_status();
  }

 private:
  [[nodiscard]] std::int32_t ranks() const { return lowered_.request.ranks; }
  [[nodiscard]] bool is_rank(Rank rank) const { return rank >= 0 && rank < ranks(); }
  template <class... Args>
  Error wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return malformed("rank {} op {}: {}", rank_, op_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  Status check_memory() const {
    std::uint64_t pieces_before = 0;
    for (const Slot& slot : program_.slots) {
      if (slot.first_piece != pieces_before)
        return malformed("rank {} has a slot at piece {} after {} pieces of slots", rank_,
                         slot.first_piece, pieces_before);
      pieces_before += slot.pieces;
    }
    if (pieces_before != program_.slot_pieces)
      return malformed("rank {} has slots of {} pieces in staging of {}", rank_, pieces_before,
                       program_.slot_pieces);
    if (program_.scratch_depth == 0 || program_.scratch_depth > kMostInstances)
      return malformed("rank {} has scratch depth {}", rank_, program_.scratch_depth);
    const std::uint64_t scratch = std::uint64_t{program_.scratch_pieces} * program_.scratch_depth;
    const std::uint64_t slots = std::uint64_t{program_.slot_pieces} * lowered_.slot_depth;
    if (scratch > kMostChunks || slots > kMostChunks)
      return malformed("rank {} has {} scratch and {} slot pieces", rank_, scratch, slots);
    if (one_round(lowered_.protocol) && program_.slot_pieces + program_.scratch_pieces > 0)
      return malformed("rank {} has slots or scratch, which its protocol has not", rank_);
    return ok_status();
  }

  /// A stage follows from another op's: there are never more of them than ops.
  Status check_stages() const {
    std::uint64_t ops = 0;
    for (const Program& program : lowered_.programs) ops += program.ops.size();
    std::uint32_t last = 0;
    for (const Op& op : program_.ops) last = std::max(last, op.stage);
    if (last != program_.last_stage || last > ops)
      return malformed("rank {} announces {} as its last stage, the last is {}", rank_,
                       program_.last_stage, last);
    return ok_status();
  }

  Status check_kind(const Op& op) const {
    if (beyond(op.kind, OpKind::kGroup)) return wrong("kind {}", static_cast<int>(op.kind));
    const bool sends = op.kind == OpKind::kSend;
    const bool transfers = sends || op.kind == OpKind::kRecv;
    if (one_round(lowered_.protocol) && op.kind != OpKind::kCombine)
      return wrong("only combines can read the inputs of peers");
    if (op.kind == OpKind::kGroup) return check_group(op);
    if (op.group != ir::kNoGroup || !op.like_received.empty()) return wrong("names a group");
    if (!transfers && op.peer != kNoRank) return wrong("names peer {} for nothing", op.peer);
    if (transfers && (!is_rank(op.peer) || placement_.mapped(rank_, op.peer)))
      return wrong("there is no connection to rank {}", op.peer);
    const std::size_t most_sources = op.kind == OpKind::kCombine ? kMaxSources : 1;
    const std::size_t least_sources = op.kind == OpKind::kRecv ? 0 : 1;
    if (op.sources.size() < least_sources ||
        op.sources.size() > std::max(least_sources, most_sources) ||
        (op.kind == OpKind::kRecv && !op.sources.empty()))
      return wrong("has {} sources", op.sources.size());
    const std::size_t most_destinations = transfers ? 1 : kMaxDestinations;
    if (sends ? !op.destinations.empty()
              : op.destinations.empty() || op.destinations.size() > most_destinations)
      return wrong("has {} destinations", op.destinations.size());
    return ok_status();
  }

  Status check_group(const Op& op) const {
    if (op.peer != kNoRank) return wrong("names peer {} for nothing", op.peer);
    if (op.group >= lowered_.groups.size() ||
        std::ranges::count(lowered_.groups[op.group].ranks, rank_) != 1)
      return wrong("is no member of group {}", op.group);
    if (beyond(op.form, ir::GroupForm::kFromAll))
      return wrong("form {} of an operation", static_cast<int>(op.form));
    const std::vector<Rank>& members = lowered_.groups[op.group].ranks;
    if (op.root >= members.size()) return wrong("root {} of a group", op.root);
    const bool is_root = members[op.root] == rank_;
    const bool sends = op.form != ir::GroupForm::kFromOne || is_root;
    const bool may_receive = op.form != ir::GroupForm::kSumToOne || is_root;
    if (sends == op.sources.empty() || (!may_receive && !op.destinations.empty()))
      return wrong("has {} sources and {} destinations, {} of place {}", op.sources.size(),
                   op.destinations.size(), name_of(op.form), op.root);
    if (op.sources.size() > 1 || op.destinations.size() > 1 ||
        op.sources.empty() != op.like.empty() ||
        op.destinations.empty() != op.like_received.empty())
      return wrong("has {} sources and {} destinations", op.sources.size(), op.destinations.size());
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands)
        if (operand.memory == ProgramMemory::kSlot)
          return wrong("gives the network a slot, which its owner may refill");
    const auto fits = [&](std::uint32_t first, std::size_t count) {
      return first <= op.positions && count <= op.positions - first;
    };
    if (!fits(op.first_sent, op.like.size()) || !fits(op.first_received, op.like_received.size()))
      return wrong("takes part beyond the {} positions of its operation", op.positions);
    return ok_status();
  }

  Status check_operands(const Op& op) const {
    if (op.like.empty() && op.kind != OpKind::kGroup) return wrong("has no pieces");
    for (const auto* likes : {&op.like, &op.like_received})
      for (const std::uint32_t chunk : *likes)
        if (chunk >= chunks_) return wrong("a piece has the length of chunk {}", chunk);
    for (const Operand& source : op.sources) {
      TUTTI_TRY(check_operand(op.like, source));
      if (source.memory == ProgramMemory::kPeerOutput)
        return wrong("reads {}", name_of(source.memory));
    }
    for (const Operand& destination : op.destinations) {
      TUTTI_TRY(check_operand(op.kind == OpKind::kGroup ? op.like_received : op.like, destination));
      TUTTI_TRY(check_destination(op, destination));
    }
    if (op.kind == OpKind::kSend && op.sources[0].memory == ProgramMemory::kSlot &&
        op.sources[0].owner != rank_)
      return wrong("sends from memory of rank {}, which may refill it", op.sources[0].owner);
    return check_formats(op);
  }

  /// Buffers of users have room for elements; encoded data may need more.
  Status check_formats(const Op& op) const {
    ir::FormatId written = ir::kPlain;
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands) {
        if (operand.format == ir::kPlain) continue;
        if (operand.format > lowered_.formats.size()) return wrong("format {}", operand.format);
        if (operand.memory != ProgramMemory::kScratch && operand.memory != ProgramMemory::kSlot)
          return wrong("keeps formatted data in {}", name_of(operand.memory));
      }
    for (const Operand& destination : op.destinations) {
      if (destination.format == ir::kPlain) continue;
      if (written != ir::kPlain && written != destination.format)
        return wrong("encodes in two formats");
      written = destination.format;
    }
    return ok_status();
  }

  Status check_destination(const Op& op, const Operand& destination) const {
    switch (destination.memory) {
      case ProgramMemory::kInput:
      case ProgramMemory::kPublished:
        return wrong("writes {}", name_of(destination.memory));
      case ProgramMemory::kOutput:
        return ok_status();
      case ProgramMemory::kSlot:
        if (destination.owner != rank_) return wrong("writes a slot of rank {}", destination.owner);
        if (op.kind == OpKind::kRecv) return wrong("receives into a slot");
        return ok_status();
      case ProgramMemory::kScratch:
      case ProgramMemory::kPeerOutput:
        return ok_status();
    }
    return ok_status();
  }

  Status check_operand(const std::vector<std::uint32_t>& like, const Operand& operand) const {
    if (beyond(operand.memory, ProgramMemory::kPeerOutput))
      return wrong("memory {}", static_cast<int>(operand.memory));
    if (operand.pieces.size() != like.size())
      return wrong("an operand has {} pieces, the op {}", operand.pieces.size(), like.size());
    TUTTI_ASSIGN(const std::uint64_t pieces, pieces_of(operand));
    const bool buffer =
        operand.memory != ProgramMemory::kSlot && operand.memory != ProgramMemory::kScratch;
    for (std::size_t i = 0; i < operand.pieces.size(); ++i) {
      if (operand.pieces[i] >= pieces)
        return wrong("piece {} of {}, which has {}", operand.pieces[i], name_of(operand.memory),
                     pieces);
      if (buffer &&
          !same_length(lowered_, uneven_blocks_, chunk_of_all(operand, operand.pieces[i]), like[i]))
        return wrong("chunk {} has not the length of chunk {}", operand.pieces[i], like[i]);
    }
    return ok_status();
  }
  /// Of a piece of a buffer.
  [[nodiscard]] std::uint32_t chunk_of_all(const Operand& operand, std::uint32_t piece) const {
    const bool is_input =
        operand.memory == ProgramMemory::kInput || operand.memory == ProgramMemory::kPublished;
    return ir::chunk_of_all(lowered_.request, lowered_.chunks_per_block,
                            is_peers_buffer(operand.memory) ? operand.owner : rank_,
                            is_input ? ir::Space::kInput : ir::Space::kOutput, piece);
  }

  /// How many pieces the memory of `operand` has, if it exists for this rank.
  [[nodiscard]] Result<std::uint64_t> pieces_of(const Operand& operand) const {
    const bool staged = !one_round(lowered_.protocol);
    const auto blocks = [&](std::int32_t count) {
      return static_cast<std::uint64_t>(count) * lowered_.chunks_per_block;
    };
    switch (operand.memory) {
      case ProgramMemory::kInput:
        return blocks(ir::block_counts(lowered_.request, rank_).input);
      case ProgramMemory::kOutput:
        return blocks(ir::block_counts(lowered_.request, rank_).output);
      case ProgramMemory::kScratch:
        return std::uint64_t{program_.scratch_pieces};
      case ProgramMemory::kSlot: {
        if (!staged || !is_rank(operand.owner) || !placement_.mapped(rank_, operand.owner))
          return wrong("there are no slots of rank {} here", operand.owner);
        const std::vector<Slot>& slots = lowered_.programs[operand.owner].slots;
        if (operand.index >= slots.size())
          return wrong("rank {} has no slot {}", operand.owner, operand.index);
        return std::uint64_t{slots[operand.index].pieces};
      }
      case ProgramMemory::kPublished:
        if (staged || !is_rank(operand.owner))
          return wrong("rank {} publishes no input here", operand.owner);
        return blocks(ir::block_counts(lowered_.request, operand.owner).input);
      case ProgramMemory::kPeerOutput:
        if (lowered_.protocol != ProgramProtocol::kDirect || !is_rank(operand.owner) ||
            operand.owner == rank_)
          return wrong("the output of rank {} is no peer's that can be written here",
                       operand.owner);
        return blocks(ir::block_counts(lowered_.request, operand.owner).output);
    }
    return std::uint64_t{0};
  }

  Status check_waits(const Op& op) const {
    if (one_round(lowered_.protocol) && !(op.waits.empty() && op.transfers.empty()))
      return wrong("waits, which its protocol does not");
    for (const Wait& wait : op.waits) {
      if (!is_rank(wait.rank) || !placement_.mapped(rank_, wait.rank))
        return wrong("waits for rank {}, whose progress is not visible here", wait.rank);
      const std::vector<Op>& ops = lowered_.programs[wait.rank].ops;
      if (wait.op >= ops.size() || !ops[wait.op].published)
        return wrong("waits for op {} of rank {}, which publishes no progress", wait.op, wait.rank);
      if (wait.slice_delta > 0) return wrong("waits for a later slice of rank {}", wait.rank);
    }
    for (const TransferWait& wait : op.transfers) {
      if (wait.op >= program_.ops.size() || !is_transfer(program_.ops[wait.op].kind))
        return wrong("waits for transfers of op {}, which makes none", wait.op);
      if (wait.slice_delta > 0) return wrong("waits for later transfers of op {}", wait.op);
    }
    return ok_status();
  }

  const Lowered& lowered_;
  const Placement& placement_;
  const bool uneven_blocks_;
  const Rank rank_;
  const Program& program_;
  const std::uint64_t chunks_;  ///< that executors know the length of
  std::size_t op_ = 0;
};

}  // namespace

Status check_form(const Lowered& lowered, const Placement& placement, bool uneven_blocks) {
  TUTTI_TRY(check_frame(lowered, placement));
  for (Rank rank = 0; rank < lowered.request.ranks; ++rank)
    TUTTI_TRY(Form(lowered, placement, uneven_blocks, rank).check());
  return ok_status();
}

}  // namespace tutti::lower
