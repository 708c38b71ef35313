#include "src/bootstrap/rendezvous.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/handshake.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

std::shared_ptr<Service> make_service() {
  auto service = Service::create();
  EXPECT_TRUE(service);
  return *service;
}

RootOptions root_on_loopback() {
  RootOptions options;
  options.address = *parse_address("127.0.0.1:0");
  return options;
}

UniqueId serve(const std::shared_ptr<Service>& service, RootOptions options = root_on_loopback()) {
  const auto id = serve_root(service, options);
  EXPECT_TRUE(id) << id.error().what;
  return *id;
}

Blob blob_with(const std::string& text) {
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

using Joined = Result<std::unique_ptr<Bootstrap>>;

/// All ranks of a group as threads' futures; `service` for each.
std::vector<Joined> join_all(const std::shared_ptr<Service>& service, const UniqueId& id, int size,
                             Nanos limit = 20s) {
  std::vector<std::future<Joined>> futures;
  for (Rank r = 0; r < size; ++r) {
    futures.push_back(std::async(std::launch::async, [&, r] {
      return join(service, id, r, size, {}, Deadline::after(limit));
    }));
  }
  std::vector<Joined> joined;
  for (auto& future : futures) joined.push_back(future.get());
  return joined;
}

template <class Body>
void on_all(std::vector<Joined>& group, Body body) {
  std::vector<std::thread> threads;
  for (auto& member : group) threads.emplace_back([&] { body(**member); });
  for (auto& thread : threads) thread.join();
}

void leave_all(std::vector<Joined>& group) {
  std::vector<std::thread> threads;
  for (auto& member : group) threads.emplace_back([&] { member->reset(); });
  for (auto& thread : threads) thread.join();
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST(Rendezvous, RanksFindEachOtherAndGather) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 5);
  for (auto& member : group) ASSERT_TRUE(member) << member.error().what;
  on_all(group, [](Bootstrap& me) {
    for (int round = 0; round < 20; ++round) {
      const auto mine = fmt::format("{}.{}", me.rank(), round);
      const auto all = me.all_gather(blob_with(mine), Deadline::after(10s));
      ASSERT_TRUE(all) << all.error().what;
      for (Rank r = 0; r < me.size(); ++r) {
        EXPECT_EQ((*all)[static_cast<std::size_t>(r)], blob_with(fmt::format("{}.{}", r, round)));
      }
    }
  });
  EXPECT_TRUE(std::ranges::equal((*group[0])->key(), (*group[4])->key()));
  leave_all(group);
}

TEST(Rendezvous, OneRankIsAGroupToo) {
  auto service = make_service();
  auto alone = join(service, serve(service), 0, 1, {}, Deadline::after(10s));
  ASSERT_TRUE(alone) << alone.error().what;
  EXPECT_EQ((*alone)->all_gather(blob_with("x"), Deadline::after(5s))->at(0), blob_with("x"));
}

TEST(Rendezvous, CarriesLargeBlobsAndRefusesTooLargeOnes) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 3);
  on_all(group, [](Bootstrap& me) {
    const Blob mine(3'000'000 + static_cast<std::size_t>(me.rank()), std::byte{7});
    const auto all = me.all_gather(mine, Deadline::after(20s));
    ASSERT_TRUE(all) << all.error().what;
    EXPECT_EQ((*all)[2].size(), 3'000'002u);
    const auto too_large = me.all_gather(Blob(kMaxBlobBytes + 1), Deadline::after(1s));
    EXPECT_EQ(too_large.error().code, Code::kInvalidArgument);
  });
  leave_all(group);
}

TEST(Rendezvous, NothingIsLeftAfterIt) {
  const int before = open_descriptors();
  {
    auto service = make_service();
    const int idle = service->call([] { return open_descriptors(); });
    auto group = join_all(service, serve(service), 4);
    leave_all(group);
    // The hub has heard all goodbyes; what it posted then runs before this call.
    service->call([] {});
    EXPECT_EQ(service->call([] { return open_descriptors(); }), idle);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Rendezvous, ATimeoutNamesWhoNeverCameAndWhoDid) {
  auto service = make_service();
  const auto id = serve(service);
  auto third = std::async(std::launch::async,
                          [&] { return join(service, id, 3, 5, {}, Deadline::after(2s)); });
  const auto first = join(service, id, 0, 5, {}, Deadline::after(2s));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kTimeout);
  EXPECT_THAT(first.error().what, HasSubstr("never came: 1-2, 4"));
  EXPECT_THAT(first.error().what, HasSubstr("these did: 0, 3"));
  EXPECT_FALSE(third.get());
}

