// A link between two hosts with two rails each, on the verbs library in memory: every seed has its
// own order of events, losses, failing works and ports that come and go. Whatever happens, the
// bytes come in order, each once, while a path is left.
#include "transports/verbs/verbs_link.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/result.hpp"
#include "src/base/sanitized.hpp"
#include "src/verbs/fake/client.hpp"

namespace tutti::verbs {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTwoHosts = R"({"devices": [
  {"name": "a0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]},
  {"name": "a1", "ports": [{"gids": [{"gid": "::ffff:10.0.1.1"}]}]},
  {"name": "b0", "ports": [{"mtu": 1024, "gids": [{"gid": "::ffff:10.0.0.2"}]}]},
  {"name": "b1", "ports": [{"gids": [{"gid": "::ffff:10.0.1.2"}]}]}]})";

const FakeClient& fake() {
  static const FakeClient kClient(FAKE_VERBS_LIBRARY);
  return kClient;
}

struct Shape {
  const char* hosts = kTwoHosts;
  std::size_t ring = 4096;
  std::uint32_t most_tries = 30;
  std::vector<std::string> near{};  // devices, to side 0
};

/// Two ends, driven by one thread. Time is the number of rounds.
class TwoLinks {
 public:
  explicit TwoLinks(std::uint64_t seed, Shape shape = {}) : random_(seed) {
    fake().reset(shape.hosts, seed);
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    for (int side = 0; side < 2; ++side) {
      auto devices = RailDevices::open(fake().shared(), {.devices = side == 0 ? "a" : "b"});
      EXPECT_TRUE(devices) << devices.error().what;
      if (side == 0) (*devices)->mark_far({.ports = shape.near});
      devices_[side] = *devices;
      auto link =
          VerbsLink::create({.devices = *devices,
                             .control = Fd(ends[side]),
                             .leads = side == 0,
                             .peer = side == 0 ? "rank 1" : "rank 0",
                             .ring_bytes = side == 0 ? shape.ring : 2 * shape.ring,
                             .most_tries = shape.most_tries,
                             .random = [this] { return static_cast<std::uint32_t>(random_()); },
                             .now = [this] { return now_; }});
      EXPECT_TRUE(link) << link.error().what;
      links_[side] = *std::move(link);
    }
  }
  ~TwoLinks() {
    links_[0].reset();
    links_[1].reset();
    devices_[0].reset();
    devices_[1].reset();
    EXPECT_EQ(fake().live(), 0);
  }

  VerbsLink& link(int side) { return *links_[side]; }
  RegisteredMemory& memory(int side) { return devices_[side]->memory(); }
  void pass_time(Nanos span = std::chrono::microseconds(100)) { now_ += span; }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
  TimePoint now_{};
  std::shared_ptr<RailDevices> devices_[2];
  std::unique_ptr<VerbsLink> links_[2];
};

/// One direction: what is written is a function of the place.
struct Flow {
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  std::uint64_t total = 0;
  static std::byte at(std::uint64_t place) {
    return std::byte((place * 0x9e3779b97f4a7c15ULL) >> 56);
  }
};

/// Writes and reads pieces of random lengths until all has come, in both directions. Returns an
/// error of a link, or ok; fails the test on a wrong byte, or when nothing moves any more.
Status run(TwoLinks& pair, std::uint64_t bytes) {
  Flow flows[2] = {{.total = bytes}, {.total = bytes}};
  std::vector<std::byte> buffer(3000);
  constexpr std::uint64_t kMostRounds = 2000000;
  for (std::uint64_t round = 0; round < kMostRounds; ++round) {
    pair.pass_time();
    for (int side = 0; side < 2; ++side) {
      Flow& out = flows[side];
      Flow& in = flows[1 - side];
      const std::size_t want = pair.random()() % buffer.size();
      if (pair.random()() % 2 == 0) {
        const std::size_t length = std::min<std::uint64_t>(want, out.total - out.written);
        for (std::size_t i = 0; i < length; ++i) buffer[i] = Flow::at(out.written + i);
        const iovec piece{buffer.data(), length};
        TUTTI_ASSIGN(const std::size_t done, pair.link(side).write({&piece, 1}));
        out.written += done;
      } else {
        const iovec piece{buffer.data(), want};
        TUTTI_ASSIGN(const std::size_t done, pair.link(side).read({&piece, 1}));
        for (std::size_t i = 0; i < done; ++i)
          if (buffer[i] != Flow::at(in.read + i)) {
            ADD_FAILURE() << "a wrong byte at " << in.read + i;
            return ok_status();
          }
        in.read += done;
        if (done == 0) TUTTI_TRY(pair.link(side).check());
      }
    }
    if (flows[0].read == bytes && flows[1].read == bytes) return ok_status();
  }
  ADD_FAILURE() << "nothing moves any more: " << flows[0].read << " and " << flows[1].read << " of "
                << bytes << " bytes came; " << pair.link(0).report() << "; "
                << pair.link(1).report();
  return ok_status();
}

