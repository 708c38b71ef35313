#include "src/plugin/mock/collnet.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include "src/plugin/mock/arithmetic.hpp"
#include "src/plugin/mock/handles.hpp"
#include "src/plugin/mock/stream.hpp"
#include "tutti/types.hpp"

namespace tutti::plugin::mock::collnet {
namespace {

using abi::Outcome;

constexpr auto kPatience = std::chrono::seconds(20);

struct Listener {
  Fd fd;
};

enum Kind : std::int32_t { kAllReduce, kAllGather, kReduceScatter, kFlush };

/// What all ranks have to say alike. Travels before the data.
struct Call {
  std::uint64_t number = 0;
  std::int32_t kind = kAllReduce;
  std::int32_t type = 0;
  std::int32_t op = 0;
  std::int32_t zero = 0;
  std::uint64_t bytes_per_rank = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Call&, const Call&) = default;
};

/// Which bytes of the window belong to a rank, counted from its start.
struct Stretch {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

Stretch own_stretch(const Call& call, std::size_t rank) {
  const std::size_t begin = std::max<std::size_t>(call.offset, rank * call.bytes_per_rank);
  const std::size_t end =
      std::min<std::size_t>(call.offset + call.bytes, (rank + 1) * call.bytes_per_rank);
  return end > begin ? Stretch{begin - call.offset, end - begin} : Stretch{};
}
std::size_t bytes_up(const Call& call, std::size_t rank) {
  return call.kind == kAllGather ? own_stretch(call, rank).bytes : call.bytes;
}
Stretch stretch_down(const Call& call, std::size_t rank) {
  return call.kind == kReduceScatter ? own_stretch(call, rank) : Stretch{0, call.bytes};
}

/// With one other rank.
struct Exchange {
  Call call;
  std::vector<std::byte> data;  // rank 0: what the other one sent
  Transfer head, up, down;
};

struct Group;
struct Operation {
  Group* group = nullptr;
  Call call;
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  RegisteredMemory* send_memory = nullptr;
  RegisteredMemory* receive_memory = nullptr;
  std::vector<Exchange> exchanges;
  std::vector<std::byte> result;  // rank 0: the whole window
  bool has_result = false;
  bool over = false;
  Outcome outcome = abi::kSuccess;
};

struct Group {
  std::size_t ranks = 0;
  std::size_t rank = 0;
  std::vector<Fd> peers;  // rank 0: the others in order; else rank 0
  std::deque<Operation*> queue;
  Registry registry;
  Dice dice{0};
  std::atomic<bool> busy{false};
  std::uint64_t calls = 0;
  int under_way = 0;
  bool broken = false;
};

Group* group_of(void* handle, const char* doing, bool taken = false) {
  return LiveHandles::get().check<Group>(handle, doing, taken);
}

// --- connecting ---

bool move_all(int fd, Transfer transfer, bool out, std::chrono::steady_clock::time_point until) {
  Dice tame(0);
  while (!transfer.is_over()) {
    const Outcome outcome = out ? send_some(fd, transfer, tame) : receive_some(fd, transfer, tame);
    if (outcome != abi::kSuccess || std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

bool gather_peers(Group& group, int listener, std::chrono::steady_clock::time_point until) {
  group.peers.resize(group.ranks - 1);
  for (std::size_t missing = group.ranks - 1; missing > 0;) {
    if (std::chrono::steady_clock::now() > until) return false;
    Fd fd = accept_one(listener);
    if (!fd) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::uint64_t rank = 0;
    if (!move_all(fd.get(), {reinterpret_cast<std::byte*>(&rank), sizeof rank}, false, until))
      return false;
    if (rank == 0 || rank >= group.ranks || group.peers[rank - 1]) misuse("two ranks are equal");
    group.peers[rank - 1] = std::move(fd);
    --missing;
  }
  return true;
}

bool join_root(Group& group, const void* handle, std::chrono::steady_clock::time_point until) {
  Address address;
  std::memcpy(&address, handle, sizeof address);
  if (address.magic != Address::kMagic) misuse("connect to a handle that listen has not filled");
  group.peers.push_back(dial(address));
  std::uint64_t rank = group.rank;
  return group.peers[0] &&
         move_all(group.peers[0].get(), {reinterpret_cast<std::byte*>(&rank), sizeof rank}, true,
                  until);
}

// --- operations ---

std::span<std::byte> bytes_of(Call& call) { return std::as_writable_bytes(std::span(&call, 1)); }

void prepare(Operation& op) {
  const Group& group = *op.group;
  op.exchanges.resize(group.peers.size());
  for (std::size_t i = 0; i < op.exchanges.size(); ++i) {
    Exchange& exchange = op.exchanges[i];
    exchange.head = {bytes_of(exchange.call).data(), sizeof(Call)};
    if (group.rank == 0) {
      exchange.data.resize(bytes_up(op.call, i + 1));
      exchange.up = {exchange.data.data(), exchange.data.size()};
    } else {
      exchange.call = op.call;
      exchange.up = {op.send, bytes_up(op.call, group.rank)};
      exchange.down = {op.receive, stretch_down(op.call, group.rank).bytes};
    }
  }
}

void compute(Operation& op) {
  op.result.resize(op.call.bytes);
  const auto put = [&](std::size_t rank, const std::byte* data) {
    if (op.call.kind == kAllGather) {
      const Stretch own = own_stretch(op.call, rank);
      if (own.bytes > 0) std::memcpy(op.result.data() + own.begin, data, own.bytes);
    } else if (rank == 0) {
      if (!op.result.empty()) std::memcpy(op.result.data(), data, op.result.size());
    } else {
      reduce(op.call.type, op.call.op, op.result.data(), data, op.result.size());
    }
  };
  put(0, op.send);
  for (std::size_t i = 0; i < op.exchanges.size(); ++i) put(i + 1, op.exchanges[i].data.data());
  for (std::size_t i = 0; i < op.exchanges.size(); ++i) {
    const Stretch part = stretch_down(op.call, i + 1);
    op.exchanges[i].down = {op.result.data() + part.begin, part.bytes};
  }
  const Stretch own = stretch_down(op.call, 0);
  if (own.bytes > 0) std::memcpy(op.receive, op.result.data() + own.begin, own.bytes);
}

Outcome cut(Group& group) {
  for (const Fd& fd : group.peers) ::shutdown(fd.get(), SHUT_RDWR);
  return abi::kRemoteError;
}

Outcome progress_root(Operation& op) {
  Group& group = *op.group;
  bool all_in = true;
  for (std::size_t i = 0; i < op.exchanges.size(); ++i) {
    Exchange& exchange = op.exchanges[i];
    const int fd = group.peers[i].get();
    if (receive_some(fd, exchange.head, group.dice) != abi::kSuccess) return abi::kRemoteError;
    if (exchange.head.is_over()) {
      if (exchange.call != op.call) misuse("ranks make different collective calls");
      if (receive_some(fd, exchange.up, group.dice) != abi::kSuccess) return abi::kRemoteError;
    }
    all_in = all_in && exchange.head.is_over() && exchange.up.is_over();
  }
  if (!all_in) return abi::kSuccess;
  if (op.call.number == Options::get().number("cut", 0)) return cut(group);
  if (!op.has_result) compute(op);
  op.has_result = true;
  op.over = true;
  for (std::size_t i = 0; i < op.exchanges.size(); ++i) {
    Exchange& exchange = op.exchanges[i];
    if (send_some(group.peers[i].get(), exchange.down, group.dice) != abi::kSuccess)
      return abi::kRemoteError;
    op.over = op.over && exchange.down.is_over();
  }
  return abi::kSuccess;
}

Outcome progress_other(Operation& op) {
  Group& group = *op.group;
  Exchange& exchange = op.exchanges[0];
  const int fd = group.peers[0].get();
  if (send_some(fd, exchange.head, group.dice) != abi::kSuccess) return abi::kRemoteError;
  if (!exchange.head.is_over()) return abi::kSuccess;
  if (send_some(fd, exchange.up, group.dice) != abi::kSuccess) return abi::kRemoteError;
  if (!exchange.up.is_over()) return abi::kSuccess;
  if (receive_some(fd, exchange.down, group.dice) != abi::kSuccess) return abi::kRemoteError;
  op.over = exchange.down.is_over();
  return abi::kSuccess;
}

/// The oldest operation moves.
void progress(Group& group) {
  while (!group.queue.empty()) {
    Operation& op = *group.queue.front();
    if (group.broken)
      op.outcome = abi::kRemoteError;
    else if (op.call.kind == kFlush)
      op.over = !group.dice.one_in(2);
    else
      op.outcome = group.rank == 0 ? progress_root(op) : progress_other(op);
    if (op.outcome != abi::kSuccess) group.broken = op.over = true;
    if (!op.over) return;
    group.queue.pop_front();
  }
}

/// Null in `*request`: it would block.
Outcome issue(Group& group, Operation op, const char* doing, void** request) {
  if (*request != nullptr) misuse("*request is not null before a call");
  if (const Outcome planned = planned_failure(std::string("coll.") + doing)) return planned;
  if (group.broken) return abi::kRemoteError;
  if (group.dice.roll(100) < Options::get().number("errors", 0)) return abi::kInternalError;
  if (group.dice.one_in(3)) return abi::kSuccess;
  if (group.under_way >= most_requests()) misuse("more requests than a comm may have");
  if (op.call.kind != kFlush) op.call.number = ++group.calls;
  if (op.call.number == Options::get().number("hollow", 0) && op.call.kind != kFlush) {
    warn("the mock fails, as told, and says that all is well");
    *request = &group.calls;  // which is no request: whoever tests it is told of a misuse
    return abi::kSuccess;
  }
  ++group.under_way;
  op.group = &group;
  ++op.send_memory->users;
  ++op.receive_memory->users;
  auto* const kept = new Operation(std::move(op));
  prepare(*kept);
  group.queue.push_back(kept);
  *request = LiveHandles::get().add(kept);
  return abi::kSuccess;
}

/// Checks that a buffer lies in its memory, without a lasting use.
RegisteredMemory* memory_of(Group& group, void* handle, void* data, std::size_t bytes) {
  RegisteredMemory* const memory = group.registry.use(handle, data, bytes);
  --memory->users;
  return memory;
}

void check_reduction(int type, int op, std::size_t bytes) {
  if (!can_reduce(type, op)) misuse("a reduction that is not supported");
  if (bytes % size_of(static_cast<DataType>(type)) != 0) misuse("bytes that are no elements");
}

}  // namespace

Outcome listen(void* handle, void** listener) {
  Address address;
  auto made = std::make_unique<Listener>(Listener{listen_on_loopback(address)});
  if (!made->fd) return abi::kSystemError;
  std::memcpy(handle, &address, sizeof address);
  *listener = LiveHandles::get().add(made.release());
  return abi::kSuccess;
}

Outcome connect(void* handles[], int ranks, int rank, void* listener, void** group) {
  auto* const own = LiveHandles::get().check<Listener>(listener, "connect");
  if (const Outcome planned = planned_failure("coll.connect")) return planned;
  if (Options::get().says("connect", "hang")) std::this_thread::sleep_for(std::chrono::hours(1));
  auto made = std::make_unique<Group>();
  made->ranks = static_cast<std::size_t>(ranks);
  made->rank = static_cast<std::size_t>(rank);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const bool met =
      rank == 0 ? gather_peers(*made, own->fd.get(), until) : join_root(*made, handles[0], until);
  if (!met) return abi::kSystemError;
  std::construct_at(&made->dice, made->rank + 1);
  *group = LiveHandles::get().add(made.release());
  return abi::kSuccess;
}

Outcome reduce_support(int type, int op, int* supported) {
  *supported = can_reduce(type, op) ? 1 : 0;
  Dice dice(static_cast<std::uint64_t>(type * 16 + op));
  if (dice.roll(100) < Options::get().number("unsupported", 0)) *supported = 0;
  return planned_failure("coll.reduceSupport");
}

Outcome register_memory(void* handle, void* data, std::size_t bytes, int type, void** memory) {
  if (const Outcome planned = planned_failure("coll.regMr")) return planned;
  Group* const group = group_of(handle, "regMr");
  const OneThread guard(group->busy);
  return group->registry.add(data, bytes, type, memory);
}

Outcome deregister(void* handle, void* memory) {
  Group* const group = group_of(handle, "deregMr");
  const OneThread guard(group->busy);
  return group->registry.remove(memory);
}

Outcome all_reduce(void* handle, void* send, void* receive, std::size_t count, int type, int op,
                   void* send_memory, void* receive_memory, void** request) {
  Group* const group = group_of(handle, "iallreduce");
  const OneThread guard(group->busy);
  check_reduction(type, op, 0);
  const std::size_t bytes = count * size_of(static_cast<DataType>(type));
  Operation made;
  made.call = {.kind = kAllReduce, .type = type, .op = op, .bytes = bytes};
  made.send = static_cast<std::byte*>(send);
  made.receive = static_cast<std::byte*>(receive);
  made.send_memory = memory_of(*group, send_memory, send, bytes);
  made.receive_memory = memory_of(*group, receive_memory, receive, bytes);
  return issue(*group, std::move(made), "iallreduce", request);
}

Outcome all_gather(void* handle, void* send, const Part& receive, std::size_t bytes_per_rank,
                   std::size_t window_offset, std::size_t window_bytes, void* send_memory,
                   void** request) {
  Group* const group = group_of(handle, "iallgather");
  const OneThread guard(group->busy);
  if (receive.bytes != window_bytes) misuse("a receive buffer that is not the window");
  Operation made;
  made.call = {.kind = kAllGather,
               .bytes_per_rank = bytes_per_rank,
               .offset = window_offset,
               .bytes = window_bytes};
  made.send = static_cast<std::byte*>(send);
  made.receive = static_cast<std::byte*>(receive.address);
  made.send_memory =
      memory_of(*group, send_memory, send, own_stretch(made.call, group->rank).bytes);
  made.receive_memory = memory_of(*group, receive.registration, receive.address, window_bytes);
  return issue(*group, std::move(made), "iallgather", request);
}

Outcome reduce_scatter(void* handle, const Part& send, void* receive, std::size_t bytes_per_rank,
                       std::size_t window_offset, std::size_t window_bytes, int type, int op,
                       void* receive_memory, void** request) {
  Group* const group = group_of(handle, "ireducescatter");
  const OneThread guard(group->busy);
  check_reduction(type, op, window_bytes);
  if (send.bytes != window_bytes) misuse("a send buffer that is not the window");
  Operation made;
  made.call = {.kind = kReduceScatter,
               .type = type,
               .op = op,
               .bytes_per_rank = bytes_per_rank,
               .offset = window_offset,
               .bytes = window_bytes};
  made.send = static_cast<std::byte*>(send.address);
  made.receive = static_cast<std::byte*>(receive);
  made.send_memory = memory_of(*group, send.registration, send.address, window_bytes);
  made.receive_memory =
      memory_of(*group, receive_memory, receive, own_stretch(made.call, group->rank).bytes);
  return issue(*group, std::move(made), "ireducescatter", request);
}

Outcome flush(void* handle, void* data, int bytes, void* memory, void** request) {
  Group* const group = group_of(handle, "iflush");
  const OneThread guard(group->busy);
  if (bytes < 0) misuse("iflush of a negative size");
  Operation made;
  made.call = {.kind = kFlush};
  made.send_memory = made.receive_memory =
      memory_of(*group, memory, data, static_cast<std::size_t>(bytes));
  return issue(*group, std::move(made), "iflush", request);
}

Outcome test(void* request, int* done, int* bytes) {
  auto* const op = LiveHandles::get().check<Operation>(request, "test");
  Group& group = *op->group;
  const OneThread guard(group.busy);
  *done = 0;
  if (planned_failure("coll.test") != abi::kSuccess) {
    group.broken = true;
    cut(group);
  }
  if (!group.dice.one_in(4)) progress(group);
  if (!op->over || (op->outcome == abi::kSuccess && group.dice.one_in(2))) return abi::kSuccess;
  LiveHandles::get().check<Operation>(request, "test", true);
  *done = 1;
  *bytes = static_cast<int>(op->call.bytes);  // not asking whether it is null, as SHARP's plugin
  --op->send_memory->users;
  --op->receive_memory->users;
  --group.under_way;
  const Outcome outcome = op->outcome;
  delete op;
  return outcome;
}

Outcome close_group(void* handle) {
  Group* const group = group_of(handle, "closeColl", true);
  if (group->under_way > 0) misuse("closeColl with requests under way");
  if (!group->registry.empty()) misuse("closeColl with registered memory");
  delete group;
  return abi::kSuccess;
}

Outcome close_listener(void* handle) {
  delete LiveHandles::get().check<Listener>(handle, "closeListen", true);
  return abi::kSuccess;
}

}  // namespace tutti::plugin::mock::collnet
