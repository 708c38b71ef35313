// The rest of the fault matrix: beginnings and ends, hostile bytes, resources that run out.
#include <array>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/bootstrap/unique_id.hpp"
#include "src/wire/crypto.hpp"
#include "tests/faults/faults.hpp"

namespace tutti::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The peer gets a RST, as from a host that has started anew.
void reset_connection(int socket) {
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  ::connect(socket, &nobody, sizeof nobody);
}

class MoreFaults : public FaultsOver {
 protected:
  void end_all() {
    for (const Answer& answer : job_->ask(job_->all(), "destroy")) EXPECT_TRUE(answer.ok());
    expect_nothing_left();
  }
};

// ---- deaths in other phases

TEST_P(MoreFaults, TwoKilledRanksAreSurvived) {
  form(4);
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  kill(1);
  kill(3);
  expect_survival({1, 3}, fault);
  expect_nothing_left();
}

// KILLS: how many.
TEST_P(MoreFaults, OfEveryKillAllSurvivorsNameTheSameCulprit) {
  const char* const wanted = std::getenv("KILLS");
  std::mt19937 random(std::random_device{}());
  for (int kills = wanted != nullptr ? std::atoi(wanted) : 6; kills > 0; --kills) {
    form(4);
    const std::string command = random() % 2 == 0 ? "loop" : "moves";
    enter_operations(job_->all(), command);
    ::poll(nullptr, 0, static_cast<int>(random() % 50));
    const int victim = static_cast<int>(random() % 4);
    kill(victim);
    for (const int rank : job_->all_but({victim})) {
      const Answer answer = (*job_)[rank].hear(command);
      SCOPED_TRACE(::testing::Message()
                   << victim << " was killed; rank " << rank << ": " << answer);
      EXPECT_EQ(answer.result, ncclRemoteError);
      EXPECT_EQ((*job_)[rank].ask("failed").text, std::to_string(victim));
    }
    expect_nothing_left();
  }
}

TEST_P(MoreFaults, AStoppedHubIsFoundAtTheLivenessLimit) {
  form(3, {{"TUTTI_LIVENESS", "1"}});
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  (*job_)[0].signal(SIGSTOP);
  expect_survival({0}, fault, {Seconds(0.7), Seconds(1.5 * kSlack)});
  kill(0);
  expect_nothing_left();
}

TEST_P(MoreFaults, ARankThatExitsWithoutDestroyCountsAsDead) {
  form(3);
  const TimePoint fault = Clock::now();
  EXPECT_EQ((*job_)[1].exit(), 0);
  job_->tell({0, 2}, "loop 1000000");
  expect_survival({1}, fault);
  expect_nothing_left();
}

TEST_P(MoreFaults, ARankThatDiesIdleFailsTheNextCall) {
  form(3);
  kill(2);
  const TimePoint fault = Clock::now();
  job_->tell({0, 1}, "loop 10");
  expect_survival({2}, fault);
  expect_nothing_left();
}

TEST_P(MoreFaults, ADeathDuringDestroyDisturbsNobody) {
  form(4);
  job_->tell({0, 1}, "destroy");
  kill(3);
  (*job_)[2].tell("destroy");
  for (const Answer& answer : job_->hear({0, 1, 2}, "destroy", Seconds(2 * kSlack)))
    EXPECT_TRUE(answer.ok()) << answer;
  expect_no_leak({0, 1, 2});
  expect_nothing_left();
}

TEST_P(MoreFaults, ADeathDuringShrinkEndsItAndTheNextShrinkWorks) {
  form(4);
  enter_operations(job_->all());
  TimePoint fault = Clock::now();
  kill(3);
  expect_remote_error({0, 1, 2}, {3}, fault);
  job_->tell({0, 1}, "shrink 3");
  kill(2);  // while the others wait for it
  fault = Clock::now();
  expect_remote_error({0, 1}, {2}, fault, {}, "shrink");
  expect_shrunk_works({0, 1}, {2, 3});
  expect_no_leak({0, 1});
  expect_nothing_left();
}