constexpr auto kShortLiveness = 400ms;

JoinOptions patient_options() {
  JoinOptions options;
  options.patient = true;
  options.liveness = kShortLiveness;
  return options;
}

UniqueId serve_with_short_liveness(const std::shared_ptr<Service>& service) {
  RootOptions options = root_on_loopback();
  options.liveness = kShortLiveness;
  return serve(service, options);
}

TEST(Rendezvous, WaitsForARankThatIsLateBeyondTheDeadlineOfReachingTheHub) {
  auto service = make_service();
  const auto id = serve_with_short_liveness(service);
  auto early = std::async(std::launch::async, [&] {
    return join(service, id, 0, 2, patient_options(), Deadline::after(500ms));
  });
  std::this_thread::sleep_for(1500ms);
  auto late = join(service, id, 1, 2, patient_options(), Deadline::after(5s));
  auto first = early.get();
  ASSERT_TRUE(late) << late.error().what;
  ASSERT_TRUE(first) << first.error().what;
  std::thread leaves([&] { late->reset(); });
  first->reset();
  leaves.join();
}

TEST(Rendezvous, OfPatientRanksEndsWhenOneIsAborted) {
  auto service = make_service();
  const auto id = serve_with_short_liveness(service);
  auto waits = std::async(std::launch::async, [&] {
    return join(service, id, 0, 3, patient_options(), Deadline::after(500ms));
  });
  Cancellation abort;
  auto aborted = std::async(std::launch::async, [&] {
    return join(service, id, 1, 3, patient_options(), Deadline::after(500ms).unless(abort));
  });
  std::this_thread::sleep_for(1s);
  abort.raise();
  EXPECT_FALSE(aborted.get());
  const auto other = waits.get();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kPeerFailed);
  EXPECT_THAT(other.error().what, HasSubstr("rank 1 gave up"));
}

TEST(Rendezvous, OfPatientRanksEndsWithTheHubsProcess) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto root = make_service();
    const UniqueIdBytes bytes = encode(serve_with_short_liveness(root));
    if (::write(pipe_ends[1], bytes.data(), bytes.size()) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  UniqueIdBytes bytes{};
  ASSERT_EQ(::read(pipe_ends[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  const auto id = decode_unique_id(bytes);
  ASSERT_TRUE(id);
  auto service = make_service();
  JoinOptions options = patient_options();
  options.was_up = true;
  auto waits = std::async(std::launch::async,
                          [&] { return join(service, *id, 0, 2, options, Deadline::after(30s)); });
  std::this_thread::sleep_for(700ms);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const TimePoint killed = Clock::now();
  const auto outcome = waits.get();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kPeerFailed);
  EXPECT_THAT(outcome.error().what, HasSubstr("nobody listens at"));
  EXPECT_LT(Clock::now() - killed, 10s);
  for (const int end : pipe_ends) ::close(end);
}

TEST(Rendezvous, ATimeoutOfAGatherNamesWhoNeverCame) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 3);
  const auto result = (*group[1])->all_gather({}, Deadline::after(2s));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().what, HasSubstr("never came: 0, 2"));
  EXPECT_EQ((*group[1])->all_gather({}, Deadline::after(1s)).error().code, Code::kInvalidUsage);
  leave_all(group);
}

TEST(Rendezvous, AWrongKeyIsRefused) {
  auto service = make_service();
  auto id = serve(service);
  id.key[0] ^= std::byte{1};
  const auto result = join(service, id, 0, 2, {}, Deadline::after(5s));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kPeerFailed);
  EXPECT_THAT(result.error().what, HasSubstr("does not hold this job's key"));
}

TEST(Rendezvous, AStaleIdIsNamed) {
  auto service = make_service();
  auto id = serve(service);
  id.job ^= 1;
  const auto result = join(service, id, 0, 2, {}, Deadline::after(5s));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().what, HasSubstr("stale"));
}

TEST(Rendezvous, AHubThatIsGoneIsATimeoutWithItsAddress) {
  UniqueId id;
  {
    auto service = make_service();
    id = serve(service);
  }
  auto service = make_service();
  const auto result = join(service, id, 0, 2, {}, Deadline::after(100ms));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kTimeout);
  EXPECT_THAT(result.error().what, HasSubstr(to_text(id.addresses[0])));
}