TEST(VerbsLink, BytesComeInOrderInBothDirections) {
  TwoLinks pair(0, {.ring = 64 << 10});
  const Status done = run(pair, 1 << 20);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(pair.link(0).ready_paths(), 2U);
  EXPECT_EQ(pair.link(0).failovers(), 0U);
}

std::uint64_t seeds() {
  const char* const asked = std::getenv("TUTTI_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  return asked == nullptr ? (kSanitized ? 40U : 200U) : std::strtoull(asked, nullptr, 10);
}

std::uint64_t first_seed() {
  const char* const asked = std::getenv("TUTTI_SEED");  // NOLINT(concurrency-mt-unsafe)
  return asked == nullptr ? std::random_device{}() : std::strtoull(asked, nullptr, 10);
}

TEST(VerbsLink, WhateverTheSeedDoesNoByteIsLostOrWrong) {
  const std::uint64_t first = first_seed();
  const std::uint64_t count = seeds();
  std::printf("%llu seeds from %llu\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(first));
  std::uint64_t failovers = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    TwoLinks pair(seed + 1, {.most_tries = 1000000});  // the ports always come back
    std::mt19937_64 random(seed);
    fake().chances({.fail_work = static_cast<std::uint32_t>(random() % 50),
                    .lose = static_cast<std::uint32_t>(random() % 30),
                    .port_flap = static_cast<std::uint32_t>(random() % 6)});
    const Status done = run(pair, 30000);
    failovers += pair.link(0).failovers();
    ASSERT_TRUE(done) << "seed " << seed << ": " << done.error().what;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "TUTTI_SEED=" << seed << " TUTTI_SEEDS=1";
  }
  std::printf("%llu paths failed\n", static_cast<unsigned long long>(failovers));
  EXPECT_GT(failovers, 0U);
}

/// Memory of the host, or of a GPU. That one has addresses where nobody may touch it; seen() is
/// what kernels see.
class Buffer {
 public:
  Buffer(std::size_t bytes, bool of_gpu) {
    file_ = Fd(::memfd_create(of_gpu ? "fake_cuda" : "host", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    seen_ = map(bytes, PROT_READ | PROT_WRITE);
    known_ = of_gpu ? map(bytes, PROT_NONE) : seen_;
  }
  ~Buffer() {
    ::munmap(seen_.data(), seen_.size());
    if (known_.data() != seen_.data()) ::munmap(known_.data(), known_.size());
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::span<std::byte> seen() const { return seen_; }
  [[nodiscard]] std::span<std::byte> known() const { return known_; }
  /// For RegisteredMemory.
  [[nodiscard]] DeviceBuffer exported(bool needs_flush = true) const {
    return {
        .memory = known_,
        .dma_buf = [this]() -> Result<Fd> { return Fd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)); },
        .needs_flush = needs_flush};
  }

 private:
  [[nodiscard]] std::span<std::byte> map(std::size_t bytes, int protection) const {
    void* const data = ::mmap(nullptr, bytes, protection, MAP_SHARED, file_.get(), 0);
    EXPECT_NE(data, MAP_FAILED);
    return {static_cast<std::byte*>(data), bytes};
  }
  Fd file_;
  std::span<std::byte> seen_, known_;
};

/// What memory puts go from and to.
enum class Kinds : std::uint8_t { kHost, kGpus, kFromHostToGpu, kFromGpuToHost };

/// One put after the other from side 0 to side 1, some of them given up by either side. Memory is
/// overwritten as soon as its owner has it back, so a late read or write shows.
class Puts {
 public:
  explicit Puts(TwoLinks& pair, Kinds kinds = Kinds::kHost)
      : pair_(pair),
        source_(kBytes, kinds == Kinds::kGpus || kinds == Kinds::kFromGpuToHost),
        target_(kBytes, kinds == Kinds::kGpus || kinds == Kinds::kFromHostToGpu) {
    for (auto [side, buffer] : {std::pair{0, &source_}, std::pair{1, &target_}}) {
      const bool of_gpu = buffer->known().data() != buffer->seen().data();
      if (of_gpu)
        pieces_.push_back(pair.memory(side).add(buffer->exported())->keep);
      else
        pieces_.push_back(*pair.memory(side).add(buffer->known()));
    }
  }

  /// An error of a link, or ok; fails the test on wrong bytes, or when nothing moves.
  Status run(int count) {
    for (int i = 0; i < count; ++i) {
      const std::size_t bytes = 1 + pair_.random()() % kBytes;
      TUTTI_TRY(one(bytes, i));
      if (::testing::Test::HasFailure()) return ok_status();
    }
    return ok_status();
  }

  /// A put by a key whose address was damaged on its way, while other bytes get through. The error,
  /// within 2 s.
  Status run_with_a_wrong_address() {
    const auto target = pair_.link(1).show(target_.known());
    EXPECT_TRUE(target);
    TUTTI_ASSIGN(TargetKey key, decode_target_key(target->key));
    key.address ^= std::uint64_t{1} << 40;
    TUTTI_TRY(start(encode(key), kBytes));
    std::byte byte{};
    const iovec piece{&byte, 1};
    for (int round = 0; round < 20000; ++round) {
      pair_.pass_time();
      if (round % 20 == 0) TUTTI_TRY(pair_.link(0).write({&piece, 1}));
      for (int side = 0; side < 2; ++side) {
        TUTTI_TRY(pair_.link(side).read({&piece, 1}));
        TUTTI_TRY(pair_.link(side).check());
      }
    }
    return ok_status();
  }

 private:
  static constexpr std::size_t kBytes = 40960;
  static constexpr int kMostRounds = 2000000;

  Status one(std::size_t bytes, int number) {
    fill(from_, number);
    std::ranges::fill(to_, std::byte{0xee});
    const auto target = pair_.link(1).show(target_.known().first(bytes));
    if (!target) {
      ADD_FAILURE() << "nothing can be shown";
      return ok_status();
    }
    if (pair_.random()() % 16 == 0) return put_what_was_hidden(*target, bytes);
    TUTTI_TRY(start(target->key, bytes));
    const bool gives_up = pair_.random()() % 16 == 0;
    const int patience = gives_up ? static_cast<int>(pair_.random()() % 300) : kMostRounds;
    bool sent = false;
    bool landed = false;
    for (int round = 0; round < patience && !(sent && landed); ++round) {
      TUTTI_TRY(move());
      if (const auto event = pair_.link(0).next_event()) {
        EXPECT_EQ(event->owner, this);
        sent = true;
        std::ranges::fill(from_, std::byte{0x11});  // it is ours again
      }
      if (const auto event = pair_.link(1).next_event()) {
        EXPECT_EQ(event->number, target->number);
        landed = true;
        check(bytes, number);
        std::ranges::fill(to_, std::byte{0xdd});
      }
    }
    if (sent && landed) return settle(std::byte{0xdd});
    if (!gives_up) {
      ADD_FAILURE() << "nothing moves: sent " << sent << ", landed " << landed << "; "
                    << pair_.link(0).report() << "; " << pair_.link(1).report();
      return ok_status();
    }
    // Both give up, in any order; then nobody touches the other's memory.
    if (!landed) pair_.link(1).hide(target->number);
    std::ranges::fill(to_, std::byte{0xdd});
    pair_.link(0).cancel(this);
    std::ranges::fill(from_, std::byte{0x11});
    return settle(std::byte{0xdd});
  }

  // The key of a target that was given up comes late.
  Status put_what_was_hidden(const PutLink::Target& target, std::size_t bytes) {
    pair_.link(1).hide(target.number);
    std::ranges::fill(to_, std::byte{0xdd});
    for (auto rounds = pair_.random()() % 3000; rounds > 0; --rounds) TUTTI_TRY(move());
    // Refused, or given up on the way.
    (void)pair_.link(0).put(target.key, source_.known().first(bytes), this);
    for (int round = 0; round < 2000; ++round) TUTTI_TRY(move());
    EXPECT_FALSE(pair_.link(1).next_event());
    pair_.link(0).cancel(this);
    std::ranges::fill(from_, std::byte{0x11});
    return settle(std::byte{0xdd});
  }

  // The sender knows the peer's rails only once it has heard from it.
  Status start(std::span<const std::byte> key, std::size_t bytes) {
    for (int round = 0; round < kMostRounds; ++round) {
      if (pair_.link(0).put(key, source_.known().first(bytes), this)) return ok_status();
      TUTTI_TRY(move());
    }
    ADD_FAILURE() << "no put can start";
    return ok_status();
  }

  Status move() {
    pair_.pass_time();
    std::byte nothing{};
    const iovec piece{&nothing, 1};
    for (int side = 0; side < 2; ++side) {
      TUTTI_ASSIGN(const std::size_t got, pair_.link(side).read({&piece, 1}));
      EXPECT_EQ(got, 0U);
      TUTTI_TRY(pair_.link(side).check());
    }
    return ok_status();
  }

  Status settle(std::byte expected) {
    for (int round = 0; round < 30; ++round) TUTTI_TRY(move());
    EXPECT_TRUE(std::ranges::all_of(to_, [&](std::byte byte) { return byte == expected; }))
        << "a late write";
    return ok_status();
  }

  static void fill(std::span<std::byte> memory, int number) {
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = Flow::at(i + static_cast<std::size_t>(number) * 77777);
  }

  void check(std::size_t bytes, int number) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (to_[i] != Flow::at(i + static_cast<std::size_t>(number) * 77777)) {
        ADD_FAILURE() << "a wrong byte at " << i << " of " << bytes;
        return;
      }
    if (bytes < to_.size()) {
      EXPECT_EQ(to_[bytes], std::byte{0xee}) << "a byte behind the target";
    }
  }

  TwoLinks& pair_;
  const Buffer source_, target_;
  const std::span<std::byte> from_ = source_.seen(), to_ = target_.seen();
  std::vector<std::shared_ptr<const void>> pieces_;
};

/// Ports that take short messages: a put has many fragments.
constexpr const char* kShortMessages = R"({"devices": [
  {"name": "a0", "ports": [{"message": 4096, "gids": [{"gid": "::ffff:10.0.0.1"}]}]},
  {"name": "a1", "ports": [{"message": 4096, "gids": [{"gid": "::ffff:10.0.1.1"}]}]},
  {"name": "b0", "ports": [{"message": 4096, "gids": [{"gid": "::ffff:10.0.0.2"}]}]},
  {"name": "b1", "ports": [{"message": 4096, "gids": [{"gid": "::ffff:10.0.1.2"}]}]}]})";

