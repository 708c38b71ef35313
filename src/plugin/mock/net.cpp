#include "src/plugin/mock/net.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "src/plugin/mock/handles.hpp"
#include "src/plugin/mock/stream.hpp"

namespace tutti::plugin::mock::net {
namespace {

using abi::Outcome;

struct NetListener {
  Fd fd;
  Dice dice{99};
};

/// Travels before each message.
struct Head {
  std::uint64_t bytes = 0;
  std::int64_t tag = 0;
};

struct Piece {
  std::byte* data = nullptr;
  std::size_t room = 0;
  int tag = 0;
  RegisteredMemory* memory = nullptr;
  std::size_t arrived = 0;
  bool filled = false;
};

struct NetComm;
struct NetRequest {
  enum class Kind : std::uint8_t { kSend, kReceive, kFlush };
  NetComm* comm = nullptr;
  Kind kind = Kind::kSend;
  std::vector<Piece> pieces;
  Piece* current = nullptr;  // of a receive: being filled
  Head head;
  Transfer head_transfer, data_transfer;
  bool over = false;
  Outcome outcome = abi::kSuccess;
};

struct NetComm {
  Fd fd;
  bool sends = false;
  std::deque<NetRequest*> queue;
  Registry registry;
  Dice dice{0};
  std::atomic<bool> busy{false};
  int under_way = 0;
  bool broken = false;
  bool heard_peer = false;  // see shy
};

bool is_shy(NetComm& comm) {
  if (Options::get().number("shy", 0) == 0 || comm.heard_peer) return false;
  comm.heard_peer = has_bytes(comm.fd.get());
  return !comm.heard_peer;
}

std::byte* bytes_of(Head& head) { return reinterpret_cast<std::byte*>(&head); }

NetComm* comm_of(void* handle, const char* doing, bool taken = false) {
  return LiveHandles::get().check<NetComm>(handle, doing, taken);
}

NetComm* new_comm(Fd fd, bool sends) {
  static std::atomic<std::uint64_t> comms{0};
  auto* const comm = new NetComm;
  comm->fd = std::move(fd);
  comm->sends = sends;
  std::construct_at(&comm->dice, ++comms);
  return LiveHandles::get().add(comm);
}

Outcome progress_send(NetRequest& request) {
  NetComm& comm = *request.comm;
  const int fd = comm.fd.get();
  if (send_some(fd, request.head_transfer, comm.dice) != abi::kSuccess) return abi::kRemoteError;
  if (!request.head_transfer.is_over()) return abi::kSuccess;
  if (send_some(fd, request.data_transfer, comm.dice) != abi::kSuccess) return abi::kRemoteError;
  request.over = request.data_transfer.is_over();
  return abi::kSuccess;
}

/// Finds the piece that the message is for.
void choose_piece(NetRequest& request) {
  for (Piece& piece : request.pieces) {
    if (piece.filled || piece.tag != request.head.tag) continue;
    if (request.head.bytes > piece.room) misuse("a message that is longer than its receive");
    request.current = &piece;
    request.data_transfer = {piece.data, request.head.bytes};
    return;
  }
  misuse("a message with a tag that no part of the oldest receive has");
}

Outcome progress_receive(NetRequest& request) {
  NetComm& comm = *request.comm;
  const int fd = comm.fd.get();
  while (!request.over) {
    if (receive_some(fd, request.head_transfer, comm.dice) != abi::kSuccess)
      return abi::kRemoteError;
    if (!request.head_transfer.is_over()) return abi::kSuccess;
    if (request.current == nullptr) choose_piece(request);
    if (receive_some(fd, request.data_transfer, comm.dice) != abi::kSuccess)
      return abi::kRemoteError;
    if (!request.data_transfer.is_over()) return abi::kSuccess;
    request.current->filled = true;
    request.current->arrived = request.head.bytes;
    request.current = nullptr;
    request.head_transfer.done = 0;
    request.over = std::ranges::all_of(request.pieces, &Piece::filled);
  }
  return abi::kSuccess;
}

void progress_comm(NetComm& comm) {
  while (!comm.queue.empty()) {
    NetRequest& request = *comm.queue.front();
    if (comm.broken)
      request.outcome = request.outcome == abi::kSuccess ? abi::kRemoteError : request.outcome;
    else if (request.kind == NetRequest::Kind::kFlush)
      request.over = !comm.dice.one_in(2);
    else
      request.outcome = comm.sends ? progress_send(request) : progress_receive(request);
    if (request.outcome != abi::kSuccess) comm.broken = request.over = true;
    if (!request.over) return;
    comm.queue.pop_front();
  }
}

/// Null in `*handle`: it would block.
Outcome issue_request(NetComm& comm, NetRequest request, const char* doing, void** handle) {
  if (*handle != nullptr) misuse("*request is not null before a call");
  if (const Outcome planned = planned_failure(doing)) return planned;
  if (comm.broken) return abi::kRemoteError;
  if (comm.dice.one_in(3)) return abi::kSuccess;
  if (comm.under_way >= most_requests()) misuse("more requests than a comm may have");
  ++comm.under_way;
  request.comm = &comm;
  for (Piece& piece : request.pieces) ++piece.memory->users;
  auto* const kept = new NetRequest(std::move(request));
  if (kept->kind == NetRequest::Kind::kSend) {
    kept->head = {kept->pieces[0].room, kept->pieces[0].tag};
    kept->data_transfer = {kept->pieces[0].data, kept->pieces[0].room};
  }
  kept->head_transfer = {bytes_of(kept->head), sizeof(Head)};
  comm.queue.push_back(kept);
  *handle = LiveHandles::get().add(kept);
  return abi::kSuccess;
}

Piece piece_of(NetComm& comm, void* data, std::size_t bytes, int tag, void* memory) {
  Piece piece{static_cast<std::byte*>(data), bytes, tag, comm.registry.use(memory, data, bytes)};
  --piece.memory->users;
  return piece;
}

void close_comm(void* handle, const char* doing, bool sends) {
  NetComm* const comm = comm_of(handle, doing, true);
  if (comm->sends != sends) misuse("a comm of the other direction is closed");
  if (comm->under_way > 0) misuse("a comm is closed with requests under way");
  if (!comm->registry.empty()) misuse("a comm is closed with registered memory");
  delete comm;
}

}  // namespace

Outcome listen(void* handle, void** listener) {
  if (const Outcome planned = planned_failure("listen")) return planned;
  Address address;
  auto made = std::make_unique<NetListener>();
  made->fd = listen_on_loopback(address);
  if (!made->fd) return abi::kSystemError;
  std::memcpy(handle, &address, sizeof address);
  *listener = LiveHandles::get().add(made.release());
  return abi::kSuccess;
}

// How many calls are still in vain stays in the handle: the caller has to pass the same one again.
Outcome connect(void* handle, void** comm) {
  *comm = nullptr;
  if (const Outcome planned = planned_failure("connect")) return planned;
  Address address;
  std::memcpy(&address, handle, sizeof address);
  if (address.magic != Address::kMagic) misuse("connect to a handle that listen has not filled");
  constexpr std::uint32_t kCalls = 3;
  if (Dice(address.port).hostile() && address.dialling < kCalls) {
    ++address.dialling;
    std::memcpy(handle, &address, sizeof address);
    return abi::kSuccess;
  }
  Fd fd = dial(address);
  if (!fd) return abi::kRemoteError;
  *comm = new_comm(std::move(fd), true);
  return abi::kSuccess;
}

Outcome accept(void* listener, void** comm) {
  *comm = nullptr;
  auto* const own = LiveHandles::get().check<NetListener>(listener, "accept");
  if (const Outcome planned = planned_failure("accept")) return planned;
  if (own->dice.one_in(2)) return abi::kSuccess;
  if (Fd fd = accept_one(own->fd.get())) *comm = new_comm(std::move(fd), false);
  return abi::kSuccess;
}

Outcome register_memory(void* handle, void* data, std::size_t bytes, int type, void** memory) {
  if (const Outcome planned = planned_failure("regMr")) return planned;
  NetComm* const comm = comm_of(handle, "regMr");
  const OneThread guard(comm->busy);
  return comm->registry.add(data, bytes, type, memory);
}

Outcome deregister(void* handle, void* memory) {
  NetComm* const comm = comm_of(handle, "deregMr");
  const OneThread guard(comm->busy);
  return comm->registry.remove(memory);
}

Outcome send(void* handle, void* data, std::size_t bytes, int tag, void* memory, void** request) {
  NetComm* const comm = comm_of(handle, "isend");
  const OneThread guard(comm->busy);
  if (!comm->sends) misuse("isend on a comm that receives");
  NetRequest made;
  made.pieces.push_back(piece_of(*comm, data, bytes, tag, memory));
  return issue_request(*comm, std::move(made), "isend", request);
}

Outcome receive(void* handle, int count, void** data, std::size_t* bytes, int* tags,
                void** memories, void** request) {
  NetComm* const comm = comm_of(handle, "irecv");
  const OneThread guard(comm->busy);
  if (comm->sends) misuse("irecv on a comm that sends");
  if (is_shy(*comm)) return abi::kSuccess;
  if (count < 1 || count > kMostReceives) misuse("a receive of more parts than the device takes");
  NetRequest made;
  made.kind = NetRequest::Kind::kReceive;
  for (int i = 0; i < count; ++i)
    made.pieces.push_back(piece_of(*comm, data[i], bytes[i], tags[i], memories[i]));
  return issue_request(*comm, std::move(made), "irecv", request);
}

Outcome flush(void* handle, int count, void** data, int* bytes, void** memories, void** request) {
  NetComm* const comm = comm_of(handle, "iflush");
  const OneThread guard(comm->busy);
  if (count < 1 || count > kMostReceives) misuse("a flush of more parts than the device takes");
  NetRequest made;
  made.kind = NetRequest::Kind::kFlush;
  for (int i = 0; i < count; ++i) {
    if (bytes[i] < 0) misuse("iflush of a negative size");
    made.pieces.push_back(
        piece_of(*comm, data[i], static_cast<std::size_t>(bytes[i]), 0, memories[i]));
  }
  return issue_request(*comm, std::move(made), "iflush", request);
}

Outcome test(void* handle, int* done, int* bytes) {
  auto* const request = LiveHandles::get().check<NetRequest>(handle, "test");
  NetComm& comm = *request->comm;
  const OneThread guard(comm.busy);
  *done = 0;
  if (const Outcome planned = planned_failure("test")) {
    comm.broken = true;
    comm.fd.reset();
    request->outcome = planned;
  }
  if (!comm.dice.one_in(4)) progress_comm(comm);
  if (!request->over || (request->outcome == abi::kSuccess && comm.dice.one_in(2)))
    return abi::kSuccess;
  LiveHandles::get().check<NetRequest>(handle, "test", true);
  *done = 1;
  for (std::size_t i = 0; i < request->pieces.size(); ++i) {
    const Piece& piece = request->pieces[i];
    const bool receives = request->kind == NetRequest::Kind::kReceive;
    if (bytes != nullptr) bytes[i] = static_cast<int>(receives ? piece.arrived : piece.room);
    --piece.memory->users;
  }
  --comm.under_way;
  const Outcome outcome = request->outcome;
  delete request;
  return outcome;
}

Outcome close_sender(void* comm) {
  close_comm(comm, "closeSend", true);
  return abi::kSuccess;
}

Outcome close_receiver(void* comm) {
  close_comm(comm, "closeRecv", false);
  return abi::kSuccess;
}

Outcome close_listener(void* handle) {
  delete LiveHandles::get().check<NetListener>(handle, "closeListen", true);
  return abi::kSuccess;
}

}  // namespace tutti::plugin::mock::net