TEST(Rendezvous, ADuplicateRankIsToldAndTheFirstIsNotDisturbed) {
  auto service = make_service();
  const auto id = serve(service);
  auto first = std::async(std::launch::async,
                          [&] { return join(service, id, 1, 2, {}, Deadline::after(20s)); });
  // Of the two that claim rank 1, whoever comes second is refused.
  auto second = std::async(std::launch::async,
                           [&] { return join(service, id, 1, 2, {}, Deadline::after(20s)); });
  auto* refused = &first;
  auto* seated = &second;
  while (true) {
    if (first.wait_for(5ms) == std::future_status::ready) break;
    if (second.wait_for(5ms) == std::future_status::ready) {
      std::swap(refused, seated);
      break;
    }
  }
  const auto error = refused->get();
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code, Code::kInvalidArgument);
  EXPECT_THAT(error.error().what, HasSubstr("two processes claim rank 1"));
  auto zero = join(service, id, 0, 2, {}, Deadline::after(20s));
  EXPECT_TRUE(zero);
  EXPECT_TRUE(seated->get());
}

TEST(Rendezvous, DifferentSizesFailBothSidesAndShowBoth) {
  auto service = make_service();
  const auto id = serve(service);
  auto other = std::async(std::launch::async,
                          [&] { return join(service, id, 0, 2, {}, Deadline::after(20s)); });
  const auto mine = join(service, id, 1, 3, {}, Deadline::after(20s));
  const auto theirs = other.get();
  ASSERT_FALSE(mine);
  ASSERT_FALSE(theirs);
  for (const auto* error : {&mine.error(), &theirs.error()}) {
    EXPECT_THAT(error->what, HasSubstr("disagree on the size"));
    EXPECT_THAT(error->what, HasSubstr("says 2"));
    EXPECT_THAT(error->what, HasSubstr("says 3"));
  }
}

TEST(Rendezvous, ARankOutsideTheGroupIsRefused) {
  auto service = make_service();
  for (const Rank rank : {-1, 2}) {
    const auto result = join(service, serve(service), rank, 2, {}, Deadline::after(1s));
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
}

TEST(Rendezvous, ASecondUseOfAnIdIsToldSo) {
  auto service = make_service();
  const auto id = serve(service);
  auto group = join_all(service, id, 2);
  const auto again = join(service, id, 0, 2, {}, Deadline::after(5s));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kInvalidUsage);
  EXPECT_THAT(again.error().what, HasSubstr("has served already"));
  EXPECT_TRUE((*group[0])->size() == 2);
  leave_all(group);
}

TEST(Rendezvous, StrangersDoNotDisturbIt) {
  auto service = make_service();
  auto options = root_on_loopback();
  options.limits.strangers = 8;
  const auto id = serve(service, options);
  std::vector<Fd> silent;
  const auto bother = [&] {
    for (int i = 0; i < 12; ++i) {  // more than there is room for
      auto quiet = connect_once(id.addresses[0], Deadline::after(1s));
      if (quiet) silent.push_back(*std::move(quiet));
      auto scan = connect_once(id.addresses[0], Deadline::after(1s));  // closes at once
      auto garbage = connect_once(id.addresses[0], Deadline::after(1s));
      if (garbage) {
        (void)send_all(garbage->get(), as_bytes("GET / HTTP/1.0\r\n\r\n"), Deadline::after(1s));
      }
    }
  };
  bother();
  std::thread meanwhile(bother);
  auto group = join_all(service, id, 6);
  meanwhile.join();
  for (auto& member : group) ASSERT_TRUE(member) << member.error().what;
  leave_all(group);
}

