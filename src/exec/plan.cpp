#include "src/exec/plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/codec/make_format.hpp"
#include "src/exec/converter.hpp"
#include "src/ir/compress.hpp"
#include "src/lower/slices.hpp"
#include "src/reduce/reduce.hpp"

namespace tutti::exec {

static_assert(lower::kMaxSources <= tutti::kMaxSources);
static_assert(lower::kMaxDestinations <= tutti::kMaxDestinations);

namespace {
using lower::kStrideUnit;

std::size_t slot_pieces_of(const lower::Lowered& lowered) {
  return lowered.max_slot_pieces * std::size_t{lowered.slot_depth};
}
std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}
}  // namespace

Plan::Plan(std::shared_ptr<const lower::Lowered> lowered, const Team& team, const Volume& volume,
           Formats formats)
    : lowered_(std::move(lowered)),
      program_(&lowered_->programs[team.rank()]),
      chunks_(*lowered_, volume, team.rank()),
      formats_(std::move(formats)),
      element_bytes_(size_of(volume.type)) {
  for (Rank rank = 0; rank < lowered_->request.ranks; ++rank) {
    const BufferElements elements = buffer_elements(lowered_->request, volume, rank);
    input_bytes_.push_back(elements.input * element_bytes_);
    output_bytes_.push_back(elements.output * element_bytes_);
  }
  sent_ = sent_bytes(*lowered_, chunks_, team.rank(), element_bytes_, formats_);
  guess_stores(team);
}

/// What this rank does with memory of peers that is read after it was stored there.
StoreRole Plan::find_store_role(const Team& team) {
  const auto loads_of = [&](Rank reader, Rank owner) {
    return std::ranges::any_of(lowered_->programs[reader].ops, [&](const lower::Op& op) {
      return std::ranges::any_of(op.sources, [&](const lower::Operand& source) {
        const bool stored = source.memory == lower::ProgramMemory::kSlot ||
                            source.memory == lower::ProgramMemory::kPublished;
        return stored && source.owner == owner;
      });
    });
  };
  bool loads = false;
  for (Rank peer = 0; peer < team.size(); ++peer) {
    if (peer == team.rank() || !team.placement().mapped(peer, team.rank())) continue;
    if (!first_reader_ && loads_of(peer, team.rank())) first_reader_ = peer;
    loads = loads || loads_of(team.rank(), peer);
  }
  if (first_reader_ && !loads) return StoreRole::kStores;
  return first_reader_ ? StoreRole::kBoth : StoreRole::kLoads;
}

void Plan::guess_stores(const Team& team) {
  constexpr std::size_t kWorthChoosing = 64 * 1024;
  constexpr std::size_t kLeavesTheCache = std::size_t{4} << 20;
  const StoreGuess& guess = team.options().stores;
  if (lowered_->protocol == lower::ProgramProtocol::kPublished) {
    fills_packet_ = input_bytes_[team.rank()] > kNoteBytes;
    if (*std::ranges::max_element(input_bytes_) >= kStreamFrom)
      store_choice_.emplace(StreamingStores{false, team.streams_to_peers()}, false,
                            find_store_role(team));
    return;
  }
  const std::size_t largest = *std::ranges::max_element(output_bytes_);
  if (largest < kWorthChoosing) return;
  StreamingStores first;
  const bool staged = lowered_->protocol == lower::ProgramProtocol::kStaged;
  first.output =
      output_bytes_[team.rank()] >= (staged ? guess.output_from : guess.direct_output_from);
  first.peers = staged ? team.streams_to_peers() : largest >= guess.peer_output_from;
  store_choice_.emplace(first, largest >= kLeavesTheCache,
                        staged ? find_store_role(team) : StoreRole::kBoth);
}

