// The step program: what a schedule becomes for memory that is mapped, and wires that are not.
//
// A schedule says which chunk goes where; a program says which loads, stores and waits do it. It is
// still free of sizes and addresses: an executor binds it to a count, a type and buffers.
//
// Words:
//   slice     chunks are processed in slices of equal length; all ranks have the same number.
//
//   op        one element of a rank's program; run once per slice.
//
//   stage     op with stage s handles slice t - s in iteration t: while a rank works on slice k,
//             its peers' slice k+1 is on the way (software pipelining). Iterations run from 0 to
//             (slices - 1) + last stage; within one, ops run in program order.
//
//   slot      a piece of a rank's staging memory that mapped peers read. Slice k uses instance
//             k mod slot_depth of each slot. Its producer alone writes it.
//
//   progress  one monotonic counter per rank: the (iteration, published op) pairs that it has
//             passed, and one for leaving the call. `Wait{r, i, d}` before slice k means: rank r
//             has passed its op i for slice k + d. A single counter per rank replaces flags per
//             message because programs are static: every rank can compute every other's position.
//
// Three protocols:
//   kStaged     data moves through slots (mapped peers) and messages (others).
//   kPublished  for small data on one host: a rank enters by publishing its whole input together
//               with its call; peers read it from there. One round, no slots, no progress.
//   kDirect     for more data on one host: a rank enters by saying where its buffers lie, peers
//               read its input and write its output there, and it leaves once all of them have.
//               One round, no slots, each byte loaded and stored once. A place that anybody writes
//               is touched by one rank alone, so nothing but entering and leaving has to be waited
//               for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/ir/schedule.hpp"
#include "tutti/types.hpp"

namespace tutti::lower {

/// Most operands of one pass; the reduction kernels accept at least as many.
inline constexpr std::size_t kMaxSources = 64;
inline constexpr std::size_t kMaxDestinations = 8;
/// Slices of one op that transfer at once: slice k is posted after slice k - 4 is complete.
inline constexpr std::uint64_t kTransfersInFlight = 4;

/// Instances of each slot, at least, where a rank runs_ahead(). A message of so many slices that
/// fits its slots goes without a wait for readers.
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
  friend bool operator==(const Placement&, const Placement&) = default;
};

enum class Protocol : std::uint8_t { kStaged, kPublished, kDirect };

/// kPublished or kDirect: peers read each other's inputs, in one round without slots.
constexpr bool one_round(Protocol protocol) { return protocol != Protocol::kStaged; }

enum class Memory : std::uint8_t {
  kInput,      ///< this rank's input, never yet written: raw contributions
  kOutput,     ///< this rank's output (with in-place aliasing, also the written parts of the input)
  kScratch,    ///< this rank's private scratch, one instance per slice in flight
  kSlot,       ///< slot `index` of rank `owner`
  kPublished,  ///< chunks of the input of rank `owner`: its copy of it, or with kDirect itself
  kPeerOutput,  ///< chunks of the output of rank `owner`, with kDirect; only written
};

constexpr bool is_peers_buffer(Memory memory) {
  return memory == Memory::kPublished || memory == Memory::kPeerOutput;
}