TEST_P(MoreFaults, ARankThatNeverJoinsIsNamedAtTheInitTimeout) {
  start(4, {{"TUTTI_INIT_TIMEOUT", "1"}});
  const TimePoint fault = Clock::now();
  job_->tell_init({0, 1, 2}, job_->fresh_id());
  expect_remote_error({0, 1, 2}, {3}, fault, {Seconds(0.7), Seconds(2 * kSlack)}, "init");
  expect_nothing_left();
}

TEST_P(MoreFaults, ADeathAtAnyMomentOfInitIsAnErrorThatNamesTheRank) {
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 6; ++round) {
    const auto microseconds = std::uniform_int_distribution<unsigned>(0, 12'000)(random);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", round " << round << ", killed after "
                                      << microseconds << " us");
    start(3, {{"TUTTI_INIT_TIMEOUT", "1"}});
    job_->tell_init(job_->all(), job_->fresh_id());
    ::usleep(microseconds);
    kill(2);
    for (const int rank : {0, 1}) {
      Answer answer = (*job_)[rank].hear("init", Seconds(3 * kSlack));
      if (answer.ok()) answer = (*job_)[rank].ask("reduce 1000", Seconds(3 * kSlack));
      EXPECT_EQ(answer.result, ncclRemoteError) << answer;
      EXPECT_THAT(answer.text, names_one_of({2}));
    }
    expect_nothing_left();
  }
}

// ---- ranks that stop in other phases

TEST_P(MoreFaults, AStopAtAnyMomentOfInitIsAnErrorThatNamesTheRank) {
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 6; ++round) {
    const auto microseconds = std::uniform_int_distribution<unsigned>(0, 12'000)(random);
    const int victim = round % 2 == 0 ? 2 : 0;
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", round " << round << ": rank "
                                      << victim << " stopped after " << microseconds << " us");
    start(3, {{"TUTTI_INIT_TIMEOUT", "2"}, {"TUTTI_LIVENESS", "1"}});
    job_->tell_init(job_->all(), job_->fresh_id());
    ::usleep(microseconds);
    (*job_)[victim].signal(SIGSTOP);
    for (const int rank : job_->all_but({victim})) {
      Answer answer = (*job_)[rank].hear("init", Seconds(4 * kSlack));
      if (answer.ok()) answer = (*job_)[rank].ask("reduce 1000", Seconds(3 * kSlack));
      EXPECT_EQ(answer.result, ncclRemoteError) << answer;
      EXPECT_THAT(answer.text, AnyOf(names_one_of({victim}), HasSubstr("hub"))) << answer;
    }
    kill(victim);
    expect_nothing_left();
  }
}

TEST_P(MoreFaults, AStoppedRankDoesNotKeepTheOthersFromDestroying) {
  for (const int victim : {0, 3}) {
    SCOPED_TRACE(victim);
    form(4, {{"TUTTI_LIVENESS", "1"}});
    (*job_)[victim].signal(SIGSTOP);
    const Ranks others = job_->all_but({victim});
    for (const Answer& answer : job_->ask(others, "destroy", Seconds(4 * kSlack)))
      EXPECT_TRUE(answer.ok()) << answer;
    (*job_)[victim].signal(SIGCONT);
    EXPECT_TRUE((*job_)[victim].ask("destroy").ok());
    expect_no_leak(job_->all());
    expect_nothing_left();
  }
}

// ---- connections that break or lie

TEST_P(MoreFaults, CutConnectionsEndTheCommunicatorOnBothSides) {
  const std::array<std::pair<const char*, void (*)(int)>, 3> ways{
      {{"both ways", [](int socket) { ::shutdown(socket, SHUT_RDWR); }},
       {"one way", [](int socket) { ::shutdown(socket, SHUT_WR); }},
       {"reset", reset_connection}}};
  for (const auto& [how, cut] : ways) {
    SCOPED_TRACE(how);
    form(3);
    std::vector<Fd> connections = (*job_)[1].borrow_connections();
    if (connections.empty()) GTEST_SKIP() << "pidfd_getfd is not permitted here";
    enter_operations(job_->all());
    const TimePoint fault = Clock::now();
    for (const Fd& connection : connections) cut(connection.get());
    const Answer own = (*job_)[1].hear("loop", Seconds(2 * kSlack));
    EXPECT_EQ(own.result, ncclRemoteError) << own;
    connections.clear();  // or their sockets would outlive the ranks
    expect_survival({1}, fault);
    expect_nothing_left();
  }
}

