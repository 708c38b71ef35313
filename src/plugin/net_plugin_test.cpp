// The host of network plugins, over mocks of every version.
#include "src/plugin/net_plugin.hpp"

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "src/plugin/test_plugins.hpp"

namespace tutti::plugin {
namespace {

using ::testing::AllOf;
using testing::FreshPlugin;
using ::testing::HasSubstr;
using NetBytes = std::vector<std::byte>;

constexpr StartOptions kNetWithoutTrial{.trial = Nanos::zero()};
constexpr auto kNetPatience = std::chrono::seconds(30);

/// Both ends of a connection, with memory of each.
struct NetPair {
  std::shared_ptr<NetPlugin> plugin;
  std::shared_ptr<NetSender> sender;
  std::shared_ptr<NetReceiver> receiver;
  std::shared_ptr<NetBytes> out, in;
  SharedRegistration out_memory, in_memory;

  explicit NetPair(const FreshPlugin& mock, std::size_t bytes = 1 << 20)
      : out(std::make_shared<NetBytes>(bytes)), in(std::make_shared<NetBytes>(bytes)) {
    auto opened = NetPlugin::open(mock.file(), kNetWithoutTrial);
    EXPECT_TRUE(opened) << opened.error().what;
    plugin = *opened;
    const auto listener = *plugin->listen(1);
    NetDialler dialler = plugin->dial(1, listener->address());
    while (!sender) sender = *dialler.advance();
    while (!receiver) receiver = *listener->accept();
    out_memory = *sender->register_memory({std::span(*out), out});
    in_memory = *receiver->register_memory({std::span(*in), in});
  }
  [[nodiscard]] Part source(std::size_t at, std::size_t bytes) const {
    return {std::span(*out).subspan(at, bytes), out_memory};
  }
  [[nodiscard]] Part sink(std::size_t at, std::size_t bytes) const {
    return {std::span(*in).subspan(at, bytes), in_memory};
  }
};

/// Tests all requests in turn until they are over. What is over has its sizes.
Status finish_all(std::vector<Request*> requests) {
  const Deadline deadline = Deadline::after(kNetPatience);
  for (bool left = true; left;) {
    left = false;
    for (Request* request : requests) {
      if (request->is_over()) continue;
      const auto done = request->test();
      if (!done) return done.error();
      left = left || !*done;
    }
    if (deadline.passed()) return Error{Code::kTimeout, "they do not come to their end"};
  }
  return ok_status();
}

template <class Issue>
Request insist_on(const Issue& issue) {
  for (;;) {
    auto request = issue();
    EXPECT_TRUE(request) << request.error().what;
    if (!request) return {};
    if (*request) return *std::move(*request);
  }
}

class Net : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static int version() { return GetParam(); }
};

TEST_P(Net, SaysWhatItIs) {
  const FreshPlugin mock(version());
  const auto plugin = *NetPlugin::open(mock.file(), kNetWithoutTrial);
  EXPECT_EQ(plugin->name(), "Mock");
  EXPECT_EQ(plugin->version(), version());
  EXPECT_THAT(plugin->who(), AllOf(HasSubstr("the network plugin Mock ("),
                                   HasSubstr(fmt::format("version {})", version()))));
  ASSERT_EQ(plugin->devices().size(), 2u);
  EXPECT_EQ(plugin->devices()[0].most_p2p_bytes,
            version() >= 9 ? std::size_t{1} << 32 : abi::kOldMostP2pBytes);
}

TEST_P(Net, CarriesMessagesOfEverySizeInOrder) {
  const std::uint64_t seed = std::random_device{}() % 100000 + 1;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (const std::uint64_t mood : {std::uint64_t{0}, seed}) {
    const FreshPlugin mock(version(), fmt::format("seed={}", mood));
    const NetPair pair(mock);
    std::mt19937_64 random(seed);
    for (std::byte& byte : *pair.out) byte = static_cast<std::byte>(random());
    for (const std::size_t bytes : {0u, 1u, 7u, 4096u, 65537u, 300001u}) {
      std::fill(pair.in->begin(), pair.in->end(), std::byte{0});
      auto receive = insist_on([&] { return pair.receiver->receive(pair.sink(3, bytes + 10), 5); });
      auto send = insist_on([&] { return pair.sender->send(pair.source(1, bytes), 5); });
      const Status done = finish_all({&send, &receive});
      ASSERT_TRUE(done) << done.error().what;
      ASSERT_EQ(receive.bytes(), bytes);
      ASSERT_TRUE(
          std::equal(pair.in->begin() + 3, pair.in->begin() + 3 + bytes, pair.out->begin() + 1));
      ASSERT_EQ(pair.in->at(3 + bytes), std::byte{0});
    }
  }
}

TEST_P(Net, AMessageWaitsForItsReceive) {
  const FreshPlugin mock(version(), "late=1");
  const NetPair pair(mock);
  pair.out->at(0) = std::byte{42};
  auto send = insist_on([&] { return pair.sender->send(pair.source(0, 10), 1); });
  for (int i = 0; i < 100 && !send.is_over(); ++i) ASSERT_TRUE(send.test());
  auto receive = insist_on([&] { return pair.receiver->receive(pair.sink(0, 10), 1); });
  ASSERT_TRUE(finish_all({&send, &receive}));
  EXPECT_EQ(pair.in->at(0), std::byte{42});
}

TEST_P(Net, GroupedReceivesTakeMessagesByTheirTags) {
  const FreshPlugin mock(version(), "seed=9");
  const NetPair pair(mock);
  for (std::size_t i = 0; i < 4; ++i) pair.out->at(1000 * i) = static_cast<std::byte>(i + 1);
  std::vector<TaggedPart> parts;
  for (int i = 0; i < 4; ++i)
    parts.push_back({pair.sink(static_cast<std::size_t>(i) * 1000, 1000), i});
  auto receive = insist_on([&] { return pair.receiver->receive(parts); });
  std::deque<Request> sends;
  std::vector<Request*> all{&receive};
  for (const std::size_t i : {2u, 0u, 3u, 1u}) {
    sends.push_back(insist_on(
        [&] { return pair.sender->send(pair.source(1000 * i, 100 + i), static_cast<int>(i)); }));
    all.push_back(&sends.back());
  }
  ASSERT_TRUE(finish_all(all));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(receive.bytes(i), 100 + i);
    EXPECT_EQ(pair.in->at(1000 * i), static_cast<std::byte>(i + 1));
  }
  parts.push_back(parts.front());
  const auto refused = pair.receiver->receive(parts);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("takes 1 to 4 parts at once, not 5"));
}

