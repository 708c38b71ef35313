#include "src/exec/staged.hpp"

namespace tutti::exec {

using lower::OpKind;
using lower::ProgramMemory;

void StagedRun::start() {
  iteration_ = 0;
  op_ = 0;
  own_slots_ = scratch_ = nullptr;
}

/// Nobody comes beyond this in call k + 2 before all have left call k: on that Team::peer_region()
/// relies.
Result<bool> StagedRun::take_memory() {
  const Plan& plan = launch_.plan();
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    if (peer == team_.rank() || team_.member(peer).block == nullptr) continue;
    if (!progress_.left_call_before_last(peer)) return false;
  }
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

Result<bool> StagedRun::run() {
  const Plan& plan = launch_.plan();
  const lower::Program& program = plan.program();
  const std::uint64_t iterations = program.iterations(plan.slices());
  while (iteration_ < iterations) {
    const lower::Op& op = program.ops[op_];
    const std::uint64_t slice = iteration_ - op.stage;
    if (iteration_ >= op.stage && slice < plan.slices()) {
      TUTTI_ASSIGN(const bool may_run, ready(op_, slice));
      if (!may_run) return false;
      if (op.stage > 0) launch_.start_stopwatch();
      launch_.start_writing();
      TUTTI_TRY(execute(op_, slice));
      launch_.end_writing();
      if (op.published) progress_.publish(program.position(op_, slice));
    }
    if (++op_ == program.ops.size()) {
      op_ = 0;
      ++iteration_;
    }
  }
  return true;
}

Result<bool> StagedRun::ready(std::uint32_t op_id, std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  for (const BoundWait& wait : plan.waits(op_id)) {
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
  if (op.peer != kNoRank && slice >= TransferRing::kDepth)
    return transfers_done(op_id, slice - TransferRing::kDepth);
  return true;
}

Result<bool> StagedRun::transfers_done(std::uint32_t op_id, std::uint64_t slice) {
  TransferRing& ring = launch_.plan().ring(op_id);
  if (ring.posted[slice % TransferRing::kDepth] != slice + 1) return true;
  bool progressed = false;
  for (std::uint32_t piece = 0; piece < ring.pieces; ++piece) {
    const Transfer& transfer = ring.at(slice, piece);
    Transfer::State state = transfer.state.load(std::memory_order_acquire);
    if (state == Transfer::State::kPending && !progressed) {
      team_.progress_connections();
      progressed = true;
      state = transfer.state.load(std::memory_order_acquire);
    }
    if (state == Transfer::State::kFailed) return transfer.error;
    if (state == Transfer::State::kPending) {
      team_.waits().blocked_on_network(launch_.plan().program().ops[op_id].peer);
      return false;
    }
  }
  ring.posted[slice % TransferRing::kDepth] = 0;
  return true;
}

Result<bool> StagedRun::drained() {
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
    const lower::Op& op = plan.program().ops[id];
    TransferRing& ring = plan.ring(id);
    for (std::uint64_t& posted : ring.posted) {
      if (posted == 0) continue;
      for (std::uint32_t piece = 0; piece < ring.pieces; ++piece)
        team_.member(op.peer).connection->cancel(stream_of(op), ring.at(posted - 1, piece));
      posted = 0;
    }
  }
}

// --- executing an op ---

Status StagedRun::execute(std::uint32_t op_id, std::uint64_t slice) {
  const lower::Op& op = launch_.plan().program().ops[op_id];
  switch (op.kind) {
    case OpKind::kCombine:
      return combine(op_id, slice);
    case OpKind::kSend:
    case OpKind::kRecv:
      return post(op_id, slice);
  }
  return ok_status();
}

Status StagedRun::combine(std::uint32_t op_id, std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  if (plan.converts(op)) return convert(op_id, slice);
  std::uint64_t scaled = 0;
  for (std::size_t s = 0; launch_.scales_input() && s < op.sources.size(); ++s)
    if (op.sources[s].memory == ProgramMemory::kInput) scaled |= std::uint64_t{1} << s;

  for (std::uint32_t i = 0; i < op.like.size(); ++i) {
    const std::size_t bytes = plan.slice_size(op.like[i], slice) * plan.element_bytes();
    if (bytes == 0) continue;
    for (std::size_t s = 0; s < op.sources.size(); ++s) {
      TUTTI_ASSIGN(sources_[s], locate(op.sources[s], i, slice));
    }
    for (std::size_t d = 0; d < op.destinations.size(); ++d) {
      TUTTI_ASSIGN(std::byte* const data, locate(op.destinations[d], i, slice));
      destinations_[d] = {data, launch_.stores_to(op.destinations[d].memory, bytes)};
    }
    launch_.combine({sources_.data(), op.sources.size()}, scaled,
                    {destinations_.data(), op.destinations.size()}, bytes, op.completes);
  }
  return ok_status();
}

/// The same where some operands are formatted.
Status StagedRun::convert(std::uint32_t op_id, std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const lower::Op& op = plan.program().ops[op_id];
  const bool encodes = lower::encodes(op);
  const Coding* const coding = launch_.args().coding;
  const BusyTime::Counted counted(coding != nullptr ? coding->busy : nullptr);
  for (std::uint32_t i = 0; i < op.like.size(); ++i) {
    const std::size_t elements = plan.slice_size(op.like[i], slice);
    if (elements == 0) continue;
    for (std::size_t s = 0; s < op.sources.size(); ++s) {
      TUTTI_ASSIGN(const std::byte* const data, locate(op.sources[s], i, slice));
      const bool scaled = launch_.scales_input() && op.sources[s].memory == ProgramMemory::kInput;
      coded_sources_[s] = {data, plan.format(op.sources[s].format), scaled};
    }
    for (std::size_t d = 0; d < op.destinations.size(); ++d) {
      const lower::Operand& destination = op.destinations[d];
      TUTTI_ASSIGN(std::byte* const data, locate(destination, i, slice));
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
  const bool sends = op.kind == OpKind::kSend;
  const StreamId stream = stream_of(op);
  const MessageTag tag{entries_.sequence(), *launch_.args().call};
  Connection& connection = *team_.member(op.peer).connection;
  TransferRing& ring = plan.ring(op_id);
  ring.posted[slice % TransferRing::kDepth] = slice + 1;
  // Both sides know that nothing travels; but where each rank has a count of its own, which of
  // them is wrong shows where messages meet, and so there is one from each block.
  const auto travels = [&](std::uint32_t piece) {
    return plan.slice_size(op.like[piece], slice) > 0 ||
           (plan.chunk_places().uneven() && slice == 0);
  };
  std::uint32_t last = 0;  // that travels
  for (std::uint32_t i = 0; i < ring.pieces; ++i)
    if (travels(i)) last = i;
  for (std::uint32_t i = 0; i < ring.pieces; ++i) {
    Transfer& transfer = ring.at(slice, i);
    if (!travels(i)) {
      transfer.state.store(Transfer::State::kDone, std::memory_order_relaxed);
      continue;
    }
    const std::size_t elements = plan.slice_size(op.like[i], slice);
    const lower::Operand& operand = sends ? op.sources[0] : op.destinations[0];
    const std::size_t bytes = plan.bytes_in(operand.format, elements);
    TUTTI_ASSIGN(std::byte* const data, locate(operand, i, slice));
    transfer.device_memory = launch_.args().device_memory;
    if (sends && i != last)
      connection.send_with_next(stream, tag, {data, bytes}, transfer);
    else if (sends)
      connection.send(stream, tag, {data, bytes}, transfer);
    else
      connection.recv(stream, tag, {data, bytes}, transfer);
  }
  return ok_status();
}

StreamId StagedRun::stream_of(const lower::Op& op) const {
  const bool sends = op.kind == OpKind::kSend;
  const Lane lane = launch_.args().for_devices ? kDeviceLanes | op.lane : op.lane;
  return {team_.options().communicator, sends ? team_.rank() : op.peer,
          sends ? op.peer : team_.rank(), lane};
}

// --- locating operands ---

Result<std::byte*> StagedRun::locate(const lower::Operand& operand, std::uint32_t piece,
                                     std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const std::uint32_t chunk = operand.pieces[piece];
  const auto at = [&](const std::byte* buffer, std::size_t begin) {
    return const_cast<std::byte*>(buffer) +
           (begin + plan.slice_begin(slice)) * plan.element_bytes();
  };
  switch (operand.memory) {
    case ProgramMemory::kInput:
      return at(launch_.args().input, plan.chunk_places().in_input(chunk));
    case ProgramMemory::kOutput:
      return at(launch_.args().output, plan.chunk_places().in_output(chunk));
    case ProgramMemory::kScratch: {
      const lower::Program& program = plan.program();
      const std::uint64_t index =
          (slice % program.scratch_depth) * program.scratch_pieces + operand.pieces[piece];
      return scratch_ + index * plan.scratch_stride();
    }
    case ProgramMemory::kSlot:
      return slot_memory(operand, piece, slice);
    case ProgramMemory::kPublished:
    case ProgramMemory::kPeerOutput:
      break;  // of one-round programs, which run in passes
  }
  TUTTI_CHECK(false, "memory={} in a staged program", name_of(operand.memory));
}

Result<std::byte*> StagedRun::slot_memory(const lower::Operand& operand, std::uint32_t piece,
                                          std::uint64_t slice) {
  const Plan& plan = launch_.plan();
  const lower::Lowered& lowered = plan.lowered();
  const lower::Program& owner = lowered.programs[operand.owner];
  std::byte* region = own_slots_;
  if (operand.owner != team_.rank()) {
    TUTTI_ASSIGN(region, team_.staging().of_peer(operand.owner));
  }
  const std::uint64_t index = (slice % plan.slot_instances()) * owner.slot_pieces +
                              owner.slots[operand.index].first_piece + operand.pieces[piece];
  return region + index * plan.slot_stride();
}

}  // namespace tutti::exec
