// How packets of one process reach another: a datagram socket for each queue pair, in a folder that
// all processes of the network see. A thread does what hardware would do meanwhile.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/verbs/fake/fake.hpp"

namespace fake_verbs {
namespace {

// A datagram takes no more, so ports have no longer messages.
constexpr std::uint32_t kMostBytes = 128 << 10;
constexpr int kMostStepsAtOnce = 256;

/// What stands before the payload.
struct Header {
  Packet::Kind kind;
  std::uint8_t status;
  bool has_immediate;
  std::uint16_t to_lid;
  std::uint32_t from, to, sequence, key, length, immediate, mtu, gid_type;
  std::uint64_t address;
  Gid from_gid, to_gid;
};

int wake_fd = -1;
std::thread* server = nullptr;  // a child of fork() forgets it
bool stopping = false;
std::deque<Packet> outgoing;  // that met a full queue

sockaddr_un address_of(std::uint32_t number) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%06x", state().network.c_str(),
                number);
  return address;
}

/// False if the receiver has no room now. What has no receiver is lost.
bool try_send(const Packet& packet) {
  const auto from = state().queue_pairs.find(packet.from);
  if (from == state().queue_pairs.end()) return true;
  Header header{packet.kind,    packet.status,    packet.has_immediate, packet.to_lid,
                packet.from,    packet.to,        packet.sequence,      packet.key,
                packet.length,  packet.immediate, packet.mtu,           packet.gid_type,
                packet.address, packet.from_gid,  packet.to_gid};
  iovec pieces[] = {{&header, sizeof header},
                    {const_cast<std::byte*>(packet.payload.data()), packet.payload.size()}};
  sockaddr_un to = address_of(packet.to);
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  const ssize_t sent = ::sendmsg(from->second->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

void receive_all(int socket) {
  static std::vector<std::byte> buffer(sizeof(Header) + kMostBytes);
  for (;;) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < static_cast<ssize_t>(sizeof(Header))) return;
    Header header{};
    std::memcpy(&header, buffer.data(), sizeof header);
    Packet packet;
    packet.kind = header.kind;
    packet.status = header.status;
    packet.has_immediate = header.has_immediate;
    packet.to_lid = header.to_lid;
    packet.from = header.from;
    packet.to = header.to;
    packet.sequence = header.sequence;
    packet.key = header.key;
    packet.length = header.length;
    packet.immediate = header.immediate;
    packet.mtu = header.mtu;
    packet.gid_type = header.gid_type;
    packet.address = header.address;
    packet.from_gid = header.from_gid;
    packet.to_gid = header.to_gid;
    packet.payload.assign(buffer.data() + sizeof header, buffer.data() + got);
    arrive(std::move(packet));
  }
}

/// Keeps the order of each sender.
void send_what_waits() {
  std::set<std::uint32_t> stuck;
  std::deque<Packet> left;
  for (Packet& packet : outgoing)
    if (stuck.contains(packet.from) || !try_send(packet)) {
      stuck.insert(packet.from);
      left.push_back(std::move(packet));
    }
  outgoing = std::move(left);
}

void serve() {
  for (;;) {
    std::vector<pollfd> watched{{wake_fd, POLLIN, 0}};
    bool busy = false;
    {
      const Lock lock(state().mutex);
      if (stopping) return;
      send_what_waits();
      for (int steps = 0; steps < kMostStepsAtOnce && step(); ++steps) busy = true;
      busy |= !outgoing.empty();
      for (const auto& [number, pair] : state().queue_pairs) {
        watched.push_back({pair->socket, POLLIN, 0});
        busy |= !pair->sends.empty();
      }
    }
    constexpr int kIdleMs = 50;
    ::poll(watched.data(), watched.size(), busy ? 1 : kIdleMs);
    const Lock lock(state().mutex);
    std::uint64_t value = 0;
    if (watched[0].revents != 0) [[maybe_unused]]
      const ssize_t got = ::read(wake_fd, &value, 8);
    for (const auto& [number, pair] : state().queue_pairs) receive_all(pair->socket);
  }
}

}  // namespace

std::uint64_t now() {
  if (state().network.empty()) return state().steps;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

void limit_messages() {
  for (const auto& model : state().models)
    for (Port& port : model->ports) port.message = std::min(port.message, kMostBytes);
}

void start_network() {
  if (state().network.empty() || server != nullptr) return;
  stopping = false;
  if (wake_fd < 0) wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  server = new std::thread(serve);
}

void stop_network() {
  std::thread* ending = nullptr;
  {
    const Lock lock(state().mutex);
    ending = std::exchange(server, nullptr);
    stopping = true;
    wake_network();
  }
  if (ending == nullptr) return;
  ending->join();
  delete ending;
}

void forget_network() {
  server = nullptr;
  wake_fd = -1;
  outgoing.clear();
}

void wake_network() {
  if (state().network.empty() || wake_fd < 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd, &one, sizeof one);
}

std::uint32_t new_number(QueuePair& pair) {
  State& all = state();
  if (all.network.empty()) return all.next_queue_pair++;
  pair.socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int room = 4 << 20;
  ::setsockopt(pair.socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const std::uint32_t number = random() & 0xffffff;
    const sockaddr_un address = address_of(number);
    if (::bind(pair.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return number;
  }
  std::fprintf(stderr, "fake verbs: no queue pair finds a place in %s\n", all.network.c_str());
  std::abort();
}

void leave(QueuePair& pair) {
  if (pair.socket < 0) return;
  ::unlink(address_of(pair.qp.qp_num).sun_path);
  ::close(pair.socket);
  pair.socket = -1;
}

void send(Packet packet) {
  if (state().network.empty() || state().queue_pairs.contains(packet.to))
    return arrive(std::move(packet));
  // Of one sender in order: behind what waits.
  const bool waits =
      std::ranges::any_of(outgoing, [&](const Packet& other) { return other.from == packet.from; });
  if (waits || !try_send(packet)) outgoing.push_back(std::move(packet));
}

}  // namespace fake_verbs
