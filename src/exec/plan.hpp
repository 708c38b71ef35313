// A lowered program bound to a rank, element counts and a type: everything that a launch needs and
// that does not change between calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/codec/format.hpp"
#include "src/exec/chunk_places.hpp"
#include "src/exec/sent_bytes.hpp"
#include "src/exec/store_choice.hpp"
#include "src/exec/team.hpp"
#include "src/lower/program.hpp"

namespace tutti::exec {

/// A lower::Wait in numbers: before slice k, the progress of `rank` must reach base[rank] + (k +
/// delta) * stride + offset.
struct BoundWait {
  Rank rank = 0;
  std::int64_t delta = 0;
  std::uint64_t stride = 0;
  std::uint64_t offset = 0;
};

/// Bytes at a fixed offset from the start of a buffer.
struct Place {
  lower::ProgramMemory memory = lower::ProgramMemory::kInput;
  Holder holder = Holder::kEntry;  ///< for memory that `owner` publishes
  Rank owner = kNoRank;            ///< for a peer's buffer
  std::size_t offset = 0;
};

/// A piece of an op of a one-round program, or several pieces that are adjacent in all their
/// buffers.
struct Pass {
  std::uint32_t first = 0;  ///< index of its first place; sources, then destinations
  std::uint16_t sources = 0, destinations = 0;
  bool completes = false;         ///< see lower::Op
  std::uint64_t own_sources = 0;  ///< bit s: source s is this rank's input
  std::size_t bytes = 0;          ///< not 0, unless blocks have different sizes
};

/// Where a staged program finds the slices of a piece in one memory.
struct SlicedPlace {
  lower::ProgramMemory memory = lower::ProgramMemory::kInput;
  Rank owner = kNoRank;         ///< of a slot
  std::size_t offset = 0;       ///< of slice 0 from the start of the memory
  std::size_t step = 0;         ///< bytes to the next slice
  std::uint64_t instances = 0;  ///< slices s and s + instances share their place; 0: none do
  [[nodiscard]] std::size_t of_slice(std::uint64_t slice) const {
    if (slice == 0) return offset;
    return offset + (instances == 0 ? slice : slice % instances) * step;
  }
};

/// The pieces of an op of a staged program.
struct BoundPieces {
  std::uint32_t first = 0;  ///< index of its first place; by piece: sources, then destinations
  std::uint16_t sources = 0, destinations = 0;
  bool converts = false;  ///< any of a combination's operands is formatted
};

/// This rank's part in an operation of a group.
struct BoundPart {
  std::uint32_t first = 0;  ///< index of its first place: of the source's pieces, then the others
  /// As long as these chunks (as lower::Op::like): the operation's positions.
  std::span<const std::uint32_t> like;
};

/// Transfers of one kSend, kRecv or kGroup op: a ring over slices with `pieces` transfers each.
struct TransferRing {
  static constexpr std::uint64_t kDepth = lower::kTransfersInFlight;
  Connection* connection = nullptr;
  AggregationTree* tree = nullptr;  ///< kGroup; then there is no connection
  StreamId stream;                  ///< of calls that are not for devices
  std::unique_ptr<Transfer[]> transfers;
  std::uint32_t pieces = 0;
  std::uint64_t posted[kDepth] = {};  ///< slice + 1 in each position of the ring; 0: none
  [[nodiscard]] Transfer& at(std::uint64_t slice, std::uint32_t piece) {
    return transfers[(slice % kDepth) * pieces + piece];
  }
};

/// Resource. One launch at a time.
class Plan {
 public:
  /// With volume.blocks, the program must have been checked for blocks of any sizes. Programs with
  /// formats run on types that is_convertible() alone.
  /// `wire` is what ir::kWireFormat stands for; other names are those of formats.
  static Result<std::unique_ptr<Plan>> bind(std::shared_ptr<const lower::Lowered> lowered,
                                            const Team& team, const Volume& volume,
                                            std::shared_ptr<const codec::Format> wire = nullptr);

  /// kUnsupported, and so from bind(), where the team's staging memory has no room for the slots of
  /// `lowered`. `wire` as for bind(), null: none. Each piece needs room for a block of it.
  static Status check_slots(const lower::Lowered& lowered, const Team& team,
                            const codec::Format* wire, std::size_t element_bytes);