TEST(VerbsLink, PutsLandByAllPaths) {
  TwoLinks pair(0, {.hosts = kShortMessages});
  Puts puts(pair);
  const Status done = puts.run(20);
  EXPECT_TRUE(done) << done.error().what;
}

TEST(VerbsLink, PutsBetweenGpusAreSeenByKernelsWhenTheyHaveLanded) {
  TwoLinks pair(0, {.hosts = kShortMessages});
  Puts puts(pair, Kinds::kGpus);
  const Status done = puts.run(20);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_GE(pair.link(1).flushes(), 20U);  // by each device that wrote some of it
  EXPECT_LE(pair.link(1).flushes(), 40U);
  EXPECT_EQ(pair.link(0).flushes(), 0U);
}

TEST(VerbsLink, PutsFromAGpuToAHostNeedNoFlush) {
  TwoLinks pair(0, {.hosts = kShortMessages});
  Puts puts(pair, Kinds::kFromGpuToHost);
  const Status done = puts.run(20);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(pair.link(1).flushes(), 0U);
}

constexpr const char* kWithoutDmaBuf = R"({"devices": [
  {"name": "a0", "dma_buf": false, "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]}]})";

TEST(RegisteredMemory, OfAGpuSaysWhyItCannotBe) {
  fake().reset(kWithoutDmaBuf);
  {
    auto devices = RailDevices::open(fake().shared(), {});
    ASSERT_TRUE(devices) << devices.error().what;
    const Buffer buffer(4096, true);
    const auto refused = (*devices)->memory().add(buffer.exported());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_THAT(refused.error().what, HasSubstr("not by DMA-BUF: DMA-BUF on a0"));
    EXPECT_THAT(refused.error().what, HasSubstr("not by its address either: registering 4096 "));
    EXPECT_THAT(refused.error().what, HasSubstr("Bad address"));
    EXPECT_THAT(refused.error().what, HasSubstr("the module nvidia-peermem is not loaded"));
    EXPECT_FALSE((*devices)->memory().find(buffer.known()));
  }
  EXPECT_EQ(fake().live(), 0);
}

constexpr const char* kWithPeerMemory = R"({"devices": [
  {"name": "a0", "dma_buf": false, "peer_memory": true,
   "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]}]})";

TEST(RegisteredMemory, OfAGpuGoesByItsAddressWhereTheKernelHelps) {
  fake().reset(kWithPeerMemory);
  {
    auto devices = RailDevices::open(fake().shared(), {});
    ASSERT_TRUE(devices) << devices.error().what;
    const Buffer buffer(4096, true);
    DeviceBuffer without = buffer.exported();
    without.dma_buf = []() -> Result<Fd> { return make_error(Code::kUnsupported, "too old"); };
    const auto registered = (*devices)->memory().add(without);
    ASSERT_TRUE(registered) << registered.error().what;
    const auto found = (*devices)->memory().find(buffer.known().subspan(100, 7));
    ASSERT_TRUE(found);
    EXPECT_THAT(registered->by, HasSubstr("its address, with nvidia-peermem (not by DMA-BUF: "));
    EXPECT_TRUE(found->gpu && found->gpu->needs_flush);
  }
  EXPECT_EQ(fake().live(), 0);
}

TEST(VerbsLink, WhateverTheSeedDoesNoPutIsLostLateOrWrong) {
  const std::uint64_t first = first_seed();
  const std::uint64_t count = seeds();
  std::printf("%llu seeds from %llu\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(first));
  std::uint64_t failovers = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    TwoLinks pair(seed + 1, {.hosts = kShortMessages, .most_tries = 1000000});
    std::mt19937_64 random(seed);
    fake().chances({.fail_work = static_cast<std::uint32_t>(random() % 50),
                    .lose = static_cast<std::uint32_t>(random() % 30),
                    .port_flap = static_cast<std::uint32_t>(random() % 6)});
    Puts puts(pair, static_cast<Kinds>(random() % 4));
    const Status done = puts.run(6);
    failovers += pair.link(0).failovers();
    ASSERT_TRUE(done) << "seed " << seed << ": " << done.error().what;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "TUTTI_SEED=" << seed << " TUTTI_SEEDS=1";
  }
  std::printf("%llu paths failed\n", static_cast<unsigned long long>(failovers));
  EXPECT_GT(failovers, 0U);
}

TEST(VerbsLink, AWriteThatThePeersDevicesRefuseIsAnErrorSoon) {
  TwoLinks pair(7);
  Puts puts(pair);
  ASSERT_TRUE(puts.run(10));
  const Status done = puts.run_with_a_wrong_address();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kPeerFailed);
  EXPECT_THAT(done.error().what, AllOf(HasSubstr("rank 1 refused 8 writes of a message"),
                                       HasSubstr("remote access error")));
}

TEST(VerbsLink, APortThatGoesDownCostsNothingButAPath) {
  TwoLinks pair(1);
  ASSERT_TRUE(run(pair, 10000));
  fake().set_port("a0", 1, false);
  const Status done = run(pair, 100000);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(pair.link(0).ready_paths(), 1U);
  fake().set_port("a0", 1, true);
  EXPECT_TRUE(run(pair, 200000));
  EXPECT_EQ(pair.link(0).ready_paths(), 2U) << "it comes back";
}

constexpr const char* kOneRail = R"({"devices": [
  {"name": "a0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]},
  {"name": "b0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.2"}]}]}]})";