/// Pieces of one memory. A piece of input, output, kPublished or kPeerOutput is a chunk number; of
/// scratch, a scratch piece; of a slot, its position there.
struct Operand {
  Memory memory = Memory::kInput;
  Rank owner = kNoRank;     ///< kSlot, kPublished, kPeerOutput
  std::uint32_t index = 0;  ///< kSlot: which slot of the owner
  std::vector<std::uint32_t> pieces;
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// Before slice k: rank `rank` has passed its op `op`, which is published, for slice
/// k + slice_delta. The delta is never positive, or progress would depend on the number of slices.
struct Wait {
  Rank rank = kNoRank;
  std::uint32_t op = 0;
  std::int32_t slice_delta = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// Before slice k: the transfers of this rank's own op `op` for slice k + slice_delta are complete.
struct TransferWait {
  std::uint32_t op = 0;
  std::int32_t slice_delta = 0;
  friend bool operator==(const TransferWait&, const TransferWait&) = default;
};

enum class OpKind : std::uint8_t {
  kCombine,  ///< destinations = sources combined in order; one source: a copy
  kEncode,   ///< destinations = encode(source)
  kDecode,   ///< destinations = decode(source)
  kSend,     ///< posts a message per piece from the source to `peer`
  kRecv,     ///< posts a receive per piece into the destination
};

struct Op {
  OpKind kind = OpKind::kCombine;
  bool completes = false;     ///< the result is the whole sum: kAvg divides here
  bool encoded = false;       ///< kSend, kRecv: the data is encoded
  bool published = false;     ///< someone waits for this op: store progress after it
  std::uint32_t ordinal = 0;  ///< published: its number among the published ops, in order
  Lane lane = 0;
  Rank peer = kNoRank;
  std::uint32_t stage = 0;
  std::vector<std::uint32_t> like;  ///< per piece: the chunk whose length it has (chunk_of_all())
  std::vector<Operand> sources;
  std::vector<Operand> destinations;
  std::vector<Wait> waits;
  std::vector<TransferWait> transfers;
  friend bool operator==(const Op&, const Op&) = default;
};

/// Slots lie one after another in a rank's staging memory, `depth` instances of each.
struct Slot {
  std::uint32_t pieces = 0;
  std::uint32_t first_piece = 0;  ///< pieces of the slots before it
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
  /// The progress value after published op `op` for slice `slice`, from the start of the call.
  [[nodiscard]] std::uint64_t position(std::uint32_t op, std::uint64_t slice) const {
    return (slice + ops[op].stage) * published_ops + ops[op].ordinal + 1;
  }
  /// The progress value once the call is over.
  [[nodiscard]] std::uint64_t positions(std::uint64_t slices) const {
    return (slices + last_stage) * published_ops + 1;
  }
};

/// Chunks that a rank sends equally often. Value.
struct SentChunks {
  std::uint32_t first = 0, count = 0;  ///< as long as these chunks, as Op::like
  std::uint32_t times = 0;             ///< each is sent
  std::uint32_t to_other_hosts = 0;    ///< of those times
  bool encoded = false;
  friend bool operator==(const SentChunks&, const SentChunks&) = default;
};

struct Lowered {
  ir::Request request;
  std::string algorithm;
  Protocol protocol = Protocol::kStaged;
  std::uint32_t chunks_per_block = 1;
  std::uint32_t slot_depth = 2;
  std::uint32_t max_slot_pieces = 0;  ///< over ranks; executors derive the slice length from it
  std::vector<Program> programs;      ///< one per rank
  std::vector<std::vector<SentChunks>> sent;  ///< by each rank, as the schedule has it (sent.hpp)
  friend bool operator==(const Lowered&, const Lowered&) = default;
};

/// Whether a kDirect program does more than copy out of peers' inputs, so that all ranks must map
/// each other's buffers.
bool needs_mapped_buffers(const Lowered& lowered);

/// Whether this is a broadcast from the slots of its root to a few ranks that read nothing else:
/// then the root, which waits for no data, gains by running ahead as far as its slots go. Not so
/// with many readers that take turns at the CPUs, which rather find a short stretch in the caches
/// (perf/, 8 ranks on 2 CPUs), nor in a gather, where the reader has the most to do. Whether ranks
/// are in place makes no difference.
bool runs_ahead(const Lowered& lowered);

constexpr std::string_view name_of(Protocol protocol) {
  constexpr std::string_view kNames[] = {"staged", "published", "direct"};
  return kNames[static_cast<std::size_t>(protocol)];
}
constexpr std::string_view name_of(OpKind kind) {
  constexpr std::string_view kNames[] = {"combine", "encode", "decode", "send", "recv"};
  return kNames[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name_of(Memory memory) {
  constexpr std::string_view kNames[] = {"in", "out", "tmp", "slot", "published", "peer out"};
  return kNames[static_cast<std::size_t>(memory)];
}

}  // namespace tutti::lower
