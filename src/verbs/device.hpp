// An open RDMA device and what lives on it: registered memory, completion queues, queue pairs.
//
// All are resources. What lives on a device keeps it open. Queue pairs and completion queues belong
// to one thread at a time; the rest is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "src/base/fd.hpp"
#include "src/verbs/facts.hpp"
#include "src/verbs/library.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// Deletes with the function that the library has for it.
struct Deleter {
  SharedLibrary library{};
  void operator()(ibv_context* context) const { library->call().close_device(context); }
  void operator()(ibv_pd* domain) const { library->call().dealloc_pd(domain); }
  void operator()(ibv_mr* region) const { library->call().dereg_mr(region); }
  void operator()(ibv_comp_channel* channel) const {
    library->call().destroy_comp_channel(channel);
  }
  void operator()(ibv_cq* queue) const { library->call().destroy_cq(queue); }
  void operator()(ibv_qp* pair) const { library->call().destroy_qp(pair); }
};
template <class Object>
using Owned = std::unique_ptr<Object, Deleter>;

/// What peers and the device may do with registered memory.
struct Access {
  bool local_write = true;
  bool remote_write = false;
  bool remote_read = false;
  /// The device may write out of order (PCIe relaxed ordering). Where the library or the device do
  /// not know the option, it is left out.
  bool relaxed_ordering = false;
};

/// Memory that a device reaches. Deregisters itself.
class MemoryRegion {
 public:
  MemoryRegion(std::shared_ptr<Device> device, Owned<ibv_mr> region)
      : device_(std::move(device)), region_(std::move(region)) {}
  [[nodiscard]] std::uint32_t local_key() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t remote_key() const { return region_->rkey; }
  [[nodiscard]] std::size_t bytes() const { return region_->length; }

 private:
  std::shared_ptr<Device> device_;
  Owned<ibv_mr> region_;
};

/// Where work reports its end.
class CompletionQueue {
 public:
  /// Takes completions that have come; returns how many. kUnavailable if the queue is broken
  /// (overrun, or the device is gone).
  Result<std::size_t> poll(std::span<ibv_wc> completions);
  /// The next completion makes fd() readable, once.
  Status wake_on_next();
  [[nodiscard]] int fd() const { return channel_->fd; }
  /// Takes what made fd() readable.
  void take_wakes();
  [[nodiscard]] int capacity() const { return queue_->cqe; }
  [[nodiscard]] ibv_cq* get() const { return queue_.get(); }
  CompletionQueue(std::shared_ptr<Device> device, Owned<ibv_comp_channel> channel,
                  Owned<ibv_cq> queue)
      : device_(std::move(device)), channel_(std::move(channel)), queue_(std::move(queue)) {}
  CompletionQueue(CompletionQueue&&) = default;
  ~CompletionQueue();

 private:
  std::shared_ptr<Device> device_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> queue_;
  unsigned taken_ = 0;  // wakes not acknowledged yet
};

struct QueuePairOptions {
  std::uint32_t sends = 0;  ///< work requests under way, each way
  std::uint32_t receives = 0;
  std::uint32_t inlined = 0;  ///< bytes that a request may carry itself; the device may have fewer
};

/// The way to one queue pair of a peer.
struct PeerPath {
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;  ///< 24 bits, random
  std::uint32_t mtu = 0;           ///< bytes: the smaller one of both ports
  Gid gid{};
  std::uint16_t lid = 0;
  bool global = true;  ///< by GID: always on Ethernet
};
/// This end of it.
struct OwnPath {
  std::uint8_t port = 1;
  std::uint32_t gid_index = 0;
  std::uint32_t first_packet = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t timeout = 14;  ///< a try waits 4.096 us * 2^timeout for its answer
  std::uint8_t retries = 7;
};

/// A reliable connection's end ("RC").
class QueuePair {
 public:
  [[nodiscard]] std::uint32_t number() const { return pair_->qp_num; }
  [[nodiscard]] std::uint32_t inlined() const { return inlined_; }

