#include "src/verbs/device.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/resource.h>

#include "src/base/result.hpp"

namespace tutti::verbs {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

/// Where the kernel shows the device. Empty fields where it does not.
void read_place(const std::filesystem::path& folder, DeviceFacts& facts) {
  std::error_code failed;
  const auto device = std::filesystem::canonical(folder / "device", failed);
  if (failed) return;
  const std::string name = device.filename();
  if (std::ranges::count(name, ':') == 2) facts.pci = name;
  const auto driver = std::filesystem::canonical(device / "driver", failed);
  if (!failed) facts.driver = driver.filename();
  if (const std::string numa = first_line(device / "numa_node"); !numa.empty())
    facts.numa = std::atoi(numa.c_str());
}

/// "Global tclass=106", as some drivers write it; -1 where they do not.
int traffic_class_of(const std::filesystem::path& folder, std::uint8_t port) {
  const std::string line = first_line(folder / fmt::format("tc/{}/traffic_class", port));
  const std::size_t value = line.find('=');
  if (value == std::string::npos) return -1;
  return std::clamp(std::atoi(line.c_str() + value + 1), -1, 255);
}

const char* name_of(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
      return "ACTIVE_DEFER";
    default:
      return "unknown";
  }
}

LinkLayer link_of(std::uint8_t layer) {
  if (layer == IBV_LINK_LAYER_ETHERNET) return LinkLayer::kEthernet;
  if (layer == IBV_LINK_LAYER_INFINIBAND) return LinkLayer::kInfiniBand;
  return LinkLayer::kUnknown;
}

std::uint32_t bytes_of(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << static_cast<unsigned>(mtu) : 0;
}

ibv_mtu mtu_of(std::uint32_t bytes) {
  auto mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && bytes_of(static_cast<ibv_mtu>(mtu + 1)) <= bytes)
    mtu = static_cast<ibv_mtu>(mtu + 1);
  return mtu;
}