Status Plan::check_slots(const lower::Lowered& lowered, const Team& team, const codec::Format* wire,
                         std::size_t element_bytes) {
  std::size_t piece = kStrideUnit;
  if (wire != nullptr) {
    const bool has_plain = (lower::formats_that_travel(lowered) & 1) != 0;
    const std::size_t block = wire->traits().block;
    piece = std::max(piece, round_up(wire->bytes(block), kStrideUnit));
    if (has_plain) piece = std::max(piece, round_up(block * element_bytes, kStrideUnit));
  }
  const std::size_t pieces = slot_pieces_of(lowered);
  if (pieces * piece <= team.options().staging_bytes) return ok_status();
  return make_error(Code::kUnsupported,
                    "{} over {} ranks needs {} slots of {} bytes, more than staging of {} bytes "
                    "has room for: raise TUTTI_STAGING_BYTES or choose another algorithm",
                    lowered.algorithm, lowered.request.ranks, pieces, piece,
                    team.options().staging_bytes);
}

Result<std::unique_ptr<Plan>> Plan::bind(std::shared_ptr<const lower::Lowered> lowered,
                                         const Team& team, const Volume& volume,
                                         std::shared_ptr<const codec::Format> wire) {
  TUTTI_TRY(check_slots(*lowered, team, wire.get(), size_of(volume.type)));
  if (!lowered->formats.empty() && !is_convertible(volume.type))
    return make_error(Code::kUnsupported, "{} converts floats of 16 or 32 bits, and the data is {}",
                      lowered->algorithm, name_of(volume.type));
  Formats formats;
  for (const std::string& name : lowered->formats) {
    if (name == ir::kWireFormat) {
      if (wire == nullptr)
        return make_error(Code::kUnsupported, "{} runs compressed calls alone", lowered->algorithm);
      formats.push_back(wire);
      continue;
    }
    TUTTI_ASSIGN(auto format, codec::make_format(name));
    formats.push_back(std::move(format));
  }
  std::unique_ptr<Plan> plan(new Plan(std::move(lowered), team, volume, std::move(formats)));
  const std::size_t longest_input = *std::ranges::max_element(plan->input_bytes_);
  TUTTI_CHECK(plan->lowered().protocol != lower::ProgramProtocol::kPublished ||
                  longest_input <= kPacketBytes,
              "published bytes={}", longest_input);
  TUTTI_TRY(plan->check_groups(team));
  plan->choose_slices(team);
  TUTTI_TRY(plan->check_room(team));
  plan->number_coded();
  plan->bind_waits();
  plan->bind_passes();
  plan->bind_pieces();
  plan->find_order();
  plan->find_users(team);
  plan->make_rings(team);
  return plan;
}

/// Of all ranks' groups and programs, so that all ranks come to the same answer.
Status Plan::check_groups(const Team& team) const {
  if (lowered_->groups.empty()) return ok_status();
  for (const ir::Group& group : lowered_->groups)
    if (!team.has_tree(group.ranks))
      return make_error(Code::kUnsupported,
                        "{} needs a network that adds for {} ranks from rank {} on, and there is "
                        "none here",
                        lowered_->algorithm, group.ranks.size(), group.ranks.front());
  for (std::size_t rank = 0; rank < lowered_->programs.size(); ++rank)
    for (const lower::Op& op : lowered_->programs[rank].ops)
      if (op.kind == lower::OpKind::kGroup &&
          op.positions != std::max(op.like.size(), op.like_received.size()))
        return make_error(Code::kUnsupported,
                          "{}: rank {} neither sends nor gets all of an operation of the network",
                          lowered_->algorithm, rank);
  return ok_status();
}

/// A slice has at least one block of each format, which may be more than the slots have room for.
Status Plan::check_room(const Team& team) const {
  if (formats_.empty() || slot_pieces_of(*lowered_) * slot_stride_ <= team.options().staging_bytes)
    return ok_status();
  const auto block_of = [](const auto& format) { return format->traits().block; };
  const auto& largest = *std::ranges::max_element(formats_, {}, block_of);
  return make_error(Code::kUnsupported,
                    "blocks of {} values of {} do not fit staging of {} bytes: raise "
                    "TUTTI_STAGING_BYTES or choose smaller blocks",
                    block_of(largest), largest->traits().name, team.options().staging_bytes);
}

