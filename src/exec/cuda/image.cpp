#include "src/exec/cuda/image.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "src/base/result.hpp"
#include "src/device/share.hpp"
#include "src/ir/blocks.hpp"
#include "src/ir/request.hpp"
#include "src/lower/slices.hpp"

namespace tutti::exec::cuda {
namespace {

using device::Location;
using lower::kStrideUnit;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// f(operand) for all of an op.
template <class F>
void for_each_operand(const lower::Op& op, const F& f) {
  for (const auto* operands : {&op.sources, &op.destinations})
    for (const lower::Operand& operand : *operands) f(operand);
}

/// Whose buffers a program touches.
std::set<Rank> owners_of(const lower::Program& program) {
  std::set<Rank> owners;
  for (const lower::Op& op : program.ops)
    for_each_operand(op, [&](const lower::Operand& operand) {
      if (lower::is_peers_buffer(operand.memory)) owners.insert(operand.owner);
    });
  return owners;
}

device::ImageProtocol protocol_of(lower::ProgramProtocol protocol) {
  switch (protocol) {
    case lower::ProgramProtocol::kPublished:
      return device::ImageProtocol::kPackets;
    case lower::ProgramProtocol::kDirect:
      return device::ImageProtocol::kDirect;
    case lower::ProgramProtocol::kStaged:
      break;
  }
  return device::ImageProtocol::kStaged;
}

/// What no device code does.
Status check_supported(const lower::Lowered& lowered, const Volume& volume,
                       const ImageOptions& options) {
  if (lowered.request.ranks > static_cast<Rank>(device::kMaxRanks))
    return make_error(Code::kUnsupported, "{} ranks: device code runs over {} at most",
                      lowered.request.ranks, device::kMaxRanks);
  if (options.blocks == 0)
    return make_error(Code::kInvalidArgument, "a program needs at least 1 thread block");
  if (lowered.protocol == lower::ProgramProtocol::kDirect && volume.blocks &&
      !volume.blocks->packed())
    return make_error(Code::kUnsupported,
                      "blocks with gaps lie where peers cannot know: use another protocol");
  if (!lowered.formats.empty())
    return make_error(Code::kUnsupported,
                      "{} sends values in a format, and formats run on the host alone: choose an "
                      "algorithm without",
                      lowered.algorithm);
  for (const lower::Program& program : lowered.programs)
    for (const lower::Op& op : program.ops) switch (op.kind) {
        case lower::OpKind::kCombine:
          break;
        case lower::OpKind::kGroup:
          return make_error(Code::kUnsupported,
                            "{} lets the network add, which host executors do alone",
                            lowered.algorithm);
        case lower::OpKind::kSend:
        case lower::OpKind::kRecv:
          return make_error(Code::kUnsupported,
                            "{} sends to rank {} on another host, and messages are for host "
                            "executors: lower it for ranks that map each other's memory",
                            lowered.algorithm, op.peer);
      }
  return ok_status();
}

/// Lays out what kPublished programs push: each chunk of an input has as many bytes in the packets
/// of its readers, enough for the longest share.
class PacketPlaces {
 public:
  PacketPlaces(const lower::Lowered& lowered, const ChunkPlaces& places,
               std::uint64_t element_bytes, std::uint32_t blocks) {
    std::int32_t inputs = 0;
    for (Rank rank = 0; rank < lowered.request.ranks; ++rank)
      inputs = std::max(inputs, ir::block_counts(lowered.request, rank).input);
    chunks_ = static_cast<std::uint64_t>(inputs) * lowered.chunks_per_block;
    const std::uint64_t longest =
        device::longest_share(places.longest(), element_bytes, blocks) * element_bytes;
    chunk_bytes_ =
        round_up(longest, device::kPacketData) / device::kPacketData * sizeof(device::Packet);
    bytes_ = chunks_ * chunk_bytes_ * static_cast<std::uint64_t>(lowered.request.ranks);
  }

  /// From the start of a half.
  [[nodiscard]] std::uint64_t at(Rank sender, std::uint32_t chunk) const {
    return (static_cast<std::uint64_t>(sender) * chunks_ + chunk) * chunk_bytes_;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t chunks_ = 0, chunk_bytes_ = 0, bytes_ = 0;
};

class Builder {
 public:
  Builder(const lower::Lowered& lowered, const Volume& volume, Rank rank,
          const ImageOptions& options)
      : lowered_(lowered),
        program_(lowered.programs[rank]),
        rank_(rank),
        options_(options),
        element_bytes_(size_of(volume.type)),
        places_(lowered, volume, rank),
        packets_(lowered, places_, element_bytes_, options.blocks) {
    header_.protocol = protocol_of(lowered.protocol);
    header_.rank = static_cast<std::uint32_t>(rank);
    header_.ranks = static_cast<std::uint32_t>(lowered.request.ranks);
    header_.blocks = options.blocks;
    header_.arithmetic.type = volume.type;
    header_.arithmetic.op = options.op;
    header_.arithmetic.divisor = lowered.request.ranks;
    header_.area = options.area;
  }