// They come from another process, as many as this one may have descriptors and more.
TEST(Rendezvous, StrangersDoNotTakeAllDescriptors) {
  auto service = make_service();
  const auto id = serve(service);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr int kMost = 512;
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(few.rlim_cur, kMost);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  int ready[2], done[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(done, O_CLOEXEC), 0);
  const pid_t stranger = fork();
  ASSERT_GE(stranger, 0);
  if (stranger == 0) {
    close(done[1]);
    raise_fd_limit(kMost + 300);
    std::vector<Fd> silent;
    for (int i = 0; i < kMost + 100; ++i) {
      auto fd = connect_once(id.addresses[0], Deadline::after(5s));
      if (fd) silent.push_back(*std::move(fd));
    }
    char byte = silent.size() > kMost ? 'y' : 'n';
    (void)!write(ready[1], &byte, 1);
    (void)!read(done[0], &byte, 1);  // until the parent is done
    _exit(0);
  }
  const Fd held[] = {Fd(ready[0]), Fd(ready[1]), Fd(done[0])};
  Fd end(done[1]);
  char many = 0;
  ASSERT_EQ(read(ready[0], &many, 1), 1);
  EXPECT_EQ(many, 'y');
  auto group = join_all(service, id, 4, 5s);  // less than a stranger's patience
  for (auto& member : group) EXPECT_TRUE(member) << member.error().what;
  end.reset();
  waitpid(stranger, nullptr, 0);
  if (!HasFailure()) leave_all(group);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Rendezvous, ASilentStrangerIsCutOff) {
  auto service = make_service();
  auto options = root_on_loopback();
  options.limits.patience = 50ms;
  const auto id = serve(service, options);
  auto silent = connect_once(id.addresses[0], Deadline::after(1s));
  ASSERT_TRUE(silent);
  std::byte byte{};
  const auto end = recv_all(silent->get(), std::span(&byte, 1), Deadline::after(5s));
  EXPECT_EQ(end.error().code, Code::kPeerFailed) << end.error().what;
}

TEST(Rendezvous, AMemberThatBreaksTheProtocolIsLostAndBlamed) {
  auto service = make_service();
  const auto id = serve(service);
  // A holder of the key, by hand: joins as rank 1 and then sends garbage.
  auto fd = connect_once(id.addresses[0], Deadline::after(1s));
  ASSERT_TRUE(fd);
  HandshakeOptions hello;
  hello.self = {.token = 5, .rank = 1, .group = id.job};
  hello.key = id.key;
  ASSERT_TRUE(shake_hands(fd->get(), hello, Deadline::after(5s)));
  const JoinBody body = {.group = id.job,
                         .rank = 1,
                         .size = 2,
                         .members = {},
                         .listener = *parse_address("127.0.0.1:9")};
  const auto frame = encode_frame(FrameType::kJoin, 0, encode(body));
  ASSERT_TRUE(send_all(fd->get(), *frame, Deadline::after(1s)));
  auto zero = join(service, id, 0, 2, {}, Deadline::after(5s));
  ASSERT_TRUE(zero) << zero.error().what;
  std::promise<Error> failure;
  (*zero)->on_failure([&](const Error& error) { failure.set_value(error); });
  ASSERT_TRUE(send_all(fd->get(), Blob(64, std::byte{0xff}), Deadline::after(1s)));
  const auto error = failure.get_future().get();
  EXPECT_EQ(error.peer, 1);
  const auto gather = (*zero)->all_gather({}, Deadline::after(5s));
  ASSERT_FALSE(gather);
  EXPECT_EQ(gather.error().peer, 1);
}

TEST(Rendezvous, GoodbyeIsNoFailure) {
  auto service = make_service();
  auto other = make_service();  // a process of its own, as far as the group can tell
  const auto id = serve(service);
  auto second = std::async(std::launch::async,
                           [&] { return join(other, id, 1, 2, {}, Deadline::after(10s)); });
  auto first = join(service, id, 0, 2, {}, Deadline::after(10s));
  auto mate = second.get();
  ASSERT_TRUE(first && mate);
  std::atomic<int> failures{0};
  (*mate)->on_failure([&](const Error&) { ++failures; });
  first->reset();   // the hub's rank leaves
  service.reset();  // and its process ends
  const auto gather = (*mate)->all_gather({}, Deadline::after(5s));
  ASSERT_FALSE(gather);
  EXPECT_EQ(gather.error().code, Code::kPeerFailed);
  EXPECT_THAT(gather.error().what, HasSubstr("left"));
  other->call([] {});
  EXPECT_EQ(failures, 0);
}

TEST(Rendezvous, AnnouncementsReachTheOthers) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 3);
  std::promise<Error> one;
  std::promise<Error> two;
  (*group[1])->on_failure([&](const Error& error) { one.set_value(error); });
  (*group[0])->announce(make_error(Code::kAborted, "enough"));
  EXPECT_EQ(one.get_future().get().what, "rank 0 gave up: enough");
  (*group[2])->on_failure([&](const Error& error) { two.set_value(error); });  // late
  const auto error = two.get_future().get();
  EXPECT_EQ(error.code, Code::kAborted);
  EXPECT_EQ(error.peer, 0);
  leave_all(group);
}

