// Objects of the interface: made, asked and destroyed.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/verbs/fake/fake.hpp"

namespace fake_verbs {

void fill_operations(Context& context);

namespace {

void count_live(const char* kind, int change) {
  state().live[kind] += change;
  state().live["*"] += change;
}

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr, "fake verbs: %s\n", what);
  std::abort();
}

void signal(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

/// Takes one of what signal() gave. False if there is none.
bool take_signal(int fd) {
  std::uint64_t value = 0;
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  return ::read(fd, &value, sizeof value) == sizeof value;
}

int poll_cq(ibv_cq* seen, int most, ibv_wc* completions) {
  State& all = state();
  const Lock lock(all.mutex);
  if (all.network.empty()) {
    // Without a seed all happens at once.
    if (all.seed == 0)
      while (step()) {
      }
    else
      step();
  }
  CompletionQueue& queue = *all.completion_queues.at(seen);
  if (queue.broken) return 0;  // as hardware: the event alone tells
  // Completions may be seen late, never out of order.
  const auto there = all.seed != 0 && all.any_below(4) == 0
                         ? all.any_below(queue.entries.size() + 1)
                         : queue.entries.size();
  const int count = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(most), there));
  for (int i = 0; i < count; ++i) {
    completions[i] = queue.entries.front().wc;
    const auto pair = all.queue_pairs.find(completions[i].qp_num);
    if (pair != all.queue_pairs.end()) pair->second->occupied -= queue.entries.front().frees;
    queue.entries.pop_front();
  }
  return count;
}

int req_notify_cq(ibv_cq* seen, int) {
  const Lock lock(state().mutex);
  state().completion_queues.at(seen)->armed = true;
  return 0;
}

}  // namespace

Port* port_of(const QueuePair& pair) {
  auto& ports = pair.context->model->ports;
  const unsigned number = pair.attributes.port_num;
  return number < 1 || number > ports.size() ? nullptr : &ports[number - 1];
}

Region* find_region(std::uint32_t key) {
  const auto found = state().regions.find(key);
  return found == state().regions.end() ? nullptr : found->second.get();
}

void report(Context& context, ibv_event_type type, void* element, int port) {
  ibv_async_event event{};
  event.event_type = type;
  if (element != nullptr)
    event.element.qp = static_cast<ibv_qp*>(element);
  else
    event.element.port_num = port;
  context.events.push_back(event);
  signal(context.event_writer);
}

void complete(CompletionQueue& queue, const ibv_wc& completion, std::uint32_t frees) {
  if (queue.broken) return;
  State& all = state();
  if (queue.entries.size() >= static_cast<std::size_t>(queue.cq.cqe) ||
      all.happens(all.chances.overrun, 1000000))
    return break_queue(queue);
  queue.entries.push_back({completion, frees});
  if (!queue.armed || queue.channel == nullptr) return;
  queue.armed = false;
  queue.channel->events.push_back(&queue.cq);
  signal(queue.channel->channel.fd);
}

void break_queue(CompletionQueue& queue) {
  queue.broken = true;
  ++state().counts["errors"];
  report(*queue.context, IBV_EVENT_CQ_ERR, &queue.cq, 0);
  for (auto& [number, pair] : state().queue_pairs)
    if (pair->sends_to == &queue || pair->receives_to == &queue) {
      end(*pair);
      report(*pair->context, IBV_EVENT_QP_FATAL, &pair->qp, 0);
    }
}

void let_go(const Model& model) {
  for (auto& [key, region] : state().regions) {
    if (region->context->model != &model) continue;
    for (const auto& [place, bytes] : region->held)
      std::memcpy(region->memory + place, bytes.data(), bytes.size());
    region->held.clear();
  }
}

// By the time that a queue pair has come to rest, nothing is on its way.
void end(QueuePair& pair) {
  let_go(*pair.context->model);
  pair.qp.state = pair.attributes.qp_state = IBV_QPS_ERR;
  ibv_wc flushed{};
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  flushed.qp_num = pair.qp.qp_num;
  for (const Work& work : pair.sends) {
    flushed.wr_id = work.wr.wr_id;
    flushed.opcode = IBV_WC_RDMA_WRITE;
    complete(*pair.sends_to, flushed, std::exchange(pair.unreported, 0) + 1);
  }
  pair.sends.clear();
  for (const std::uint64_t id : pair.receives) {
    flushed.wr_id = id;
    flushed.opcode = IBV_WC_RECV;
    complete(*pair.receives_to, flushed);
  }
  pair.receives.clear();
}

}  // namespace fake_verbs

using namespace fake_verbs;

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

// --- devices ---

