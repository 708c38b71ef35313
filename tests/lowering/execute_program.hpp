// Executes lowered programs on small integers, with the ranks and the network interleaved by an
// adversary that respects nothing but what an executor respects. Shares no code with src/lower's
// proof: it knows values, not contributions.
//
// Every rank makes several calls in a row with different data. A step of a rank is one piece of one
// op; a step of the network reads one posted send, spoils the target of one posted receive or
// delivers one message, or reads or delivers one member's part of an operation of a group. Memory
// is laid out as executors do it: chunks of unequal lengths, cut into slices of kStride elements,
// the last one shorter or empty.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/hash.hpp"
#include "src/ir/request.hpp"
#include "src/lower/program.hpp"

namespace tutti::lower::execution {

struct Options {
  std::uint64_t seed = 0;
  std::uint32_t slices = 4;
  std::uint32_t calls = 3;
  bool scales_input = false;  ///< kPreMulSum; else kAvg, which divides where an op completes
};

enum class Verdict : std::uint8_t { kRight, kWrong, kDeadlock };

struct Outcome {
  Verdict verdict = Verdict::kRight;
  std::string what;
};

using Element = std::uint64_t;  // sums wrap
using Span = std::pair<Element*, std::uint32_t>;

inline constexpr std::uint32_t kStride = 2;
inline constexpr Element kScale = 3;
inline constexpr Element kPoison = 0xdeadbeefdeadbeef;
inline constexpr std::uint32_t kMostFormats = 8;
inline constexpr Element kCode = 0x5a5a5a5a5a5a5a5a;
inline constexpr std::uint32_t kMostInFlight = 4;  // src/exec/plan.hpp, TransferRing

class Execution {
 public:
  Execution(const Lowered& lowered, const Placement& placement, const Options& options)
      : lowered_(lowered),
        placement_(placement),
        options_(options),
        slices_(one_round(lowered.protocol) ? 1 : options.slices),
        random_(options.seed),
        ranks_(lowered.programs.size()) {
    begin_.push_back(0);
    for (std::uint32_t m = 0; m < lowered.chunks_per_block; ++m)
      begin_.push_back(begin_.back() + (slices_ - 1) * kStride +
                       static_cast<std::uint32_t>((m + options.seed) % (kStride + 1)));
  }

  Outcome run() {
    for (RankState& rank : ranks_) {
      const Program& program = lowered_.programs[index_of(rank)];
      rank.staging.assign(std::size_t{2} * lowered_.slot_depth * lowered_.max_slot_pieces * kStride,
                          kPoison);
      rank.scratch.assign(std::size_t{program.scratch_depth} * program.scratch_pieces * kStride,
                          kPoison);
      rank.posted.resize(program.ops.size());
    }
    for (std::size_t agent = 0; agent < ranks_.size() + 1; ++agent) order_.push_back(agent);
    choose_adversary();
    while (outcome_.verdict == Verdict::kRight) {
      if (!some_step()) break;
    }
    if (outcome_.verdict == Verdict::kRight && !all_finished())
      outcome_ = {Verdict::kDeadlock, "no rank can go on"};
    return outcome_;
  }

 private:
  struct Posted {
    std::uint64_t slice_and_one = 0;
    std::uint32_t pending = 0;
  };
  struct RankState {
    std::uint32_t call = 0;
    std::uint32_t finished = 0;                              ///< calls whose ops are all done
    bool entered = false, may_run = false, running = false;  ///< running: waits are over
    std::uint64_t iteration = 0;
    std::uint32_t op = 0, piece = 0;
    std::uint64_t progress = 0;
    std::vector<Element> user, staging, scratch;
    std::size_t input_begin = 0, input_size = 0, output_begin = 0, output_size = 0;
    std::array<std::vector<Element>, 4> packets;
    std::vector<std::array<Posted, kMostInFlight>> posted;
  };
  struct Transfer {
    Element* data = nullptr;
    std::uint32_t length = 0;
    Posted* posted = nullptr;
  };
  struct Stream {
    std::deque<Transfer> sends, receives;
    std::deque<std::vector<Element>> flying;
  };