TEST(Rendezvous, OfRanksThatLeftTheFirstToGiveUpIsNamed) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 3);
  std::promise<void> heard;
  (*group[1])->on_failure([&](const Error&) { heard.set_value(); });
  (*group[2])->announce(make_error(Code::kUnavailable, "no space"));
  heard.get_future().get();
  group[1]->reset();  // because of it, and before rank 2 does
  const auto gather = (*group[0])->all_gather({}, Deadline::after(10s));
  ASSERT_FALSE(gather);
  EXPECT_EQ(gather.error().code, Code::kPeerFailed);
  EXPECT_EQ(gather.error().peer, 2);
  EXPECT_EQ(gather.error().what, "rank 2 gave up: no space");
  leave_all(group);
}

/// Ranks as processes. Each runs `body` and exits with what it returns.
class Processes {
 public:
  template <class Body>
  void start(Body body) {
    const pid_t pid = fork();
    if (pid == 0) _exit(body());
    pids_.push_back(pid);
  }
  ~Processes() {
    for (const pid_t pid : pids_) {
      if (pid > 0) kill(pid, SIGKILL);
    }
    for (std::size_t i = 0; i < pids_.size(); ++i) (void)wait_for(i);
  }
  [[nodiscard]] pid_t pid(std::size_t i) const { return pids_[i]; }
  int wait_for(std::size_t i) {
    if (pids_[i] <= 0) return -1;
    int status = 0;
    waitpid(pids_[i], &status, 0);
    pids_[i] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::vector<pid_t> pids_;
};

/// A rank in a process of its own that joins and then waits to be killed.
int wait_to_die(const UniqueId& id, Rank rank, int size, Nanos liveness) {
  auto service = make_service();
  JoinOptions options;
  options.liveness = liveness;
  auto me = join(service, id, rank, size, options, Deadline::after(10s));
  if (!me) return 1;
  (void)barrier(**me, Deadline::after(10s));
  for (;;) pause();
}

/// The id must exist before the fork and its hub only in this process: a fixed key and port.
struct Forked {
  Key key = random_key();
  SocketAddress hub;
  Forked() {
    const auto probe = listen_on(*parse_address("127.0.0.1:0"));
    hub = *local_address(probe->get());
  }
  [[nodiscard]] UniqueId id() const { return unique_id_of(key, hub); }
  [[nodiscard]] RootOptions root(Nanos liveness) const {
    RootOptions options;
    options.address = hub;
    options.key = key;
    options.liveness = liveness;
    return options;
  }
};

struct Fault {
  int signal = SIGKILL;
  Nanos liveness = 15s;
  const char* says = "";
  Nanos within = 1s;
};

void expect_noticed(const Fault& fault) {
  const Forked job;
  Processes processes;
  processes.start([&] { return wait_to_die(job.id(), 2, 3, fault.liveness); });
  auto service = make_service();
  ASSERT_TRUE(serve_root(service, job.root(fault.liveness)));
  JoinOptions options;
  options.liveness = fault.liveness;
  auto second = std::async(std::launch::async, [&] {
    return join(service, job.id(), 1, 3, options, Deadline::after(10s));
  });
  auto first = join(service, job.id(), 0, 3, options, Deadline::after(10s));
  auto mate = second.get();
  ASSERT_TRUE(first && mate);
  auto meet = std::async(std::launch::async, [&] { return barrier(**mate, Deadline::after(10s)); });
  ASSERT_TRUE(barrier(**first, Deadline::after(10s)));
  ASSERT_TRUE(meet.get());

  std::promise<Error> one;
  std::promise<Error> two;
  (*first)->on_failure([&](const Error& error) { one.set_value(error); });
  (*mate)->on_failure([&](const Error& error) { two.set_value(error); });
  const auto start = Clock::now();
  kill(processes.pid(0), fault.signal);
  for (auto* heard : {&one, &two}) {
    const auto error = heard->get_future().get();
    EXPECT_EQ(error.peer, 2);
    EXPECT_EQ(error.code, Code::kPeerFailed);
    EXPECT_THAT(error.what, HasSubstr(fault.says));
  }
  EXPECT_LT(Clock::now() - start, fault.within);
  const auto gather = (*first)->all_gather({}, Deadline::after(5s));
  ASSERT_FALSE(gather);
  EXPECT_EQ(gather.error().peer, 2);
}

TEST(Liveness, AKilledProcessIsReportedToAllAtOnce) {
  expect_noticed({.signal = SIGKILL, .says = "died", .within = 1s});
}

TEST(Liveness, AStoppedProcessIsReportedAfterTheLimit) {
  expect_noticed(
      {.signal = SIGSTOP, .liveness = 1s, .says = "stopped or unreachable", .within = 3s});
}

TEST(Liveness, AKilledHubIsBlamedOnItsRankAndSubgroupsStillForm) {
  const Forked job;
  Processes processes;
  processes.start([&] {
    auto service = make_service();
    if (!serve_root(service, job.root(15s))) return 1;
    return wait_to_die(job.id(), 0, 3, 15s) + (service ? 0 : 1);
  });
  auto service = make_service();
  auto other = make_service();
  auto second = std::async(std::launch::async,
                           [&] { return join(other, job.id(), 2, 3, {}, Deadline::after(10s)); });
  auto first = join(service, job.id(), 1, 3, {}, Deadline::after(10s));
  auto mate = second.get();
  ASSERT_TRUE(first) << first.error().what;
  ASSERT_TRUE(mate) << mate.error().what;
  auto meet = std::async(std::launch::async, [&] { return barrier(**mate, Deadline::after(10s)); });
  ASSERT_TRUE(barrier(**first, Deadline::after(10s)));
  ASSERT_TRUE(meet.get());
  std::promise<Error> failure;
  (*first)->on_failure([&](const Error& error) { failure.set_value(error); });
  kill(processes.pid(0), SIGKILL);
  EXPECT_THAT(failure.get_future().get().what, HasSubstr("the hub of this group"));

  const std::vector<Rank> survivors = {1, 2};
  auto sub_mate = std::async(std::launch::async,
                             [&] { return (*mate)->subgroup(survivors, 9, Deadline::after(10s)); });
  auto sub = (*first)->subgroup(survivors, 9, Deadline::after(10s));
  auto other_sub = sub_mate.get();
  ASSERT_TRUE(sub) << sub.error().what;
  ASSERT_TRUE(other_sub) << other_sub.error().what;
  EXPECT_EQ((*sub)->size(), 2);
  EXPECT_FALSE(std::ranges::equal((*sub)->key(), (*first)->key()));
  auto met =
      std::async(std::launch::async, [&] { return barrier(**other_sub, Deadline::after(10s)); });
  EXPECT_TRUE(barrier(**sub, Deadline::after(10s)));
  EXPECT_TRUE(met.get());
}

/// Four ranks, each of a process of its own as far as the group can tell, whose hub has left.
class Hubless : public testing::Test {
 protected:
  static constexpr Nanos kLiveness = 400ms;

