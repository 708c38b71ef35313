// Latency and bandwidth of the transports' messages between two processes of this machine, and of
// memcpy beside them:
//   transport_bench [seconds per row, default 0.2]
// Both sides spin, and yield when nothing comes. Each row shows the median of its batches and the
// best tenth, which is what a busy machine did undisturbed. Bandwidth counts the bytes of messages
// one way.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/pin.hpp"
#include "src/base/clock.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace tutti {
namespace {

using State = Transfer::State;
using MakeTransport = Result<std::shared_ptr<Transport>> (*)(std::uint64_t token);

const StreamId kThere{1, 0, 1, 0};
const StreamId kBack{1, 1, 0, 0};

Result<std::shared_ptr<Transport>> make_tcp(std::uint64_t token) {
  TcpOptions options;
  options.token = token;
  options.interfaces.ifname = "lo";
  return make_tcp_transport(options);
}

Result<std::shared_ptr<Transport>> make_shm(std::uint64_t token) {
  auto heap = SharedHeap::create(std::size_t{256} << 20);
  if (!heap) return std::move(heap).error();
  ShmOptions options;
  options.token = token;
  return make_shm_transport(*std::move(heap), options);
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "transport_bench: %s\n", why.c_str());
  std::_Exit(1);
}

void finish(Connection& connection, const Transfer& transfer) {
  constexpr int kSpins = 1000;  // then let others run: this machine may have more to do
  for (int fruitless = 0; transfer.state.load(std::memory_order_acquire) == State::kPending;)
    if (connection.progress())
      fruitless = 0;
    else if (++fruitless > kSpins)
      std::this_thread::yield();
  if (transfer.state != State::kDone) give_up(transfer.error.what);
}

MessageTag tag_of(std::size_t bytes) {
  return {0, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, bytes}};
}

void ping(Connection& connection, std::span<std::byte> data) {
  Transfer out;
  Transfer in;
  connection.recv(kBack, tag_of(data.size()), data, in);
  connection.send(kThere, tag_of(data.size()), data, out);
  finish(connection, in);
}

// The other process: answers until it is killed.
void pong(Connection& connection, std::span<std::byte> data, bool stream) {
  Transfer in;
  connection.recv(kThere, tag_of(data.size()), data, in);
  finish(connection, in);
  const auto answer = stream ? data.first(1) : data;
  Transfer out;
  connection.send(kBack, tag_of(answer.size()), answer, out);
  finish(connection, out);
}

// One large message there, one byte back.
void push(Connection& connection, std::span<std::byte> data) {
  Transfer out;
  Transfer in;
  std::byte done{};
  connection.recv(kBack, tag_of(1), std::span(&done, 1), in);
  connection.send(kThere, tag_of(data.size()), data, out);
  finish(connection, in);
}

struct Seconds {
  double median;
  double best_tenth;
};

template <class Round>
Seconds time_rounds(double budget, int batch, Round round) {
  std::vector<double> times;
  const TimePoint end =
      Clock::now() + std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(budget));
  while (times.size() < 3 || Clock::now() < end) {
    const TimePoint start = Clock::now();
    for (int i = 0; i < batch; ++i) round();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count() / batch);
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() / 10]};
}

std::shared_ptr<Connection> connect(MakeTransport make, int rank, int socket,
                                    std::shared_ptr<Transport>& transport) {
  auto made = make(static_cast<std::uint64_t>(rank) + 1);
  if (!made) give_up(made.error().what);
  transport = *made;
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  const Blob mine = transport->address();
  const auto size = static_cast<std::uint32_t>(mine.size());
  std::uint32_t their_size = 0;
  PeerProcess peer{.token = 2U - static_cast<unsigned>(rank), .rank = 1 - rank, .address = {}};
  (void)send_all(socket, std::as_bytes(std::span(&size, 1)), deadline);
  (void)send_all(socket, mine, deadline);
  (void)recv_all(socket, std::as_writable_bytes(std::span(&their_size, 1)), deadline);
  peer.address.resize(their_size);
  (void)recv_all(socket, peer.address, deadline);
  auto connection = transport->connect(peer, Key{}, deadline);
  if (!connection) give_up(connection.error().what);
  return *connection;
}

void print_bandwidth(const char* name, const char* what, std::size_t bytes, Seconds seconds) {
  const auto gigabytes = static_cast<double>(bytes) * 1e-9;
  fmt::print("{:<8} {:<9} {:>10} B  {:9.2f} GB/s, best tenth {:9.2f}\n", name, what, bytes,
             gigabytes / seconds.median, gigabytes / seconds.best_tenth);
}

void measure(const char* name, MakeTransport make, std::size_t bytes, bool stream, double budget) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) give_up("socketpair");
  const pid_t child = ::fork();
  std::vector<std::byte> data(bytes, std::byte{1});
  std::shared_ptr<Transport> transport;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_to(1);
    const auto connection = connect(make, 1, ends[1], transport);
    for (;;) pong(*connection, data, stream);
  }
  const auto connection = connect(make, 0, ends[0], transport);
  const auto round = [&] { stream ? push(*connection, data) : ping(*connection, data); };
  for (int i = 0; i < 3; ++i) round();
  const Seconds seconds = time_rounds(budget, bytes < 100000 ? 100 : 1, round);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  if (stream)
    print_bandwidth(name, "push", bytes, seconds);
  else
    fmt::print("{:<8} ping-pong {:>10} B  {:9.2f} us half round trip, best tenth {:9.2f}\n", name,
               bytes, seconds.median / 2 * 1e6, seconds.best_tenth / 2 * 1e6);
  std::fflush(stdout);
}

void measure_memcpy(std::size_t bytes, double budget) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  const Seconds seconds =
      time_rounds(budget, 1, [&] { std::memcpy(to.data(), from.data(), bytes); });
  print_bandwidth("memcpy", "copy", bytes, seconds);
}

void run(double budget) {
  pin_to(0);
  struct Kind {
    const char* name;
    MakeTransport make;
  };
  for (const auto& [name, make] : {Kind{"shm", make_shm}, Kind{"tcp", make_tcp}}) {
    for (const std::size_t bytes : {8, 64, 2048, 16384, 65536})
      measure(name, make, bytes, false, budget);
    for (const std::size_t bytes : {1 << 20, 16 << 20, 64 << 20})
      measure(name, make, bytes, true, budget);
  }
  for (const std::size_t bytes : {1 << 20, 64 << 20}) measure_memcpy(bytes, budget);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::run(argc > 1 ? std::atof(argv[1]) : 0.2);
  return 0;
}