TEST_P(Net, IssuesNoMoreThanThePluginTakes) {
  const FreshPlugin mock(version());
  const NetPair pair(mock);
  std::deque<Request> receives;
  for (;;) {
    auto request = pair.receiver->receive(pair.sink(0, 10), 1);
    ASSERT_TRUE(request);
    if (!*request) break;
    receives.push_back(*std::move(*request));
  }
  EXPECT_EQ(receives.size(), version() == 6 ? 8u : 32u);
  for (Request& receive : receives) {
    auto send = insist_on([&] { return pair.sender->send(pair.source(0, 10), 1); });
    ASSERT_TRUE(finish_all({&send, &receive}));
  }
}

TEST_P(Net, RefusesWhatItsVersionCannotSay) {
  const FreshPlugin mock(version());
  const NetPair pair(mock);
  const std::size_t huge = (std::size_t{1} << 31) + 8;
  void* const memory = ::mmap(nullptr, huge, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), huge);
  {
    const auto sent = pair.sender->register_memory({bytes});
    const auto received = pair.receiver->register_memory({bytes});
    ASSERT_EQ(sent.ok(), version() >= 8);
    if (sent) {
      const auto receive = pair.receiver->receive({bytes, *received}, 1);
      ASSERT_FALSE(receive);
      EXPECT_EQ(receive.error().code, Code::kInvalidArgument);
      const auto flush = pair.receiver->flush(std::array{TaggedPart{{bytes, *received}, 1}});
      EXPECT_FALSE(flush);
      if (version() == 8) {
        const auto send = pair.sender->send({bytes, *sent}, 1);
        ASSERT_FALSE(send);
        EXPECT_EQ(send.error().code, Code::kInvalidArgument);
      }
    }
  }
  ::munmap(memory, huge);
}

TEST_P(Net, FlushesOrHasNothingToWaitFor) {
  const FreshPlugin mock(version(), "seed=6");
  const NetPair pair(mock);
  for (int i = 0; i < 20; ++i) {
    auto flush = pair.receiver->flush(std::array{TaggedPart{pair.sink(0, 100), 0}});
    ASSERT_TRUE(flush) << flush.error().what;
    if (*flush) {
      ASSERT_TRUE(finish_all({&**flush}));
    }
  }
}

TEST_P(Net, AFailingCallSaysWhichItWas) {
  for (const char* function : {"isend", "irecv", "test"}) {
    const FreshPlugin mock(version(), fmt::format("fail={}:3:6", function));
    const NetPair pair(mock);
    Status last = ok_status();
    for (int i = 0; i < 10 && last; ++i) {
      auto receive = pair.receiver->receive(pair.sink(0, 10), 1);
      if (!receive) last = receive.error();
      auto send = pair.sender->send(pair.source(0, 10), 1);
      if (!send) last = send.error();
      std::vector<Request*> all;
      if (receive && *receive) all.push_back(&**receive);
      if (last && send && *send) all.push_back(&**send);
      if (last && !all.empty()) last = finish_all(all);
    }
    ASSERT_FALSE(last) << function;
    EXPECT_EQ(last.error().code, Code::kPeerFailed);
    EXPECT_THAT(last.error().what,
                HasSubstr(fmt::format("failed in {}: a remote error (6)", function)));
  }
}