  void SetUp() override {
    for (auto& service : services_) service = make_service();
    const auto id = serve(services_[0]);
    JoinOptions options;
    options.liveness = kLiveness;
    std::array<std::future<Joined>, 4> joining;
    for (Rank r = 0; r < 4; ++r)
      joining[r] = std::async(std::launch::async, [&, r] {
        return join(services_[r], id, r, 4, options, Deadline::after(10s));
      });
    for (Rank r = 0; r < 4; ++r) {
      auto joined = joining[r].get();
      ASSERT_TRUE(joined) << joined.error().what;
      ranks_[r] = *std::move(joined);
    }
    leave(0);
  }
  void leave(Rank rank) {
    ranks_[rank].reset();
    services_[rank].reset();
  }
  /// What `rank` hears while it waits for `peer`, if anything.
  std::optional<Error> hears(Rank rank, Rank peer, Nanos limit) {
    std::promise<Error> heard;
    std::atomic<bool> once{false};
    ranks_[rank]->on_failure([&](const Error& error) {
      if (!once.exchange(true)) heard.set_value(error);
    });
    auto failure = heard.get_future();
    const Deadline deadline = Deadline::after(limit);
    while (failure.wait_for(5ms) != std::future_status::ready && !deadline.passed())
      ranks_[rank]->look_after(peer);
    ranks_[rank]->on_failure(nullptr);
    if (!once) return std::nullopt;
    return failure.get();
  }