void Plan::choose_slices(const Team& team) {
  const std::size_t chunk = chunks_.longest();
  // A multiple of all blocks, since they are powers of two.
  lower::SlotUnit unit;
  for (const auto& format : formats_)
    unit.elements = std::max<std::size_t>(unit.elements, format->traits().block);
  const std::uint8_t travels = lower::formats_that_travel(*lowered_);
  const auto bytes_that_travel = [&](std::size_t elements) {
    std::size_t bytes = travels == 0 ? elements * element_bytes_ : 0;
    for (std::size_t format = 0; format <= formats_.size(); ++format)
      if ((travels >> format & 1) != 0)
        bytes = std::max(bytes, bytes_in(static_cast<ir::FormatId>(format), elements));
    return bytes;
  };
  unit.bytes = bytes_that_travel(unit.elements);
  slice_elements_ =
      lower::slice_elements(*lowered_, chunk, element_bytes_, team.options().staging_bytes, unit);
  slices_ = std::max<std::uint64_t>(1, (chunk + slice_elements_ - 1) / slice_elements_);
  stride_ = round_up(slice_elements_ * element_bytes_, kStrideUnit);
  for (const auto& format : formats_)
    stride_ = std::max(stride_, round_up(format->bytes(slice_elements_), kStrideUnit));
  slot_stride_ = round_up(bytes_that_travel(slice_elements_), kStrideUnit);
  choose_slot_instances(team);
}

/// If few ranks share a CPU, slices take turns at all of the region, for the reason that
/// packet_ring.hpp gives.
void Plan::choose_slot_instances(const Team& team) {
  const std::uint64_t depth = lowered_->slot_depth;
  slot_instances_ = depth;
  const std::size_t one = lowered_->max_slot_pieces * slot_stride_;
  if (one == 0 || !team.few_per_cpu()) return;
  const std::uint64_t fit = team.options().staging_bytes / one;
  slot_instances_ = std::max(depth, std::min(fit, slices_));
}

void Plan::number_coded() {
  if (formats_.empty()) return;
  const auto chunks = static_cast<std::size_t>(ir::largest_block_count(lowered_->request)) *
                      lowered_->chunks_per_block;
  std::vector<std::size_t> begin(chunks), times(chunks);
  std::size_t whole = 0;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    begin[chunk] = whole;
    whole += chunks_.size(chunk);
  }
  first_coded_.resize(program_->ops.size());
  for (std::size_t id = 0; id < program_->ops.size(); ++id) {
    const lower::Op& op = program_->ops[id];
    if (!lower::encodes(op)) continue;
    for (const std::uint32_t like : op.like)
      first_coded_[id].push_back(times[like]++ * whole + begin[like]);
  }
  if (chunks > 0) coded_elements_ = *std::ranges::max_element(times) * whole;
}

void Plan::bind_waits() {
  waits_.resize(program_->ops.size());
  for (std::size_t id = 0; id < program_->ops.size(); ++id)
    for (const lower::Wait& wait : program_->ops[id].waits) {
      const lower::Program& peer = lowered_->programs[wait.rank];
      waits_[id].push_back({wait.rank, wait.slice_delta, peer.published_ops,
                            std::uint64_t{peer.ops[wait.op].stage} * peer.published_ops +
                                peer.ops[wait.op].ordinal + 1});
    }
}

void Plan::bind_passes() {
  if (!lower::one_round(lowered_->protocol)) return;
  for (const lower::Op& op : program_->ops) bind_passes_of(op);
}

Place Plan::place_of(const lower::Operand& operand, std::uint32_t piece) const {
  const std::size_t published = operand.owner != kNoRank ? input_bytes_[operand.owner] : 0;
  const std::uint32_t chunk = operand.pieces[piece];
  const auto begin = [&] {
    switch (operand.memory) {
      case lower::ProgramMemory::kInput:
        return chunks_.in_input(chunk);
      case lower::ProgramMemory::kPublished:
        return chunks_.in_packed(ir::Space::kInput, operand.owner, chunk);
      case lower::ProgramMemory::kPeerOutput:
        return chunks_.in_packed(ir::Space::kOutput, operand.owner, chunk);
      default:
        return chunks_.in_output(chunk);
    }
  };
  return {operand.memory, holder_of(published), operand.owner, begin() * element_bytes_};
}

