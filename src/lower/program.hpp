// The lowered program: a schedule, translated for mapped memory and for wires. A schedule consists
// of steps, a lowered program of ops. Sizes turn ops into passes, in a plan of the host
// (src/exec/plan.hpp) or in an image for GPUs (src/device/program.hpp).
//
// A schedule says which chunk goes where. A program says which loads, stores and waits move it. It
// still has no sizes or addresses: an executor binds it to a count, a type and buffers, and its
// formats to encodings.
//
// Words:
//   slice     chunks are processed in slices of equal length; all ranks have the same number.
//
//   op        one element of a rank's program; run once per slice.
//
//   stage     an op with stage s handles slice t - s in iteration t. So while a rank works on slice
//             k, its peers' slice k+1 is under way (software pipelining). Iterations run from 0 to
//             (slices - 1) + last stage. Within an iteration, ops run in program order.
//
//   slot      a piece of a rank's staging memory that mapped peers read. Slice k uses instance
//             k mod slot_depth of each slot. Only its producer writes it.
//
//   progress  one monotonic counter per rank. It counts the (iteration, published op) pairs that
//             the rank has passed, plus one for leaving the call. `Wait{r, i, d}` before slice k
//             means: rank r has passed its op i for slice k + d. One counter per rank replaces a
//             flag per message, because programs are static: every rank can compute every other's
//             position.
//
// Three protocols:
//   kStaged     data moves through slots (mapped peers) and messages (others).
//   kPublished  for small data on one host. A rank enters by publishing a copy of its whole input
//               together with its call, and peers read it there. One round, no slots, no progress.
//   kDirect     for larger data on one host. A rank enters by telling where its buffers lie. Peers
//               read its input and write its output there. It leaves once all of them are done. One
//               round, no slots; each byte is loaded and stored once. Any place that is written is
//               touched by one rank only, so ranks wait only for entering and leaving.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/ir/group_operations.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/types.hpp"