  Result<std::vector<std::byte>> run() {
    TUTTI_TRY(choose_slices());
    if (staged()) {
      for (std::uint32_t id = 0; id < program_.ops.size(); ++id) TUTTI_TRY(add_op(id));
    } else {
      TUTTI_TRY(add_only_op());
    }
    switch (header_.protocol) {
      case device::ImageProtocol::kPackets:
        TUTTI_TRY(add_pushes());
        break;
      case device::ImageProtocol::kDirect:
        add_owners_and_users();
        break;
      case device::ImageProtocol::kStaged:
        break;
    }
    return assemble();
  }

 private:
  [[nodiscard]] Rank ranks() const { return lowered_.request.ranks; }
  [[nodiscard]] bool staged() const { return header_.protocol == device::ImageProtocol::kStaged; }

  // --- sizes ---

  Status choose_slices() {
    const std::uint64_t longest =
        device::longest_share(places_.longest(), element_bytes_, options_.blocks);
    header_.slice_elements = std::max<std::uint64_t>(1, longest);
    if (!staged()) {
      if (header_.protocol == device::ImageProtocol::kPackets)
        TUTTI_TRY(check_room("packets", packets_.bytes(), options_.area.packet_bytes));
      return ok_status();
    }
    std::uint64_t scratch = 0;  // pieces, of the rank that has most
    for (const lower::Program& program : lowered_.programs)
      scratch = std::max(scratch, std::uint64_t{program.scratch_pieces} * program.scratch_depth);
    const std::uint64_t slots = std::uint64_t{lowered_.max_slot_pieces} * lowered_.slot_depth;
    header_.slice_elements =
        lower::slice_elements(lowered_, longest, element_bytes_, options_.area.slot_bytes);
    if (scratch > 0) {
      const std::uint64_t room = options_.area.scratch_bytes / scratch / kStrideUnit * kStrideUnit;
      const std::uint64_t fitting = std::max<std::uint64_t>(room, kStrideUnit) / element_bytes_;
      header_.slice_elements = std::min(header_.slice_elements, fitting);
    }
    header_.slices =
        std::max<std::uint64_t>(1, (longest + header_.slice_elements - 1) / header_.slice_elements);
    stride_ = round_up(header_.slice_elements * element_bytes_, kStrideUnit);
    TUTTI_TRY(check_room("slots", slots * stride_, options_.area.slot_bytes));
    TUTTI_TRY(check_room("scratch", scratch * stride_, options_.area.scratch_bytes));
    header_.slot_depth = lowered_.slot_depth;
    header_.scratch_depth = program_.scratch_depth;
    header_.told_ops = program_.published_ops;
    header_.last_stage = program_.last_stage;
    return check_positions();
  }

  Status check_room(std::string_view what, std::uint64_t needed, std::uint64_t there) const {
    if (needed <= there) return ok_status();
    return make_error(Code::kUnsupported,
                      "{} over {} ranks needs {} bytes of {} per thread block, and areas have {}: "
                      "make areas larger or choose another algorithm",
                      lowered_.algorithm, ranks(), needed, what, there);
  }

  Status check_positions() const {
    for (const lower::Program& program : lowered_.programs)
      if (program.positions(header_.slices) >> device::kPositionBits != 0)
        return make_error(Code::kUnsupported,
                          "{} over {} ranks has {} positions in {} slices, more than 2^{}: make "
                          "areas larger, so that slices get longer",
                          lowered_.algorithm, ranks(), program.positions(header_.slices),
                          header_.slices, device::kPositionBits);
    return ok_status();
  }

  // --- ops ---

  Status add_op(std::uint32_t id) {
    const lower::Op& op = program_.ops[id];
    device::Op added;
    added.first_pass = static_cast<std::uint32_t>(passes_.size());
    TUTTI_TRY(add_passes(op));
    added.passes = static_cast<std::uint32_t>(passes_.size()) - added.first_pass;
    added.stage = op.stage;
    added.ordinal = op.ordinal;
    added.first_wait = static_cast<std::uint32_t>(waits_.size());
    added.waits = static_cast<std::uint32_t>(op.waits.size());
    for (const lower::Wait& wait : op.waits) TUTTI_TRY(add_wait(wait));
    const device::RankList readers = add_ranks(waiters_of(id));
    added.first_reader = readers.first;
    added.readers = readers.count;
    ops_.push_back(added);
    return ok_status();
  }