FAKE_VERBS_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  const Lock lock(state().mutex);
  Model* const model = find_model(device->name);
  if (model == nullptr || model->removed) {
    errno = ENODEV;
    return nullptr;
  }
  auto* const context = new Context;
  context->model = model;
  fill_operations(*context);
  ibv_context& seen = context->verbs.context;
  seen.device = device;
  seen.ops.poll_cq = &poll_cq;
  seen.ops.req_notify_cq = &req_notify_cq;
  seen.ops.post_send = &post_send;
  seen.ops.post_recv = &post_recv;
  seen.num_comp_vectors = 1;
  seen.cmd_fd = -1;
  seen.async_fd = context->event_writer = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  state().contexts.push_back(context);
  start_network();
  count_live("contexts", 1);
  return &seen;
}

FAKE_VERBS_EXPORT int ibv_close_device(ibv_context* seen) {
  bool is_last = false;
  {
    const Lock lock(state().mutex);
    Context* const context = &context_of(seen);
    if (context->objects != 0) misuse("a device was closed before what lives on it");
    std::erase(state().contexts, context);
    ::close(seen->async_fd);
    delete context;
    count_live("contexts", -1);
    is_last = state().contexts.empty();
  }
  if (is_last) stop_network();
  return 0;
}

FAKE_VERBS_EXPORT int ibv_get_async_event(ibv_context* seen, ibv_async_event* event) {
  const Lock lock(state().mutex);
  Context& context = context_of(seen);
  if (context.events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  take_signal(seen->async_fd);
  *event = context.events.front();
  context.events.pop_front();
  return 0;
}

FAKE_VERBS_EXPORT void ibv_ack_async_event(ibv_async_event*) {}

// --- domains and memory ---

FAKE_VERBS_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* seen) {
  const Lock lock(state().mutex);
  auto* const domain = new ibv_pd{};
  domain->context = seen;
  ++context_of(seen).objects;
  count_live("domains", 1);
  return domain;
}

FAKE_VERBS_EXPORT int ibv_dealloc_pd(ibv_pd* domain) {
  const Lock lock(state().mutex);
  for (const auto& [key, region] : state().regions)
    if (region->mr.pd == domain) return EBUSY;
  for (const auto& [number, pair] : state().queue_pairs)
    if (pair->qp.pd == domain) return EBUSY;
  --context_of(domain->context).objects;
  delete domain;
  count_live("domains", -1);
  return 0;
}

namespace {

/// Whether it is memory of a device of the CUDA driver in memory.
bool is_of_device(const void* memory) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
        begin <= address && address < end)
      return line.find("/memfd:fake_cuda") != std::string::npos;
  }
  return false;
}

ibv_mr* add_region(ibv_pd* domain, void* memory, std::size_t bytes, std::uint64_t address,
                   unsigned access, bool mapped) {
  State& all = state();
  all.registered = true;
  Context& context = context_of(domain->context);
  auto region = std::make_unique<Region>();
  region->context = &context;
  region->address = address;
  region->memory = static_cast<std::byte*>(memory);
  region->bytes = bytes;
  region->access = access;
  region->mapped = mapped;
  region->of_device = mapped || is_of_device(memory);
  // Keys are hard to guess, and never come twice.
  all.next_key += 0x101;
  ibv_mr& mr = region->mr;
  mr.context = domain->context;
  mr.pd = domain;
  mr.addr = memory;
  mr.length = bytes;
  mr.handle = mr.lkey = mr.rkey = all.next_key;
  all.regions.emplace(all.next_key, std::move(region));
  ++context.objects;
  count_live("regions", 1);
  return &mr;
}

/// Why the device does not register; 0: it does.
int refusal(ibv_pd* domain, unsigned access) {
  State& all = state();
  const Model& model = *context_of(domain->context).model;
  if (model.removed) return EIO;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return EINVAL;
  if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0 && !model.relaxed_ordering) return EOPNOTSUPP;
  const auto here = std::ranges::count_if(
      all.regions, [&](const auto& entry) { return entry.second->context->model == &model; });
  if (here >= model.regions) return ENOMEM;
  return all.happens(all.chances.fail_registration, 1000) ? ENOMEM : 0;
}

}  // namespace

FAKE_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, std::size_t bytes,
                                           std::uint64_t address, unsigned access) {
  const Lock lock(state().mutex);
  errno = refusal(domain, access);
  if (errno == 0 && !context_of(domain->context).model->peer_memory && is_of_device(memory))
    errno = EFAULT;
  return errno != 0 ? nullptr : add_region(domain, memory, bytes, address, access, false);
}

FAKE_VERBS_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, std::size_t bytes, int access) {
  return ibv_reg_mr_iova2(domain, memory, bytes, reinterpret_cast<std::uintptr_t>(memory),
                          static_cast<unsigned>(access));
}

