#include "src/lower/link.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "src/lower/places.hpp"

namespace tutti::lower {
namespace {

class Linker {
 public:
  Linker(const ir::Schedule& schedule, const LowerOptions& options, std::vector<Draft> drafts,
         Receives receives)
      : schedule_(schedule), options_(options), drafts_(std::move(drafts)), receives_(receives) {}

  Lowered run() {
    for (Rank rank = 0; rank < ranks(); ++rank) renumber(rank);
    find_parts();
    for (Rank rank = 0; rank < ranks(); ++rank) find_conflicts(rank);
    settle_stages();
    if (receives_ == Receives::kEarly && !one_round(options_.protocol)) post_receives_early();
    Lowered lowered;
    lowered.request = schedule_.request;
    lowered.algorithm = schedule_.algorithm;
    lowered.protocol = options_.protocol;
    lowered.chunks_per_block = schedule_.chunks_per_block;
    lowered.formats = schedule_.formats;
    lowered.groups = schedule_.groups;
    lowered.programs.resize(ranks());
    for (Rank rank = 0; rank < ranks(); ++rank) lowered.programs[rank] = assemble(rank);
    for (const Program& program : lowered.programs)
      lowered.max_slot_pieces = std::max(lowered.max_slot_pieces, program.slot_pieces);
    slot_depth_ = lowered.slot_depth = depth_of_slots(lowered);
    if (options_.protocol == ProgramProtocol::kStaged) {
      for (Rank rank = 0; rank < ranks(); ++rank) wait_for_data(lowered, rank);
      for (Rank rank = 0; rank < ranks(); ++rank) wait_for_readers(lowered, rank);
    }
    for (Program& program : lowered.programs)
      for (Op& op : program.ops)
        if (op.published) op.ordinal = program.published_ops++;
    return lowered;
  }

 private:
  struct Conflict {
    std::uint32_t before = 0, after = 0;
  };

  [[nodiscard]] std::int32_t ranks() const { return schedule_.request.ranks; }
  [[nodiscard]] PlaceKey place(Rank rank, ProgramMemory memory, std::uint32_t piece) const {
    return place_of(schedule_.request, schedule_.chunks_per_block, rank, memory, piece);
  }

  /// Drops dead ops and translates op numbers.
  void renumber(Rank rank) {
    Draft& draft = drafts_[rank];
    std::vector<std::uint32_t> number(draft.ops.size());
    std::vector<DraftOp> alive;
    for (std::size_t i = 0; i < draft.ops.size(); ++i) {
      number[i] = static_cast<std::uint32_t>(alive.size());
      if (!draft.ops[i].dead) alive.push_back(std::move(draft.ops[i]));
    }
    draft.ops = std::move(alive);
    for (auto& [message, publication] : draft.publications) publication.op = number[publication.op];
    for (auto& [message, op] : draft.sends) op = number[op];
    if (stage_.empty()) stage_.resize(ranks());
    for (const DraftOp& op : draft.ops)
      stage_[rank].push_back(one_round(options_.protocol) ? 0 : op.round);
  }

  /// Which ops make up each operation of a group.
  void find_parts() {
    for (Rank rank = 0; rank < ranks(); ++rank)
      for (std::uint32_t id = 0; id < drafts_[rank].ops.size(); ++id)
        if (const DraftOp& op = drafts_[rank].ops[id]; op.op.kind == OpKind::kGroup)
          parts_[{op.op.group, op.operation}].emplace_back(rank, id);
  }

  /// Pairs of ops of one rank that touch the same place, at least one writing.
  void find_conflicts(Rank rank) {
    if (conflicts_.empty()) conflicts_.resize(ranks());
    struct Uses {
      std::vector<std::uint32_t> readers, writers;
    };
    std::map<PlaceKey, Uses> uses;
    const auto add = [&](std::uint32_t before, std::uint32_t after) {
      if (before != after) conflicts_[rank].push_back({before, after});
    };
    const std::vector<DraftOp>& ops = drafts_[rank].ops;
    for (std::uint32_t id = 0; id < ops.size(); ++id) {
      for (const Operand& source : ops[id].op.sources)
        if (is_own(source.memory))
          for (const std::uint32_t piece : source.pieces) {
            Uses& use = uses[place(rank, source.memory, piece)];
            for (const std::uint32_t writer : use.writers) add(writer, id);
            use.readers.push_back(id);
          }
      for (const Operand& destination : ops[id].op.destinations)
        if (is_own(destination.memory))
          for (const std::uint32_t piece : destination.pieces) {
            Uses& use = uses[place(rank, destination.memory, piece)];
            for (const std::uint32_t reader : use.readers) add(reader, id);
            for (const std::uint32_t writer : use.writers) add(writer, id);
            use.writers.push_back(id);
          }
    }
  }