  /// All of a one-round program.
  Status add_only_op() {
    for (const lower::Op& op : program_.ops) TUTTI_TRY(add_passes(op));
    device::Op added;
    added.passes = static_cast<std::uint32_t>(passes_.size());
    ops_.push_back(added);
    return ok_status();
  }

  Status add_wait(const lower::Wait& wait) {
    TUTTI_CHECK(wait.rank != rank_, "rank={} waits for itself", rank_);
    const lower::Program& peer = lowered_.programs[wait.rank];
    const lower::Op& op = peer.ops[wait.op];
    waits_.push_back({static_cast<std::uint32_t>(wait.rank), wait.slice_delta, peer.published_ops,
                      op.stage * peer.published_ops + op.ordinal + 1});
    return ok_status();
  }

  /// Who waits for op `id` of this rank.
  [[nodiscard]] std::set<Rank> waiters_of(std::uint32_t id) const {
    std::set<Rank> waiters;
    if (!program_.ops[id].published) return waiters;
    for (Rank peer = 0; peer < ranks(); ++peer)
      for (const lower::Op& op : lowered_.programs[peer].ops)
        for (const lower::Wait& wait : op.waits)
          if (wait.rank == rank_ && wait.op == id) waiters.insert(peer);
    return waiters;
  }

  Status add_passes(const lower::Op& op) {
    device::Pass shape;
    shape.sources = static_cast<std::uint16_t>(op.sources.size());
    shape.destinations = static_cast<std::uint16_t>(op.destinations.size());
    shape.completes = op.completes ? 1 : 0;
    for (std::size_t s = 0; s < op.sources.size(); ++s) {
      const std::uint64_t bit = std::uint64_t{1} << s;
      const bool scales = options_.op == ReduceOp::kPreMulSum;
      if (scales && op.sources[s].memory == lower::ProgramMemory::kInput) shape.scaled |= bit;
      const bool pushed = header_.protocol == device::ImageProtocol::kPackets;
      if (pushed && op.sources[s].memory == lower::ProgramMemory::kPublished)
        shape.in_packets |= bit;
    }
    for (std::uint32_t piece = 0; piece < op.like.size(); ++piece) {
      device::Pass pass = shape;
      pass.elements = places_.size(op.like[piece]);
      if (pass.elements == 0) continue;
      pass.first_location = static_cast<std::uint32_t>(locations_.size());
      for (const auto* operands : {&op.sources, &op.destinations})
        for (const lower::Operand& operand : *operands) {
          TUTTI_ASSIGN(const Location location, location_of(operand, operand.pieces[piece]));
          locations_.push_back(location);
        }
      passes_.push_back(pass);
    }
    return ok_status();
  }

  Result<Location> location_of(const lower::Operand& operand, std::uint32_t piece) const {
    const auto self = static_cast<std::uint32_t>(rank_);
    const auto owner = static_cast<std::uint32_t>(operand.owner);
    const auto packed = [&](ir::Space space) {
      return places_.in_packed(space, operand.owner, piece) * element_bytes_;
    };
    switch (operand.memory) {
      case lower::ProgramMemory::kInput:
        return Location{places_.in_input(piece) * element_bytes_, 0, device::ImageMemory::kInput,
                        self};
      case lower::ProgramMemory::kOutput:
        return Location{places_.in_output(piece) * element_bytes_, 0, device::ImageMemory::kOutput,
                        self};
      case lower::ProgramMemory::kScratch:
        return Location{piece * stride_, program_.scratch_pieces * stride_,
                        device::ImageMemory::kScratch, self};
      case lower::ProgramMemory::kSlot: {
        const lower::Program& holder = lowered_.programs[operand.owner];
        return Location{(holder.slots[operand.index].first_piece + piece) * stride_,
                        holder.slot_pieces * stride_, device::ImageMemory::kSlots, owner};
      }
      case lower::ProgramMemory::kPublished:
        TUTTI_CHECK(operand.owner != rank_, "rank={} reads its own as a peer's", rank_);
        if (header_.protocol == device::ImageProtocol::kPackets)
          return Location{packets_.at(operand.owner, piece), 0, device::ImageMemory::kPackets,
                          owner};
        return Location{packed(ir::Space::kInput), 0, device::ImageMemory::kInput, owner};
      case lower::ProgramMemory::kPeerOutput:
        return Location{packed(ir::Space::kOutput), 0, device::ImageMemory::kOutput, owner};
    }
    TUTTI_CHECK(false, "memory={}", static_cast<int>(operand.memory));
  }

