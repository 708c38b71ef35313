#include "src/lower/lower.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/lower/check.hpp"
#include "src/lower/draft.hpp"
#include "src/lower/movers.hpp"
#include "src/lower/sent.hpp"

namespace tutti::lower {
namespace {

/// See runs_ahead().
constexpr std::size_t kFewRanks = 4;

/// Joins the drafts of all ranks: messages become slots and waits, rounds become stages.
class Linker {
 public:
  Linker(const ir::Schedule& schedule, const Placement& placement, const LowerOptions& options,
         std::vector<Draft> drafts)
      : schedule_(schedule), placement_(placement), options_(options), drafts_(std::move(drafts)) {}

  Lowered run() {
    for (Rank rank = 0; rank < ranks(); ++rank) renumber(rank);
    for (Rank rank = 0; rank < ranks(); ++rank) find_conflicts(rank);
    settle_stages();
    Lowered lowered;
    lowered.request = schedule_.request;
    lowered.algorithm = schedule_.algorithm;
    lowered.protocol = options_.protocol;
    lowered.chunks_per_block = schedule_.chunks_per_block;
    lowered.formats = schedule_.formats;
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
  static bool is_own(const Operand& operand) {
    return operand.memory != ProgramMemory::kSlot && !is_peers_buffer(operand.memory);
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
        if (is_own(source))
          for (const std::uint32_t piece : source.pieces) {
            Uses& use = uses[place(rank, source.memory, piece)];
            for (const std::uint32_t writer : use.writers) add(writer, id);
            use.readers.push_back(id);
          }
      for (const Operand& destination : ops[id].op.destinations)
        if (is_own(destination))
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
        for (const auto& [before, after] : conflicts_[rank]) {
          const DraftOp& earlier = drafts_[rank].ops[before];
          std::uint32_t bound = stage_[rank][before];
          if (earlier.receives) {  // its data is there one stage after it was sent
            const MessageId& message = *earlier.receives;
            bound = std::max(bound, stage_of_send(message) + 1);
          }
          at_least(stage_[rank][after], bound);
        }
        for (std::uint32_t id = 0; id < drafts_[rank].ops.size(); ++id)
          for (const MessageId& message : drafts_[rank].ops[id].messages)
            at_least(stage_[rank][id], stage_of_publication(message) + 1);
      }
    }
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
    const auto is_transfer = [&](std::uint32_t id) {
      return program.ops[id].kind == OpKind::kSend || program.ops[id].kind == OpKind::kRecv;
    };
    for (const auto& [before, after] : conflicts_[rank])
      if (is_transfer(before)) add(program.ops[after], {before, 0});
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
      if (!is_transfer(id)) continue;
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
  const Placement& placement_;
  const LowerOptions& options_;
  std::vector<Draft> drafts_;
  std::vector<std::vector<std::uint32_t>> stage_;
  std::vector<std::vector<Conflict>> conflicts_;
  std::uint32_t slot_depth_ = 2;
};

/// All that other ranks can see of a program: what it publishes when, what it sends and receives,
/// and, in order, what it reads in their inputs and writes in their outputs.
struct OutsideView {
  /// Peers wait for a published op to have filled slots, or to have read theirs.
  struct Publication {
    std::uint32_t stage = 0;
    std::vector<Operand> fills, reads;
    friend bool operator==(const Publication&, const Publication&) = default;
  };
  /// The stage too: it decides how the messages of several ops of one stream interleave.
  struct Transfer {
    OpKind kind = OpKind::kSend;
    std::uint32_t stage = 0;
    ir::FormatId format = ir::kPlain;
    std::vector<std::uint32_t> like;
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };
  std::vector<Publication> publications;
  std::map<std::tuple<OpKind, Rank, Lane>, std::vector<Transfer>> transfers;
  std::vector<Slot> slots;
  std::vector<std::vector<Operand>> remote;  ///< per op that touches any
  std::uint32_t last_stage = 0;
  friend bool operator==(const OutsideView&, const OutsideView&) = default;
};

OutsideView outside_view(const Program& program) {
  OutsideView view;
  view.slots = program.slots;
  view.last_stage = program.last_stage;
  for (const Op& op : program.ops) {
    if (op.published) {
      OutsideView::Publication publication;
      publication.stage = op.stage;
      for (const Operand& destination : op.destinations)
        if (destination.memory == ProgramMemory::kSlot) publication.fills.push_back(destination);
      for (const Operand& source : op.sources)
        if (source.memory == ProgramMemory::kSlot) publication.reads.push_back(source);
      view.publications.push_back(std::move(publication));
    }
    std::vector<Operand> remote;
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const Operand& operand : *operands)
        if (is_peers_buffer(operand.memory)) remote.push_back(operand);
    if (!remote.empty()) view.remote.push_back(std::move(remote));
    if (op.peer != kNoRank) {
      const Operand& data = op.kind == OpKind::kSend ? op.sources[0] : op.destinations[0];
      view.transfers[{op.kind, op.peer, op.lane}].push_back(
          {op.kind, op.stage, data.format, op.like});
    }
  }
  return view;
}

/// Whether a rank adds up in scratch what it goes on with itself, instead of sending it: that would
/// have to lie somewhere, and programs of one round have no scratch.
bool goes_on_with_sums(const ir::Program& program) {
  std::vector<bool> is_sum(program.scratch.size(), false);
  for (const ir::Step& step : program.steps) {
    const bool is_local = step.verb == ir::Verb::kCopy || step.verb == ir::Verb::kReduce;
    if (is_local && step.src.space == ir::Space::kScratch)
      for (std::uint32_t i = 0; i < step.src.count; ++i)
        if (is_sum[step.src.at(i)]) return true;
    if (step.verb == ir::Verb::kReduce && step.dst.space == ir::Space::kScratch)
      for (std::uint32_t i = 0; i < step.dst.count; ++i) is_sum[step.dst.at(i)] = true;
  }
  return false;
}

bool can_publish(const ir::Schedule& schedule, const Placement& placement) {
  if (!placement.all_mapped() || !schedule.formats.empty()) return false;
  if (std::ranges::any_of(schedule.programs, goes_on_with_sums)) return false;
  // More sources than one op adds up at once: in place, a copy of the own input would be needed.
  const ir::Request& request = schedule.request;
  if (request.in_place && reduces(request.collective) &&
      static_cast<std::size_t>(request.ranks) > kMaxSources)
    return false;
  for (const ir::Program& program : schedule.programs) {
    bool sends_over = false;
    for (const ir::Step& step : program.steps) {
      if (step.verb == ir::Verb::kRecv) sends_over = true;
      if (step.verb != ir::Verb::kSend) continue;
      if (sends_over || step.src.space != ir::Space::kInput) return false;
    }
  }
  return true;
}

/// x with x * a = gcd(a, b) modulo b, from 0 to b - 1, by Euclid's extended algorithm.
std::int64_t inverse(std::int64_t a, std::int64_t b) {
  std::int64_t x = 1, next_x = 0;
  for (std::int64_t rest = a, next = b; next != 0;) {
    const std::int64_t times = rest / next;
    rest = std::exchange(next, rest - times * next);
    x = std::exchange(next_x, x - times * next_x);
  }
  return (x % b + b) % b;
}

/// Whether two arithmetic progressions meet, in a time that does not depend on their lengths.
bool overlap(const ir::ChunkSet& a, const ir::ChunkSet& b) {
  if (a.space != b.space || a.count == 0 || b.count == 0) return false;
  const std::int64_t from = std::max(a.first, b.first);
  const std::int64_t to = std::min(a.at(a.count - 1), b.at(b.count - 1));
  if (from > to) return false;
  const std::int64_t step = a.stride, other = b.stride;
  const std::int64_t common = std::gcd(step, other);
  const std::int64_t apart = std::int64_t{b.first} - a.first;
  if (apart % common != 0) return false;
  const std::int64_t period = other / common;  // in steps of a
  const std::int64_t steps =
      ((apart / common % period) * inverse(step / common % period, period) % period + period) %
      period;
  const std::int64_t first_met = a.first + steps * step;  // and every step * period from there
  if (first_met >= from) return first_met <= to;
  const std::int64_t gap = from - first_met;
  return first_met + (gap + step * period - 1) / (step * period) * (step * period) <= to;
}

/// Whether every message from scratch is what one pass makes: a set put together from parts would
/// have to lie somewhere first, and there are neither slots nor scratch.
bool sends_no_parts(const ir::Program& program) {
  const auto makes_part_of = [](const ir::Step& step, const ir::ChunkSet& sent) {
    return uses_dst(step.verb) && step.dst != sent && overlap(step.dst, sent);
  };
  return std::ranges::none_of(program.steps, [&](const ir::Step& send) {
    return send.verb == ir::Verb::kSend && send.src.space == ir::Space::kScratch &&
           std::ranges::any_of(program.steps,
                               [&](const ir::Step& step) { return makes_part_of(step, send.src); });
  });
}

bool can_go_direct(const ir::Schedule& schedule, const Placement& placement,
                   const LowerOptions& options) {
  const ir::Request& request = schedule.request;
  if (!placement.all_mapped() || !schedule.formats.empty()) return false;
  if (reduces(request.collective) && static_cast<std::size_t>(request.ranks) > kMaxSources)
    return false;
  return std::ranges::none_of(schedule.programs, goes_on_with_sums) &&
         settle_movers(schedule, options).has_value() &&
         std::ranges::all_of(schedule.programs, sends_no_parts);
}

std::string describe(const Operand& operand) {
  std::string text(name_of(operand.memory));
  if (operand.memory == ProgramMemory::kSlot)
    text += fmt::format(" {}.{}", operand.owner, operand.index);
  if (is_peers_buffer(operand.memory)) text += fmt::format(" {}", operand.owner);
  return text + fmt::format("[{}]", fmt::join(operand.pieces, ","));
}

}  // namespace