  [[nodiscard]] const lower::Lowered& lowered() const { return *lowered_; }
  [[nodiscard]] const lower::Program& program() const { return *program_; }
  [[nodiscard]] std::span<const BoundWait> waits(std::uint32_t op) const { return waits_[op]; }
  [[nodiscard]] TransferRing& ring(std::uint32_t op) { return rings_[op]; }
  /// The whole program if lower::one_round(); it has no slices, waits or transfers then.
  [[nodiscard]] std::span<const Pass> passes() const { return passes_; }
  /// Sources, then destinations.
  [[nodiscard]] std::span<const Place> places(const Pass& pass) const {
    return {places_.data() + pass.first, std::size_t{pass.sources} + pass.destinations};
  }
  [[nodiscard]] std::span<const Place> sources(const Pass& pass) const {
    return places(pass).first(pass.sources);
  }
  [[nodiscard]] std::span<const Place> destinations(const Pass& pass) const {
    return places(pass).subspan(pass.sources);
  }
  /// Of a staged program.
  [[nodiscard]] const BoundPieces& pieces(std::uint32_t op) const { return pieces_[op]; }
  [[nodiscard]] std::span<const SlicedPlace> sources(const BoundPieces& op,
                                                     std::size_t piece) const {
    return {places_of(op, piece), op.sources};
  }
  [[nodiscard]] std::span<const SlicedPlace> destinations(const BoundPieces& op,
                                                          std::size_t piece) const {
    return {places_of(op, piece) + op.sources, op.destinations};
  }
  /// Of a kGroup op.
  [[nodiscard]] const BoundPart& part(std::uint32_t op) const { return parts_[op]; }
  [[nodiscard]] std::span<const SlicedPlace> sources(const BoundPart& part,
                                                     const lower::Op& op) const {
    return {sliced_places_.data() + part.first, op.like.size()};
  }
  [[nodiscard]] std::span<const SlicedPlace> destinations(const BoundPart& part,
                                                          const lower::Op& op) const {
    return {sliced_places_.data() + part.first + op.like.size(), op.like_received.size()};
  }
  /// The ops in the order in which one slice runs them; none if there are several slices.
  [[nodiscard]] std::span<const std::uint32_t> order() const { return order_; }
  /// The ops that post transfers.
  [[nodiscard]] std::span<const std::uint32_t> transfer_ops() const { return transfer_ops_; }

  [[nodiscard]] std::uint64_t slices() const { return slices_; }
  [[nodiscard]] std::size_t element_bytes() const { return element_bytes_; }
  /// Bytes from one piece of scratch to the next.
  [[nodiscard]] std::size_t scratch_stride() const { return stride_; }
  /// Of a staged program, the same on all ranks.
  [[nodiscard]] std::size_t slot_bytes() const {
    return slot_instances_ * lowered_->max_slot_pieces * slot_stride_;
  }
  [[nodiscard]] std::size_t scratch_bytes() const {
    return stride_ * program_->scratch_pieces * program_->scratch_depth;
  }
  /// Size of a rank's buffers, without gaps between blocks.
  [[nodiscard]] std::size_t input_bytes(Rank rank) const { return input_bytes_[rank]; }
  [[nodiscard]] std::size_t output_bytes(Rank rank) const { return output_bytes_[rank]; }
  /// What this rank sends per call.
  [[nodiscard]] const SentBytes& sent() const { return sent_; }
  /// Values that this rank encodes in a call. They are numbered in the order of the whole vector of
  /// the collective: first what is encoded of each chunk at first, then what is encoded of it the
  /// second time. So the numbers depend neither on slices nor on who else is on this host.
  [[nodiscard]] std::size_t coded_elements() const { return coded_elements_; }
  /// The number of the first value of a piece that an op encodes.
  [[nodiscard]] std::size_t first_coded(std::uint32_t op, std::uint32_t piece) const {
    return first_coded_[op][piece];
  }
  /// Null: plain.
  [[nodiscard]] const codec::Format* format(ir::FormatId format) const {
    return format == ir::kPlain ? nullptr : formats_[format - 1].get();
  }
  /// Of so many elements in a format.
  [[nodiscard]] std::size_t bytes_in(ir::FormatId format, std::size_t elements) const {
    return format == ir::kPlain ? elements * element_bytes_ : formats_[format - 1]->bytes(elements);
  }
  /// Whether this rank publishes its input in a packet.
  [[nodiscard]] bool fills_packet() const { return fills_packet_; }
  /// Null if too little is stored for a choice to matter.
  [[nodiscard]] StoreChoice* store_choice() { return store_choice_ ? &*store_choice_ : nullptr; }
  /// The lowest mapped peer that loads what this rank stores in slots or publishes.
  [[nodiscard]] std::optional<Rank> first_reader() const { return first_reader_; }
  /// The ranks that read this rank's entry of a call: bit r for rank r. All bits, if there are more
  /// ranks than bits.
  [[nodiscard]] std::uint64_t entry_readers() const { return entry_readers_; }
  /// The ranks that touch this rank's buffers, in protocols where peers do.
  [[nodiscard]] std::span<const Rank> buffer_users() const { return buffer_users_; }
  /// Whether that rank, or any rank, writes this rank's output.
  [[nodiscard]] bool is_written_by(Rank peer) const;
  [[nodiscard]] bool is_written() const { return !buffer_writers_.empty(); }