FAKE_VERBS_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                                            std::uint64_t address, int fd, int access) {
  const Lock lock(state().mutex);
  errno = !context_of(domain->context).model->dma_buf
              ? EOPNOTSUPP
              : refusal(domain, static_cast<unsigned>(access));
  if (errno == 0 && fd < 0) errno = EBADF;
  if (errno != 0) return nullptr;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return nullptr;
  return add_region(domain, memory, bytes, address, static_cast<unsigned>(access), true);
}

FAKE_VERBS_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  const Lock lock(state().mutex);
  const auto found = state().regions.find(mr->lkey);
  if (found == state().regions.end() || &found->second->mr != mr)
    misuse("memory was deregistered that is not registered");
  let_go(*found->second->context->model);
  if (found->second->mapped) ::munmap(found->second->memory, found->second->bytes);
  --found->second->context->objects;
  state().regions.erase(found);
  count_live("regions", -1);
  return 0;
}

// --- completions ---

FAKE_VERBS_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* seen) {
  const Lock lock(state().mutex);
  auto channel = std::make_unique<Channel>();
  channel->channel.context = seen;
  channel->channel.fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  ibv_comp_channel* const made = &channel->channel;
  state().channels.emplace(made, std::move(channel));
  ++context_of(seen).objects;
  count_live("channels", 1);
  return made;
}

FAKE_VERBS_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const Lock lock(state().mutex);
  for (const auto& [cq, queue] : state().completion_queues)
    if (queue->channel != nullptr && &queue->channel->channel == channel) return EBUSY;
  ::close(channel->fd);
  --context_of(channel->context).objects;
  state().channels.erase(channel);
  count_live("channels", -1);
  return 0;
}

FAKE_VERBS_EXPORT ibv_cq* ibv_create_cq(ibv_context* seen, int entries, void* own,
                                        ibv_comp_channel* channel, int) {
  const Lock lock(state().mutex);
  Context& context = context_of(seen);
  errno = context.model->removed                                ? EIO
          : entries < 1 || entries > context.model->completions ? EINVAL
                                                                : 0;
  if (errno != 0) return nullptr;
  auto queue = std::make_unique<CompletionQueue>();
  queue->context = &context;
  queue->channel = channel == nullptr ? nullptr : state().channels.at(channel).get();
  queue->cq.context = seen;
  queue->cq.channel = channel;
  queue->cq.cq_context = own;
  queue->cq.cqe = entries;
  ibv_cq* const made = &queue->cq;
  state().completion_queues.emplace(made, std::move(queue));
  ++context.objects;
  count_live("completion queues", 1);
  return made;
}

FAKE_VERBS_EXPORT int ibv_destroy_cq(ibv_cq* seen) {
  const Lock lock(state().mutex);
  CompletionQueue& queue = *state().completion_queues.at(seen);
  for (const auto& [number, pair] : state().queue_pairs)
    if (pair->sends_to == &queue || pair->receives_to == &queue) return EBUSY;
  if (queue.unacknowledged != 0)
    misuse("a completion queue was destroyed, its wakes unacknowledged");
  if (queue.channel != nullptr) std::erase(queue.channel->events, seen);
  std::erase_if(queue.context->events, [&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == seen;
  });
  --queue.context->objects;
  state().completion_queues.erase(seen);
  count_live("completion queues", -1);
  return 0;
}

FAKE_VERBS_EXPORT int ibv_get_cq_event(ibv_comp_channel* seen, ibv_cq** cq, void** own) {
  const Lock lock(state().mutex);
  Channel& channel = *state().channels.at(seen);
  if (!take_signal(seen->fd) || channel.events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *cq = channel.events.front();
  *own = (*cq)->cq_context;
  channel.events.pop_front();
  ++state().completion_queues.at(*cq)->unacknowledged;
  return 0;
}

FAKE_VERBS_EXPORT void ibv_ack_cq_events(ibv_cq* seen, unsigned count) {
  const Lock lock(state().mutex);
  state().completion_queues.at(seen)->unacknowledged -= count;
}

// --- queue pairs ---

FAKE_VERBS_EXPORT ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  State& all = state();
  const Lock lock(all.mutex);
  Context& context = context_of(domain->context);
  const Model& model = *context.model;
  const auto here = std::ranges::count_if(
      all.queue_pairs, [&](const auto& entry) { return entry.second->context->model == &model; });
  const auto most = static_cast<std::uint32_t>(model.work_requests);
  if (model.removed)
    errno = EIO;
  else if (wanted->qp_type != IBV_QPT_RC || wanted->srq != nullptr ||
           wanted->cap.max_send_wr > most || wanted->cap.max_recv_wr > most ||
           wanted->cap.max_inline_data > model.inlined)
    errno = EINVAL;
  else
    errno = here >= model.queue_pairs ? ENOMEM : 0;
  if (errno != 0) return nullptr;
  auto pair = std::make_unique<QueuePair>();
  pair->context = &context;
  pair->sends_to = all.completion_queues.at(wanted->send_cq).get();
  pair->receives_to = all.completion_queues.at(wanted->recv_cq).get();
  pair->most_sends = wanted->cap.max_send_wr;
  pair->most_receives = wanted->cap.max_recv_wr;
  pair->inlined = wanted->cap.max_inline_data;
  pair->all_signalled = wanted->sq_sig_all != 0;
  ibv_qp& qp = pair->qp;
  qp.context = domain->context;
  qp.qp_context = wanted->qp_context;
  qp.pd = domain;
  qp.send_cq = wanted->send_cq;
  qp.recv_cq = wanted->recv_cq;
  qp.qp_type = IBV_QPT_RC;
  qp.state = IBV_QPS_RESET;
  qp.qp_num = new_number(*pair);
  ibv_qp* const made = &qp;
  all.queue_pairs.emplace(qp.qp_num, std::move(pair));
  ++context.objects;
  count_live("queue pairs", 1);
  return made;
}