bool needs_mapped_buffers(const Lowered& lowered) {
  if (lowered.protocol != ProgramProtocol::kDirect) return false;
  const auto copies = [](const Op& op) {
    const bool reads_peer = std::ranges::any_of(op.sources, [](const Operand& source) {
      return source.memory == ProgramMemory::kPublished;
    });
    const bool writes_peer = std::ranges::any_of(op.destinations, [](const Operand& destination) {
      return destination.memory == ProgramMemory::kPeerOutput;
    });
    return !writes_peer && (!reads_peer || op.sources.size() + op.destinations.size() == 2);
  };
  return !std::ranges::all_of(lowered.programs, [&](const Program& program) {
    return std::ranges::all_of(program.ops, copies);
  });
}

bool can_lower(const ir::Schedule& schedule, const Placement& placement,
               const LowerOptions& options) {
  switch (options.protocol) {
    case ProgramProtocol::kStaged:
      return true;
    case ProgramProtocol::kPublished:
      return can_publish(schedule, placement);
    case ProgramProtocol::kDirect:
      return !(options.scales_input && reduces(schedule.request.collective)) &&
             can_go_direct(schedule, placement, options);
  }
  return false;
}

bool runs_ahead(const Lowered& lowered) {
  const auto has_slot = [](const std::vector<Operand>& operands) {
    return std::ranges::any_of(
        operands, [](const Operand& operand) { return operand.memory == ProgramMemory::kSlot; });
  };
  const auto fills = [&](const Op& op) { return has_slot(op.destinations); };
  const auto reads = [&](const Op& op) { return has_slot(op.sources); };
  const auto is_message = [](const Op& op) { return op.peer != kNoRank; };
  const auto passes_on = [&](const Program& program) {
    return std::ranges::any_of(program.ops, is_message) ||
           (std::ranges::any_of(program.ops, fills) && std::ranges::any_of(program.ops, reads));
  };
  return lowered.request.collective == Collective::kBroadcast && lowered.max_slot_pieces > 0 &&
         lowered.programs.size() <= kFewRanks && std::ranges::none_of(lowered.programs, passes_on);
}

