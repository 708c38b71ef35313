// The seam to libibverbs, and the library in memory that tests it: devices, memory, queue pairs.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "src/verbs/fake/client.hpp"

namespace tutti::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTwoDevices = R"({"devices": [
  {"name": "fake0", "guid": 17, "inlined": 64,
   "ports": [{"mtu": 4096, "mbit": 100000,
              "gids": [{"gid": "fe80::1", "type": "v1"}, {"gid": "::ffff:10.0.0.1"}]}]},
  {"name": "fake1", "guid": 18,
   "ports": [{"mtu": 1024, "mbit": 40000,
              "gids": [{"gid": "fe80::2", "type": "v1"}, {"gid": "::ffff:10.0.0.2"}]}]}]})";

const FakeClient& fake() {
  static const FakeClient kClient(FAKE_VERBS_LIBRARY);
  return kClient;
}

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override { fake().reset(kTwoDevices); }
  void TearDown() override { EXPECT_EQ(fake().live(), 0); }
  static std::shared_ptr<Device> open(const char* name) {
    auto device = fake()->open_device(name);
    EXPECT_TRUE(device) << device.error().what;
    return *device;
  }
};

TEST_F(Verbs, DevicesTellTheirPortsAndAddresses) {
  const auto names = fake()->device_names();
  ASSERT_TRUE(names);
  EXPECT_THAT(*names, ElementsAre("fake0", "fake1"));
  const auto device = open("fake0");
  const DeviceFacts& facts = device->facts();
  EXPECT_EQ(facts.guid, 17U);
  ASSERT_EQ(facts.ports.size(), 1U);
  const PortFacts& port = facts.ports[0];
  EXPECT_TRUE(port.active);
  EXPECT_EQ(port.link, LinkLayer::kEthernet);
  EXPECT_EQ(port.mtu, 4096U);
  EXPECT_EQ(port.mbit_per_s, 100000U);
  ASSERT_EQ(port.gids.size(), 2U);
  EXPECT_EQ(to_string(port.gids[0].gid), "fe80::1");
  EXPECT_EQ(port.gids[0].type, GidType::kRoceV1);
  EXPECT_EQ(to_string(port.gids[1].gid), "10.0.0.1");
  EXPECT_EQ(port.gids[1].index, 1U);
  const auto other = open("fake1");
  EXPECT_EQ(other->facts().ports[0].mbit_per_s, 40000U);
  EXPECT_EQ(other->facts().ports[0].mtu, 1024U);
}

TEST_F(Verbs, ADeviceThatIsNotThereIsNamed) {
  const auto device = fake()->open_device("mlx5_9");
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().what, HasSubstr("mlx5_9"));
}

TEST(VerbsLibrary, ALibraryThatIsNotThereIsNamed) {
  const auto library = Library::open("libnothing.so.1");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kUnsupported);
  EXPECT_THAT(library.error().what, HasSubstr("libnothing.so.1 cannot be opened"));
}

TEST(VerbsLibrary, ALibraryWithoutTheFunctionsIsRefused) {
  const auto library = Library::open("libm.so.6");
  ASSERT_FALSE(library);
  EXPECT_THAT(library.error().what, HasSubstr("libm.so.6 has no ibv_get_device_list"));
}

TEST_F(Verbs, ForkNeedsNoPreparationWhereTheKernelCopiesRegisteredPages) {
  std::array<std::byte, 4096> memory{};
  const auto device = open("fake0");
  const auto region = device->register_memory(memory, {});
  ASSERT_TRUE(region) << region.error().what;
  EXPECT_TRUE(fake()->prepare_for_fork());
}

TEST_F(Verbs, ForkIsPreparedBeforeMemoryIsRegisteredOnOlderKernels) {
  fake().reset(R"({"devices": [{"name": "fake0", "ports": []}], "copy_on_fork": false})");
  std::array<std::byte, 4096> memory{};
  const auto device = open("fake0");
  const auto region = device->register_memory(memory, {});
  ASSERT_TRUE(region) << region.error().what;
  const Status late = fake()->prepare_for_fork();
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().what, HasSubstr("memory was registered before?"));
}

