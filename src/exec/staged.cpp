#include "src/exec/staged.hpp"

namespace tutti::exec {

using lower::OpKind;
using lower::ProgramMemory;

void StagedRun::start() {
  iteration_ = 0;
  turn_ = 0;
  own_slots_ = scratch_ = nullptr;
}

/// Nobody comes beyond this in call k + 2 before all have left call k: on that
/// StagingRegions::of_peer() relies.
Result<bool> StagedRun::take_memory() {
  const Plan& plan = launch_.plan();
  for (const Rank peer : team_.mapped_peers())
    if (!progress_.left_call_before_last(peer)) return false;
  team_.staging().begin(progress_.calls(), plan.slot_bytes());
  if (!plan.program().slots.empty()) {
    const bool receives = plan.output_bytes(team_.rank()) > 0;
    const std::byte* const data = receives ? launch_.args().output : launch_.args().input;
    TUTTI_ASSIGN(own_slots_, team_.staging().enter(lead_of(data)));
  }
  if (const std::size_t bytes = plan.scratch_bytes(); bytes > 0) {
    TUTTI_ASSIGN(scratch_, scratch_memory_.get(bytes));
  }
  return true;
}

// Flattened, since for short messages the calls between these functions cost more than their work.
[[gnu::flatten]] Result<bool> StagedRun::run() {
  const Plan& plan = launch_.plan();
  if (plan.slices() == 1) {
    for (const std::span<const std::uint32_t> order = plan.order(); turn_ < order.size(); ++turn_) {
      TUTTI_ASSIGN(const bool ran, run(order[turn_], 0));
      if (!ran) return false;
    }
    return true;
  }
  const std::span<const lower::Op> ops = plan.program().ops;
  const std::uint64_t iterations = plan.program().iterations(plan.slices());
  for (; iteration_ < iterations; ++iteration_, turn_ = 0)
    for (; turn_ < ops.size(); ++turn_) {
      const std::uint64_t slice = iteration_ - ops[turn_].stage;  // too large before the op's first
      if (slice >= plan.slices()) continue;
      TUTTI_ASSIGN(const bool ran, run(turn_, slice));
      if (!ran) return false;
    }
  return true;
}

/// Runs an op for a slice, if it may run.
Result<bool> StagedRun::run(std::uint32_t op_id, std::uint64_t slice) {
  const lower::Op& op = launch_.plan().program().ops[op_id];
  TUTTI_ASSIGN(const bool may_run, ready(op_id, slice));
  if (!may_run) return false;
  if (op.stage > 0) launch_.start_stopwatch();
  launch_.start_writing();
  TUTTI_TRY(op.kind == OpKind::kCombine ? combine(op_id, slice)
            : op.kind == OpKind::kGroup ? post_part(op_id, slice)
                                        : post(op_id, slice));
  launch_.end_writing();
  if (op.published) progress_.publish(launch_.plan().program().position(op_id, slice));
  return true;
}

Result<bool> StagedRun::ready(std::uint32_t op_id, std::uint64_t slice) {
  const lower::Op& op = launch_.plan().program().ops[op_id];
  for (const BoundWait& wait : launch_.plan().waits(op_id)) {
    const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.delta;
    if (wanted < 0) continue;
    // First, since the progress of a peer that makes another call means nothing here.
    TUTTI_ASSIGN(const bool same_call, entries_.has_entered(wait.rank));
    if (!same_call) return false;
    const std::uint64_t position = static_cast<std::uint64_t>(wanted) * wait.stride + wait.offset;
    if (!progress_.reached(wait.rank, position)) return false;
  }
  for (const lower::TransferWait& wait : op.transfers) {
    const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
    if (wanted < 0) continue;
    TUTTI_ASSIGN(const bool done, transfers_done(wait.op, static_cast<std::uint64_t>(wanted)));
    if (!done) return false;
  }
  if (is_transfer(op.kind) && slice >= TransferRing::kDepth)
    return transfers_done(op_id, slice - TransferRing::kDepth);
  return true;
}

[[gnu::noinline]] Result<bool> StagedRun::transfers_done(std::uint32_t op_id, std::uint64_t slice) {
  TransferRing& ring = launch_.plan().ring(op_id);
  std::uint64_t& posted = ring.posted[slice % TransferRing::kDepth];
  if (posted != slice + 1) return true;
  bool progressed = false;
  const std::span<Transfer> transfers(&ring.at(slice, 0), ring.pieces);
  for (const Transfer& transfer : transfers) {
    Transfer::State state = transfer.state.load(std::memory_order_acquire);
    if (state == Transfer::State::kPending && !progressed) {
      team_.progress_connections();
      progressed = true;
      state = transfer.state.load(std::memory_order_acquire);
    }
    if (state == Transfer::State::kFailed) return transfer.error;
    if (state == Transfer::State::kPending) {
      team_.waits().blocked_on_network(awaited(launch_.plan().program().ops[op_id], ring));
      return false;
    }
  }
  posted = 0;
  --unfinished_;
  if (ring.tree != nullptr) TUTTI_TRY(finish_part(op_id, slice));
  return true;
}

Rank StagedRun::awaited(const lower::Op& op, const TransferRing& ring) const {
  if (ring.tree == nullptr) return op.peer;
  const std::vector<Rank>& members = launch_.plan().lowered().groups[op.group].ranks;
  const std::optional<std::size_t> place = ring.tree->awaited();
  return place && *place < members.size() ? members[*place] : kNoRank;
}

Result<bool> StagedRun::drained() {
  if (unfinished_ == 0) return team_.flushed();
  for (const std::uint32_t id : launch_.plan().transfer_ops()) {
    for (const std::uint64_t posted : launch_.plan().ring(id).posted) {
      if (posted == 0) continue;
      TUTTI_ASSIGN(const bool done, transfers_done(id, posted - 1));
      if (!done) return false;
    }
  }
  return team_.flushed();
}

void StagedRun::cancel() {
  Plan& plan = launch_.plan();
  for (const std::uint32_t id : plan.transfer_ops()) {
    TransferRing& ring = plan.ring(id);
    if (ring.tree != nullptr) ring.tree->cancel();
    for (std::uint64_t& posted : ring.posted) {
      if (posted == 0) continue;
      for (std::uint32_t piece = 0; ring.tree == nullptr && piece < ring.pieces; ++piece)
        ring.connection->cancel(stream_of(ring), ring.at(posted - 1, piece));
      posted = 0;
    }
  }
  unfinished_ = 0;
}

// --- executing an op ---

Status StagedRun::combine(std::uint32_t op_id, std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const BoundPieces& pieces = plan.pieces(op_id);
  if (pieces.converts) return convert(op_id, slice);
  const lower::Op& op = plan.program().ops[op_id];
  std::uint64_t scaled = 0;
  for (std::size_t s = 0; launch_.scales_input() && s < op.sources.size(); ++s)
    if (op.sources[s].memory == ProgramMemory::kInput) scaled |= std::uint64_t{1} << s;

  for (std::uint32_t i = 0; i < op.like.size(); ++i) {
    const std::size_t bytes = plan.slice_size(op.like[i], slice) * plan.element_bytes();
    if (bytes == 0) continue;
    const std::byte** source = sources_.data();
    for (const SlicedPlace& place : plan.sources(pieces, i)) {
      TUTTI_ASSIGN(*source++, locate(place, slice));
    }
    Destination* destination = destinations_.data();
    for (const SlicedPlace& place : plan.destinations(pieces, i)) {
      TUTTI_ASSIGN(destination->data, locate(place, slice));
      (destination++)->stores = launch_.stores_to(place.memory, bytes);
    }
    launch_.combine({sources_.data(), source}, scaled, {destinations_.data(), destination}, bytes,
                    op.completes);
  }
  return ok_status();
}

/// The same where some operands are formatted.
[[gnu::noinline]] Status StagedRun::convert(std::uint32_t op_id, std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  const BoundPieces& pieces = plan.pieces(op_id);
  const bool encodes = lower::encodes(op);
  const Coding* const coding = launch_.args().coding;
  const BusyTime::Counted counted(coding != nullptr ? coding->busy : nullptr);
  for (std::uint32_t i = 0; i < op.like.size(); ++i) {
    const std::size_t elements = plan.slice_size(op.like[i], slice);
    if (elements == 0) continue;
    for (std::size_t s = 0; s < op.sources.size(); ++s) {
      TUTTI_ASSIGN(const std::byte* const data, locate(plan.sources(pieces, i)[s], slice));
      const bool scaled = launch_.scales_input() && op.sources[s].memory == ProgramMemory::kInput;
      coded_sources_[s] = {data, plan.format(op.sources[s].format), scaled};
    }
    for (std::size_t d = 0; d < op.destinations.size(); ++d) {
      const lower::Operand& destination = op.destinations[d];
      TUTTI_ASSIGN(std::byte* const data, locate(plan.destinations(pieces, i)[d], slice));
      const std::size_t bytes = plan.bytes_in(destination.format, elements);
      coded_destinations_[d] = {{data, launch_.stores_to(destination.memory, bytes)},
                                plan.format(destination.format)};
    }
    Encoding encoding;
    if (coding != nullptr) encoding.factor = coding->factor;
    if (encodes && coding != nullptr) {
      const std::size_t first = plan.first_coded(op_id, i) + plan.slice_begin(slice);
      encoding.rounding = coding->rounding;
      encoding.rounding.first = first;
      if (!coding->errors.empty()) encoding.errors = &coding->errors[first];
    }
    TUTTI_ASSIGN(const bool valid,
                 converter_.combine(
                     launch_.reduction(op.completes), {coded_sources_.data(), op.sources.size()},
                     {coded_destinations_.data(), op.destinations.size()}, elements, encoding));
    if (!valid) return invalid_code(op);
  }
  return ok_status();
}

Error StagedRun::invalid_code(const lower::Op& op) const {
  for (const lower::Operand& source : op.sources)
    if (source.format != ir::kPlain)
      return make_error(Code::kPeerFailed, "what a peer sent is nothing that {} encodes",
                        launch_.plan().format(source.format)->traits().name);
  return make_error(Code::kInternal, "plain data is invalid");
}

Status StagedRun::post(std::uint32_t op_id, std::uint64_t slice) {
  Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  const BoundPieces& pieces = plan.pieces(op_id);
  const bool sends = op.kind == OpKind::kSend;
  TransferRing& ring = plan.ring(op_id);
  const StreamId stream = stream_of(ring);
  const MessageTag tag{entries_.sequence(), *launch_.args().call};
  // Both sides know that nothing travels; but where each rank has a count of its own, which of
  // them is wrong shows where messages meet, and so there is one from each block.
  const bool all_travel = plan.chunk_places().uneven() && slice == 0;
  const auto travels = [&](std::uint32_t piece) {
    return all_travel || plan.slice_size(op.like[piece], slice) > 0;
  };
  std::uint64_t& posted = ring.posted[slice % TransferRing::kDepth];
  posted = slice + 1;
  ++unfinished_;
  bool all_done = true;
  std::uint32_t last = ring.pieces - 1;  // that travels
  while (last > 0 && !travels(last)) --last;
  for (std::uint32_t i = 0; i < ring.pieces; ++i) {
    Transfer& transfer = ring.at(slice, i);
    if (!travels(i)) {
      transfer.state.store(Transfer::State::kDone, std::memory_order_relaxed);
      continue;
    }
    const std::size_t elements = plan.slice_size(op.like[i], slice);
    transfer.device_memory = launch_.args().device_memory;
    if (sends) {
      TUTTI_ASSIGN(const std::byte* const data, locate(plan.sources(pieces, i)[0], slice));
      const std::span message(data, plan.bytes_in(op.sources[0].format, elements));
      if (i != last)
        ring.connection->send_with_next(stream, tag, message, transfer);
      else
        ring.connection->send(stream, tag, message, transfer);
    } else {
      TUTTI_ASSIGN(std::byte* const data, locate(plan.destinations(pieces, i)[0], slice));
      const std::size_t bytes = plan.bytes_in(op.destinations[0].format, elements);
      ring.connection->recv(stream, tag, {data, bytes}, transfer);
    }
    all_done &= transfer.state.load(std::memory_order_acquire) == Transfer::State::kDone;
  }
  if (all_done) {  // as of a short message, which was copied
    posted = 0;
    --unfinished_;
  }
  return ok_status();
}

namespace {

constexpr TreeForm tree_form(ir::GroupForm form) {
  switch (form) {
    case ir::GroupForm::kSumToAll:
      return TreeForm::kSumToAll;
    case ir::GroupForm::kSumToOne:
      return TreeForm::kSumToOne;
    case ir::GroupForm::kSumInParts:
      return TreeForm::kSumInParts;
    case ir::GroupForm::kFromOne:
      return TreeForm::kFromOne;
    case ir::GroupForm::kFromAll:
      return TreeForm::kFromAll;
  }
  return TreeForm::kSumToAll;
}

}  // namespace

/// One transfer for all pieces.
[[gnu::noinline]] Status StagedRun::post_part(std::uint32_t op_id, std::uint64_t slice) {
  Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  const BoundPart& bound = plan.part(op_id);
  const auto bytes_of = [&](std::uint32_t like) {
    return plan.slice_size(like, slice) * plan.element_bytes();
  };
  part_sources_.clear();
  part_destinations_.clear();
  for (std::size_t i = 0; i < op.like.size(); ++i) {
    TUTTI_ASSIGN(const std::byte* const data, locate(plan.sources(bound, op)[i], slice));
    part_sources_.emplace_back(data, bytes_of(op.like[i]));
  }
  for (std::size_t i = 0; i < op.like_received.size(); ++i) {
    TUTTI_ASSIGN(std::byte* const data, locate(plan.destinations(bound, op)[i], slice));
    part_destinations_.emplace_back(data, bytes_of(op.like_received[i]));
  }
  const ReduceOp op_of_call = launch_.args().reduction.op;
  const bool divides_or_scales = op_of_call == ReduceOp::kAvg || op_of_call == ReduceOp::kPreMulSum;
  TreePart part{.form = tree_form(op.form),
                .root = op.root,
                .type = launch_.args().reduction.type,
                .op = divides_or_scales ? ReduceOp::kSum : op_of_call,
                .bits = launch_.args().network_bits,
                .factor = launch_.args().network_factor,
                .call = launch_.args().call_hash,
                .sources = part_sources_,
                .destinations = part_destinations_};
  for (std::uint32_t position = 0; position < bound.like.size(); ++position) {
    const std::size_t bytes = bytes_of(bound.like[position]);
    part.bytes += bytes;
    if (position < op.first_sent) part.first_sent += bytes;
    if (position < op.first_received) part.first_received += bytes;
  }
  TransferRing& ring = plan.ring(op_id);
  Transfer& transfer = ring.at(slice, 0);
  if (part.bytes == 0) {
    transfer.state.store(Transfer::State::kDone, std::memory_order_relaxed);
    return ok_status();
  }
  ring.posted[slice % TransferRing::kDepth] = slice + 1;
  ++unfinished_;
  ring.tree->post(part, transfer);
  return ok_status();
}

/// The network only adds: averages are divided here.
Status StagedRun::finish_part(std::uint32_t op_id, std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  const Reduction reduction = launch_.reduction(op.completes);
  if (reduction.divisor == 0) return ok_status();
  for (std::size_t i = 0; i < op.like_received.size(); ++i) {
    const std::size_t elements = plan.slice_size(op.like_received[i], slice);
    if (elements == 0) continue;
    TUTTI_ASSIGN(std::byte* const data, locate(plan.destinations(plan.part(op_id), op)[i], slice));
    const std::byte* const source = data;
    const Destination destination{data, Stores::kCached};
    reduce(reduction, {&source, 1}, 0, {&destination, 1}, elements);
  }
  return ok_status();
}

StreamId StagedRun::stream_of(const TransferRing& ring) const {
  StreamId stream = ring.stream;
  if (launch_.args().for_devices) stream.lane |= kDeviceLanes;
  return stream;
}

// --- locating operands ---

Result<std::byte*> StagedRun::locate(const SlicedPlace& place, std::uint64_t slice) {
  const std::size_t offset = place.of_slice(slice);
  switch (place.memory) {
    case ProgramMemory::kInput:
      return const_cast<std::byte*>(launch_.args().input) + offset;
    case ProgramMemory::kOutput:
      return launch_.args().output + offset;
    case ProgramMemory::kScratch:
      return scratch_ + offset;
    case ProgramMemory::kSlot: {
      if (place.owner == team_.rank()) return own_slots_ + offset;
      TUTTI_ASSIGN(std::byte* const region, team_.staging().of_peer(place.owner));
      return region + offset;
    }
    case ProgramMemory::kPublished:
    case ProgramMemory::kPeerOutput:
      break;  // of one-round programs, which run in passes
  }
  TUTTI_CHECK(false, "memory={} in a staged program", name_of(place.memory));
}

}  // namespace tutti::exec