/// InfiniBand Architecture Specification, volume 1, PortInfo: lanes, and speed of one.
std::uint32_t speed_of(std::uint8_t width, std::uint8_t speed) {
  struct Coded {
    std::uint8_t code;
    std::uint32_t value;
  };
  constexpr std::array<Coded, 5> kLanes{{{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  constexpr std::array<Coded, 8> kSpeeds{{{1, 2500},
                                          {2, 5000},
                                          {4, 10000},
                                          {8, 10000},
                                          {16, 14000},
                                          {32, 25000},
                                          {64, 50000},
                                          {128, 100000}}};
  const auto lanes = std::ranges::find(kLanes, width, &Coded::code);
  const auto each = std::ranges::find(kSpeeds, speed, &Coded::code);
  return lanes == kLanes.end() || each == kSpeeds.end() ? 0 : lanes->value * each->value;
}

GidType type_of(std::uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidType::kRoceV2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoceV1 : GidType::kInfiniBand;
}

std::string interface_of(std::uint32_t index) {
  char name[IF_NAMESIZE] = "";
  return index != 0 && ::if_indextoname(index, name) != nullptr ? name : "";
}

unsigned flags_of(Access access) {
  unsigned flags = 0;
  if (access.local_write) flags |= IBV_ACCESS_LOCAL_WRITE;
  if (access.remote_write) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (access.remote_read) flags |= IBV_ACCESS_REMOTE_READ;
  return flags;
}

}  // namespace

std::int64_t lock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

bool is_above_lock_limit() {
  constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:"))
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kIpcLock & 1) != 0;
  return false;
}

bool is_bond(const std::string& interface, const std::filesystem::path& interfaces) {
  std::error_code failed;
  return !interface.empty() &&
         std::filesystem::is_directory(interfaces / interface / "bonding", failed);
}

// --- the device ---

Result<std::shared_ptr<Device>> Device::adopt(SharedLibrary library, ibv_context* context,
                                              std::uint64_t guid) {
  Owned<ibv_context> owned(context, Deleter{library});
  const std::shared_ptr<Device> device(new Device(library, std::move(owned)));
  TUTTI_TRY(device->read_facts(guid));
  errno = 0;
  device->domain_ = Owned<ibv_pd>(library->call().alloc_pd(context), Deleter{library});
  if (!device->domain_) return device->lack_of("allocating a protection domain", errno);
  const int flags = ::fcntl(context->async_fd, F_GETFL);
  ::fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
  return device;
}

Status Device::read_facts(std::uint64_t guid) {
  facts_.name = context_->device->name;
  facts_.guid = guid;
  read_place(context_->device->ibdev_path, facts_);
  ibv_device_attr limits{};
  if (const int failed = library_->call().query_device(context_.get(), &limits); failed != 0)
    return system_error(Code::kUnavailable, failed, fmt::format("asking {} what it can", name()));
  facts_.firmware.assign(limits.fw_ver, ::strnlen(limits.fw_ver, sizeof limits.fw_ver));
  facts_.most_queue_pairs = static_cast<std::uint32_t>(limits.max_qp);
  facts_.most_work_requests = static_cast<std::uint32_t>(limits.max_qp_wr);
  facts_.most_completions = static_cast<std::uint32_t>(limits.max_cqe);
  facts_.most_regions = static_cast<std::uint32_t>(limits.max_mr);
  facts_.most_region_bytes = limits.max_mr_size;
  for (unsigned number = 1; number <= limits.phys_port_cnt; ++number) {
    TUTTI_ASSIGN(PortFacts found, port(static_cast<std::uint8_t>(number)));
    facts_.ports.push_back(std::move(found));
  }
  return ok_status();
}

Result<PortFacts> Device::port(std::uint8_t number) const {
  ibv_port_attr read{};
  verbs_context* const extended = verbs_get_ctx_op(context_.get(), query_port);
  const int failed =
      extended != nullptr
          ? extended->query_port(context_.get(), number, &read, sizeof read)
          : library_->call().query_port(context_.get(), number,
                                        reinterpret_cast<_compat_ibv_port_attr*>(&read));
  if (failed != 0)
    return system_error(Code::kUnavailable, failed,
                        fmt::format("asking {} about its port {}", name(), number));
  PortFacts facts{.number = number,
                  .active = read.state == IBV_PORT_ACTIVE,
                  .state = name_of(read.state),
                  .link = link_of(read.link_layer),
                  .mtu = bytes_of(read.active_mtu),
                  .most_mtu = bytes_of(read.max_mtu),
                  .mbit_per_s = speed_of(read.active_width, read.active_speed),
                  .most_message = read.max_msg_sz,
                  .lid = read.lid,
                  .traffic_class = traffic_class_of(context_->device->ibdev_path, number),
                  .gids = {}};
  TUTTI_ASSIGN(facts.gids, gids(number, read.gid_tbl_len));
  facts.bonded = std::ranges::any_of(
      facts.gids, [](const GidEntry& entry) { return is_bond(entry.interface); });
  return facts;
}

// Before 1.11 the library reads no types: the kernel shows them beside the table.
Result<std::vector<GidEntry>> Device::gids(std::uint8_t port, int length) const {
  std::vector<GidEntry> found;
  const EntryPoints& call = library_->call();
  if (call.query_gid_table != nullptr) {
    constexpr int kPorts = 4;  // it lists those of all ports, and refuses to list a part
    std::vector<ibv_gid_entry> entries(static_cast<std::size_t>(std::max(length, 1) * kPorts));
    const ssize_t count = call.query_gid_table(context_.get(), entries.data(), entries.size(), 0,
                                               sizeof(ibv_gid_entry));
    if (count >= 0) {
      for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
        if (entry.port_num != port) continue;
        GidEntry one{.index = entry.gid_index,
                     .type = type_of(entry.gid_type),
                     .interface = interface_of(entry.ndev_ifindex)};
        std::ranges::copy(entry.gid.raw, one.gid.begin());
        if (!is_zero(one.gid)) found.push_back(std::move(one));
      }
      return found;
    }
  }
  const std::filesystem::path folder =
      std::filesystem::path(context_->device->ibdev_path) / fmt::format("ports/{}/gid_attrs", port);
  for (int index = 0; index < length; ++index) {
    ibv_gid gid{};
    if (call.query_gid(context_.get(), port, index, &gid) != 0) continue;
    GidEntry one{.index = static_cast<std::uint32_t>(index)};
    std::ranges::copy(gid.raw, one.gid.begin());
    if (is_zero(one.gid)) continue;
    const std::string type = first_line(folder / "types" / std::to_string(index));
    one.type = type == "RoCE v2"      ? GidType::kRoceV2
               : type == "IB/RoCE v1" ? GidType::kRoceV1
                                      : GidType::kInfiniBand;
    one.interface = first_line(folder / "ndevs" / std::to_string(index));
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<AsyncEvent> Device::take_events() {
  std::vector<AsyncEvent> taken;
  const EntryPoints& call = library_->call();
  ibv_async_event event{};
  while (call.get_async_event(context_.get(), &event) == 0) {
    AsyncEvent one{.type = event.event_type};
    switch (event.event_type) {
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_LID_CHANGE:
      case IBV_EVENT_PKEY_CHANGE:
      case IBV_EVENT_SM_CHANGE:
      case IBV_EVENT_CLIENT_REREGISTER:
      case IBV_EVENT_GID_CHANGE:
        one.port = static_cast<std::uint8_t>(event.element.port_num);
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        one.queue_pair = event.element.qp->qp_num;
        break;
      default:
        break;
    }
    const char* const text = call.event_type_str(event.event_type);
    one.text = text == nullptr ? "" : text;
    call.ack_async_event(&event);
    taken.push_back(std::move(one));
  }
  return taken;
}

// --- memory ---

Owned<ibv_mr> Device::try_register(std::span<std::byte> memory, unsigned flags) const {
  const EntryPoints& call = library_->call();
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  errno = 0;
  ibv_mr* const region =
      (flags & IBV_ACCESS_OPTIONAL_RANGE) != 0
          ? call.reg_mr_iova2(domain_.get(), memory.data(), memory.size(), address, flags)
          : (*call.reg_mr)(domain_.get(), memory.data(), memory.size(), static_cast<int>(flags));
  return {region, Deleter{library_}};
}

Result<MemoryRegion> Device::register_memory(std::span<std::byte> memory, Access access) {
  const unsigned flags = flags_of(access);
  Owned<ibv_mr> region;
  if (access.relaxed_ordering && library_->call().reg_mr_iova2 != nullptr)
    region = try_register(memory, flags | IBV_ACCESS_RELAXED_ORDERING);
  // Some drivers refuse options that they do not know, though they may be left out.
  if (!region) region = try_register(memory, flags);
  if (!region) {
    const int why = errno;
    return lack_of(fmt::format("registering {} bytes at {}", memory.size(),
                               static_cast<const void*>(memory.data()))
                       .c_str(),
                   why);
  }
  return MemoryRegion(shared_from_this(), std::move(region));
}

Result<MemoryRegion> Device::register_dma_buf(int dma_buf, std::uint64_t offset, std::size_t bytes,
                                              std::uint64_t address, Access access) {
  const EntryPoints& call = library_->call();
  if (call.reg_dmabuf_mr == nullptr)
    return make_error(
        Code::kUnsupported,
        "this libibverbs has no ibv_reg_dmabuf_mr: DMA-BUF needs version 34 or newer");
  errno = 0;
  Owned<ibv_mr> region(call.reg_dmabuf_mr(domain_.get(), offset, bytes, address, dma_buf,
                                          static_cast<int>(flags_of(access))),
                       Deleter{library_});
  if (!region) {
    const int why = errno;
    if (why == EOPNOTSUPP || why == ENOSYS || why == EPROTONOSUPPORT)
      return system_error(Code::kUnsupported, why, fmt::format("DMA-BUF on {}", name()));
    return lack_of(fmt::format("registering {} bytes of a DMA-BUF", bytes).c_str(), why);
  }
  return MemoryRegion(shared_from_this(), std::move(region));
}

// A descriptor that is none is refused in one way where DMA-BUF is known, and in another where not.
Status Device::takes_dma_buf() const {
  constexpr std::size_t kPage = 4096;
  const EntryPoints& call = library_->call();
  if (call.reg_dmabuf_mr == nullptr)
    return make_error(Code::kUnsupported, "this libibverbs is older than version 34");
  errno = 0;
  const Owned<ibv_mr> region(
      call.reg_dmabuf_mr(domain_.get(), 0, kPage, 0, -1, IBV_ACCESS_LOCAL_WRITE),
      Deleter{library_});
  const int why = errno;
  if (region || why == EBADF) return ok_status();
  return system_error(Code::kUnsupported, why, fmt::format("DMA-BUF on {}", name()));
}

Error Device::lack_of(const char* doing, int why) const {
  const std::int64_t limit = lock_limit();
  std::string what = fmt::format("{} on {}", doing, name());
  if ((why == ENOMEM || why == EPERM || why == EAGAIN) && limit >= 0)
    what += fmt::format(
        " (this process may lock {} KiB of memory: raise that with `ulimit -l unlimited`, in "
        "containers with --ulimit memlock=-1)",
        limit / 1024);
  return system_error(Code::kUnavailable, why, std::move(what));
}

// --- queues ---

Result<CompletionQueue> Device::create_completion_queue(std::uint32_t entries) {
  const EntryPoints& call = library_->call();
  if (entries > facts_.most_completions)
    return make_error(Code::kUnavailable, "{} completions are more than one queue of {} holds: {}",
                      entries, name(), facts_.most_completions);
  errno = 0;
  Owned<ibv_comp_channel> channel(call.create_comp_channel(context_.get()), Deleter{library_});
  if (!channel) return lack_of("creating a completion channel", errno);
  const int flags = ::fcntl(channel->fd, F_GETFL);
  ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK);
  errno = 0;
  Owned<ibv_cq> queue(
      call.create_cq(context_.get(), static_cast<int>(entries), nullptr, channel.get(), 0),
      Deleter{library_});
  if (!queue)
    return lack_of(fmt::format("creating a completion queue of {} entries", entries).c_str(),
                   errno);
  return CompletionQueue(shared_from_this(), std::move(channel), std::move(queue));
}

Result<QueuePair> Device::create_queue_pair(CompletionQueue& completions,
                                            QueuePairOptions options) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = options.sends,
                .max_recv_wr = options.receives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = options.inlined};
  Owned<ibv_qp> pair;
  // A device does not say how much it inlines: it refuses more.
  for (;;) {
    errno = 0;
    ibv_qp_init_attr tried = wanted;
    pair = Owned<ibv_qp>(library_->call().create_qp(domain_.get(), &tried), Deleter{library_});
    if (pair || wanted.cap.max_inline_data == 0) {
      wanted = tried;
      break;
    }
    wanted.cap.max_inline_data /= 2;
  }
  if (!pair) {
    const int why = errno;
    return lack_of(fmt::format("creating a queue pair for {} sends and {} receives (it can have "
                               "{} queue pairs in all)",
                               options.sends, options.receives, facts_.most_queue_pairs)
                       .c_str(),
                   why);
  }
  return QueuePair(shared_from_this(), std::move(pair), wanted.cap.max_inline_data);
}