// The look that finds the path open again may be one of check(), which sends nothing itself.
TEST(VerbsLink, WhatWaitsForAPathLeavesWhicheverCallFindsItOpen) {
  for (int calls_before = 0; calls_before < 4; ++calls_before) {
    TwoLinks pair(1, {.hosts = kOneRail, .ring = 64 << 10});
    ASSERT_TRUE(run(pair, 1000));
    std::byte buffer[10] = {};
    const iovec piece{buffer, sizeof buffer};
    std::size_t came = 0;
    const auto poll = [&](int side) {
      auto got = pair.link(side).read({&piece, 1});
      if (got && *got == 0) {
        pair.pass_time(std::chrono::microseconds(60));
        const auto again = pair.link(side).check();
        if (!again || *again) got = pair.link(side).read({&piece, 1});
      }
      ASSERT_TRUE(got);
      if (side == 1) came += *got;
    };
    for (int side = 0; side < 2; ++side) {
      if ((calls_before >> side & 1) != 0) {
        ASSERT_TRUE(pair.link(side).read({}));
      }
    }
    fake().set_port("b0", 1, false);
    for (int round = 0; round < 6000; ++round) poll(round % 2);
    ASSERT_TRUE(pair.link(0).write({&piece, 1}));
    fake().set_port("b0", 1, true);
    for (int round = 0; round < 200000 && came < sizeof buffer; ++round) poll(round % 2);
    EXPECT_EQ(came, sizeof buffer) << calls_before << ": " << pair.link(0).report();
  }
}

