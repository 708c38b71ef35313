// Ranks as processes, some of which die.
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/wire/net.hpp"
#include "tests/conformance/meet.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using State = Transfer::State;
using Bytes = std::vector<std::byte>;
using MakeTransport = std::shared_ptr<Transport> (*)(std::uint64_t token);

const StreamId kThere{1, 0, 1, 0};
const StreamId kBack{1, 1, 0, 0};
constexpr auto kPatience = std::chrono::seconds(10);

MessageTag tag_of(std::size_t bytes) {
  return {1, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, bytes}};
}

void exchange(int socket, const Blob& mine, Blob& theirs) {
  const Deadline deadline = Deadline::after(kPatience);
  const std::uint32_t size = static_cast<std::uint32_t>(mine.size());
  std::uint32_t their_size = 0;
  const bool ok = send_all(socket, std::as_bytes(std::span(&size, 1)), deadline) &&
                  send_all(socket, mine, deadline) &&
                  recv_all(socket, std::as_writable_bytes(std::span(&their_size, 1)), deadline);
  theirs.resize(their_size);
  if (!ok || !recv_all(socket, theirs, deadline)) std::abort();
}

// A child process that is rank 1. `live` runs in it with its transport and the parent's address;
// what it returns is the exit code.
class Child {
 public:
  using Life = std::function<int(Transport&, const PeerProcess& parent)>;

  Child(MakeTransport make, std::uint64_t own_token, std::uint64_t parent_token, const Life& live) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    socket_ = Fd(ends[0]);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(ends[1]);
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    socket_.reset();
    const auto transport = make(own_token);
    Blob address;
    exchange(ends[1], transport->address(), address);
    ::_exit(live(*transport, {.token = parent_token, .rank = 0, .address = address}));
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] PeerProcess introduce(const Transport& mine, std::uint64_t token) {
    PeerProcess peer{.token = token, .rank = 1, .address = {}};
    exchange(socket_.get(), mine.address(), peer.address);
    return peer;
  }
  void kill_and_wait() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  [[nodiscard]] int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  Fd socket_;
  pid_t pid_ = -1;
};

bool finish(Connection& connection, const Transfer& transfer) {
  const Deadline deadline = Deadline::after(kPatience);
  while (transfer.state.load(std::memory_order_acquire) == State::kPending)
    if (!connection.progress()) {
      if (deadline.passed()) return false;
      std::this_thread::yield();
    }
  return true;
}

struct Kind {
  const char* name;
  MakeTransport make;
  const std::string& (*missing)() = nullptr;  ///< why it cannot be tested here; null: it can
};

class Processes : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (const auto missing = GetParam().missing; missing != nullptr && !missing().empty())
      GTEST_SKIP() << missing();
  }
  // Rank 0 with `token`, connected to a child that lives `life` on its end.
  void start(std::uint64_t token, std::uint64_t child_token,
             const std::function<int(Connection&)>& life) {
    // What is left of another one has threads, which a child would lack.
    connection_.reset();
    transport_.reset();
    child_ = std::make_unique<Child>(GetParam().make, child_token, token,
                                     [&life](Transport& transport, const PeerProcess& parent) {
                                       auto connection = transport.connect(
                                           parent, test_key(), Deadline::after(kPatience));
                                       return connection ? life(**connection) : 99;
                                     });
    transport_ = GetParam().make(token);
    const PeerProcess peer = child_->introduce(*transport_, child_token);
    ASSERT_TRUE(transport_->reaches(peer.address));
    auto connection = transport_->connect(peer, test_key(), Deadline::after(kPatience));
    ASSERT_TRUE(connection) << connection.error().what;
    connection_ = *connection;
  }
  void expect_dead_peer(const Transfer& transfer) {
    ASSERT_EQ(transfer.state, State::kFailed);
    EXPECT_EQ(transfer.error.code, Code::kPeerFailed);
    EXPECT_EQ(transfer.error.peer, 1);
    EXPECT_THAT(transfer.error.what, HasSubstr("rank 1 failed"));
    EXPECT_FALSE(connection_->health());
  }

  std::unique_ptr<Child> child_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<Connection> connection_;
};

int echo(Connection& connection) {
  Bytes data((64 << 20) + 3);
  Transfer in;
  Transfer out;
  connection.recv(kThere, tag_of(data.size()), data, in);
  if (!finish(connection, in) || in.state != State::kDone) return 1;
  connection.send(kBack, tag_of(data.size()), data, out);
  return finish(connection, out) && out.state == State::kDone ? 0 : 2;
}