FAKE_VERBS_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  State& all = state();
  const Lock lock(all.mutex);
  QueuePair& pair = *all.queue_pairs.at(qp->qp_num);
  leave(pair);
  let_go(*pair.context->model);
  // Its completions vanish with it.
  for (CompletionQueue* queue : {pair.sends_to, pair.receives_to})
    std::erase_if(queue->entries,
                  [&](const Completion& entry) { return entry.wc.qp_num == qp->qp_num; });
  std::erase_if(pair.context->events, [&](const ibv_async_event& event) {
    return (event.event_type == IBV_EVENT_QP_FATAL ||
            event.event_type == IBV_EVENT_QP_ACCESS_ERR) &&
           event.element.qp == qp;
  });
  --pair.context->objects;
  all.queue_pairs.erase(qp->qp_num);
  count_live("queue pairs", -1);
  return 0;
}

namespace {

/// Whether `mask` names all that this step needs.
bool names(int mask, int needed) { return (mask & needed) == needed; }

int make_ready_to_receive(QueuePair& pair, const ibv_qp_attr& wanted, int mask) {
  if (!names(mask, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return EINVAL;
  const Port& port = *port_of(pair);
  if (port.ethernet && wanted.ah_attr.is_global == 0) return EINVAL;
  if (wanted.ah_attr.is_global != 0 && (wanted.ah_attr.grh.sgid_index >= port.gids.size() ||
                                        port.gids[wanted.ah_attr.grh.sgid_index].gid == Gid{}))
    return EINVAL;
  if ((128U << wanted.path_mtu) > port.mtu) return EINVAL;
  pair.attributes.ah_attr = wanted.ah_attr;
  pair.attributes.path_mtu = wanted.path_mtu;
  pair.attributes.dest_qp_num = wanted.dest_qp_num;
  pair.expected_sequence = wanted.rq_psn & 0xffffff;
  return 0;
}

int make_ready_to_send(QueuePair& pair, const ibv_qp_attr& wanted, int mask) {
  if (!names(mask, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                       IBV_QP_MAX_QP_RD_ATOMIC))
    return EINVAL;
  pair.attributes.timeout = wanted.timeout;
  pair.attributes.retry_cnt = wanted.retry_cnt;
  pair.attributes.rnr_retry = wanted.rnr_retry;
  pair.next_sequence = wanted.sq_psn & 0xffffff;
  return 0;
}

}  // namespace

FAKE_VERBS_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
  const Lock lock(state().mutex);
  QueuePair& pair = *state().queue_pairs.at(qp->qp_num);
  if (pair.context->model->removed) return EIO;
  if (!names(mask, IBV_QP_STATE)) return EINVAL;
  int failed = EINVAL;
  if (wanted->qp_state == IBV_QPS_ERR && qp->state != IBV_QPS_RESET) {
    end(pair);
    return 0;
  }
  if (wanted->qp_state == IBV_QPS_INIT && qp->state == IBV_QPS_RESET &&
      names(mask, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) && wanted->port_num >= 1 &&
      wanted->port_num <= pair.context->model->ports.size()) {
    pair.attributes.port_num = wanted->port_num;
    pair.attributes.qp_access_flags = wanted->qp_access_flags;
    failed = 0;
  } else if (wanted->qp_state == IBV_QPS_RTR && qp->state == IBV_QPS_INIT) {
    failed = make_ready_to_receive(pair, *wanted, mask);
  } else if (wanted->qp_state == IBV_QPS_RTS && qp->state == IBV_QPS_RTR) {
    failed = make_ready_to_send(pair, *wanted, mask);
  }
  if (failed == 0) qp->state = pair.attributes.qp_state = wanted->qp_state;
  return failed;
}
