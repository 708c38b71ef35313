// What a TCP connection between two hosts can do, measured by the same loop as the libraries: the
// collective is `exchange`, in which each rank sends the other its whole buffer, both at once, by
// plain send and recv. Rank 0 listens at MASTER_ADDR:MASTER_PORT.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "perf/peers/loop.hpp"

namespace {

[[noreturn]] void fail(const char* what) {
  peers::die(std::string(what) + ": " + std::strerror(errno));
}

sockaddr_in meeting_address() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(peers::need("MASTER_PORT"))));
  if (::inet_pton(AF_INET, peers::need("MASTER_ADDR"), &address.sin_addr) != 1) {
    peers::die(std::string("MASTER_ADDR is no IPv4 address: ") + peers::need("MASTER_ADDR"));
  }
  return address;
}

int accept_peer(const sockaddr_in& address) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("bind");
  }
  if (::listen(listener, 1) != 0) fail("listen");
  const int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (peer < 0) fail("accept");
  ::close(listener);
  return peer;
}

int connect_to_peer(const sockaddr_in& address) {
  for (int attempt = 0; attempt < 500; ++attempt) {
    const int peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return peer;
    }
    ::close(peer);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("connect");
}

/// Bytes of one direction that are still to be moved.
struct Rest {
  char* at;
  std::size_t bytes;

  void advance(ssize_t moved) {
    if (moved == 0) peers::die("the other rank has gone");
    if (moved < 0 && errno != EAGAIN && errno != EINTR) fail("the connection broke");
    if (moved < 0) return;
    at += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
};

Rest all_of(peers::Buffer& buffer) {
  return {reinterpret_cast<char*>(buffer.data()), buffer.size() * sizeof(float)};
}

class Bulk {
 public:
  Bulk() : rank_(std::atoi(peers::need("RANK"))) {
    if (std::atoi(peers::need("WORLD_SIZE")) != 2) peers::die("an exchange takes 2 ranks");
    const sockaddr_in address = meeting_address();
    peer_ = rank_ == 0 ? accept_peer(address) : connect_to_peer(address);
    const int on = 1;
    ::setsockopt(peer_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] static int ranks() { return 2; }

  void run(const std::string&, peers::Message& message) {
    Rest out = all_of(message.send);
    Rest in = all_of(message.recv);
    while (out.bytes > 0 || in.bytes > 0) {
      if (out.bytes > 0) out.advance(::send(peer_, out.at, out.bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
      if (in.bytes > 0) in.advance(::recv(peer_, in.at, in.bytes, MSG_DONTWAIT));
      wait(out, in);
    }
  }

 private:
  void wait(const Rest& out, const Rest& in) const {
    if (out.bytes == 0 && in.bytes == 0) return;
    const short events =
        static_cast<short>((out.bytes > 0 ? POLLOUT : 0) | (in.bytes > 0 ? POLLIN : 0));
    pollfd either{peer_, events, 0};
    if (::poll(&either, 1, -1) < 0 && errno != EINTR) fail("poll");
  }

  int rank_;
  int peer_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments = peers::parse(argc, argv);
  if (arguments.collective != "exchange") peers::die("plain TCP only exchanges");
  Bulk bulk;
  peers::Loop(bulk, arguments).run();
}