TEST_P(MoreFaults, GarbageOnConnectionsIsAnErrorAndNothingWorse) {
  form(3);
  std::vector<Fd> connections = (*job_)[1].borrow_connections();
  if (connections.empty()) GTEST_SKIP() << "pidfd_getfd is not permitted here";
  enter_operations(job_->all());
  std::array<unsigned char, 256> garbage;
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (auto& byte : garbage) byte = static_cast<unsigned char>(random());
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  for (const Fd& connection : connections)
    (void)::send(connection.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  for (const Answer& answer : job_->hear(job_->all(), "loop", Seconds(2 * kSlack))) {
    EXPECT_EQ(answer.result, ncclRemoteError) << answer;
    EXPECT_THAT(answer.text, names_one_of({0, 1, 2}));
  }
  connections.clear();
  expect_shrunk_works({0, 2}, {1});
  expect_nothing_left();
}

TEST_P(MoreFaults, GarbageAtTheDoorsDoesNotKeepRanksFromJoining) {
  start(3);
  const std::string id = job_->fresh_id();
  (*job_)[0].tell("init " + id + " 3 0");
  const auto strangers = [&] {
    std::vector<Fd> knocking;
    for (const int port : (*job_)[0].listening_ports())
      for (int i = 0; i < 50; ++i) {
        Fd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(static_cast<std::uint16_t>(port));
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ::connect(stranger.get(), reinterpret_cast<sockaddr*>(&where), sizeof where);
        const std::string noise(i % 3 * 40, static_cast<char>(i));
        (void)::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        knocking.push_back(std::move(stranger));
      }
    return knocking;
  }();
  EXPECT_FALSE(strangers.empty());
  (*job_)[1].tell("init " + id + " 3 1");
  (*job_)[2].tell("init " + id + " 3 2");
  for (const Answer& answer : job_->hear(job_->all(), "init")) EXPECT_TRUE(answer.ok()) << answer;
  for (const Answer& answer : job_->ask(job_->all(), "reduce 1003")) EXPECT_TRUE(answer.ok());
  end_all();
}

// ---- unique ids

TEST_P(MoreFaults, AnIdWithOneWrongByteIsRefusedAtOnce) {
  start(1);
  const std::string id = job_->fresh_id();
  for (std::size_t at = 0; at < id.size(); at += 16) {
    std::string wrong = id;
    wrong[at] = wrong[at] == '7' ? '8' : '7';
    const Answer answer = (*job_)[0].ask("init " + wrong + " 1 0", Seconds(1 * kSlack));
    EXPECT_EQ(answer.result, ncclInvalidArgument) << answer;
    EXPECT_THAT(answer.text, HasSubstr("unique id"));
  }
  expect_nothing_left();
}

TEST_P(MoreFaults, AnIdOfAProcessThatHasEndedIsAnErrorThatSaysWhere) {
  start(2);
  const std::string id = job_->fresh_id(0);
  kill(0);
  const Answer answer = (*job_)[1].ask("init " + id + " 2 1", Seconds(2 * kSlack));
  EXPECT_EQ(answer.result, ncclRemoteError) << answer;
  EXPECT_THAT(answer.text, HasSubstr("nobody listens at"));
  expect_nothing_left();
}

TEST_P(MoreFaults, AnIdThatHasServedAndASecondClaimToARankAreRefused) {
  start(3, {{"TUTTI_INIT_TIMEOUT", "2"}});
  const std::string id = job_->fresh_id();
  job_->tell({0}, "init " + id + " 2 0");
  job_->tell({1}, "init " + id + " 2 1");
  for (const Answer& answer : job_->hear({0, 1}, "init")) EXPECT_TRUE(answer.ok()) << answer;
  const Answer late = (*job_)[2].ask("init " + id + " 2 1", Seconds(3 * kSlack));
  EXPECT_EQ(late.result, ncclInvalidUsage) << late;
  EXPECT_THAT(late.text, HasSubstr("fresh id"));
  for (const Answer& answer : job_->ask({0, 1}, "reduce 1003")) EXPECT_TRUE(answer.ok()) << answer;
  expect_nothing_left();
}

TEST_P(MoreFaults, AnIdWithAnotherKeyOpensNoDoor) {
  start(2, {{"TUTTI_INIT_TIMEOUT", "1"}});
  const std::string text = job_->fresh_id(0);
  UniqueIdBytes bytes{};
  ASSERT_TRUE(from_hex(text, bytes));
  auto id = decode_unique_id(bytes);
  ASSERT_TRUE(id);
  id->key[3] ^= std::byte{1};
  (*job_)[0].tell("init " + text + " 2 0");
  const Answer thief = (*job_)[1].ask("init " + to_hex(encode(*id)) + " 2 1", Seconds(3 * kSlack));
  EXPECT_FALSE(thief.ok());
  EXPECT_THAT(thief.text, AnyOf(HasSubstr("key"), HasSubstr("hub"))) << thief;
  const Answer alone = (*job_)[0].hear("init", Seconds(3 * kSlack));
  EXPECT_EQ(alone.result, ncclRemoteError) << alone;
  EXPECT_THAT(alone.text, HasSubstr("rank"));
  expect_nothing_left();
}

// ---- resources

TEST_P(MoreFaults, RunningOutOfDescriptorsIsAClearErrorAtEveryStep) {
  int failures = 0;
  for (int more = 0; more <= 16; more += 2) {
    SCOPED_TRACE(::testing::Message() << more << " more descriptors");
    start(2, {{"TUTTI_INIT_TIMEOUT", "2"}});
    const std::string id = job_->fresh_id(0);
    EXPECT_TRUE((*job_)[1].ask("limit files " + std::to_string(more)).ok());
    job_->tell_init(job_->all(), id);
    const Answer rich = (*job_)[0].hear("init", Seconds(3 * kSlack));
    const Answer poor = (*job_)[1].hear("init", Seconds(3 * kSlack));
    EXPECT_EQ(rich.ok(), poor.ok()) << rich << poor;
    if (poor.ok()) break;
    ++failures;
    EXPECT_EQ(poor.result, ncclSystemError) << poor;
    EXPECT_THAT(poor.text, AnyOf(HasSubstr("descriptor"), HasSubstr("open files")));
    EXPECT_EQ(rich.result, ncclRemoteError) << rich;
    EXPECT_THAT(rich.text, names_one_of({1}));
    expect_nothing_left();
  }
  EXPECT_GT(failures, 2);
  expect_nothing_left();
}

TEST_P(MoreFaults, RunningOutOfMemoryIsAClearErrorAtEveryStep) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need terabytes of address space";
  int failures = 0;
  for (const int kilobytes : {0, 64, 256, 1024, 4096, 9216, 20480, 65536}) {
    SCOPED_TRACE(::testing::Message() << kilobytes << " KiB more");
    start(2, {{"TUTTI_INIT_TIMEOUT", "1"}});
    const std::string id = job_->fresh_id(0);
    EXPECT_TRUE((*job_)[1].ask("limit memory " + std::to_string(kilobytes * 1024)).ok());
    job_->tell_init(job_->all(), id);
    const Answer rich = (*job_)[0].hear("init", Seconds(3 * kSlack));
    const Answer poor = (*job_)[1].hear("init", Seconds(3 * kSlack));
    if (!poor.ok()) {
      ++failures;
      EXPECT_EQ(poor.result, ncclSystemError) << poor;
      EXPECT_THAT(poor.text, Not(HasSubstr("std::"))) << "an exception's name is no clear text";
      EXPECT_FALSE(rich.ok());
    }
    expect_nothing_left();
  }
  EXPECT_GT(failures, 0);
}

TEST_P(MoreFaults, ADevShmOf64KiBIsEnough) {
  const Place small{.private_shm_bytes = 64 << 10, .host = {}};
  if (RankProcess({}, small).exit() != 0)
    GTEST_SKIP() << "mounting a /dev/shm of one's own is not permitted here: run as root";
  start(3, {}, small);
  for (const Answer& answer : job_->init()) EXPECT_TRUE(answer.ok()) << answer;
  for (const Answer& answer : job_->ask(job_->all(), "reduce 3000000"))
    EXPECT_TRUE(answer.ok()) << answer;
  end_all();
}

INSTANTIATE_TEST_SUITE_P(Over, MoreFaults, ::testing::Values("shm", "tcp"), transport_name);

}  // namespace
}  // namespace tutti::testing