TEST(VerbsLink, AFarRailIsInReserveUntilTheNearOneFailsAndAgainOnceItIsBack) {
  TwoLinks pair(3, {.near = {"a1"}});
  ASSERT_TRUE(run(pair, 50000));
  EXPECT_EQ(pair.link(0).bytes_sent(0), 0U);
  EXPECT_GE(pair.link(0).bytes_sent(1), 50000U);
  fake().set_port("a1", 1, false);
  ASSERT_TRUE(run(pair, 50000));
  const std::uint64_t by_reserve = pair.link(0).bytes_sent(0);
  EXPECT_GT(by_reserve, 0U);
  fake().set_port("a1", 1, true);
  for (int i = 0; i < 100000 && pair.link(0).ready_paths() < 2; ++i) {
    pair.pass_time();
    ASSERT_TRUE(pair.link(0).check() && pair.link(1).check());
    ASSERT_TRUE(pair.link(0).read({}) && pair.link(1).read({}));
  }
  ASSERT_EQ(pair.link(0).ready_paths(), 2U);
  ASSERT_TRUE(run(pair, 200000));
  EXPECT_LT(pair.link(0).bytes_sent(0) - by_reserve, 50000U);
}

/// Reads exactly so many bytes at side 1, while both sides go on. False if they do not come.
bool read_at_1(TwoLinks& pair, std::size_t bytes) {
  std::vector<std::byte> buffer(bytes);
  for (int round = 0; round < 10000 && bytes > 0; ++round) {
    pair.pass_time();
    const iovec piece{buffer.data(), bytes};
    const auto got = pair.link(1).read({&piece, 1});
    if (!got || !pair.link(1).check() || !pair.link(0).read({}) || !pair.link(0).check())
      return false;
    bytes -= *got;
  }
  return bytes == 0;
}