bool interoperable(const Lowered& a, const Lowered& b) {
  if (a.protocol != b.protocol || a.chunks_per_block != b.chunks_per_block ||
      a.slot_depth != b.slot_depth || a.programs.size() != b.programs.size())
    return false;
  for (std::size_t rank = 0; rank < a.programs.size(); ++rank)
    if (outside_view(a.programs[rank]) != outside_view(b.programs[rank])) return false;
  return true;
}

Result<Lowered> lower(const ir::Schedule& schedule, const ir::Proof& proof,
                      const Placement& placement, const LowerOptions& options) {
  TUTTI_CHECK(placement.host.size() == static_cast<std::size_t>(schedule.request.ranks),
              "hosts={} ranks={}", placement.host.size(), schedule.request.ranks);
  if (!can_lower(schedule, placement, options))
    return make_error(Code::kUnsupported, "{} over {} ranks does not fit the {} protocol",
                      schedule.algorithm, schedule.request.ranks, name_of(options.protocol));
  const bool direct = options.protocol == ProgramProtocol::kDirect;
  const Messages messages =
      direct ? *settle_movers(schedule, options) : messages_of(schedule);  // can_lower() has looked
  std::vector<Draft> drafts;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    drafts.push_back(draft_rank(schedule, proof, placement, options, messages, rank));
  Lowered lowered = Linker(schedule, placement, options, std::move(drafts)).run();
  lowered.sent = sent_chunks(schedule, placement);
  lowered.lossy_steps = proof.lossy_steps;
  lowered.same_bits = proof.same_bits.value_or(true);
  CheckOptions checks;
  checks.scales_input = options.scales_input;
  if (!proof.recipes.empty()) checks.recipes = &proof.recipes;
  TUTTI_TRY(check(lowered, placement, checks));
  return lowered;
}

std::string describe(const Lowered& lowered, Rank rank, std::uint32_t op_id) {
  const Op& op = lowered.programs[rank].ops[op_id];
  std::vector<std::string> sources, destinations;
  for (const Operand& operand : op.sources) sources.push_back(describe(operand));
  for (const Operand& operand : op.destinations) destinations.push_back(describe(operand));
  std::string text =
      fmt::format("rank {} op {} (stage {}): {} {} <- {}", rank, op_id, op.stage, name_of(op.kind),
                  fmt::join(destinations, ", "), fmt::join(sources, " + "));
  if (op.peer != kNoRank) text += fmt::format(" peer {} lane {}", op.peer, op.lane);
  return text;
}

}  // namespace tutti::lower