TEST_P(Processes, ExchangeTheLargestMessageWhoeverDials) {
  Bytes data((64 << 20) + 3);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 >> 3);
  for (const auto& [mine, theirs] : {std::pair{1, 2}, std::pair{2, 1}}) {
    start(mine, theirs, echo);
    Bytes back(data.size());
    Transfer out;
    Transfer in;
    connection_->recv(kBack, tag_of(back.size()), back, in);
    connection_->send(kThere, tag_of(data.size()), data, out);
    ASSERT_TRUE(finish(*connection_, in)) << in.error.what;
    EXPECT_EQ(in.state, State::kDone) << in.error.what;
    EXPECT_EQ(std::memcmp(data.data(), back.data(), data.size()), 0);
    EXPECT_EQ(child_->exit_code(), 0);
  }
}

int sleep_forever(Connection&) {
  for (;;) ::pause();
}

TEST_P(Processes, AnIdlePeerThatDiesFailsAPendingReceive) {
  start(1, 2, sleep_forever);
  Bytes got(100);
  Transfer in;
  connection_->recv(kBack, tag_of(100), got, in);
  EXPECT_TRUE(connection_->health());
  child_->kill_and_wait();
  ASSERT_TRUE(finish(*connection_, in));
  expect_dead_peer(in);
}

int take_a_little(Connection& connection) {
  static Bytes data(32 << 20);
  static Transfer in;
  connection.recv(kThere, tag_of(data.size()), data, in);
  for (int moved = 0; moved < 3;) moved += connection.progress() ? 1 : 0;
  return sleep_forever(connection);
}

TEST_P(Processes, APeerThatDiesMidMessageFailsTheSend) {
  start(2, 1, take_a_little);
  const Bytes data(32 << 20);
  Transfer out;
  connection_->send(kThere, tag_of(data.size()), data, out);
  const Deadline patience = Deadline::after(std::chrono::milliseconds(100));
  while (!patience.passed()) connection_->progress();
  ASSERT_EQ(out.state, State::kPending);
  child_->kill_and_wait();
  ASSERT_TRUE(finish(*connection_, out));
  expect_dead_peer(out);
}

TEST_P(Processes, SleepingOnTheDescriptorEndsWhenThePeerDies) {
  start(1, 2, sleep_forever);
  Bytes got(100);
  Transfer in;
  connection_->recv(kBack, tag_of(100), got, in);
  std::jthread killer([&] { child_->kill_and_wait(); });
  const Deadline deadline = Deadline::after(kPatience);
  while (in.state.load() == State::kPending && !deadline.passed()) {
    if (connection_->progress()) continue;
    pollfd news{connection_->poll_fd(), POLLIN, 0};
    ::poll(&news, 1, 1000);
  }
  expect_dead_peer(in);
}

TEST_P(Processes, APeerThatDiedBeforeConnectingIsAnErrorThatNamesIt) {
  for (const auto& [mine, theirs] : {std::pair{1, 2}, std::pair{2, 1}}) {
    Child child(GetParam().make, theirs, mine,
                [](Transport&, const PeerProcess&) { return ::pause(); });
    const auto transport = GetParam().make(mine);
    const PeerProcess peer = child.introduce(*transport, theirs);
    child.kill_and_wait();
    const auto connection =
        transport->connect(peer, test_key(), Deadline::after(std::chrono::milliseconds(300)));
    ASSERT_FALSE(connection);
    EXPECT_TRUE(connection.error().code == Code::kTimeout ||
                connection.error().code == Code::kPeerFailed)
        << connection.error().what;
  }
}