void Plan::bind_passes_of(const lower::Op& op) {
  Pass shape;
  shape.sources = static_cast<std::uint16_t>(op.sources.size());
  shape.destinations = static_cast<std::uint16_t>(op.destinations.size());
  shape.completes = op.completes;
  for (std::size_t s = 0; s < op.sources.size(); ++s)
    if (op.sources[s].memory == lower::ProgramMemory::kInput)
      shape.own_sources |= std::uint64_t{1} << s;

  // In place, here or at a peer that is written to, the pieces of one pass could overlap.
  const bool may_be_in_place =
      lowered_->request.in_place ||
      std::ranges::any_of(op.destinations, [](const lower::Operand& destination) {
        return destination.memory == lower::ProgramMemory::kPeerOutput;
      });
  const std::size_t passes_before = passes_.size();
  for (std::uint32_t piece = 0; piece < op.like.size(); ++piece) {
    const std::size_t bytes = chunks_.size(op.like[piece]) * element_bytes_;
    if (bytes == 0 && !chunks_.uneven()) continue;
    std::vector<Place> places;
    for (const auto* operands : {&op.sources, &op.destinations})
      for (const lower::Operand& operand : *operands) places.push_back(place_of(operand, piece));
    const auto follows_last_pass = [&] {
      const Pass& last = passes_.back();
      for (std::size_t i = 0; i < places.size(); ++i)
        if (places_[last.first + i].offset + last.bytes != places[i].offset) return false;
      return true;
    };
    const bool may_join = passes_.size() > passes_before && !may_be_in_place;
    if (may_join && follows_last_pass()) {
      passes_.back().bytes += bytes;
      continue;
    }
    passes_.push_back(shape);
    passes_.back().first = static_cast<std::uint32_t>(places_.size());
    passes_.back().bytes = bytes;
    places_.insert(places_.end(), places.begin(), places.end());
  }
}

SlicedPlace Plan::sliced_place_of(const lower::Operand& operand, std::uint32_t piece) const {
  const std::size_t number = operand.pieces[piece];
  SlicedPlace place{.memory = operand.memory, .owner = operand.owner};
  switch (operand.memory) {
    case lower::ProgramMemory::kScratch:
      place.offset = number * stride_;
      place.step = program_->scratch_pieces * stride_;
      place.instances = program_->scratch_depth;
      break;
    case lower::ProgramMemory::kSlot: {
      const lower::Program& owner = lowered_->programs[operand.owner];
      place.offset = (owner.slots[operand.index].first_piece + number) * slot_stride_;
      place.step = owner.slot_pieces * slot_stride_;
      place.instances = slot_instances_;
      break;
    }
    default: {
      const bool is_input = operand.memory == lower::ProgramMemory::kInput;
      place.offset =
          (is_input ? chunks_.in_input(number) : chunks_.in_output(number)) * element_bytes_;
      place.step = slice_elements_ * element_bytes_;
    }
  }
  return place;
}

void Plan::bind_pieces() {
  if (lower::one_round(lowered_->protocol)) return;
  const auto is_formatted = [](const lower::Operand& operand) {
    return operand.format != ir::kPlain;
  };
  if (!lowered_->groups.empty()) parts_.resize(program_->ops.size());
  for (std::uint32_t id = 0; id < program_->ops.size(); ++id) {
    const lower::Op& op = program_->ops[id];
    if (op.kind == lower::OpKind::kGroup) {
      pieces_.emplace_back();
      bind_part(id);
      continue;
    }
    pieces_.push_back({.first = static_cast<std::uint32_t>(sliced_places_.size()),
                       .sources = static_cast<std::uint16_t>(op.sources.size()),
                       .destinations = static_cast<std::uint16_t>(op.destinations.size()),
                       .converts = std::ranges::any_of(op.sources, is_formatted) ||
                                   std::ranges::any_of(op.destinations, is_formatted)});
    for (std::uint32_t piece = 0; piece < op.like.size(); ++piece)
      for (const auto* operands : {&op.sources, &op.destinations})
        for (const lower::Operand& operand : *operands)
          sliced_places_.push_back(sliced_place_of(operand, piece));
  }
}