CompletionQueue::~CompletionQueue() {
  // The library waits for wakes that were taken and not acknowledged.
  if (queue_ && taken_ > 0) device_->library()->call().ack_cq_events(queue_.get(), taken_);
}

Result<std::size_t> CompletionQueue::poll(std::span<ibv_wc> completions) {
  const int count = queue_->context->ops.poll_cq(queue_.get(), static_cast<int>(completions.size()),
                                                 completions.data());
  if (count < 0)
    return make_error(Code::kUnavailable, "the completion queue of {} is broken ({})",
                      device_->name(), count);
  return static_cast<std::size_t>(count);
}

Status CompletionQueue::wake_on_next() {
  if (const int failed = queue_->context->ops.req_notify_cq(queue_.get(), 0); failed != 0)
    return system_error(Code::kUnavailable, failed,
                        fmt::format("asking {} to wake this process", device_->name()));
  return ok_status();
}

void CompletionQueue::take_wakes() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (device_->library()->call().get_cq_event(channel_.get(), &queue, &context) == 0) ++taken_;
  constexpr unsigned kAtOnce = 64;  // acknowledging takes a lock
  if (taken_ < kAtOnce) return;
  device_->library()->call().ack_cq_events(queue_.get(), std::exchange(taken_, 0));
}

// --- queue pairs ---