  /// Raises stages until every op is at least as late as what it depends on in its rank, and a
  /// stage later than what it reads from another rank.
  void settle_stages() {
    if (one_round(options_.protocol)) return;
    for (bool changed = true; changed;) {
      changed = false;
      const auto at_least = [&](std::uint32_t& stage, std::uint32_t bound) {
        if (stage >= bound) return;
        stage = bound;
        changed = true;
      };
      for (Rank rank = 0; rank < ranks(); ++rank) {
        for (const auto& [before, after] : conflicts_[rank])
          at_least(stage_[rank][after], earliest_after(rank, before));
        for (std::uint32_t id = 0; id < drafts_[rank].ops.size(); ++id)
          for (const MessageId& message : drafts_[rank].ops[id].messages)
            at_least(stage_[rank][id], stage_of_publication(message) + 1);
      }
    }
  }

  /// Receives are posted an iteration before their sends where their memory is free by then. So
  /// leave to send is there in time, and a rank may be a slice ahead of another. The two ends of a
  /// stream pair in posting order: all receives of a stream move, or none.
  void post_receives_early() {
    using Stream = std::tuple<Rank, Rank, Lane>;
    std::set<Stream> stay;
    const auto moves = [&](const DraftOp& op) {
      const auto& received = op.receives;
      return received &&
             !stay.contains(Stream(received->source, received->destination, received->lane));
    };
    for (Rank rank = 0; rank < ranks(); ++rank)
      for (const auto& [before, after] : conflicts_[rank]) {
        const auto& received = drafts_[rank].ops[after].receives;
        if (received && stage_[rank][after] <= earliest_after(rank, before))
          stay.emplace(received->source, received->destination, received->lane);
      }
    if (std::ranges::none_of(
            drafts_, [&](const Draft& draft) { return std::ranges::any_of(draft.ops, moves); }))
      return;
    for (Rank rank = 0; rank < ranks(); ++rank)
      for (std::uint32_t id = 0; id < drafts_[rank].ops.size(); ++id)
        if (!moves(drafts_[rank].ops[id])) ++stage_[rank][id];  // all others come later
  }
  /// The earliest stage of what depends on this op in its rank.
  [[nodiscard]] std::uint32_t earliest_after(Rank rank, std::uint32_t id) const {
    const std::uint32_t own = stage_[rank][id];
    // Data is there one stage after it was sent, or after all members have contributed.
    const DraftOp& op = drafts_[rank].ops[id];
    if (op.receives) return std::max(own, stage_of_send(*op.receives) + 1);
    if (op.op.kind != OpKind::kGroup) return own;
    std::uint32_t last = own;
    for (const auto& [member, part] : parts_.at({op.op.group, op.operation}))
      last = std::max(last, stage_[member][part]);
    return last + 1;
  }
  [[nodiscard]] std::uint32_t stage_of_send(const MessageId& message) const {
    return stage_[message.source][drafts_[message.source].sends.at(message)];
  }
  [[nodiscard]] std::uint32_t stage_of_publication(const MessageId& message) const {
    return stage_[message.source][publication(message).op];
  }
  [[nodiscard]] const Publication& publication(const MessageId& message) const {
    return drafts_[message.source].publications.at(message);
  }

  /// A slot is read up to (stage of its last reader - stage of its producer) iterations after it
  /// was filled; with fewer instances the producer would wait for a reader that waits for later
  /// slices. Where nothing else holds the producer up, it gets more.
  [[nodiscard]] std::uint32_t depth_of_slots(const Lowered& lowered) const {
    std::uint32_t depth = options_.slot_depth;
    if (one_round(options_.protocol)) return depth;
    if (runs_ahead(lowered)) depth = std::max(depth, kSlicesAhead);
    for (Rank rank = 0; rank < ranks(); ++rank)
      for (std::uint32_t id = 0; id < drafts_[rank].ops.size(); ++id)
        for (const MessageId& message : drafts_[rank].ops[id].messages)
          depth = std::max(depth, stage_[rank][id] - stage_of_publication(message) + 1);
    return depth;
  }

  Program assemble(Rank rank) {
    Program program;
    Draft& draft = drafts_[rank];
    program.slots = draft.slots;
    for (Slot& slot : program.slots) {
      slot.first_piece = program.slot_pieces;
      program.slot_pieces += slot.pieces;
    }
    for (std::uint32_t id = 0; id < draft.ops.size(); ++id) {
      const DraftOp& drafted = draft.ops[id];
      Op op = drafted.op;
      op.stage = stage_[rank][id];
      for (Operand& source : op.sources)
        if (source.memory == ProgramMemory::kSlot)
          source.index = publication(drafted.messages[source.index]).slot;
      program.last_stage = std::max(program.last_stage, op.stage);
      program.ops.push_back(std::move(op));
    }
    number_scratch(program);
    wait_for_transfers(rank, program);
    return program;
  }