/// One end of a connection, with memory that the peer may write.
struct End {
  explicit End(std::shared_ptr<Device> device, std::uint32_t sends = 16,
               std::uint32_t receives = 16)
      : device(std::move(device)),
        memory(1 << 20),
        completions(value(this->device->create_completion_queue(256))),
        region(value(this->device->register_memory(memory, {.remote_write = true}))),
        pair(value(this->device->create_queue_pair(
            completions, {.sends = sends, .receives = receives, .inlined = 64}))) {
    EXPECT_TRUE(pair.initialise(1));
  }
  template <class T>
  static T value(Result<T> result) {
    EXPECT_TRUE(result) << result.error().what;
    return *std::move(result);
  }
  void receive(int count) {
    for (int i = 0; i < count; ++i) {
      ibv_recv_wr work{};
      work.wr_id = 1000U + static_cast<unsigned>(i);
      EXPECT_TRUE(pair.post(work));
    }
  }
  /// Writes `bytes` at `from` of this memory to the same place of the peer's.
  Status write(const End& peer, std::size_t from, std::size_t bytes, std::uint64_t id,
               std::uint32_t immediate, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(memory.data() + from),
                  .length = static_cast<std::uint32_t>(bytes),
                  .lkey = region.local_key()};
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.send_flags = flags;
    work.imm_data = immediate;
    work.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data() + from);
    work.wr.rdma.rkey = peer.region.remote_key();
    return pair.post(work);
  }
  /// The next completion; fails the test if none comes.
  ibv_wc next() {
    for (int tries = 0; tries < 100000; ++tries) {
      ibv_wc completion{};
      const auto count = completions.poll({&completion, 1});
      EXPECT_TRUE(count);
      if (!count || *count == 1) return completion;
    }
    ADD_FAILURE() << "no completion";
    return {};
  }

  std::shared_ptr<Device> device;
  std::vector<std::byte> memory;
  CompletionQueue completions;
  MemoryRegion region;
  QueuePair pair;
};

GidEntry routable(const End& end) { return end.device->facts().ports[0].gids[1]; }

Status join(End& from, const End& to, std::uint32_t own_packet = 100,
            std::uint32_t peer_packet = 200, std::uint32_t mtu = 1024) {
  return from.pair.connect({.port = 1, .gid_index = 1, .first_packet = own_packet},
                           {.queue_pair = to.pair.number(),
                            .first_packet = peer_packet,
                            .mtu = mtu,
                            .gid = routable(to).gid});
}

TEST_F(Verbs, AWriteLandsAndTellsItsNumber) {
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 100, 200));
  ASSERT_TRUE(join(b, a, 200, 100));
  b.receive(2);
  std::ranges::fill(a.memory, std::byte{7});
  ASSERT_TRUE(a.write(b, 4096, 70000, 5, 42));
  EXPECT_EQ(a.next().wr_id, 5U);
  const ibv_wc came = b.next();
  EXPECT_EQ(came.status, IBV_WC_SUCCESS);
  EXPECT_EQ(came.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(came.imm_data, 42U);
  EXPECT_EQ(came.byte_len, 70000U);
  EXPECT_EQ(b.memory[4095], std::byte{0});
  EXPECT_EQ(b.memory[4096], std::byte{7});
  EXPECT_EQ(b.memory[4096 + 69999], std::byte{7});
  EXPECT_EQ(b.memory[4096 + 70000], std::byte{0});
}

TEST_F(Verbs, WritesOfOneQueuePairArriveInOrderWithAnySeed) {
  const auto base = std::random_device{}();
  std::printf("seeds from %u\n", base);
  for (std::uint64_t seed = base; seed < base + 50ULL; ++seed) {
    fake().reset(kTwoDevices, seed + 1);
    fake().chances({.lose = 50});
    End a(open("fake0"));
    End b(open("fake1"));
    ASSERT_TRUE(join(a, b, 0xffffff, 3));
    ASSERT_TRUE(join(b, a, 3, 0xffffff));
    b.receive(10);
    for (std::uint32_t i = 0; i < 10; ++i) {
      a.memory[i * 100] = std::byte(i + 1);
      ASSERT_TRUE(a.write(b, i * 100, 100, i, i, i == 9 ? IBV_SEND_SIGNALED : 0));
    }
    for (std::uint32_t i = 0; i < 10; ++i) {
      const ibv_wc came = b.next();
      ASSERT_EQ(came.status, IBV_WC_SUCCESS);
      ASSERT_EQ(came.imm_data, i) << "seed " << seed;
      ASSERT_EQ(b.memory[i * 100], std::byte(i + 1));
    }
    ASSERT_EQ(a.next().wr_id, 9U);
  }
}