Status QueuePair::modify(ibv_qp_attr& wanted, int mask, const char* what) {
  const int failed = device_->library()->call().modify_qp(pair_.get(), &wanted, mask);
  if (failed == 0) return ok_status();
  return system_error(Code::kUnavailable, failed,
                      fmt::format("{} queue pair {} of {}", what, number(), device_->name()));
}

Error QueuePair::post_error(const char* what, int failed) const {
  return system_error(
      Code::kUnavailable, failed,
      fmt::format("posting {} to queue pair {} of {}", what, number(), device_->name()));
}

// Peers may write, never read or add: what may be written is up to the regions.
Status QueuePair::initialise(std::uint8_t port) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_INIT;
  wanted.pkey_index = 0;
  wanted.port_num = port;
  wanted.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  return modify(wanted, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "initialising");
}

Status QueuePair::connect(const OwnPath& own, const PeerPath& peer) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_RTR;
  wanted.path_mtu = mtu_of(peer.mtu);
  wanted.dest_qp_num = peer.queue_pair;
  wanted.rq_psn = peer.first_packet;
  wanted.max_dest_rd_atomic = 1;
  wanted.min_rnr_timer = 12;  // 0.64 ms; receives are posted before anyone may send
  wanted.ah_attr.dlid = peer.lid;
  wanted.ah_attr.sl = own.service_level;
  wanted.ah_attr.port_num = own.port;
  if (peer.global) {
    wanted.ah_attr.is_global = 1;
    std::ranges::copy(peer.gid, wanted.ah_attr.grh.dgid.raw);
    wanted.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(own.gid_index);
    wanted.ah_attr.grh.hop_limit = 255;
    wanted.ah_attr.grh.traffic_class = own.traffic_class;
    wanted.ah_attr.grh.flow_label = own.flow_label;
  }
  TUTTI_TRY(modify(wanted,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                   "connecting"));
  wanted.qp_state = IBV_QPS_RTS;
  wanted.timeout = own.timeout;
  wanted.retry_cnt = own.retries;
  wanted.rnr_retry = 6;  // 7 would be for ever
  wanted.sq_psn = own.first_packet;
  wanted.max_rd_atomic = 1;
  return modify(wanted,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "starting");
}

Status QueuePair::fail() {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_ERR;
  return modify(wanted, IBV_QP_STATE, "ending");
}

}  // namespace tutti::verbs