  /// Scratch pieces in use, numbered from 0, and how many instances each needs.
  static void number_scratch(Program& program) {
    struct Life {
      std::uint32_t number = 0, first_stage = 0, last_stage = 0;
    };
    std::map<std::uint32_t, Life> lives;
    const auto visit = [&](Op& op, std::vector<Operand>& operands) {
      for (Operand& operand : operands)
        if (operand.memory == ProgramMemory::kScratch)
          for (std::uint32_t& piece : operand.pieces) {
            const auto number = static_cast<std::uint32_t>(lives.size());
            Life& life = lives.try_emplace(piece, Life{number, op.stage, op.stage}).first->second;
            life.last_stage = std::max(life.last_stage, op.stage);
            piece = life.number;
          }
    };
    for (Op& op : program.ops) {
      visit(op, op.sources);
      visit(op, op.destinations);
    }
    program.scratch_pieces = static_cast<std::uint32_t>(lives.size());
    for (const auto& [piece, life] : lives)
      program.scratch_depth =
          std::max(program.scratch_depth, life.last_stage - life.first_stage + 1);
  }

  void wait_for_transfers(Rank rank, Program& program) {
    const auto depth = static_cast<std::int32_t>(program.scratch_depth);
    std::map<PlaceKey, std::uint32_t> first_use;
    for (std::uint32_t id = 0; id < program.ops.size(); ++id)
      for (const Operand& destination : program.ops[id].destinations)
        if (destination.memory == ProgramMemory::kScratch)
          for (const std::uint32_t piece : destination.pieces)
            first_use.try_emplace({ProgramMemory::kScratch, piece}, id);

    const auto add = [](Op& op, TransferWait wait) {
      if (std::find(op.transfers.begin(), op.transfers.end(), wait) == op.transfers.end())
        op.transfers.push_back(wait);
    };
    for (const auto& [before, after] : conflicts_[rank])
      if (is_transfer(program.ops[before].kind)) add(program.ops[after], {before, 0});
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
      if (!is_transfer(program.ops[id].kind)) continue;
      const Op& op = program.ops[id];
      for (const auto* operands : {&op.sources, &op.destinations})
        for (const Operand& operand : *operands)
          if (operand.memory == ProgramMemory::kScratch)
            for (const std::uint32_t piece : operand.pieces)
              add(program.ops[first_use.at({ProgramMemory::kScratch, piece})], {id, -depth});
    }
  }

  /// Readers of slots wait until their producer has passed the op that fills them.
  void wait_for_data(Lowered& lowered, Rank rank) {
    for (std::uint32_t id = 0; id < drafts_[rank].ops.size(); ++id) {
      for (const MessageId& message : drafts_[rank].ops[id].messages) {
        const std::uint32_t producer = publication(message).op;
        add_wait(lowered.programs[rank].ops[id], {message.source, producer, 0});
        lowered.programs[message.source].ops[producer].published = true;
      }
    }
  }

  /// A producer refills an instance of a slot once all its readers have passed their last read.
  void wait_for_readers(Lowered& lowered, Rank rank) {
    const auto depth = static_cast<std::int32_t>(slot_depth_);
    std::map<std::uint32_t, std::map<Rank, std::uint32_t>> last_reads;  // slot -> reader -> op
    for (const auto& [message, publication] : drafts_[rank].publications) {
      const Rank reader = message.destination;
      const std::vector<DraftOp>& ops = drafts_[reader].ops;
      for (std::uint32_t id = 0; id < ops.size(); ++id) {
        if (std::find(ops[id].messages.begin(), ops[id].messages.end(), message) ==
            ops[id].messages.end())
          continue;
        const auto [entry, fresh] = last_reads[publication.slot].try_emplace(reader, id);
        if (!fresh && later(reader, id, entry->second)) entry->second = id;
      }
    }
    for (Op& op : lowered.programs[rank].ops)
      for (const Operand& destination : op.destinations) {
        if (destination.memory != ProgramMemory::kSlot) continue;
        for (const auto& [reader, id] : last_reads[destination.index]) {
          add_wait(op, {reader, id, -depth});
          lowered.programs[reader].ops[id].published = true;
        }
      }
  }
  [[nodiscard]] bool later(Rank rank, std::uint32_t a, std::uint32_t b) const {
    return std::pair(stage_[rank][a], a) > std::pair(stage_[rank][b], b);
  }
  static void add_wait(Op& op, Wait wait) {
    if (std::find(op.waits.begin(), op.waits.end(), wait) == op.waits.end())
      op.waits.push_back(wait);
  }

  const ir::Schedule& schedule_;
  const LowerOptions& options_;
  std::vector<Draft> drafts_;
  const Receives receives_;
  std::vector<std::vector<std::uint32_t>> stage_;
  std::vector<std::vector<Conflict>> conflicts_;
  /// By group and number of the operation: rank and op of each member.
  std::map<std::pair<ir::GroupId, std::uint32_t>, std::vector<std::pair<Rank, std::uint32_t>>>
      parts_;
  std::uint32_t slot_depth_ = 2;
};

}  // namespace

Lowered link(const ir::Schedule& schedule, const LowerOptions& options, std::vector<Draft> drafts,
             Receives receives) {
  return Linker(schedule, options, std::move(drafts), receives).run();
}

}  // namespace tutti::lower