void Plan::bind_part(std::uint32_t id) {
  const lower::Op& op = program_->ops[id];
  BoundPart& part = parts_[id];
  part.first = static_cast<std::uint32_t>(sliced_places_.size());
  part.like = op.like.size() == op.positions ? op.like : op.like_received;
  for (std::uint32_t piece = 0; piece < op.like.size(); ++piece)
    sliced_places_.push_back(sliced_place_of(op.sources[0], piece));
  for (std::uint32_t piece = 0; piece < op.like_received.size(); ++piece)
    sliced_places_.push_back(sliced_place_of(op.destinations[0], piece));
}

void Plan::find_order() {
  if (lower::one_round(lowered_->protocol) || slices_ > 1) return;
  order_.resize(program_->ops.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, {},
                    [&](std::uint32_t op) { return std::pair(program_->ops[op].stage, op); });
}

void Plan::make_rings(const Team& team) {
  rings_.resize(program_->ops.size());
  for (std::uint32_t id = 0; id < program_->ops.size(); ++id) {
    const lower::Op& op = program_->ops[id];
    if (!lower::is_transfer(op.kind)) continue;
    transfer_ops_.push_back(id);
    TransferRing& ring = rings_[id];
    if (op.kind == lower::OpKind::kGroup) {
      ring.tree = team.tree_of(lowered_->groups[op.group].ranks);
      ring.pieces = 1;
      ring.transfers = std::make_unique<Transfer[]>(TransferRing::kDepth);
      continue;
    }
    const bool sends = op.kind == lower::OpKind::kSend;
    ring.connection = team.member(op.peer).connection.get();
    ring.stream = {team.options().communicator, sends ? team.rank() : op.peer,
                   sends ? op.peer : team.rank(), op.lane};
    ring.pieces = static_cast<std::uint32_t>(op.like.size());
    ring.transfers = std::make_unique<Transfer[]>(TransferRing::kDepth * op.like.size());
  }
}

void Plan::find_users(const Team& team) {
  if (!lower::one_round(lowered_->protocol)) return;
  const auto uses = [&](Rank user, Rank owner) {
    for (const lower::Op& op : lowered_->programs[user].ops)
      for (const auto* operands : {&op.sources, &op.destinations})
        for (const lower::Operand& operand : *operands)
          if (lower::is_peers_buffer(operand.memory) && operand.owner == owner) return true;
    return false;
  };
  const auto writes = [&](Rank user, Rank owner) {
    for (const lower::Op& op : lowered_->programs[user].ops)
      for (const lower::Operand& operand : op.destinations)
        if (operand.memory == lower::ProgramMemory::kPeerOutput && operand.owner == owner)
          return true;
    return false;
  };
  const bool direct = lowered_->protocol == lower::ProgramProtocol::kDirect;
  std::uint64_t entry_readers = 0;
  for (Rank peer = 0; peer < team.size(); ++peer) {
    const bool uses_this = uses(peer, team.rank());
    if (uses_this) buffer_users_.push_back(peer);
    if (writes(peer, team.rank())) buffer_writers_.push_back(peer);
    // With kDirect an owner looks at its users' entries too, before it leaves.
    const bool looks = uses_this || (direct && uses(team.rank(), peer));
    if (looks && peer < 64) entry_readers |= std::uint64_t{1} << peer;
  }
  if (team.size() <= 64) entry_readers_ = entry_readers;
}

bool Plan::is_written_by(Rank peer) const {
  return std::ranges::find(buffer_writers_, peer) != buffer_writers_.end();
}

LargestBuffers largest_buffers(const ir::Request& request, const Volume& volume) {
  LargestBuffers largest;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const BufferElements elements = buffer_elements(request, volume, rank);
    largest.input = std::max(largest.input, volume.bytes(elements.input));
    largest.output = std::max(largest.output, volume.bytes(elements.output));
  }
  return largest;
}

}  // namespace tutti::exec
