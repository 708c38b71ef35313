// What hardware does: takes posted works in order, moves bytes, answers, tries again.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/verbs/fake/fake.hpp"

namespace fake_verbs {
namespace {

constexpr std::uint32_t kSequenceMask = 0xffffff;
constexpr std::size_t kWindow = 16;         // works sent and not answered
constexpr std::uint64_t kTryInSteps = 400;  // waiting for one answer, without a network
constexpr std::uint64_t kRestInSteps = 40;  // after "not ready"
constexpr std::uint64_t kRestInMicroseconds = 640;
constexpr std::size_t kMostPieces = 4;

/// Whether `a` comes before `b`, both of 24 bits.
bool before(std::uint32_t a, std::uint32_t b) {
  return a != b && ((b - a) & kSequenceMask) < (kSequenceMask + 1) / 2;
}

std::uint64_t patience(const QueuePair& pair) {
  if (state().network.empty()) return kTryInSteps;
  return pair.attributes.timeout == 0 ? ~std::uint64_t{0} >> 1
                                      : (4096ULL << pair.attributes.timeout) / 1000;
}

/// The bytes of `length` at `address` of the region `key`, if `right` allows that; else null.
std::byte* reach(const QueuePair& pair, std::uint32_t key, std::uint64_t address,
                 std::uint64_t length, unsigned right) {
  const Region* const region = find_region(key);
  if (region == nullptr || region->mr.pd != pair.qp.pd || (region->access & right) != right)
    return nullptr;
  if (address < region->address || length > region->bytes ||
      address - region->address > region->bytes - length)
    return nullptr;
  return region->memory + (address - region->address);
}

ibv_wc_opcode opcode_of(const Work& work) {
  return work.wr.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

void fail_first(QueuePair& pair, ibv_wc_status status) {
  ++state().counts["errors"];
  if (!pair.sends.empty()) {
    ibv_wc wc{};
    wc.wr_id = pair.sends.front().wr.wr_id;
    wc.status = status;
    wc.opcode = opcode_of(pair.sends.front());
    wc.qp_num = pair.qp.qp_num;
    wc.vendor_err = 0x81;
    pair.sends.pop_front();
    complete(*pair.sends_to, wc, std::exchange(pair.unreported, 0) + 1);
  }
  end(pair);
}

/// The first work is done.
void finish_first(QueuePair& pair) {
  const Work work = std::move(pair.sends.front());
  pair.sends.pop_front();
  if (!pair.all_signalled && (work.wr.send_flags & IBV_SEND_SIGNALED) == 0) {
    ++pair.unreported;
    return;
  }
  ibv_wc wc{};
  wc.wr_id = work.wr.wr_id;
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = opcode_of(work);
  wc.byte_len = work.length;
  wc.qp_num = pair.qp.qp_num;
  complete(*pair.sends_to, wc, std::exchange(pair.unreported, 0) + 1);
}

/// Reads what the work sends, now. False if it may not.
bool gather(const QueuePair& pair, const Work& work, std::vector<std::byte>& bytes) {
  if ((work.wr.send_flags & IBV_SEND_INLINE) != 0) {
    bytes = work.inlined;
    return true;
  }
  bytes.reserve(work.length);
  for (const ibv_sge& piece : work.pieces) {
    const std::byte* const from = reach(pair, piece.lkey, piece.addr, piece.length, 0);
    if (from == nullptr) return false;
    if (find_region(piece.lkey)->of_device) {
      let_go(*pair.context->model);
      ++state().counts["device_reads"];
    }
    bytes.insert(bytes.end(), from, from + piece.length);
  }
  return true;
}

bool scatter(const QueuePair& pair, const Work& work, const std::vector<std::byte>& bytes) {
  std::size_t done = 0;
  for (const ibv_sge& piece : work.pieces) {
    std::byte* const to = reach(pair, piece.lkey, piece.addr, piece.length, IBV_ACCESS_LOCAL_WRITE);
    if (to == nullptr || bytes.size() - done < piece.length) return false;
    std::memcpy(to, bytes.data() + done, piece.length);
    done += piece.length;
  }
  return done == bytes.size();
}

Packet packet_from(const QueuePair& pair, Packet::Kind kind, std::uint32_t sequence) {
  Packet packet;
  packet.kind = kind;
  packet.from = pair.qp.qp_num;
  packet.to = pair.attributes.dest_qp_num;
  packet.sequence = sequence;
  packet.mtu = 128U << pair.attributes.path_mtu;
  const auto& route = pair.attributes.ah_attr;
  packet.to_lid = route.dlid;
  if (route.is_global != 0) {
    std::ranges::copy(route.grh.dgid.raw, packet.to_gid.begin());
    const auto& gids = port_of(pair)->gids;
    if (route.grh.sgid_index < gids.size()) {
      packet.from_gid = gids[route.grh.sgid_index].gid;
      packet.gid_type = gids[route.grh.sgid_index].type;
    }
  }
  return packet;
}

/// Sends, if the port does and the seed does not lose it.
void emit(const QueuePair& pair, Packet packet) {
  State& all = state();
  ++all.counts["packets"];
  if (!port_of(pair)->passes() || pair.context->model->removed) return;
  if (all.happens(all.chances.lose, 1000)) return;
  send(std::move(packet));
}

// --- the side that sends ---

/// Index of the first work that is to be sent; their number if there is none.
std::size_t first_unsent(const QueuePair& pair) {
  const auto found = std::ranges::find(pair.sends, false, &Work::sent);
  return static_cast<std::size_t>(found - pair.sends.begin());
}

bool may_send(const QueuePair& pair) {
  if (pair.qp.state != IBV_QPS_RTS || pair.hold_until > now()) return false;
  const std::size_t first = first_unsent(pair);
  return first < pair.sends.size() && first < kWindow;
}

ibv_wc_status any_failure() {
  constexpr ibv_wc_status kSome[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR, IBV_WC_GENERAL_ERR,
                                     IBV_WC_FATAL_ERR, IBV_WC_RNR_RETRY_EXC_ERR};
  return kSome[state().any_below(std::size(kSome))];
}

void send_next(QueuePair& pair) {
  State& all = state();
  const std::size_t index = first_unsent(pair);
  Work& work = pair.sends[index];
  const bool reads = work.wr.opcode == IBV_WR_RDMA_READ;
  Packet packet =
      packet_from(pair, reads ? Packet::Kind::kReadRequest : Packet::Kind::kWrite, work.sequence);
  packet.address = work.wr.wr.rdma.remote_addr;
  packet.key = work.wr.wr.rdma.rkey;
  packet.length = work.length;
  packet.has_immediate = work.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  packet.immediate = work.wr.imm_data;
  if (!reads && !gather(pair, work, packet.payload)) return fail_first(pair, IBV_WC_LOC_PROT_ERR);
  work.sent = true;
  if (index == 0) pair.waiting_since = now();
  // A work that fails by itself may have reached the peer or not.
  const bool fails = index == 0 && all.happens(all.chances.fail_work, 1000);
  if (!fails || all.any_below(2) == 0) emit(pair, std::move(packet));
  if (fails) fail_first(pair, any_failure());
}

void send_again(QueuePair& pair) {
  for (Work& work : pair.sends) work.sent = false;
  pair.waiting_since = now();
}

bool is_overdue(const QueuePair& pair) {
  return pair.qp.state == IBV_QPS_RTS && !pair.sends.empty() && pair.sends.front().sent &&
         now() - pair.waiting_since > patience(pair);
}

void miss_answer(QueuePair& pair) {
  ++state().counts["retries"];
  if (++pair.tries > pair.attributes.retry_cnt) return fail_first(pair, IBV_WC_RETRY_EXC_ERR);
  send_again(pair);
}

/// Everything up to `sequence` is done.
void take_ack(QueuePair& pair, std::uint32_t sequence) {
  bool moved = false;
  while (!pair.sends.empty() && pair.sends.front().sent &&
         !before(sequence, pair.sends.front().sequence) &&
         pair.sends.front().wr.opcode != IBV_WR_RDMA_READ) {
    finish_first(pair);
    moved = true;
    if (pair.qp.state == IBV_QPS_ERR) return;
  }
  if (!moved) return;
  pair.tries = pair.not_ready_tries = 0;
  pair.waiting_since = now();
}

void take_answer(QueuePair& pair, const Packet& packet) {
  // An answer to a read also says that everything before it is done.
  take_ack(pair, (packet.sequence - 1) & kSequenceMask);
  if (pair.sends.empty() || pair.sends.front().sequence != packet.sequence ||
      pair.sends.front().wr.opcode != IBV_WR_RDMA_READ)
    return;
  if (!scatter(pair, pair.sends.front(), packet.payload))
    return fail_first(pair, IBV_WC_LOC_PROT_ERR);
  finish_first(pair);
  pair.tries = 0;
  pair.waiting_since = now();
}

void take_not_ready(QueuePair& pair, std::uint32_t sequence) {
  take_ack(pair, (sequence - 1) & kSequenceMask);
  constexpr unsigned kForEver = 7;
  if (pair.qp.state != IBV_QPS_RTS || pair.sends.empty()) return;
  if (pair.attributes.rnr_retry != kForEver && ++pair.not_ready_tries > pair.attributes.rnr_retry)
    return fail_first(pair, IBV_WC_RNR_RETRY_EXC_ERR);
  send_again(pair);
  pair.hold_until = now() + (state().network.empty() ? kRestInSteps : kRestInMicroseconds);
}

void take_nak(QueuePair& pair, const Packet& packet) {
  take_ack(pair, (packet.sequence - 1) & kSequenceMask);
  if (pair.qp.state == IBV_QPS_RTS && !pair.sends.empty())
    fail_first(pair, static_cast<ibv_wc_status>(packet.status));
}

// --- the side that receives ---

/// Whether the packet reaches the queue pair at all. Hardware drops others without a word.
bool reaches(const QueuePair& pair, const Packet& packet) {
  const Port* const port = port_of(pair);
  if (port == nullptr || !port->passes() || pair.context->model->removed) return false;
  if (pair.qp.state != IBV_QPS_RTR && pair.qp.state != IBV_QPS_RTS) return false;
  if (pair.attributes.dest_qp_num != packet.from) return false;
  if (pair.attributes.ah_attr.is_global == 0) return packet.to_lid == port->lid;
  const auto here = std::ranges::find(port->gids, packet.to_gid, &GidEntry::gid);
  if (here == port->gids.end() || here->type != packet.gid_type) return false;
  Gid peer{};
  std::ranges::copy(pair.attributes.ah_attr.grh.dgid.raw, peer.begin());
  return peer == packet.from_gid && (packet.length <= port->mtu || packet.mtu <= port->mtu);
}

void answer(const QueuePair& pair, Packet::Kind kind, std::uint32_t sequence,
            ibv_wc_status status = IBV_WC_SUCCESS) {
  Packet packet = packet_from(pair, kind, sequence);
  packet.status = static_cast<std::uint8_t>(status);
  emit(pair, std::move(packet));
}

void refuse(QueuePair& pair, std::uint32_t sequence) {
  answer(pair, Packet::Kind::kNak, sequence, IBV_WC_REM_ACCESS_ERR);
  report(*pair.context, IBV_EVENT_QP_ACCESS_ERR, &pair.qp, 0);
  end(pair);
}

void split(Packet& packet) {
  State& all = state();
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  std::uint32_t begin = 0;
  while (begin < bytes) {
    const bool last = packet.missing.size() + 1 == kMostPieces || all.seed == 0;
    const std::uint32_t length =
        last ? bytes - begin : 1 + static_cast<std::uint32_t>(all.any_below(bytes - begin));
    packet.missing.emplace_back(begin, length);
    begin += length;
  }
  std::ranges::shuffle(packet.missing, all.random);
  packet.landing = true;
}

/// One piece lands. True once the packet is done with.
bool land(QueuePair& pair, Packet& packet) {
  if (!packet.landing) split(packet);
  if (!packet.missing.empty()) {
    const auto [begin, length] = packet.missing.back();
    std::byte* const to =
        reach(pair, packet.key, packet.address, packet.length, IBV_ACCESS_REMOTE_WRITE);
    if (to == nullptr) {
      refuse(pair, packet.sequence);
      return true;
    }
    Region& region = *find_region(packet.key);
    const std::byte* const from = packet.payload.data() + begin;
    if (region.of_device && region.context->model->holds_writes)
      region.held.emplace_back(to + begin - region.memory, std::vector(from, from + length));
    else
      std::memcpy(to + begin, from, length);
    if (region.held.empty() && state().happens(state().chances.damage, 1000)) {
      to[begin + state().any_below(length)] ^= std::byte(1U << state().any_below(8));
      ++state().counts["damages"];
    }
    packet.missing.pop_back();
    if (!packet.missing.empty()) return false;
  }
  ++state().counts["writes"];
  state().counts["bytes"] += packet.length;
  pair.expected_sequence = (pair.expected_sequence + 1) & kSequenceMask;
  if (packet.has_immediate) {
    ibv_wc wc{};
    wc.wr_id = pair.receives.front();
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = packet.length;
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = packet.immediate;
    wc.qp_num = pair.qp.qp_num;
    pair.receives.pop_front();
    complete(*pair.receives_to, wc);
  }
  answer(pair, Packet::Kind::kAck, packet.sequence);
  return true;
}

bool take_write(QueuePair& pair, Packet& packet) {
  if (packet.sequence != pair.expected_sequence) {
    // Come before: only the answer was lost. Others come again after what is missing.
    if (before(packet.sequence, pair.expected_sequence))
      answer(pair, Packet::Kind::kAck, (pair.expected_sequence - 1) & kSequenceMask);
    return true;
  }
  if (packet.has_immediate && pair.receives.empty()) {
    answer(pair, Packet::Kind::kNotReady, packet.sequence);
    return true;
  }
  const bool may = (pair.attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
  if (packet.length > 0 && !may) {
    refuse(pair, packet.sequence);
    return true;
  }
  return land(pair, packet);
}

void take_read(QueuePair& pair, const Packet& packet) {
  if (before(pair.expected_sequence, packet.sequence)) return;
  const std::byte* const from =
      reach(pair, packet.key, packet.address, packet.length, IBV_ACCESS_REMOTE_READ);
  if ((pair.attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ) == 0 || from == nullptr)
    return refuse(pair, packet.sequence);
  if (packet.sequence == pair.expected_sequence)
    pair.expected_sequence = (pair.expected_sequence + 1) & kSequenceMask;
  ++state().counts["reads"];
  Packet reply = packet_from(pair, Packet::Kind::kReadAnswer, packet.sequence);
  reply.payload.assign(from, from + packet.length);
  reply.length = packet.length;
  emit(pair, std::move(reply));
}

/// The head of a wire arrives, or a piece of it. True once it is done with.
bool take(Packet& packet) {
  const auto found = state().queue_pairs.find(packet.to);
  if (found == state().queue_pairs.end() || !reaches(*found->second, packet)) return true;
  QueuePair& pair = *found->second;
  switch (packet.kind) {
    case Packet::Kind::kWrite:
      return take_write(pair, packet);
    case Packet::Kind::kReadRequest:
      take_read(pair, packet);
      return true;
    case Packet::Kind::kReadAnswer:
      take_answer(pair, packet);
      return true;
    case Packet::Kind::kAck:
      take_ack(pair, packet.sequence);
      return true;
    case Packet::Kind::kNak:
      take_nak(pair, packet);
      return true;
    case Packet::Kind::kNotReady:
      take_not_ready(pair, packet.sequence);
      return true;
  }
  return true;
}

void flap_a_port() {
  State& all = state();
  if (all.models.empty()) return;
  Model& model = *all.models[all.any_below(all.models.size())];
  if (model.ports.empty() || model.removed) return;
  const auto index = all.any_below(model.ports.size());
  Port& port = model.ports[index];
  // It comes back sooner than it goes.
  if (port.active && all.any_below(4) != 0) return;
  port.active = !port.active;
  ++all.counts["flaps"];
  report_on(model, port.active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
            static_cast<int>(index) + 1);
}

}  // namespace

bool step() {
  State& all = state();
  ++all.steps;
  if (all.happens(all.chances.port_flap, 1000)) flap_a_port();
  // Everything that could happen next; the seed takes one.
  thread_local std::vector<std::pair<int, std::uint64_t>> next;
  next.clear();
  for (const auto& [ends, wire] : all.wires)
    if (!wire.empty()) next.emplace_back(0, std::uint64_t{ends.first} << 32 | ends.second);
  for (const auto& [number, pair] : all.queue_pairs) {
    if (may_send(*pair)) next.emplace_back(1, number);
    if (is_overdue(*pair)) next.emplace_back(2, number);
  }
  if (next.empty()) return false;
  const auto [what, which] = next[all.any_below(next.size())];
  if (what == 0) {
    auto& wire = all.wires.at({which >> 32, which & 0xffffffff});
    // Taken off before it acts: what it does may add to the same wire, or destroy nothing of it.
    Packet packet = std::move(wire.front());
    if (take(packet))
      wire.pop_front();
    else
      wire.front() = std::move(packet);
  } else if (what == 1) {
    send_next(*all.queue_pairs.at(static_cast<std::uint32_t>(which)));
  } else {
    miss_answer(*all.queue_pairs.at(static_cast<std::uint32_t>(which)));
  }
  return true;
}

void arrive(Packet packet) { state().wires[{packet.from, packet.to}].push_back(std::move(packet)); }

int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  State& all = state();
  const Lock lock(all.mutex);
  QueuePair& pair = *all.queue_pairs.at(qp->qp_num);
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR) return EINVAL;
    if (pair.occupied >= pair.most_sends) return ENOMEM;
    if (work->opcode != IBV_WR_RDMA_WRITE && work->opcode != IBV_WR_RDMA_WRITE_WITH_IMM &&
        work->opcode != IBV_WR_RDMA_READ)
      return EINVAL;
    Work kept;
    kept.wr = *work;
    kept.pieces.assign(work->sg_list, work->sg_list + work->num_sge);
    for (const ibv_sge& piece : kept.pieces) kept.length += piece.length;
    if ((work->send_flags & IBV_SEND_INLINE) != 0) {
      if (kept.length > pair.inlined) return EINVAL;
      for (const ibv_sge& piece : kept.pieces) {
        const auto* const from = reinterpret_cast<const std::byte*>(piece.addr);
        kept.inlined.insert(kept.inlined.end(), from, from + piece.length);
      }
    }
    if (kept.length > port_of(pair)->message) return EINVAL;
    kept.sequence = pair.next_sequence;
    pair.next_sequence = (pair.next_sequence + 1) & kSequenceMask;
    ++pair.occupied;
    pair.sends.push_back(std::move(kept));
    if (qp->state == IBV_QPS_ERR) end(pair);
  }
  wake_network();
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) {
  State& all = state();
  const Lock lock(all.mutex);
  QueuePair& pair = *all.queue_pairs.at(qp->qp_num);
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (qp->state == IBV_QPS_RESET) return EINVAL;
    if (pair.receives.size() >= pair.most_receives) return ENOMEM;
    pair.receives.push_back(work->wr_id);
    if (qp->state == IBV_QPS_ERR) end(pair);
  }
  return 0;
}

}  // namespace fake_verbs