// The sender stops at so many writes that it does not know to be read; those that had arrived
// unread when the receiver spoke last must be told, too.
TEST(VerbsLink, ManySmallWritesThatAreReadLateDoNotStopTheSender) {
  TwoLinks pair(0, {.ring = 64 << 10});
  ASSERT_TRUE(run(pair, 1000));
  std::byte small[10] = {};
  const iovec piece{small, sizeof small};
  std::size_t written = 0;
  for (std::uint32_t i = 0; i < 2 * kStreamWrites; ++i) {
    const auto done = pair.link(0).write({&piece, 1});
    ASSERT_TRUE(done);
    written += *done;
    ASSERT_TRUE(pair.link(1).read({}));
  }
  ASSERT_TRUE(read_at_1(pair, sizeof small));
  EXPECT_TRUE(read_at_1(pair, written - sizeof small)) << pair.link(0).report();
}

TEST(VerbsLink, AQuietLinkOutlivesADeadRail) {
  TwoLinks pair(5);
  ASSERT_TRUE(run(pair, 10000));
  fake().set_port("a0", 1, false);
  std::byte nothing{};
  const iovec piece{&nothing, 1};
  // Ten minutes, in which the leader tries some hundred times.
  for (int round = 0; round < 60000; ++round) {
    pair.pass_time(std::chrono::milliseconds(10));
    for (int side = 0; side < 2; ++side) {
      ASSERT_TRUE(pair.link(side).read({&piece, 1}));
      ASSERT_TRUE(pair.link(side).check());
    }
  }
  const Status done = run(pair, 10000);
  EXPECT_TRUE(done) << done.error().what;
}

