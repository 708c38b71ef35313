#include "transports/verbs/path.hpp"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>

#include "src/base/result.hpp"

namespace tutti::verbs {
namespace {

// Every so many writes, one reports its end, and with it that of those before.
constexpr std::uint64_t kReportEvery = kPathSends / 4;
// Ids of work requests: the number of a write, or one of these.
constexpr std::uint64_t kReceiveId = ~std::uint64_t{0};
constexpr std::uint64_t kLastSendId = kReceiveId - 1;
constexpr std::uint64_t kLastReceiveId = kReceiveId - 2;

}  // namespace

Status Path::open(Device& device, CompletionQueue& completions, const Rail& rail,
                  std::uint32_t generation, std::uint32_t first_packet) {
  // One more each way for what ends a drain.
  TUTTI_ASSIGN(QueuePair pair, device.create_queue_pair(completions, {.sends = kPathSends + 1,
                                                                      .receives = kPathReceives + 1,
                                                                      .inlined = 128}));
  TUTTI_TRY(pair.initialise(rail.port));
  pair_.emplace(std::move(pair));
  at_ = rail;
  generation_ = generation;
  first_packet_ = first_packet;
  connected_ = false;
  posted_ = completed_ = 0;
  sends_over_ = receives_over_ = false;
  state_ = State::kOpening;
  for (std::uint32_t i = 0; i < kPathReceives; ++i) TUTTI_TRY(post_receive());
  return ok_status();
}

OpenPath Path::offer(std::uint16_t index) const {
  return {.path = index,
          .generation = generation_,
          .queue_pair = pair_->number(),
          .first_packet = first_packet_,
          .mtu = at_.mtu,
          .gid = at_.gid,
          .lid = at_.lid};
}

Status Path::connect(const OpenPath& peer, const OwnPath& own) {
  OwnPath here = own;
  here.port = at_.port;
  here.gid_index = at_.gid_index;
  here.first_packet = first_packet_;
  TUTTI_TRY(pair_->connect(here, {.queue_pair = peer.queue_pair,
                                  .first_packet = peer.first_packet,
                                  .mtu = std::min(peer.mtu, at_.mtu),
                                  .gid = peer.gid,
                                  .lid = peer.lid,
                                  .global = at_.link != LinkLayer::kInfiniBand}));
  connected_ = true;
  return ok_status();
}

Status Path::post_receive() {
  ibv_recv_wr work{};
  work.wr_id = kReceiveId;
  return pair_->post(work);
}

/// The next write of this queue pair, of `piece`.
void Path::fill(ibv_send_wr& work, ibv_sge& gathered, const Piece& piece) {
  gathered = {.addr = reinterpret_cast<std::uintptr_t>(piece.bytes.data()),
              .length = static_cast<std::uint32_t>(piece.bytes.size()),
              .lkey = piece.local_key};
  work.wr_id = ++posted_;  // not all of the request, whose 128 bytes serve other kinds, too
  work.next = nullptr;
  work.send_flags = 0;
  work.sg_list = &gathered;
  work.num_sge = piece.bytes.empty() ? 0 : 1;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.wr.rdma.remote_addr = piece.to;
  work.wr.rdma.rkey = piece.key;
  if (!piece.bytes.empty() && !piece.of_gpu && piece.bytes.size() <= pair_->inlined())
    work.send_flags |= IBV_SEND_INLINE;
  if (std::exchange(report_next_, false) || work.wr_id % kReportEvery == 0)
    work.send_flags |= IBV_SEND_SIGNALED;
}

void Path::tell(ibv_send_wr& work, Word word) {
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(static_cast<std::uint32_t>(word.notice) << 30 | (word.value & kNoticeMask));
}

Status Path::write(const Piece& piece, Word word) {
  ibv_sge gathered;
  ibv_send_wr work;
  fill(work, gathered, piece);
  tell(work, word);
  return pair_->post(work);
}

Status Path::write_then_tell(const Piece& piece, Word word) {
  ibv_sge gathered[2];
  ibv_send_wr works[2];
  fill(works[0], gathered[0], piece);
  fill(works[1], gathered[1], {});
  works[0].next = &works[1];
  tell(works[1], word);
  return pair_->post(works[0]);
}

Result<std::optional<Path::Word>> Path::take(const ibv_wc& completion) {
  using Nothing = std::optional<Word>;
  if (completion.wr_id == kLastSendId || completion.wr_id == kLastReceiveId) {
    (completion.wr_id == kLastSendId ? sends_over_ : receives_over_) = true;
    if (sends_over_ && receives_over_ && state_ == State::kDraining) state_ = State::kDrained;
    return Nothing();
  }
  if (completion.status != IBV_WC_SUCCESS) {
    // While it drains, all that was posted comes back.
    if (state_ == State::kDraining) return Nothing();
    return make_error(Code::kPeerFailed, "status {}", static_cast<int>(completion.status));
  }
  if (completion.wr_id != kReceiveId) {
    completed_ = std::max(completed_, completion.wr_id);
    return Nothing();
  }
  const std::uint32_t immediate = ntohl(completion.imm_data);
  // What has arrived counts, also while it drains.
  if (state_ != State::kDraining) TUTTI_TRY(post_receive());
  return Nothing(Word{static_cast<Notice>(immediate >> 30), immediate & kNoticeMask});
}

void Path::end() {
  if (state_ == State::kDown || state_ == State::kDraining || state_ == State::kDrained) return;
  state_ = State::kDraining;
  // What was posted last comes back last. A receive that is posted to a queue pair that has ended
  // already may never come back.
  ibv_recv_wr last_receive{};
  last_receive.wr_id = kLastReceiveId;
  ibv_send_wr last_send{};
  last_send.wr_id = kLastSendId;
  last_send.opcode = IBV_WR_RDMA_WRITE;
  last_send.send_flags = IBV_SEND_SIGNALED;
  // A device that refuses even this is gone, and so is all that was under way on it.
  if (!pair_->post(last_receive) || !pair_->fail() || !pair_->post(last_send)) give_up();
}

void Path::give_up() {
  if (state_ != State::kDraining) return;
  pair_.reset();
  state_ = State::kDrained;
}

std::optional<QueuePair> Path::take_drained() {
  std::optional<QueuePair> pair = std::exchange(pair_, std::nullopt);
  set_down(generation_);
  return pair;
}

void Path::set_down(std::uint32_t generation) {
  pair_.reset();
  state_ = State::kDown;
  generation_ = generation;
  connected_ = false;
}

}  // namespace tutti::verbs