  /// Where chunks lie in this rank's buffers.
  [[nodiscard]] const ChunkPlaces& chunk_places() const { return chunks_; }
  /// Elements of slice `slice` in whatever is as long as chunk `like`.
  [[nodiscard]] std::size_t slice_size(std::uint32_t like, std::uint64_t slice) const {
    const std::size_t whole = chunks_.size(like);
    const std::size_t begin = std::min(whole, slice * slice_elements_);
    return std::min(slice_elements_, whole - begin);
  }
  /// Offset of a slice from the start of its chunk.
  [[nodiscard]] std::size_t slice_begin(std::uint64_t slice) const {
    return slice * slice_elements_;
  }

 private:
  using Formats = std::vector<std::shared_ptr<const codec::Format>>;
  Plan(std::shared_ptr<const lower::Lowered> lowered, const Team& team, const Volume& volume,
       Formats formats);
  StoreRole find_store_role(const Team& team);
  void guess_stores(const Team& team);
  void choose_slices(const Team& team);
  [[nodiscard]] Status check_room(const Team& team) const;
  void choose_slot_instances(const Team& team);
  void number_coded();
  void bind_waits();
  void bind_passes();
  void bind_passes_of(const lower::Op& op);
  void bind_pieces();
  void bind_part(std::uint32_t op);
  [[nodiscard]] Status check_groups(const Team& team) const;
  [[nodiscard]] SlicedPlace sliced_place_of(const lower::Operand& operand,
                                            std::uint32_t piece) const;
  [[nodiscard]] const SlicedPlace* places_of(const BoundPieces& op, std::size_t piece) const {
    return sliced_places_.data() + op.first + piece * (std::size_t{op.sources} + op.destinations);
  }
  void find_order();
  void make_rings(const Team& team);
  [[nodiscard]] Place place_of(const lower::Operand& operand, std::uint32_t piece) const;
  void find_users(const Team& team);

  std::shared_ptr<const lower::Lowered> lowered_;
  const lower::Program* program_;
  ChunkPlaces chunks_;
  Formats formats_;  ///< of the program
  std::size_t coded_elements_ = 0;
  std::vector<std::vector<std::size_t>> first_coded_;  ///< per op; none if it encodes nothing
  std::size_t element_bytes_;
  std::vector<std::size_t> input_bytes_, output_bytes_;  ///< per rank
  SentBytes sent_;
  std::size_t slice_elements_ = 0;
  std::uint64_t slices_ = 1;
  std::optional<StoreChoice> store_choice_;
  std::optional<Rank> first_reader_;
  bool fills_packet_ = false;
  std::size_t stride_ = 0;  ///< of scratch, which may hold values plain and in any format
  std::size_t slot_stride_ = 0;
  /// Slices s and s + slot_instances_ share their slots. At least slot_depth, so that what the
  /// program waits for suffices.
  std::uint64_t slot_instances_ = 1;
  std::vector<std::vector<BoundWait>> waits_;
  std::vector<Pass> passes_;
  std::vector<Place> places_;
  std::vector<BoundPieces> pieces_;
  std::vector<BoundPart> parts_;  ///< by op, if there is a group
  std::vector<SlicedPlace> sliced_places_;
  std::vector<std::uint32_t> order_;
  std::uint64_t entry_readers_ = ~std::uint64_t{0};
  std::vector<Rank> buffer_users_, buffer_writers_;
  std::vector<TransferRing> rings_;
  std::vector<std::uint32_t> transfer_ops_;
};

/// What a call may run: `direct` if all buffers turn out to be mapped by all ranks (null: never),
/// else `plan`.
struct Plans {
  Plan* direct = nullptr;
  Plan* plan = nullptr;
  bool declines = false;  ///< this rank cannot run `direct` and announces that
};

/// The largest buffers of any rank, in bytes. They decide the protocol.
struct LargestBuffers {
  std::size_t input = 0, output = 0;
};
LargestBuffers largest_buffers(const ir::Request& request, const Volume& volume);

}  // namespace tutti::exec
