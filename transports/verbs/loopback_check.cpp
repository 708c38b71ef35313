#include "transports/verbs/loopback_check.hpp"

#include <algorithm>
#include <array>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "transports/verbs/flusher.hpp"
#include "transports/verbs/paged_memory.hpp"

namespace tutti::verbs {
namespace {

constexpr std::uint32_t kMostTestBytes = 16 << 10;  // several packets, several pages
constexpr Nanos kMoment = std::chrono::milliseconds(100);

std::byte pattern(std::size_t at) { return std::byte((at * 0x9e3779b97f4a7c15ULL) >> 56); }

/// Waits for the receive of what was written. False: it does not come.
Result<bool> await_arrival(CompletionQueue& completions) {
  const Deadline deadline = Deadline::after(kMoment);
  while (!deadline.passed()) {
    std::array<ibv_wc, 2> done;
    TUTTI_ASSIGN(const std::size_t count, completions.poll(done));
    for (const ibv_wc& one : std::span(done).first(count)) {
      if (one.status != IBV_WC_SUCCESS) return false;
      if (one.opcode == IBV_WC_RECV_RDMA_WITH_IMM) return true;
    }
  }
  return false;
}

}  // namespace

Result<LoopbackCheck> write_to_itself(const std::shared_ptr<Device>& device, const Rail& rail) {
  std::uint32_t bytes = kMostTestBytes;
  for (const PortFacts& port : device->facts().ports)
    if (port.number == rail.port) bytes = std::min(bytes, port.most_message);
  TUTTI_ASSIGN(const PagedMemory memory, PagedMemory::map(2 * std::size_t{kMostTestBytes}));
  const std::span<std::byte> from = memory.bytes().first(bytes);
  const std::span<std::byte> to = memory.bytes().subspan(kMostTestBytes, bytes);
  for (std::size_t i = 0; i < bytes; ++i) from[i] = pattern(i);
  TUTTI_ASSIGN(const MemoryRegion region,
               device->register_memory(memory.bytes(), {.remote_write = true}));
  TUTTI_ASSIGN(CompletionQueue completions, device->create_completion_queue(8));
  TUTTI_ASSIGN(QueuePair sender,
               device->create_queue_pair(completions, {.sends = 1, .receives = 1}));
  TUTTI_ASSIGN(QueuePair receiver,
               device->create_queue_pair(completions, {.sends = 1, .receives = 1}));
  const OwnPath own{.port = rail.port, .gid_index = rail.gid_index};
  TUTTI_TRY(sender.initialise(rail.port));
  TUTTI_TRY(receiver.initialise(rail.port));
  ibv_recv_wr receive{};
  TUTTI_TRY(receiver.post(receive));
  TUTTI_TRY(receiver.connect(own, way_to(sender, rail)));
  TUTTI_TRY(sender.connect(own, way_to(receiver, rail)));
  ibv_sge gathered{.addr = reinterpret_cast<std::uintptr_t>(from.data()),
                   .length = bytes,
                   .lkey = region.local_key()};
  ibv_send_wr write{};
  write.sg_list = &gathered;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.data());
  write.wr.rdma.rkey = region.remote_key();
  TUTTI_TRY(sender.post(write));
  TUTTI_ASSIGN(const bool arrived, await_arrival(completions));
  if (!arrived) return LoopbackCheck::kUnanswered;
  for (std::size_t i = 0; i < bytes; ++i)
    if (to[i] != pattern(i))
      return make_error(
          Code::kUnavailable,
          "{}:{} wrote {} bytes to itself, and byte {} is {:#04x} instead of {:#04x}: look at the "
          "I/O memory unit, at access control (ACS) and address translation (ATS) of its PCI "
          "bridges, and at the settings of the virtual machine",
          rail.device, rail.port, bytes, i, static_cast<unsigned>(to[i]),
          static_cast<unsigned>(pattern(i)));
  return LoopbackCheck::kPassed;
}

}  // namespace tutti::verbs