namespace tutti::lower {

/// Most operands of one op. The reduction kernels accept at least as many.
inline constexpr std::size_t kMaxSources = 64;
inline constexpr std::size_t kMaxDestinations = 8;
/// Most transfers of one op at a time: slice k is posted after slice k - 4 is complete.
inline constexpr std::uint64_t kTransfersInFlight = 4;

/// Least instances of each slot of a rank that runs_ahead(). A message of up to this many slices
/// that fits its slots is sent without waiting for readers.
inline constexpr std::uint32_t kSlicesAhead = 4;

/// Which ranks can load from each other's memory: those with equal host numbers.
struct Placement {
  std::vector<std::int32_t> host;  ///< per rank
  [[nodiscard]] bool mapped(Rank a, Rank b) const { return host[a] == host[b]; }
  [[nodiscard]] bool all_mapped() const {
    for (const auto h : host)
      if (h != host[0]) return false;
    return true;
  }
  /// `ranks` ranks that all load from each other's memory, as GPUs of several hosts may.
  static Placement of_one_memory(std::int32_t ranks) {
    return {std::vector<std::int32_t>(static_cast<std::size_t>(ranks), 0)};
  }
  friend bool operator==(const Placement&, const Placement&) = default;
};

enum class ProgramProtocol : std::uint8_t { kStaged, kPublished, kDirect };

/// kPublished or kDirect: peers read each other's inputs, in one round without slots.
constexpr bool one_round(ProgramProtocol protocol) { return protocol != ProgramProtocol::kStaged; }

enum class ProgramMemory : std::uint8_t {
  kInput,      ///< this rank's input, not written yet: raw contributions
  kOutput,     ///< this rank's output; with in-place aliasing also the written parts of the input
  kScratch,    ///< this rank's private scratch, one instance per slice in flight
  kSlot,       ///< slot `index` of rank `owner`
  kPublished,  ///< chunks of the input of rank `owner`: its published copy; with kDirect, the input
               ///< itself
  kPeerOutput,  ///< kDirect: chunks of the output of rank `owner`; only written
};

constexpr bool is_peers_buffer(ProgramMemory memory) {
  return memory == ProgramMemory::kPublished || memory == ProgramMemory::kPeerOutput;
}

/// Pieces of one memory. In input, output, kPublished and kPeerOutput a piece is a chunk number. In
/// scratch it is a scratch piece, in a slot its position there. Formatted data is in scratch and
/// slots alone.
struct Operand {
  ProgramMemory memory = ProgramMemory::kInput;
  Rank owner = kNoRank;     ///< kSlot, kPublished, kPeerOutput
  std::uint32_t index = 0;  ///< kSlot: which slot of the owner
  std::vector<std::uint32_t> pieces;
  ir::FormatId format = ir::kPlain;  ///< of what is read or written
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// Before slice k: rank `rank` has passed its published op `op` for slice k + slice_delta. The
/// delta is never positive; otherwise progress would depend on the number of slices.
struct Wait {
  Rank rank = kNoRank;
  std::uint32_t op = 0;
  std::int32_t slice_delta = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// Before slice k: transfers of this rank's own op `op` for slice k + slice_delta are complete.
struct TransferWait {
  std::uint32_t op = 0;
  std::int32_t slice_delta = 0;
  friend bool operator==(const TransferWait&, const TransferWait&) = default;
};

enum class OpKind : std::uint8_t {
  /// Destinations = sources combined in order; one source: a copy. Formatted sources are decoded,
  /// and formatted destinations, all of one format, get the result encoded once. Where the one
  /// source has that format already, its bytes are copied.
  kCombine,
  kSend,  ///< posts a message per piece from the source to `peer`
  kRecv,  ///< posts a receive per piece into the destination
  /// Posts this rank's part of an operation of `group`, as one transfer: what it contributes, and
  /// where its results go. Either may be missing. Complete when the results are there and nothing
  /// reads the source any more.
  kGroup,
};
constexpr bool is_transfer(OpKind kind) { return kind != OpKind::kCombine; }

struct Op {
  OpKind kind = OpKind::kCombine;
  bool completes = false;     ///< the result is the sum over all ranks: kAvg divides here
  bool published = false;     ///< another rank waits for this op: store progress after it
  std::uint32_t ordinal = 0;  ///< if published: its index among the published ops
  Lane lane = 0;
  Rank peer = kNoRank;
  std::uint32_t stage = 0;
  std::vector<std::uint32_t> like;   ///< per piece: the chunk that has its length (chunk_of_all())
  ir::GroupId group = ir::kNoGroup;  ///< kGroup
  ir::GroupForm form = ir::GroupForm::kSumToAll;  ///< kGroup
  std::uint32_t root = 0;                         ///< kGroup: see ir::GroupOperation
  /// kGroup: `like` of the destination's pieces; `like` itself is the source's. The positions
  /// within the operation of the first ones, and how many positions there are: ir::GroupPart.
  std::vector<std::uint32_t> like_received;
  std::uint32_t first_sent = 0, first_received = 0, positions = 0;
  std::vector<Operand> sources;
  std::vector<Operand> destinations;
  std::vector<Wait> waits;
  std::vector<TransferWait> transfers;
  friend bool operator==(const Op&, const Op&) = default;
};

/// Whether an op brings its result into a format that its source has not.
inline bool encodes(const Op& op) {
  for (const Operand& destination : op.destinations)
    if (op.kind == OpKind::kCombine && destination.format != ir::kPlain)
      return op.sources.size() > 1 || op.sources.front().format != destination.format;
  return false;
}

/// Slots lie one after another in a rank's staging memory, with `depth` instances of each.
struct Slot {
  std::uint32_t pieces = 0;
  std::uint32_t first_piece = 0;  ///< number of pieces in the slots before it
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct Program {
  std::vector<Op> ops;
  std::vector<Slot> slots;
  std::uint32_t slot_pieces = 0;  ///< over all slots
  std::uint32_t scratch_pieces = 0;
  std::uint32_t scratch_depth = 1;  ///< instances of every scratch piece
  std::uint32_t last_stage = 0;
  friend bool operator==(const Program&, const Program&) = default;

  std::uint32_t published_ops = 0;

  [[nodiscard]] std::uint64_t iterations(std::uint64_t slices) const {
    return ops.empty() ? 0 : slices + last_stage;
  }
  /// The progress value after published op `op` for slice `slice`, counted from the call's start.
  [[nodiscard]] std::uint64_t position(std::uint32_t op, std::uint64_t slice) const {
    return (slice + ops[op].stage) * published_ops + ops[op].ordinal + 1;
  }
  /// The progress value after the call.
  [[nodiscard]] std::uint64_t positions(std::uint64_t slices) const {
    return (slices + last_stage) * published_ops + 1;
  }
};

/// Chunks that a rank sends equally often. Value.
struct SentChunks {
  std::uint32_t first = 0, count = 0;  ///< as long as these chunks (as Op::like)
  std::uint32_t times = 0;             ///< how often each is sent
  std::uint32_t to_other_hosts = 0;    ///< how many of these go to other hosts
  ir::FormatId format = ir::kPlain;
  friend bool operator==(const SentChunks&, const SentChunks&) = default;
};

struct Lowered {
  ir::Request request;
  std::string algorithm;
  ProgramProtocol protocol = ProgramProtocol::kStaged;
  std::uint32_t chunks_per_block = 1;
  std::vector<std::string> formats;  ///< as in ir::Schedule
  std::vector<ir::Group> groups;     ///< the same
  std::uint32_t lossy_steps = 0;     ///< with formats: as ir::Proof
  bool same_bits = true;             ///< the same
  std::uint32_t slot_depth = 2;
  std::uint32_t max_slot_pieces = 0;  ///< over all ranks; executors derive the slice length from it
  std::vector<Program> programs;      ///< one per rank
  std::vector<std::vector<SentChunks>>
      sent;  ///< by each rank, according to the schedule (sent.hpp)
  friend bool operator==(const Lowered&, const Lowered&) = default;
};

/// Whether a kDirect program does more than copy from peers' inputs. Then all ranks must map each
/// other's buffers.
bool needs_mapped_buffers(const Lowered& lowered);

/// Whether all ranks only send from their buffers and receive into them: whoever runs it touches no
/// byte.
bool only_messages(const Lowered& lowered);

/// Whether this is a broadcast from the slots of its root to a few ranks that read nothing else.
/// The root waits for no data, so it gains by running ahead as far as its slots allow. Many readers
/// that take turns on the CPUs do not gain: for them a short piece in the caches is better (perf/,
/// 8 ranks on 2 CPUs). A gather does not gain either, because its reader has the most work.
/// In-place makes no difference.
bool runs_ahead(const Lowered& lowered);

constexpr std::string_view name_of(ProgramProtocol protocol) {
  constexpr std::string_view kNames[] = {"staged", "published", "direct"};
  return kNames[static_cast<std::size_t>(protocol)];
}
constexpr std::string_view name_of(OpKind kind) {
  constexpr std::string_view kNames[] = {"combine", "send", "recv", "group"};
  return kNames[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name_of(ProgramMemory memory) {
  constexpr std::string_view kNames[] = {"in", "out", "tmp", "slot", "published", "peer out"};
  return kNames[static_cast<std::size_t>(memory)];
}

}  // namespace tutti::lower