  /// From reset to ready, in two steps: receives may be posted in between.
  Status initialise(std::uint8_t port);
  Status connect(const OwnPath& own, const PeerPath& peer);
  /// Ends all work: what is posted comes back as flushed, and nothing more arrives.
  Status fail();

  Status post(ibv_send_wr& work) {
    ibv_send_wr* bad = nullptr;
    const int failed = pair_->context->ops.post_send(pair_.get(), &work, &bad);
    return failed == 0 ? ok_status() : post_error("a send", failed);
  }
  Status post(ibv_recv_wr& work) {
    ibv_recv_wr* bad = nullptr;
    const int failed = pair_->context->ops.post_recv(pair_.get(), &work, &bad);
    return failed == 0 ? ok_status() : post_error("a receive", failed);
  }
  QueuePair(std::shared_ptr<Device> device, Owned<ibv_qp> pair, std::uint32_t inlined)
      : device_(std::move(device)), pair_(std::move(pair)), inlined_(inlined) {}

 private:
  [[nodiscard]] Error post_error(const char* what, int failed) const;
  Status modify(ibv_qp_attr& wanted, int mask, const char* what);
  std::shared_ptr<Device> device_;
  Owned<ibv_qp> pair_;
  std::uint32_t inlined_;
};

/// What a device reports by itself.
struct AsyncEvent {
  ibv_event_type type{};
  std::uint8_t port = 0;         ///< 0: of no port
  std::uint32_t queue_pair = 0;  ///< 0: of no queue pair
  std::string text{};            ///< "port error"
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Takes `context`; reads what is known of the device.
  static Result<std::shared_ptr<Device>> adopt(SharedLibrary library, ibv_context* context,
                                               std::uint64_t guid);

  /// As read when the device was opened.
  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& name() const { return facts_.name; }
  /// As it is now.
  [[nodiscard]] Result<PortFacts> port(std::uint8_t number) const;

  Result<MemoryRegion> register_memory(std::span<std::byte> memory, Access access);
  /// Memory behind `dma_buf`, a descriptor of the kernel's DMA-BUF, at `offset` in it. Peers and
  /// work requests name it by `address`.
  Result<MemoryRegion> register_dma_buf(int dma_buf, std::uint64_t offset, std::size_t bytes,
                                        std::uint64_t address, Access access);
  /// Whether the library, the kernel and the device take any DMA-BUF: kUnsupported, with the
  /// reason.
  Status takes_dma_buf() const;
  Result<CompletionQueue> create_completion_queue(std::uint32_t entries);
  Result<QueuePair> create_queue_pair(CompletionQueue& completions, QueuePairOptions options);

  /// Readable when the device has something to report. Not blocking.
  [[nodiscard]] int event_fd() const { return context_->async_fd; }
  /// The next report, if there is one.
  std::vector<AsyncEvent> take_events();

  [[nodiscard]] const SharedLibrary& library() const { return library_; }

 private:
  Device(SharedLibrary library, Owned<ibv_context> context)
      : library_(std::move(library)), context_(std::move(context)) {}
  Status read_facts(std::uint64_t guid);
  Result<std::vector<GidEntry>> gids(std::uint8_t port, int length) const;
  Owned<ibv_mr> try_register(std::span<std::byte> memory, unsigned flags) const;
  [[nodiscard]] Error lack_of(const char* doing, int why) const;

  SharedLibrary library_;
  Owned<ibv_context> context_;
  Owned<ibv_pd> domain_;  // of all that lives here
  DeviceFacts facts_;
};

/// Bytes that this process may lock, which registering does; -1: without limit.
std::int64_t lock_limit();
/// Whether it may lock more all the same (CAP_IPC_LOCK).
bool is_above_lock_limit();

/// Whether a network interface joins several cables: a bond. `interfaces` is where the kernel shows
/// them.
bool is_bond(const std::string& interface,
             const std::filesystem::path& interfaces = "/sys/class/net");

}  // namespace tutti::verbs