  std::array<std::shared_ptr<Service>, 4> services_;
  std::array<std::unique_ptr<Bootstrap>, 4> ranks_;
};

TEST_F(Hubless, ARankThatLivesOrHasLeftIsNoFailure) {
  EXPECT_FALSE(hears(1, 2, 2 * kLiveness));
  leave(2);
  EXPECT_FALSE(hears(1, 2, 2 * kLiveness));
}

TEST_F(Hubless, NewsTravelFromRankToRank) {
  ranks_[3]->announce(make_error(Code::kInternal, "no paper"));
  for (const Rank rank : {2, 1}) {
    const auto failure = hears(rank, rank + 1, 10s);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->peer, 3);
    EXPECT_THAT(failure->what, HasSubstr("rank 3 gave up: no paper"));
  }
}

TEST_F(Hubless, ASilentRankIsReportedAfterTheLimit) {
  std::promise<void> end;
  services_[3]->post([waits = end.get_future().share()] { waits.wait(); });
  const TimePoint begin = Clock::now();
  const auto silence = hears(2, 3, 10s);
  EXPECT_GE(Clock::now() - begin, kLiveness);
  const auto told = hears(1, 2, 10s);
  end.set_value();
  for (const auto& failure : {silence, told}) {
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->peer, 3);
    EXPECT_THAT(failure->what, HasSubstr("rank 3 (127.0.0.1"));
    EXPECT_THAT(failure->what, HasSubstr("silent for 0.4 s"));
  }
}

TEST(Subgroup, ManyAtOnceAndNested) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 6);
  on_all(group, [](Bootstrap& me) {
    const bool even = me.rank() % 2 == 0;
    const std::vector<Rank> members =
        even ? std::vector<Rank>{4, 2, 0} : std::vector<Rank>{1, 3, 5};
    auto half = me.subgroup(members, even ? 10 : 11, Deadline::after(10s));
    ASSERT_TRUE(half) << half.error().what;
    EXPECT_EQ((*half)->size(), 3);
    EXPECT_EQ((*half)->rank(), std::ranges::find(members, me.rank()) - members.begin());
    if ((*half)->rank() == 2) return;
    const std::vector<Rank> pair = {1, 0};
    auto nested = (*half)->subgroup(pair, 1, Deadline::after(10s));
    ASSERT_TRUE(nested) << nested.error().what;
    EXPECT_TRUE(barrier(**nested, Deadline::after(10s)));
  });
  leave_all(group);
}

TEST(Subgroup, ATimeoutNamesTheMissingEvenIfItIsTheFirst) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 3);
  const std::vector<Rank> members = {0, 1, 2};
  const auto without_hub = (*group[1])->subgroup(members, 1, Deadline::after(300ms));
  ASSERT_FALSE(without_hub);
  EXPECT_THAT(without_hub.error().what, HasSubstr("never came: 0, 2"));
  const auto with_hub = (*group[0])->subgroup(members, 2, Deadline::after(300ms));
  ASSERT_FALSE(with_hub);
  EXPECT_THAT(with_hub.error().what, HasSubstr("never came: 1-2"));
  leave_all(group);
}

TEST(Subgroup, DifferentListsAreAnError) {
  auto service = make_service();
  auto group = join_all(service, serve(service), 3);
  const std::vector<Rank> mine = {0, 1};
  const std::vector<Rank> theirs = {0, 1, 2};
  auto other = std::async(std::launch::async,
                          [&] { return (*group[1])->subgroup(theirs, 1, Deadline::after(2s)); });
  const auto result = (*group[0])->subgroup(mine, 1, Deadline::after(2s));
  EXPECT_FALSE(other.get());
  EXPECT_FALSE(result);
  leave_all(group);
}

TEST(Rendezvous, AThousandRanksMeetWithinTenSeconds) {
  auto service = make_service();
  const auto start = Clock::now();
  auto group = join_all(service, serve(service), 1024, 60s);
  for (auto& member : group) ASSERT_TRUE(member) << member.error().what;
  const auto met = Clock::now();
  on_all(group, [](Bootstrap& me) {
    EXPECT_TRUE(me.all_gather(Blob(100, std::byte{1}), Deadline::after(60s)));
  });
  const auto gathered = Clock::now();
  EXPECT_LT(met - start, 10s);
  leave_all(group);
  const auto ms = [](Nanos time) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  };
  RecordProperty("met_ms", ms(met - start));
  fmt::print("1024 ranks: met in {} ms, gathered 100 B each in {} ms, left in {} ms\n",
             ms(met - start), ms(gathered - met), ms(Clock::now() - gathered));
}

}  // namespace
}  // namespace tutti