TEST(VerbsLink, OnePortMeetsMany) {
  std::string devices =
      R"({"devices": [{"name": "a0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]})";
  for (int i = 0; i < 12; ++i)
    devices += R"(, {"name": "b)" + std::to_string(i) +
               R"(", "ports": [{"gids": [{"gid": "::ffff:10.0.0.)" + std::to_string(i + 2) +
               "\"}]}]}";
  devices += "]}";
  TwoLinks pair(6, {.hosts = devices.c_str()});
  ASSERT_TRUE(run(pair, 10000));
  EXPECT_EQ(pair.link(0).ready_paths(), 12U);
  // All end at once: there is room for all their completions.
  fake().set_port("a0", 1, false);
  for (int i = 0; i < 100; ++i) {
    pair.pass_time();
    for (int side = 0; side < 2; ++side) ASSERT_TRUE(pair.link(side).check());
  }
  fake().set_port("a0", 1, true);
  const Status done = run(pair, 100000);
  EXPECT_TRUE(done) << done.error().what;
}

TEST(VerbsLink, InfiniBandPortsMeetByTheirLids) {
  TwoLinks pair(7, {.hosts = R"({"devices": [
    {"name": "a0", "ports": [{"link": "infiniband", "lid": 5, "gids": [{"gid": "fe80::a"}]}]},
    {"name": "b0", "ports": [{"link": "infiniband", "lid": 6, "gids": [{"gid": "fe80::b"}]}]}]})"});
  const Status done = run(pair, 100000);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(pair.link(0).ready_paths(), 1U);
}

TEST(VerbsLink, AQueueOfCompletionsThatBreaksIsMadeAnew) {
  TwoLinks pair(8);
  ASSERT_TRUE(run(pair, 10000));
  fake().chances({.overrun = 1000000});
  for (int i = 0; i < 50; ++i) {
    pair.pass_time();
    for (int side = 0; side < 2; ++side) ASSERT_TRUE(pair.link(side).check());
  }
  fake().chances({});
  const Status done = run(pair, 100000);
  EXPECT_TRUE(done) << done.error().what << pair.link(0).report();
}

TEST(VerbsLink, ADeviceThatIsRemovedCostsNothingButAPath) {
  TwoLinks pair(2);
  ASSERT_TRUE(run(pair, 10000));
  fake().remove("b0");
  const Status done = run(pair, 100000);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(pair.link(1).ready_paths(), 1U);
}

TEST(VerbsLink, AnAddressThatMovesInTheTableIsFoundAgain) {
  TwoLinks pair(3);
  ASSERT_TRUE(run(pair, 10000));
  fake().set_gid("b0", 1, 0, "fe80::9");
  fake().set_gid("b0", 1, 1, "::ffff:10.0.0.2");
  const Status done = run(pair, 200000);
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(pair.link(0).ready_paths(), 2U);
}

TEST(VerbsLink, WithoutAnyPathTheErrorNamesThemAll) {
  TwoLinks pair(4);
  ASSERT_TRUE(run(pair, 10000));
  for (const char* device : {"a0", "b1"}) fake().set_port(device, 1, false);
  const Status done = run(pair, 100000);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kPeerFailed);
  EXPECT_THAT(done.error().what, HasSubstr("no RDMA path to rank"));
  EXPECT_THAT(done.error().what, HasSubstr("a0:1 (10.0.0.1, RoCE v2, MTU 4096)"));
  EXPECT_THAT(done.error().what, HasSubstr("b1:1 (10.0.1.2"));
  EXPECT_THAT(done.error().what, HasSubstr("its state is DOWN"));
}

}  // namespace
}  // namespace tutti::verbs