TEST_P(Processes, AStrangerWithAnotherKeyDoesNotGetIn) {
  Child child(GetParam().make, 1, 2, [](Transport& transport, const PeerProcess& parent) {
    Key wrong = test_key();
    wrong[5] = std::byte{1};
    const auto soon = Deadline::after(std::chrono::milliseconds(300));
    return transport.connect(parent, wrong, soon) ? 1 : 0;
  });
  const auto transport = GetParam().make(2);
  const PeerProcess peer = child.introduce(*transport, 1);
  EXPECT_FALSE(
      transport->connect(peer, test_key(), Deadline::after(std::chrono::milliseconds(400))));
  EXPECT_EQ(child.exit_code(), 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, Processes,
                         ::testing::Values(Kind{"Tcp", tcp_transport},
                                           Kind{"StripedTcp", striped_tcp_transport},
                                           Kind{"Shm", shm_transport}),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(NcclNet, Processes,
                         ::testing::Values(Kind{"NcclNet", nccl_net_transport},
                                           Kind{"HostileNcclNet", hostile_nccl_net_transport}),
                         [](const auto& info) { return std::string(info.param.name); });
#if TUTTI_HAVE_IBVERBS
INSTANTIATE_TEST_SUITE_P(Rdma, Processes, ::testing::Values(Kind{"Verbs", verbs_transport}),
                         [](const auto& info) { return std::string(info.param.name); });
#endif
#if TUTTI_HAVE_UCX
INSTANTIATE_TEST_SUITE_P(Ucx, Processes,
                         ::testing::Values(Kind{"Ucx", ucx_transport, missing_ucx},
                                           Kind{"UcxShm", ucx_shm_transport, missing_ucx}),
                         [](const auto& info) { return std::string(info.param.name); });
#endif

TEST(TcpListener, GarbageDoesNotDisturbPeersThatMeet) {
  const auto a = tcp_transport(1);
  const auto b = tcp_transport(2);
  const Blob raw = b->address();
  const auto where = parse_address({reinterpret_cast<const char*>(raw.data()), raw.size()});
  ASSERT_TRUE(where);
  std::vector<Fd> strangers;
  const Deadline deadline = Deadline::after(kPatience);
  for (int i = 0; i < 300; ++i) {  // more than the visitors that are kept
    auto stranger = connect_once(*where, deadline);
    ASSERT_TRUE(stranger) << stranger.error().what;
    const Bytes garbage(i % 3 == 0 ? 0 : 100, static_cast<std::byte>(i));
    (void)send_all(stranger->get(), garbage, deadline);
    strangers.push_back(std::move(*stranger));
  }
  const ConnectedPair pair = meet(a, b);
  Bytes data(10, std::byte{5});
  Bytes got(10);
  Transfer out;
  Transfer in;
  pair.a->send(kThere, tag_of(10), data, out);
  pair.b->recv(kThere, tag_of(10), got, in);
  ASSERT_TRUE(finish(*pair.b, in));
  EXPECT_EQ(got, data);
}

TEST(Transports, ReturnTheExistingConnectionOfAPair) {
  for (const MakeTransport make : {tcp_transport, striped_tcp_transport, shm_transport}) {
    const auto a = make(1);
    const auto b = make(2);
    const ConnectedPair pair = meet(a, b);
    const auto again = a->connect({.token = 2, .rank = 1, .address = b->address()}, test_key(),
                                  Deadline::after(kPatience));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, pair.a);
  }
}

TEST(Transports, ConnectAllPairsWhateverTheOrder) {
  for (const MakeTransport make : {tcp_transport, striped_tcp_transport, shm_transport}) {
    constexpr int kProcesses = 6;
    std::vector<std::shared_ptr<Transport>> transports;
    for (int i = 0; i < kProcesses; ++i) transports.push_back(make(100 + i));
    std::atomic<int> failures{0};
    std::vector<std::shared_ptr<Connection>> kept(kProcesses * kProcesses);
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kProcesses; ++i)
        threads.emplace_back([&, i] {
          for (int step = 1; step < kProcesses; ++step) {  // a ring of waits, were it serial
            const int j = (i + step) % kProcesses;
            auto connection = transports[i]->connect(
                {.token = 100U + j, .rank = j, .address = transports[j]->address()}, test_key(),
                Deadline::after(kPatience));
            if (connection)
              kept[i * kProcesses + j] = *connection;
            else
              ++failures;
          }
        });
    }
    EXPECT_EQ(failures, 0);
  }
}

// Each process has a thread for each of two groups; the first contact between them may be one
// group's here and the other's there.
TEST(Transports, ConnectForSeveralGroupsAtOnce) {
  for (const MakeTransport make : {tcp_transport, striped_tcp_transport, shm_transport}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      const std::shared_ptr<Transport> ends[] = {make(1), make(2)};
      Key keys[] = {test_key(), test_key()};
      keys[1].front() ^= std::byte{1};
      std::shared_ptr<Connection> kept[2][2];
      const auto meet = [&](int end, int group) {
        auto connection = ends[end]->connect(
            {.token = 2U - end, .rank = 1 - end, .address = ends[1 - end]->address()}, keys[group],
            Deadline::after(kPatience));
        ASSERT_TRUE(connection) << connection.error().what;
        kept[end][group] = *std::move(connection);
      };
      {
        std::vector<std::jthread> threads;
        for (const auto& [end, group] : {std::pair(0, 0), {1, 1}, {0, 1}, {1, 0}})
          threads.emplace_back(meet, end, group);
      }
      ASSERT_FALSE(HasFailure()) << "repeat " << repeat;
      EXPECT_EQ(kept[0][0], kept[0][1]);
      EXPECT_EQ(kept[1][0], kept[1][1]);
    }
  }
}

TEST(Transports, HostileAddressesAreNotReached) {
  for (const MakeTransport make : {tcp_transport, striped_tcp_transport, shm_transport}) {
    const auto transport = make(1);
    const Blob good = transport->address();
    EXPECT_TRUE(transport->reaches(good));
    EXPECT_FALSE(transport->reaches({}));
    EXPECT_FALSE(transport->reaches(Blob(10000, std::byte{255})));
    EXPECT_FALSE(transport->reaches(std::span(good).first(4)));
  }
}

}  // namespace
}  // namespace tutti::testing