TEST_F(Verbs, AQueueIsFullUntilALaterCompletionIsPolled) {
  End a(open("fake0"), 4);
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  b.receive(8);
  for (std::uint32_t i = 0; i < 4; ++i)
    ASSERT_TRUE(a.write(b, 0, 8, i, i, i == 3 ? IBV_SEND_SIGNALED : 0));
  const Status full = a.write(b, 0, 8, 4, 4);
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().what, HasSubstr("posting a send to queue pair"));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(a.write(b, 0, 8, 4, 4)) << "nobody has polled";
  EXPECT_EQ(a.next().wr_id, 3U);
  EXPECT_TRUE(a.write(b, 0, 8, 4, 4));
}

TEST_F(Verbs, AWriteBeyondTheRegionFailsOnBothSides) {
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  b.receive(1);
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(a.memory.data()),
                .length = 8,
                .lkey = a.region.local_key()};
  ibv_send_wr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(b.memory.data()) + (1 << 20) - 4;
  work.wr.rdma.rkey = b.region.remote_key();
  ASSERT_TRUE(a.pair.post(work));
  EXPECT_EQ(a.next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.next().status, IBV_WC_WR_FLUSH_ERR);
  const auto events = b.device->take_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(events[0].queue_pair, b.pair.number());
}

TEST_F(Verbs, NoReceiveMeansNotReadyAndNotForEver) {
  fake().reset(kTwoDevices, 1);
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  ASSERT_TRUE(a.write(b, 0, 8, 1, 1));
  EXPECT_EQ(a.next().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(Verbs, TwoThatDisagreeAboutTheFirstPacketNeverMeet) {
  fake().reset(kTwoDevices, 1);
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 0));
  b.receive(1);
  ASSERT_TRUE(a.write(b, 0, 8, 1, 1));
  EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Verbs, ADeadPortCostsRetriesThenAnErrorAndIsReported) {
  fake().reset(kTwoDevices, 1);
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  b.receive(1);
  fake().set_port("fake1", 1, false);
  const auto events = b.device->take_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(events[0].port, 1);
  EXPECT_FALSE(b.device->port(1)->active);
  ASSERT_TRUE(a.write(b, 0, 8, 1, 1));
  ASSERT_TRUE(a.write(b, 0, 8, 2, 1));
  EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.next().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(fake().count("retries"), 8);
}

TEST_F(Verbs, ASwitchThatIsDeadForAWhileCostsNothingElse) {
  fake().reset(kTwoDevices, 1);
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  b.receive(1);
  fake().set_cut("fake0", 1, true);
  ASSERT_TRUE(a.write(b, 0, 8, 1, 77));
  while (fake().count("retries") < 3) ASSERT_GE(fake().step(), 0);
  fake().set_cut("fake0", 1, false);
  EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.next().imm_data, 77U);
}