TEST_P(Net, AFailureToConnectIsTold) {
  const FreshPlugin mock(version(), "fail=connect:1:2");
  const auto plugin = *NetPlugin::open(mock.file(), kNetWithoutTrial);
  const auto listener = *plugin->listen(0);
  NetDialler dialler = plugin->dial(0, listener->address());
  const auto failed = dialler.advance();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_THAT(failed.error().what, HasSubstr("failed in connect: a system error (2)"));
}

TEST_P(Net, APeerThatClosesEndsWhatIsUnderWay) {
  const FreshPlugin mock(version());
  NetPair pair(mock);
  auto receive = insist_on([&] { return pair.receiver->receive(pair.sink(0, 10), 1); });
  pair.out_memory.reset();
  pair.sender.reset();
  const Status ended = finish_all({&receive});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kPeerFailed);
  EXPECT_EQ(pair.receiver->under_way(), 0);
}

TEST_P(Net, ADroppedRequestKeepsItsMemory) {
  const FreshPlugin mock(version());
  std::weak_ptr<NetBytes> memory;
  {
    const NetPair pair(mock);
    memory = pair.in;
    const auto receive = pair.receiver->receive(pair.sink(0, 10), 1);
    ASSERT_TRUE(receive && *receive);
  }
  EXPECT_FALSE(memory.expired());
}

TEST_P(Net, IsRefusedWithoutAFunctionThatIsNeeded) {
  for (const char* function :
       {"init", "devices", "getProperties", "listen", "connect", "accept", "regMr", "deregMr",
        "isend", "irecv", "test", "closeSend", "closeRecv", "closeListen"}) {
    const FreshPlugin mock(version(), fmt::format("null={}", function));
    const auto plugin = NetPlugin::open(mock.file(), kNetWithoutTrial);
    ASSERT_FALSE(plugin) << function;
    EXPECT_EQ(plugin.error().code, Code::kUnsupported);
    EXPECT_THAT(plugin.error().what, HasSubstr(fmt::format("has no function {}", function)));
  }
}

TEST_P(Net, ACrashInInitIsSeenInAChild) {
  const FreshPlugin mock(version(), "init=crash");
  const auto plugin = NetPlugin::open(mock.file());
  ASSERT_FALSE(plugin);
  EXPECT_THAT(plugin.error().what, HasSubstr("was tried in a child process first"));
}

INSTANTIATE_TEST_SUITE_P(Versions, Net, ::testing::ValuesIn(testing::all_versions()),
                         [](const auto& info) { return "V" + std::to_string(info.param); });

// --- what the mock finds ---

/// Calls that NetPlugin would not make.
class MockPlugin : public ::testing::Test {
 protected:
  MockPlugin() : mock_(9), pair_(mock_) {
    library_ = *Library::open(mock_.file());
    const Exported found = *library_->newest(kNet);
    calls_ = net_calls(found.version, found.table);
    ::testing::GTEST_FLAG(death_test_style) = "fast";
  }
  void* receive() {
    void* data = pair_.in->data();
    std::size_t bytes = 10;
    int tag = 1;
    void* memory = pair_.in_memory->handle();
    void* request = nullptr;
    EXPECT_EQ(
        calls_->receive(pair_.receiver->handle(), {1, &data, &bytes, &tag, &memory}, &request),
        abi::kSuccess);
    return request;
  }

  FreshPlugin mock_;
  NetPair pair_;
  SharedLibrary library_;
  std::shared_ptr<const NetCalls> calls_;
};

TEST_F(MockPlugin, FindsTooManyRequests) {
  EXPECT_DEATH(
      {
        for (int i = 0; i < 33; ++i) receive();
      },
      "misuse: more requests than a comm may have");
}

TEST_F(MockPlugin, FindsMemoryThatIsTakenBackTooEarly) {
  EXPECT_DEATH(
      {
        receive();
        (void)calls_->deregister(pair_.receiver->handle(), pair_.in_memory->handle());
      },
      "misuse: deregMr with requests under way");
}

TEST_F(MockPlugin, FindsATestAfterTheEnd) {
  const auto test_once_more = [this] {
    void* const request = receive();
    auto send = insist_on([&] { return pair_.sender->send(pair_.source(0, 10), 1); });
    int done = 0;
    int bytes = 0;
    while (done == 0) {
      if (!send.is_over()) (void)send.test();
      (void)calls_->test(request, &done, &bytes);
    }
    (void)calls_->test(request, &done, &bytes);
  };
  EXPECT_DEATH(test_once_more(), "misuse: test of what does not exist");
}

TEST_F(MockPlugin, FindsAMarkerThatIsNotForIt) {
  EXPECT_DEATH(
      {
        void* request = reinterpret_cast<void*>(abi::kOptionalCompletion);
        (void)calls_->send(pair_.sender->handle(), pair_.out->data(), 10, 1,
                           pair_.out_memory->handle(), &request);
      },
      "misuse: .request is not null");
}

}  // namespace
}  // namespace tutti::plugin
