// Members at the leaves of a tree of switches: many, and such as do not come to a tree.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <latch>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/net.hpp"
#include "tests/collectives/switch_members.hpp"
#include "tests/collectives/switch_thread.hpp"
#include "transports/switch/control.hpp"

namespace tutti {
namespace {

using in_network::Join;
using in_network::ServerOptions;
using in_network::Welcome;
using ::testing::AllOf;
using ::testing::Each;
using testing::errors_of_members;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::JoinedTrees;
using testing::run_members;
using testing::sum_to_all;
using testing::SwitchThread;
using ::testing::UnorderedElementsAre;

auto says(const std::string& text) { return Field("what", &Error::what, HasSubstr(text)); }

TEST(SwitchLeaves, AddForFortyMembersAtOneTop) {
  constexpr std::size_t kMembers = 40, kElements = 5003;
  SwitchThread top;
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < kMembers; ++i)
    ports.push_back(i % 3 == 0 ? left.port() : right.port());
  const auto value = [](std::size_t rank, std::size_t i) {
    return static_cast<std::int32_t>(rank % 5 + i % 7);
  };
  std::vector<std::int32_t> sums(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    for (std::size_t rank = 0; rank < kMembers; ++rank) sums[i] += value(rank, i);
  run_members(ports, [&](Rank rank, const JoinedTrees& trees) {
    ASSERT_TRUE(trees) << trees.error().what;
    std::vector<std::int32_t> integers(kElements);
    for (std::size_t i = 0; i < kElements; ++i)
      integers[i] = value(static_cast<std::size_t>(rank), i);
    std::vector<float> floats(integers.begin(), integers.end());
    sum_to_all(*trees->front(), DataType::kInt32, integers);
    sum_to_all(*trees->front(), DataType::kFloat32, floats);
    EXPECT_EQ(integers, sums) << "rank " << rank;
    EXPECT_TRUE(std::ranges::equal(floats, sums)) << "rank " << rank;
  });
  for (SwitchThread* each : {&left, &right, &top}) {
    each->stop();
    EXPECT_EQ(each->counts().sessions, 1U);
    EXPECT_EQ(each->counts().open_sessions, 0U);
    EXPECT_EQ(each->counts().free_slots, in_network::SwitchLimits().slots);
    EXPECT_EQ(each->counts().packets.unauthentic, 0U);
  }
}

TEST(SwitchLeaves, AreNoTreeWithoutASwitchAbove) {
  SwitchThread one, other;
  const auto errors = errors_of_members({one.port(), other.port(), one.port()});
  EXPECT_THAT(errors, Each(says("the job has hosts at 2 switches, and there is none above this "
                                "one: start each of them with --above HOST:PORT")));
}

TEST(SwitchLeaves, AreNoTreeOfMoreThan32MembersAtOneSwitch) {
  SwitchThread top;
  SwitchThread adder(SwitchThread::below(top.port()));
  const auto errors = errors_of_members(std::vector<std::uint16_t>(33, adder.port()));
  EXPECT_THAT(errors, Each(AllOf(Field("code", &Error::code, Code::kUnsupported),
                                 says("33 hosts are at one switch"), says("--above"))));
  adder.stop();
  EXPECT_EQ(adder.counts().sessions, 0U);
}

TEST(SwitchLeaves, AreNoTreeIfOneMemberReachesNoSwitch) {
  SwitchThread top;
  SwitchThread leaf(SwitchThread::below(top.port()));
  const std::uint16_t nobody = SwitchThread().port();
  const auto errors = errors_of_members({leaf.port(), nobody, leaf.port()});
  EXPECT_THAT(errors[0], says("rank 1 does not reach its switch"));
  EXPECT_THAT(errors[2], says("rank 1 does not reach its switch"));
  EXPECT_THAT(errors[1], says(std::to_string(nobody)));
}

TEST(SwitchLeaves, NameTheSwitchAboveThatIsNotThere) {
  const std::uint16_t nobody = SwitchThread().port();
  SwitchThread left(SwitchThread::below(nobody)), right(SwitchThread::below(nobody));
  const auto errors = errors_of_members({left.port(), right.port()});
  EXPECT_THAT(errors, Each(says("the switch above, 127.0.0.1:" + std::to_string(nobody))));
  EXPECT_THAT(errors, Each(says("refused")));
}

TEST(SwitchLeaves, NameTheSwitchAboveThatHasAnotherKey) {
  ServerOptions strange = SwitchThread::options();
  strange.key.fill(std::byte{8});
  SwitchThread top(std::move(strange));
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  const auto errors = errors_of_members({left.port(), right.port()});
  EXPECT_THAT(errors, Each(says("the switch above, 127.0.0.1:" + std::to_string(top.port()))));
  EXPECT_THAT(errors, Each(says("one key, in TUTTI_SWITCH_KEY")));
}

TEST(SwitchLeaves, NameTheSwitchAboveThatIsSilent) {
  const auto silent = listen_on(SwitchThread::options().listen);
  ASSERT_TRUE(silent) << silent.error().what;
  ServerOptions options = SwitchThread::below(local_address(silent->get())->port);
  options.above_patience = std::chrono::milliseconds(50);
  SwitchThread left(options), right(options);
  const auto errors = errors_of_members({left.port(), right.port()});
  EXPECT_THAT(errors, Each(AllOf(says("the switch above, 127.0.0.1:"),
                                 says("it has not answered for 50 ms"))));
}

TEST(SwitchLeaves, PassOnWhyTheSwitchAboveRefuses) {
  ServerOptions impatient = SwitchThread::options();
  impatient.join_patience = std::chrono::milliseconds(50);
  SwitchThread top(std::move(impatient));
  SwitchThread left(SwitchThread::below(top.port()));
  SwitchThread right(SwitchThread::below(SwitchThread().port()));
  const auto errors = errors_of_members({left.port(), right.port()});
  EXPECT_THAT(errors[0], says("it refuses this leaf, 0 of 2: these workers did not come: "
                              "1"));
  EXPECT_THAT(errors[1], says("the switch above, 127.0.0.1:"));
}

/// The connection of somebody who holds the key and joins like this.
Result<Fd> join_at(std::uint16_t port, const Join& join) {
  const ServerOptions options = SwitchThread::options(port);
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  TUTTI_ASSIGN(Fd fd, connect_once(options.listen, deadline));
  const auto shaken = shake_hands(fd.get(),
                                  {.role = HandshakeRole::kInitiator,
                                   .purpose = Purpose::kControl,
                                   .self = {.token = 1, .group = in_network::kSwitchGroup},
                                   .key = options.key},
                                  deadline);
  if (!shaken) return shaken.error();
  TUTTI_TRY(send_all(fd.get(), in_network::encode(join), deadline));
  return fd;
}

Result<Welcome> answer_at(const Result<Fd>& joined) {
  if (!joined) return joined.error();
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  std::array<std::byte, sizeof(std::uint32_t)> length{};
  TUTTI_TRY(recv_all(joined->get(), length, deadline));
  Blob message(ByteReader(length).get<std::uint32_t>());
  TUTTI_TRY(recv_all(joined->get(), message, deadline));
  return in_network::decode_welcome(message, SwitchThread::options().key);
}

/// What a leaf says to two who do not agree: the first is taken, and waits until the leaf ends.
std::array<std::string, 2> answers_to(const std::array<Join, 2>& joins) {
  SwitchThread top;
  SwitchThread leaf(SwitchThread::below(top.port()));
  const std::uint16_t port = leaf.port();
  std::array<std::string, 2> answers;
  std::counting_semaphore<2> answered(0);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < 2; ++i)
    workers.emplace_back([&, i] {
      const auto answer = answer_at(join_at(port, joins[i]));
      answers[i] = answer ? answer->refusal : "no answer";
      answered.release();
    });
  answered.acquire();
  leaf.stop();
  for (std::thread& each : workers) each.join();
  return answers;
}

TEST(SwitchLeaves, RefuseAWorkerThatKnowsAnotherTree) {
  const Join first{.workers = 2, .worker = 0, .slots = 4, .leaves = 3, .leaf = 0};
  Join at_another_leaf = first, of_another_tree = first, again = first;
  at_another_leaf.leaf = 1;
  of_another_tree.leaves = 2;
  const auto differs = HasSubstr("where others of the job have said 2 workers at leaf ");
  EXPECT_THAT(answers_to({first, at_another_leaf}), UnorderedElementsAre("no answer", differs));
  EXPECT_THAT(answers_to({first, of_another_tree}), UnorderedElementsAre("no answer", differs));
  EXPECT_THAT(answers_to({first, again}),
              UnorderedElementsAre("no answer", HasSubstr("worker 0 has joined before")));
}

TEST(SwitchLeaves, RefuseATreeThatIsTooWide) {
  SwitchThread leaf(SwitchThread::below(1));
  const auto answer = answer_at(join_at(leaf.port(), {.workers = 1, .slots = 4, .leaves = 33}));
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_THAT(answer->refusal, HasSubstr("a session of 33 leaves"));
}

/// The connections of the only workers of two leaves, which are welcome.
std::array<Result<Fd>, 2> welcome_at(std::uint16_t left, std::uint16_t right) {
  const Join first{.workers = 1, .slots = 4, .leaves = 2};
  Join second = first;
  second.leaf = 1;
  std::array<Result<Fd>, 2> joined = {join_at(left, first), join_at(right, second)};
  for (const Result<Fd>& each : joined) {
    const auto answer = answer_at(each);
    EXPECT_TRUE(answer && answer->refusal.empty());
  }
  return joined;
}

bool has_ended(const Result<Fd>& joined) {
  std::byte byte{};
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  const Status ended = recv_all(joined->get(), {&byte, 1}, deadline);
  return !ended && ended.error().code == Code::kPeerFailed;
}

TEST(SwitchLeaves, EndTheirSessionsWithTheOneAbove) {
  SwitchThread top;
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  const auto joined = welcome_at(left.port(), right.port());
  top.stop();
  EXPECT_TRUE(has_ended(joined[0]));
  EXPECT_TRUE(has_ended(joined[1]));
}

TEST(SwitchLeaves, EndTheSessionAboveWithTheirOwn) {
  SwitchThread top;
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  auto joined = welcome_at(left.port(), right.port());
  joined[0]->reset();
  EXPECT_TRUE(has_ended(joined[1]));
}

TEST(Switches, HearOfAMemberThatLeavesWhileAForkedChildHasItsSockets) {
  ServerOptions options = SwitchThread::options();
  std::binary_semaphore over(0);
  options.say = [&](const std::string& line) {
    if (line.find(" is over") != std::string::npos) over.release();
  };
  const SwitchThread adder(std::move(options));
  run_members({adder.port(), adder.port()}, [&](Rank rank, const JoinedTrees& trees) {
    ASSERT_TRUE(trees) << trees.error().what;
    if (rank != 0) return;
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    ASSERT_GT(child, 0);
    trees->front()->cancel();
    EXPECT_TRUE(over.try_acquire_for(std::chrono::seconds(10)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  });
}

TEST(Switches, LetMembersInWhenOthersHaveLeft) {
  ServerOptions small = SwitchThread::options();
  small.most_connections = 2;
  std::latch full(1);
  small.say = [&](const std::string& line) {
    if (line.find("nobody is let in for now") != std::string::npos) full.count_down();
  };
  const SwitchThread adder(std::move(small));
  const SocketAddress where = SwitchThread::options(adder.port()).listen;
  std::vector<Fd> strangers;
  for (int i = 0; i < 3; ++i) {
    auto connected = connect_once(where, Deadline::after(std::chrono::seconds(10)));
    ASSERT_TRUE(connected) << connected.error().what;
    strangers.push_back(*std::move(connected));
  }
  full.wait();
  strangers.clear();
  run_members({adder.port(), adder.port()},
              [](Rank, const JoinedTrees& trees) { EXPECT_TRUE(trees) << trees.error().what; });
}

/// The slots of a leaf may go to another job while the switch above waits for the other leaves.
TEST(SwitchLeaves, SayThatTheirSlotsHaveGoneToAnotherJob) {
  SwitchThread top;
  ServerOptions small = SwitchThread::below(top.port());
  small.limits = {.slots = 100, .sessions = 3, .least_slots = 10};
  SwitchThread left(std::move(small)), right(SwitchThread::below(top.port()));
  const Join first{.workers = 1, .slots = 80, .leaves = 2};
  Join second = first, other_job{.workers = 1, .slots = 80};
  second.leaf = 1;
  other_job.job.fill(std::byte{1});
  const auto at_left = join_at(left.port(), first);
  const auto other = join_at(left.port(), other_job);
  const auto given = answer_at(other);
  ASSERT_TRUE(given) << given.error().what;
  EXPECT_EQ(given->slots, 40U) << "as many as the first job has asked for above";
  const auto at_right = join_at(right.port(), second);
  const auto answer = answer_at(at_left);
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_THAT(answer->refusal, HasSubstr("it gives the session 40 slots, and this leaf has 25"));
}

}  // namespace
}  // namespace tutti