  // --- one round ---

  /// Each chunk of this rank's input goes to those whose programs read it, and to nobody else.
  Status add_pushes() {
    std::map<std::uint32_t, std::set<Rank>> readers;  // of chunks
    std::set<Rank> all;
    for (Rank peer = 0; peer < ranks(); ++peer)
      for (const lower::Op& op : lowered_.programs[peer].ops)
        for (const lower::Operand& source : op.sources)
          if (source.memory == lower::ProgramMemory::kPublished && source.owner == rank_)
            for (const std::uint32_t chunk : source.pieces) {
              readers[chunk].insert(peer);
              all.insert(peer);
            }
    header_.readers = add_ranks(all);
    for (const auto& [chunk, who] : readers) {
      const std::uint32_t like = ir::chunk_of_all(lowered_.request, lowered_.chunks_per_block,
                                                  rank_, ir::Space::kInput, chunk);
      device::Push push;
      push.elements = places_.size(like);
      if (push.elements == 0) continue;
      push.offset = places_.in_input(chunk) * element_bytes_;
      push.to = packets_.at(rank_, chunk);
      const device::RankList list = add_ranks(who);
      push.first_reader = list.first;
      push.readers = list.count;
      pushes_.push_back(push);
    }
    return ok_status();
  }

  void add_owners_and_users() {
    std::set<Rank> users;
    for (Rank peer = 0; peer < ranks(); ++peer)
      if (owners_of(lowered_.programs[peer]).contains(rank_)) users.insert(peer);
    header_.owners = add_ranks(owners_of(program_));
    header_.users = add_ranks(users);
  }

  // --- the bytes ---

  device::RankList add_ranks(const std::set<Rank>& ranks) {
    const auto first = static_cast<std::uint32_t>(rank_numbers_.size());
    for (const Rank rank : ranks) rank_numbers_.push_back(static_cast<std::uint32_t>(rank));
    return {first, static_cast<std::uint32_t>(ranks.size())};
  }

  Result<std::vector<std::byte>> assemble() {
    std::uint64_t bytes = sizeof(device::Header);
    const auto place = [&]<class T>(device::Section& section, const std::vector<T>& entries) {
      static_assert(alignof(T) <= 8);
      section = {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(entries.size())};
      bytes = round_up(bytes + entries.size() * sizeof(T), 8);
    };
    place(header_.ops, ops_);
    place(header_.passes, passes_);
    place(header_.locations, locations_);
    place(header_.waits, waits_);
    place(header_.pushes, pushes_);
    place(header_.rank_numbers, rank_numbers_);
    if (bytes > std::numeric_limits<std::uint32_t>::max())
      return make_error(Code::kUnsupported, "{} over {} ranks needs an image of {} bytes",
                        lowered_.algorithm, ranks(), bytes);
    header_.image_bytes = static_cast<std::uint32_t>(bytes);

    std::vector<std::byte> image(bytes);
    const auto put = [&](std::uint32_t offset, const auto* data, std::size_t count) {
      if (count > 0) std::memcpy(image.data() + offset, data, count * sizeof *data);
    };
    put(0, &header_, 1);
    put(header_.ops.offset, ops_.data(), ops_.size());
    put(header_.passes.offset, passes_.data(), passes_.size());
    put(header_.locations.offset, locations_.data(), locations_.size());
    put(header_.waits.offset, waits_.data(), waits_.size());
    put(header_.pushes.offset, pushes_.data(), pushes_.size());
    put(header_.rank_numbers.offset, rank_numbers_.data(), rank_numbers_.size());
    TUTTI_TRY(check_image(image));
    return image;
  }

  const lower::Lowered& lowered_;
  const lower::Program& program_;
  Rank rank_;
  const ImageOptions& options_;
  std::uint64_t element_bytes_;
  ChunkPlaces places_;
  PacketPlaces packets_;
  std::uint64_t stride_ = 0;
  device::Header header_;
  std::vector<device::Op> ops_;
  std::vector<device::Pass> passes_;
  std::vector<Location> locations_;
  std::vector<device::Wait> waits_;
  std::vector<device::Push> pushes_;
  std::vector<std::uint32_t> rank_numbers_;
};

}  // namespace

Result<std::vector<std::byte>> build_image(const lower::Lowered& lowered, const Volume& volume,
                                           Rank rank, const ImageOptions& options) {
  TUTTI_TRY(check_supported(lowered, volume, options));
  return Builder(lowered, volume, rank, options).run();
}

}  // namespace tutti::exec::cuda