  /// A member's part in an operation of a group.
  struct Part {
    Rank rank = kNoRank;
    const Op* op = nullptr;
    std::vector<Span> sources, destinations;
    Posted* posted = nullptr;
    bool is_read = false;
    std::vector<std::vector<Element>> values;  ///< of the sources, once they are read
  };
  struct Group {
    std::map<Rank, std::size_t> posted;         ///< operations that a member has posted its part of
    std::vector<std::vector<Part>> operations;  ///< parts that are not delivered yet
    std::vector<std::vector<Part>> delivered;   ///< the others
  };

  // --- the adversary ---

  /// Agents are the ranks and the network. 0: a random one moves. 1: the first in a random order
  /// that can, and the order changes now and then. 2: one of them moves only when no other can.
  void choose_adversary() {
    policy_ = static_cast<int>(options_.seed % 3);
    send_needs_receive_ = below(2) == 0;
    slow_stream_ = below(2) == 0;
    change_one_in_ = 4U << below(6);
    std::shuffle(order_.begin(), order_.end(), random_);
  }
  std::size_t below(std::size_t limit) { return random_() % limit; }

  bool some_step() {
    const std::size_t last = order_.size() - 1;
    if (policy_ == 0) {
      std::rotate(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(below(last + 1)),
                  order_.end());
    } else if (policy_ == 1) {
      if (below(change_one_in_) == 0) std::swap(order_[below(last + 1)], order_[below(last + 1)]);
    } else {
      std::swap(order_[0], order_[below(last)]);
    }
    for (const std::size_t agent : order_) {
      const std::size_t burst = policy_ == 0 ? 1 + below(8) : 1;
      if (!step(agent)) continue;
      for (std::size_t i = 1; i < burst && step(agent); ++i) {
      }
      return true;
    }
    return false;
  }
  bool step(std::size_t agent) {
    if (outcome_.verdict != Verdict::kRight) return false;
    return agent == ranks_.size() ? network_step() : rank_step(static_cast<Rank>(agent));
  }
  [[nodiscard]] bool all_finished() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const RankState& rank) { return rank.call == options_.calls; });
  }
  void wrong(std::string what) {
    if (outcome_.verdict == Verdict::kRight) outcome_ = {Verdict::kWrong, std::move(what)};
  }

  // --- data ---

  [[nodiscard]] std::size_t index_of(const RankState& rank) const {
    return static_cast<std::size_t>(&rank - ranks_.data());
  }
  [[nodiscard]] std::size_t count() const { return begin_.back(); }

  [[nodiscard]] Element input(std::uint32_t call, Rank rank, std::size_t element) const {
    const std::uint64_t x = options_.seed * kGolden + call * 1000003ULL +
                            static_cast<std::uint64_t>(rank) * 10007ULL + element;
    return (mix(x) & 0xfffff) * ranks_.size();  // averages are exact
  }
  [[nodiscard]] Element reduced(std::uint32_t call, std::size_t element) const {
    Element sum = 0;
    for (Rank rank = 0; rank < lowered_.request.ranks; ++rank) sum += input(call, rank, element);
    if (options_.scales_input) return sum * kScale;
    return ranks_.size() > 1 ? sum / ranks_.size() : sum;
  }
  /// What element `i` of block `block` of the output must be.
  [[nodiscard]] Element expected(Rank rank, std::uint32_t call, std::size_t block,
                                 std::size_t i) const {
    const std::size_t mine = static_cast<std::size_t>(rank) * count() + i;
    const Rank root = lowered_.request.root;
    switch (lowered_.request.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return reduced(call, i);
      case Collective::kReduceScatter:
        return reduced(call, mine);
      case Collective::kBroadcast:
        return input(call, root, i);
      case Collective::kScatter:
        return input(call, root, mine);
      case Collective::kAllGather:
      case Collective::kGather:
        return input(call, static_cast<Rank>(block), i);
      case Collective::kAllToAll:
        return input(call, static_cast<Rank>(block), mine);
      default:
        return 0;
    }
  }
  [[nodiscard]] bool reducing() const { return reduces(lowered_.request.collective); }

  // --- a rank ---

  bool rank_step(Rank id) {
    RankState& rank = ranks_[id];
    const Program& program = lowered_.programs[id];
    if (rank.call == options_.calls) return false;
    if (!rank.entered) return enter(id);
    if (!rank.may_run) return rank.may_run = may_reuse_staging(id);
    if (rank.iteration == program.iterations(slices_)) return leave(id);
    const Op& op = program.ops[rank.op];
    const std::uint64_t slice = rank.iteration - op.stage;
    if (rank.iteration >= op.stage && slice < slices_) {
      if (!rank.running && !ready(id, op, slice)) return false;
      rank.running = true;
      if (op.kind == OpKind::kGroup && rank.piece++ == 0) {
        post_part(id, op, slice);
        return true;
      }
      if (op.kind != OpKind::kGroup && rank.piece < op.like.size()) {
        execute(id, op, rank.piece++, slice);
        return true;
      }
      if (op.published) rank.progress = base(id, rank.call) + program.position(rank.op, slice);
    }
    rank.running = false;
    rank.piece = 0;
    if (++rank.op == program.ops.size()) {
      rank.op = 0;
      ++rank.iteration;
    }
    return true;
  }

  [[nodiscard]] std::uint64_t base(Rank rank, std::uint64_t call) const {
    return call * lowered_.programs[rank].positions(slices_);
  }

  bool enter(Rank id) {
    RankState& rank = ranks_[id];
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer)  // entries are reused after 4 calls
      if (placement_.mapped(id, static_cast<Rank>(peer)) && rank.call >= 4 &&
          !has_entered(static_cast<Rank>(peer), rank.call - 3))
        return false;
    const ir::BlockCounts blocks = ir::block_counts(lowered_.request, id);
    const ir::Aliasing alias = ir::aliasing(lowered_.request, id);
    rank.input_size = static_cast<std::size_t>(blocks.input) * count();
    rank.output_size = static_cast<std::size_t>(blocks.output) * count();
    if (alias.exists) {
      rank.input_begin = static_cast<std::size_t>(alias.output_block) * count();
      rank.output_begin = static_cast<std::size_t>(alias.input_block) * count();
    } else {
      rank.input_begin = 0;
      rank.output_begin = rank.input_size;
    }
    rank.user.assign(
        std::max(rank.input_begin + rank.input_size, rank.output_begin + rank.output_size),
        kPoison);
    for (std::size_t i = 0; i < rank.input_size; ++i)
      rank.user[rank.input_begin + i] = input(rank.call, id, i);
    if (lowered_.protocol == ProgramProtocol::kPublished) {
      auto& packet = rank.packets[rank.call % 4];
      packet.assign(
          rank.user.begin() + static_cast<std::ptrdiff_t>(rank.input_begin),
          rank.user.begin() + static_cast<std::ptrdiff_t>(rank.input_begin + rank.input_size));
      if (options_.scales_input)
        for (Element& element : packet) element *= kScale;
    }
    rank.iteration = rank.op = rank.piece = 0;
    rank.running = false;
    rank.entered = true;
    return true;
  }
  [[nodiscard]] bool has_entered(Rank peer, std::uint32_t call) const {
    const RankState& rank = ranks_[peer];
    return rank.call > call || (rank.call == call && rank.entered);
  }

  /// The region of this call is free once all mapped peers have left the call before last.
  bool may_reuse_staging(Rank id) {
    const RankState& rank = ranks_[id];
    if (lowered_.protocol != ProgramProtocol::kStaged || rank.call < 2) return true;
    for (Rank peer = 0; peer < lowered_.request.ranks; ++peer)
      if (peer != id && placement_.mapped(id, peer) &&
          ranks_[peer].progress < base(peer, rank.call - 1))
        return false;
    return true;
  }

  bool leave(Rank id) {
    RankState& rank = ranks_[id];
    for (const auto& ring : rank.posted)
      for (const Posted& posted : ring)
        if (posted.pending > 0) return false;
    for (auto& ring : rank.posted) ring = {};
    rank.finished = rank.call + 1;
    if (lowered_.protocol == ProgramProtocol::kDirect && !users_finished(id)) return false;
    const std::size_t blocks = count() == 0 ? 0 : rank.output_size / count();
    for (std::size_t block = 0; block < blocks; ++block)
      for (std::size_t i = 0; i < count(); ++i)
        if (rank.user[rank.output_begin + block * count() + i] !=
            expected(id, rank.call, block, i)) {
          wrong("rank " + std::to_string(id) + " call " + std::to_string(rank.call) + " block " +
                std::to_string(block) + " element " + std::to_string(i));
          return true;
        }
    ++rank.call;
    if (lowered_.protocol == ProgramProtocol::kStaged) rank.progress = base(id, rank.call);
    rank.entered = rank.may_run = false;
    return true;
  }

  /// Whether all that touch this rank's buffers in this call have done so.
  [[nodiscard]] bool users_finished(Rank id) const {
    for (std::size_t user = 0; user < ranks_.size(); ++user) {
      if (ranks_[user].finished > ranks_[id].call) continue;
      for (const Op& op : lowered_.programs[user].ops)
        for (const auto* operands : {&op.sources, &op.destinations})
          for (const Operand& operand : *operands)
            if (is_peers_buffer(operand) && operand.owner == id) return false;
    }
    return true;
  }
  static bool is_peers_buffer(const Operand& operand) {
    return operand.memory == ProgramMemory::kPublished ||
           operand.memory == ProgramMemory::kPeerOutput;
  }

  bool ready(Rank id, const Op& op, std::uint64_t slice) {
    const RankState& rank = ranks_[id];
    if (one_round(lowered_.protocol)) {
      const auto is_there = [&](const Operand& operand) {
        return !is_peers_buffer(operand) || !is_rank(operand.owner) ||
               has_entered(operand.owner, rank.call);
      };
      return std::ranges::all_of(op.sources, is_there) &&
             std::ranges::all_of(op.destinations, is_there);
    }
    for (const Wait& wait : op.waits) {
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
      if (wanted < 0) continue;
      if (!is_rank(wait.rank) || !placement_.mapped(id, wait.rank) ||
          wait.op >= lowered_.programs[wait.rank].ops.size()) {
        wrong("waits for what does not exist");
        return false;
      }
      const Program& peer = lowered_.programs[wait.rank];
      const std::uint64_t position = base(wait.rank, rank.call) +
                                     static_cast<std::uint64_t>(wanted) * peer.published_ops +
                                     std::uint64_t{peer.ops[wait.op].stage} * peer.published_ops +
                                     peer.ops[wait.op].ordinal + 1;
      if (!has_entered(wait.rank, rank.call) || ranks_[wait.rank].progress < position) return false;
    }
    for (const TransferWait& wait : op.transfers) {
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
      if (wanted < 0) continue;
      if (!transfers_done(id, wait.op, static_cast<std::uint64_t>(wanted))) return false;
    }
    return !is_transfer(op.kind) || slice < kMostInFlight ||
           transfers_done(id, rank.op, slice - kMostInFlight);
  }
  bool transfers_done(Rank id, std::uint32_t op, std::uint64_t slice) {
    if (op >= ranks_[id].posted.size()) {
      wrong("waits for an op that does not exist");
      return false;
    }
    const Posted& posted = ranks_[id].posted[op][slice % kMostInFlight];
    return posted.slice_and_one != slice + 1 || posted.pending == 0;
  }
  [[nodiscard]] bool is_rank(Rank rank) const {
    return rank >= 0 && static_cast<std::size_t>(rank) < ranks_.size();
  }

  // --- addresses ---

  /// Offset and length of a slice of a chunk.
  [[nodiscard]] std::pair<std::size_t, std::uint32_t> slice_of(std::uint32_t chunk,
                                                               std::uint64_t slice) const {
    const std::uint32_t m = chunk % lowered_.chunks_per_block;
    const std::uint64_t begin = std::min<std::uint64_t>(begin_[m] + slice * kStride, begin_[m + 1]);
    const std::uint64_t end = std::min<std::uint64_t>(begin + kStride, begin_[m + 1]);
    return {chunk / lowered_.chunks_per_block * count() + begin,
            static_cast<std::uint32_t>(end - begin)};
  }

  static Element* within(std::vector<Element>& memory, std::size_t begin, std::size_t size,
                         std::size_t at, std::size_t length) {
    if (at + length > size || begin + at + length > memory.size()) return nullptr;
    return memory.data() + begin + at;
  }

  /// Null, and the execution is wrong, when there is no such memory.
  Element* locate(Rank id, const Operand& operand, std::uint32_t i, std::uint32_t length,
                  std::uint64_t slice) {
    Element* data = i < operand.pieces.size() ? find(id, operand, i, length, slice) : nullptr;
    if (data == nullptr) wrong("touches memory that does not exist");
    return data;
  }
  Element* find(Rank id, const Operand& operand, std::uint32_t i, std::uint32_t length,
                std::uint64_t slice) {
    RankState& rank = ranks_[id];
    const std::uint32_t piece = operand.pieces[i];
    switch (operand.memory) {
      case ProgramMemory::kInput:
        return within(rank.user, rank.input_begin, rank.input_size, slice_of(piece, slice).first,
                      length);
      case ProgramMemory::kOutput:
        return within(rank.user, rank.output_begin, rank.output_size, slice_of(piece, slice).first,
                      length);
      case ProgramMemory::kScratch: {
        const Program& program = lowered_.programs[id];
        const std::size_t at =
            (slice % program.scratch_depth * program.scratch_pieces + piece) * kStride;
        return within(rank.scratch, 0, rank.scratch.size(), at, length);
      }
      case ProgramMemory::kSlot: {
        if (!is_rank(operand.owner) || !placement_.mapped(id, operand.owner)) return nullptr;
        const Program& owner = lowered_.programs[operand.owner];
        if (operand.index >= owner.slots.size()) return nullptr;
        auto& staging = ranks_[operand.owner].staging;
        const std::size_t region = staging.size() / 2;
        const std::size_t at = (slice % lowered_.slot_depth * owner.slot_pieces +
                                std::size_t{owner.slots[operand.index].first_piece} + piece) *
                               kStride;
        return within(staging, rank.call % 2 * region, region, at, length);
      }
      case ProgramMemory::kPublished: {
        if (!is_rank(operand.owner)) return nullptr;
        RankState& owner = ranks_[operand.owner];
        if (lowered_.protocol == ProgramProtocol::kDirect)
          return within(owner.user, owner.input_begin, owner.input_size,
                        slice_of(piece, slice).first, length);
        auto& packet = owner.packets[rank.call % 4];
        return within(packet, 0, packet.size(), slice_of(piece, slice).first, length);
      }
      case ProgramMemory::kPeerOutput: {
        if (!is_rank(operand.owner)) return nullptr;
        RankState& owner = ranks_[operand.owner];
        return within(owner.user, owner.output_begin, owner.output_size,
                      slice_of(piece, slice).first, length);
      }
    }
    return nullptr;
  }

  // --- ops ---

  void execute(Rank id, const Op& op, std::uint32_t i, std::uint64_t slice) {
    const std::uint32_t length = slice_of(op.like[i], slice).second;
    switch (op.kind) {
      case OpKind::kCombine:
        return combine(id, op, i, length, slice);
      case OpKind::kSend:
      case OpKind::kRecv:
        return post(id, op, i, length, slice);
      case OpKind::kGroup:
        break;  // post_part()
    }
    wrong("an op of no kind");
  }

  void combine(Rank id, const Op& op, std::uint32_t i, std::uint32_t length, std::uint64_t slice) {
    std::array<Element, kStride> result{};
    bool scaled = false;
    if (op.sources.empty() || length == 0) return;
    for (const Operand& source : op.sources) {
      const Element* data = locate(id, source, i, length, slice);
      if (data == nullptr) return;
      const bool scales =
          options_.scales_input && reducing() && source.memory == ProgramMemory::kInput;
      scaled = scaled || scales;
      for (std::uint32_t e = 0; e < length; ++e)
        result[e] += decoded(source.format, data[e]) * (scales ? kScale : 1);
    }
    if (op.sources.size() > 1 && !reducing()) return wrong("adds where nothing is reduced");
    if (op.completes && op.sources.size() > 1 && !options_.scales_input)
      for (Element& element : result) element /= ranks_.size();
    for (const Operand& destination : op.destinations)
      write(id, destination, i, result, length, slice);
  }

  /// Formatted values look nothing like plain ones, nor like those of another format.
  static Element encoded(ir::FormatId format, Element value) {
    return format == ir::kPlain ? value : (value ^ kCode) + format;
  }
  static Element decoded(ir::FormatId format, Element code) {
    return format == ir::kPlain ? code : (code - format) ^ kCode;
  }

  void write(Rank id, const Operand& destination, std::uint32_t i,
             const std::array<Element, kStride>& values, std::uint32_t length,
             std::uint64_t slice) {
    const bool foreign = destination.memory == ProgramMemory::kInput ||
                         destination.memory == ProgramMemory::kPublished ||
                         (destination.memory == ProgramMemory::kSlot && destination.owner != id);
    if (foreign) return wrong("writes memory that is not its own");
    if (Element* to = locate(id, destination, i, length, slice))
      for (std::uint32_t e = 0; e < length; ++e) to[e] = encoded(destination.format, values[e]);
  }

  /// The lengths on the wire tell formats apart.
  void post(Rank id, const Op& op, std::uint32_t i, std::uint32_t length, std::uint64_t slice) {
    const bool sends = op.kind == OpKind::kSend;
    const auto& operands = sends ? op.sources : op.destinations;
    if (!is_rank(op.peer) || placement_.mapped(id, op.peer) || operands.empty())
      return wrong("transfers to nowhere");
    Posted& posted = ranks_[id].posted[ranks_[id].op][slice % kMostInFlight];
    posted.slice_and_one = slice + 1;
    if (length == 0) return;  // both sides know that nothing travels
    Element* data = locate(id, operands[0], i, length, slice);
    if (data == nullptr) return;
    ++posted.pending;
    const std::uint32_t bytes = length * kMostFormats + operands[0].format % kMostFormats;
    Stream& stream = sends ? streams_[{id, op.peer, op.lane}] : streams_[{op.peer, id, op.lane}];
    (sends ? stream.sends : stream.receives).push_back({data, bytes, &posted});
  }

  void post_part(Rank id, const Op& op, std::uint64_t slice) {
    if (op.group >= lowered_.groups.size() ||
        std::ranges::count(lowered_.groups[op.group].ranks, id) != 1)
      return wrong("takes part in a group that is not its own");
    Part part;
    part.rank = id;
    part.op = &op;
    part.posted = &ranks_[id].posted[ranks_[id].op][slice % kMostInFlight];
    const auto locate_all = [&](const std::vector<Operand>& operands,
                                const std::vector<std::uint32_t>& like, std::vector<Span>& spans) {
      for (std::uint32_t i = 0; i < like.size(); ++i) {
        const std::uint32_t length = slice_of(like[i], slice).second;
        Element* data = nullptr;
        if (length > 0 && !operands.empty()) data = locate(id, operands[0], i, length, slice);
        if (length > 0 && data == nullptr) return wrong("has no memory for its part");
        spans.emplace_back(data, length);
      }
    };
    locate_all(op.sources, op.like, part.sources);
    locate_all(op.destinations, op.like_received, part.destinations);
    if (outcome_.verdict != Verdict::kRight) return;
    part.posted->slice_and_one = slice + 1;
    ++part.posted->pending;
    Group& group = groups_[op.group];
    const std::size_t number = group.posted[id]++;
    if (group.operations.size() <= number) {
      group.operations.resize(number + 1);
      group.delivered.resize(number + 1);
    }
    group.operations[number].push_back(std::move(part));
  }

  // --- the network ---

  bool network_step() {
    if (!groups_.empty() && below(2) == 0 && group_step()) return true;
    return stream_step() || group_step();
  }

  bool group_step() {
    for (auto& [id, group] : groups_)
      for (std::size_t number = 0; number < group.operations.size(); ++number)
        if (move(group, number, lowered_.groups[id].ranks.size())) return true;
    return false;
  }

  /// Reads what one member contributes, or gives one member its results.
  bool move(Group& group, std::size_t number, std::size_t members) {
    std::vector<Part>& parts = group.operations[number];
    if (parts.empty()) return false;
    const std::size_t chosen = below(parts.size());
    for (const Part& part : parts)  // a part of the results may be there
      if (part.is_read && below(4) == 0)
        for (const auto& [data, length] : part.destinations) std::fill_n(data, length, kPoison);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Part& part = parts[(chosen + i) % parts.size()];
      if (part.is_read) continue;
      for (const auto& [data, length] : part.sources) part.values.emplace_back(data, data + length);
      return part.is_read = true;
    }
    std::vector<Part>& delivered = group.delivered[number];
    if (parts.size() + delivered.size() < members) return false;
    Part& part = parts[chosen];
    std::vector<const Part*> all;
    for (const auto* list : {&parts, &delivered})
      for (const Part& each : *list) all.push_back(&each);
    for (std::size_t i = 0; i < part.destinations.size(); ++i) deliver(all, part, i);
    --part.posted->pending;
    delivered.push_back(std::move(part));
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(chosen));
    return true;
  }

  void deliver(const std::vector<const Part*>& all, const Part& to, std::size_t i) {
    const auto& [data, length] = to.destinations[i];
    const std::size_t position = to.op->first_received + i;
    const bool sums = adds(to.op->form);
    const ir::FormatId format = to.op->destinations[0].format;
    std::vector<Element> result(length, 0);
    std::size_t contributions = 0;
    for (const Part* part : all) {
      if (part->op->form != to.op->form || part->op->root != to.op->root)
        return wrong("members do different things");
      if (position < part->op->first_sent || position - part->op->first_sent >= part->values.size())
        continue;
      const std::vector<Element>& values = part->values[position - part->op->first_sent];
      if (values.size() != length || part->op->sources[0].format != format)
        return wrong("parts of an operation do not fit");
      ++contributions;
      for (std::uint32_t e = 0; e < length; ++e) result[e] += decoded(format, values[e]);
    }
    if (contributions != (sums ? all.size() : 1)) return wrong("too few or too many contribute");
    if (sums && !reducing()) return wrong("adds where nothing is reduced");
    if (sums && to.op->completes && !options_.scales_input)
      for (Element& element : result) element /= ranks_.size();
    for (std::uint32_t e = 0; e < length; ++e) data[e] = encoded(format, result[e]);
  }

  bool stream_step() {
    if (streams_.empty()) return false;
    const std::size_t first = slow_stream_ ? 0 : below(streams_.size());
    auto next = std::next(streams_.begin(), static_cast<std::ptrdiff_t>(first));
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (move(next->second)) return true;
      if (++next == streams_.end()) next = streams_.begin();
    }
    return false;
  }

  bool move(Stream& stream) {
    if (!stream.receives.empty() && below(4) == 0) {  // a part of the message may be there
      const Transfer& receive = stream.receives[below(stream.receives.size())];
      std::fill_n(receive.data, receive.length / kMostFormats, kPoison);
    }
    const bool can_read = !stream.sends.empty() &&
                          (!send_needs_receive_ || stream.receives.size() > stream.flying.size());
    const bool can_deliver = !stream.flying.empty() && !stream.receives.empty();
    if (can_read && (!can_deliver || below(2) == 0)) {
      const Transfer& send = stream.sends.front();
      stream.flying.emplace_back(send.data, send.data + send.length / kMostFormats);
      stream.flying.back().push_back(send.length);
      --send.posted->pending;
      stream.sends.pop_front();
      return true;
    }
    if (!can_deliver) return false;
    const Transfer& receive = stream.receives.front();
    const std::vector<Element>& message = stream.flying.front();
    if (message.back() != receive.length) {
      wrong("a message is not as long as expected");
      return true;
    }
    std::copy(message.begin(), message.end() - 1, receive.data);
    --receive.posted->pending;
    stream.receives.pop_front();
    stream.flying.pop_front();
    return true;
  }

  const Lowered& lowered_;
  const Placement& placement_;
  const Options options_;
  const std::uint32_t slices_;
  std::mt19937_64 random_;
  std::vector<RankState> ranks_;
  std::vector<std::uint32_t> begin_;  ///< of the chunks of a block, in elements
  std::map<std::tuple<Rank, Rank, Lane>, Stream> streams_;
  std::map<ir::GroupId, Group> groups_;
  std::vector<std::size_t> order_;
  int policy_ = 0;
  bool send_needs_receive_ = false;
  bool slow_stream_ = false;  ///< the network serves streams in a fixed order of preference
  std::size_t change_one_in_ = 4;
  Outcome outcome_;
};

/// `lowered` must have a program for each rank of the placement, and depths of at least 1.
inline Outcome execute(const Lowered& lowered, const Placement& placement, const Options& options) {
  return Execution(lowered, placement, options).run();
}

}  // namespace tutti::lower::execution
