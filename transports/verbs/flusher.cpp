#include "transports/verbs/flusher.hpp"

#include <utility>

#include "src/base/result.hpp"

namespace tutti::verbs {

PeerPath way_to(const QueuePair& pair, const Rail& rail) {
  return {.queue_pair = pair.number(),
          .first_packet = 0,
          .mtu = rail.mtu,
          .gid = rail.gid,
          .lid = rail.lid,
          .global = rail.link != LinkLayer::kInfiniBand};
}

Result<std::unique_ptr<Flusher>> Flusher::create(Device& device, CompletionQueue& completions,
                                                 const Rail& rail) {
  TUTTI_ASSIGN(PagedMemory memory, PagedMemory::map(1));
  TUTTI_ASSIGN(MemoryRegion region, device.register_memory(memory.bytes(), {.remote_write = true}));
  TUTTI_ASSIGN(QueuePair pair,
               device.create_queue_pair(completions, {.sends = kMost, .receives = 1}));
  TUTTI_TRY(pair.initialise(rail.port));
  TUTTI_TRY(pair.connect({.port = rail.port, .gid_index = rail.gid_index}, way_to(pair, rail)));
  return std::unique_ptr<Flusher>(
      new Flusher(std::move(pair), std::move(memory), std::move(region)));
}

Status Flusher::read(const std::byte* at, std::uint32_t local_key, std::uint64_t ticket) {
  ibv_sge byte{.addr = reinterpret_cast<std::uintptr_t>(at), .length = 1, .lkey = local_key};
  ibv_send_wr work{};
  work.wr_id = ticket;
  work.sg_list = &byte;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(memory_.bytes().data());
  work.wr.rdma.rkey = region_.remote_key();
  TUTTI_TRY(pair_.post(work));
  ++under_way_;
  return ok_status();
}

Status Flusher::take(const ibv_wc& completion) {
  --under_way_;
  if (completion.status == IBV_WC_SUCCESS) return ok_status();
  return make_error(Code::kUnavailable, "status {}", static_cast<int>(completion.status));
}

}  // namespace tutti::verbs