TEST_F(Verbs, ADeviceThatIsRemovedFlushesAndIsReported) {
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  b.receive(1);
  fake().remove("fake1");
  EXPECT_EQ(b.next().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(b.device->take_events().at(0).type, IBV_EVENT_DEVICE_FATAL);
  EXPECT_FALSE(b.device->port(1));
  std::vector<std::byte> more(10);
  EXPECT_FALSE(b.device->register_memory(more, {}));
}

TEST_F(Verbs, AQueueOfCompletionsThatOverflowsIsBroken) {
  const auto device = open("fake0");
  auto queue = End::value(device->create_completion_queue(2));
  auto pair = End::value(device->create_queue_pair(queue, {.sends = 4, .receives = 4}));
  ASSERT_TRUE(pair.initialise(1));
  for (int i = 0; i < 3; ++i) {
    ibv_recv_wr work{};
    ASSERT_TRUE(pair.post(work));
  }
  ASSERT_TRUE(pair.fail());
  ibv_wc completion{};
  const auto polled = queue.poll({&completion, 1});
  EXPECT_TRUE(polled && *polled == 0) << "only the event tells";
  const auto events = device->take_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(events[1].type, IBV_EVENT_QP_FATAL);
}

TEST_F(Verbs, ACompletionWakesWhoAskedForIt) {
  End a(open("fake0"));
  End b(open("fake1"));
  ASSERT_TRUE(join(a, b, 1, 1) && join(b, a, 1, 1));
  b.receive(2);
  ASSERT_TRUE(b.completions.wake_on_next());
  pollfd watched{b.completions.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  ASSERT_TRUE(a.write(b, 0, 8, 1, 1));
  a.next();
  EXPECT_EQ(::poll(&watched, 1, 0), 1);
  b.completions.take_wakes();
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  b.next();
}

TEST_F(Verbs, RelaxedOrderingIsLeftOutWhereTheDeviceRefusesIt) {
  fake().reset(R"({"devices": [{"name": "old", "relaxed_ordering": false, "dma_buf": false,
                                "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]}]})");
  const auto device = open("old");
  std::vector<std::byte> memory(4096);
  const auto region = device->register_memory(memory, {.relaxed_ordering = true});
  EXPECT_TRUE(region);
  const auto shared = device->register_dma_buf(0, 0, 4096, 0, {});
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, Code::kUnsupported);
}

TEST_F(Verbs, ALackOfRegionsNamesTheLimitOfLockedMemory) {
  fake().reset(R"({"devices": [{"name": "small", "regions": 1,
                                "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]}]})");
  const auto device = open("small");
  std::vector<std::byte> memory(4096);
  const auto region = device->register_memory(memory, {});
  ASSERT_TRUE(region);
  const auto second = device->register_memory(memory, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().what, HasSubstr("registering 4096 bytes"));
  if (lock_limit() >= 0) {
    EXPECT_THAT(second.error().what, HasSubstr("--ulimit memlock=-1"));
  }
}

TEST_F(Verbs, TooManyQueuePairsNameTheLimit) {
  fake().reset(R"({"devices": [{"name": "small", "queue_pairs": 1,
                                "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]}]})");
  const auto device = open("small");
  auto queue = End::value(device->create_completion_queue(16));
  const auto first = device->create_queue_pair(queue, {.sends = 4, .receives = 4});
  ASSERT_TRUE(first);
  const auto second = device->create_queue_pair(queue, {.sends = 4, .receives = 4});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().what, HasSubstr("it can have 1 queue pairs in all"));
}

TEST_F(Verbs, LessIsInlinedWhereTheDeviceTakesLess) {
  const auto device = open("fake0");
  auto queue = End::value(device->create_completion_queue(16));
  const auto pair = device->create_queue_pair(queue, {.sends = 4, .receives = 4, .inlined = 1024});
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->inlined(), 64U);
}

TEST(VerbsFacts, AddressesAreWrittenAsPeopleWriteThem) {
  Gid gid{};
  EXPECT_TRUE(is_zero(gid));
  gid[0] = 0xfe;
  gid[1] = 0x80;
  EXPECT_TRUE(is_link_local(gid));
  EXPECT_EQ(to_string(gid), "fe80::");
}

TEST(VerbsFacts, ABondIsKnownByItsFolder) {
  const std::filesystem::path folder = ::testing::TempDir() + "/interfaces";
  std::filesystem::create_directories(folder / "bond0" / "bonding");
  std::filesystem::create_directories(folder / "eth0");
  EXPECT_TRUE(is_bond("bond0", folder));
  EXPECT_FALSE(is_bond("eth0", folder));
  EXPECT_FALSE(is_bond("eth7", folder));
  EXPECT_FALSE(is_bond("", folder));
}

TEST_F(Verbs, TheTrafficClassThatAnAdministratorSetIsRead) {
  const std::filesystem::path folder = ::testing::TempDir() + "/mlx5_9";
  std::filesystem::create_directories(folder / "tc" / "1");
  std::ofstream(folder / "tc" / "1" / "traffic_class") << "Global tclass=106\n";
  fake().reset(R"({"devices": [{"name": "set", "sysfs": ")" + folder.string() +
               R"(", "ports": [{}]}, {"name": "unset", "ports": [{}]}]})");
  const auto set = fake()->open_device("set");
  const auto unset = fake()->open_device("unset");
  ASSERT_TRUE(set && unset);
  EXPECT_EQ((*set)->facts().ports[0].traffic_class, 106);
  EXPECT_EQ((*unset)->facts().ports[0].traffic_class, -1);
}

}  // namespace
}  // namespace tutti::verbs
