// The host of plugins for collectives in the network, over mocks of every version.
#include "src/plugin/collnet_plugin.hpp"

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "src/base/float_formats.hpp"
#include "src/plugin/test_plugins.hpp"

namespace tutti::plugin {
namespace {

using ::testing::AllOf;
using testing::FreshPlugin;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr StartOptions kNoTrial{.trial = Nanos::zero()};
constexpr auto kPatience = std::chrono::seconds(30);

std::shared_ptr<CollNetPlugin> opened(const FreshPlugin& mock) {
  auto plugin = CollNetPlugin::open(mock.file(), kNoTrial);
  EXPECT_TRUE(plugin) << plugin.error().what;
  return *plugin;
}

/// Memory of a rank, registered with its group.
struct Buffer {
  std::shared_ptr<Bytes> bytes;
  SharedRegistration memory;

  Buffer(CollNetGroup& group, std::size_t size)
      : bytes(std::make_shared<Bytes>(std::max<std::size_t>(size, 1))) {
    auto registered = group.register_memory({std::span(*bytes), bytes});
    EXPECT_TRUE(registered) << registered.error().what;
    memory = *registered;
  }
  [[nodiscard]] Part part(std::size_t at, std::size_t size) const {
    return {std::span(*bytes).subspan(at, size), memory};
  }
};

/// Runs the ranks of a group, each on its own thread.
void with_ranks(const std::shared_ptr<CollNetPlugin>& plugin, int ranks,
                const std::function<void(CollNetGroup&)>& life) {
  std::vector<std::unique_ptr<CollNetListener>> listeners;
  std::vector<Handle> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    auto listener = plugin->listen(0);
    ASSERT_TRUE(listener) << listener.error().what;
    addresses.push_back((*listener)->address());
    listeners.push_back(*std::move(listener));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto group = plugin->connect(*listeners[static_cast<std::size_t>(rank)], addresses, rank);
      ASSERT_TRUE(group) << group.error().what;
      life(**group);
    });
  for (std::thread& thread : threads) thread.join();
}

using Issue = std::function<Result<std::optional<Request>>()>;

/// Asks until the plugin does not refuse.
Result<Request> insist(const Issue& issue) {
  const Deadline deadline = Deadline::after(kPatience);
  for (;;) {
    auto request = issue();
    if (!request) return std::move(request).error();
    if (*request) return *std::move(*request);
    if (deadline.passed()) return Error{Code::kTimeout, "refused all the time"};
  }
}

Status finish(Request& request) {
  const Deadline deadline = Deadline::after(kPatience);
  for (;;) {
    const auto done = request.test();
    if (!done) return done.error();
    if (*done) return ok_status();
    if (deadline.passed()) return Error{Code::kTimeout, "it does not come to its end"};
  }
}

Status run(const Issue& issue) {
  auto request = insist(issue);
  if (!request) return request.error();
  return finish(*request);
}

double value_at(DataType type, const std::byte* data) {
  const auto read = [&](auto zero) {
    std::memcpy(&zero, data, sizeof zero);
    return zero;
  };
  switch (type) {
    case DataType::kInt8:
      return read(std::int8_t{});
    case DataType::kUint8:
      return read(std::uint8_t{});
    case DataType::kInt32:
      return read(std::int32_t{});
    case DataType::kUint32:
      return read(std::uint32_t{});
    case DataType::kInt64:
      return static_cast<double>(read(std::int64_t{}));
    case DataType::kUint64:
      return static_cast<double>(read(std::uint64_t{}));
    case DataType::kFloat16:
      return widen<Float16>(read(std::uint16_t{}));
    case DataType::kBfloat16:
      return widen<Bfloat16>(read(std::uint16_t{}));
    case DataType::kFloat32:
      return read(float{});
    default:
      return read(double{});
  }
}

void put_value(DataType type, std::byte* data, int value) {
  const auto write = [&](auto typed) { std::memcpy(data, &typed, sizeof typed); };
  switch (type) {
    case DataType::kInt8:
      return write(static_cast<std::int8_t>(value));
    case DataType::kUint8:
      return write(static_cast<std::uint8_t>(value));
    case DataType::kInt32:
      return write(std::int32_t{value});
    case DataType::kUint32:
      return write(static_cast<std::uint32_t>(value));
    case DataType::kInt64:
      return write(std::int64_t{value});
    case DataType::kUint64:
      return write(static_cast<std::uint64_t>(value));
    case DataType::kFloat16:
      return write(narrow<Float16>(static_cast<float>(value)));
    case DataType::kBfloat16:
      return write(narrow<Bfloat16>(static_cast<float>(value)));
    case DataType::kFloat32:
      return write(static_cast<float>(value));
    default:
      return write(static_cast<double>(value));
  }
}

/// What rank `rank` has at element `i`: small, so that sums are exact in every type.
int element(std::size_t rank, std::size_t i) { return static_cast<int>((rank * 3 + i) % 8); }

double expected(std::size_t ranks, std::size_t i, ReduceOp op) {
  double value = element(0, i);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const double other = element(rank, i);
    value = op == ReduceOp::kSum   ? value + other
            : op == ReduceOp::kMax ? std::max(value, other)
                                   : std::min(value, other);
  }
  return value;
}

void fill(const Buffer& buffer, DataType type, std::size_t rank, std::size_t first_element = 0) {
  const std::size_t size = size_of(type);
  for (std::size_t at = 0; at + size <= buffer.bytes->size(); at += size)
    put_value(type, buffer.bytes->data() + at, element(rank, first_element + at / size));
}

class CollNet : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static int version() { return GetParam(); }
};

TEST_P(CollNet, SaysWhatItIs) {
  const FreshPlugin mock(version());
  const auto plugin = opened(mock);
  EXPECT_EQ(plugin->name(), "MockColl");
  EXPECT_EQ(plugin->version(), version());
  EXPECT_THAT(plugin->who(), AllOf(HasSubstr("the collective network plugin MockColl"),
                                   HasSubstr(fmt::format("version {})", version()))));
  ASSERT_EQ(plugin->devices().size(), 2u);
  const DeviceProperties& second = plugin->devices()[1];
  EXPECT_EQ(second.name, "mock0");
  EXPECT_EQ(second.pci_path, "/sys/devices/mock");
  EXPECT_EQ(second.guid, 2u);
  EXPECT_TRUE(second.takes_host_memory);
  EXPECT_FALSE(second.takes_cuda_memory);
  EXPECT_EQ(second.mbit_per_s, 10000);
  EXPECT_EQ(second.most_receives, 4);
  EXPECT_EQ(second.physical_devices, std::vector<int>{1});
  EXPECT_EQ(second.most_collective_bytes,
            version() >= 9 ? std::size_t{1} << 32 : abi::kOldMostCollectiveBytes);
  EXPECT_EQ(second.rail, version() >= 12 ? 3 : -1);
  EXPECT_EQ(second.plane, version() >= 12 ? 4 : -1);
}

TEST_P(CollNet, ReducesEveryTypeThatSharpKnows) {
  constexpr std::size_t kElements = 37;
  const FreshPlugin mock(version());
  with_ranks(opened(mock), 3, [](CollNetGroup& group) {
    for (int type = 0; type < kDataTypes; ++type)
      for (int op = 0; op < kReduceOps; ++op) {
        const Reduction reduction{static_cast<DataType>(type), static_cast<ReduceOp>(op)};
        const auto supported = group.supports(reduction);
        ASSERT_TRUE(supported);
        const bool known = op == 0 || op == 2 || op == 3;
        ASSERT_EQ(*supported, known && type <= static_cast<int>(DataType::kBfloat16));
        if (!*supported) continue;
        const std::size_t bytes = kElements * size_of(reduction.type);
        const Buffer buffer(group, bytes);
        fill(buffer, reduction.type, group.rank());
        const Part part = buffer.part(0, bytes);
        const Status done = run([&] { return group.all_reduce(part, part, reduction); });
        ASSERT_TRUE(done) << done.error().what;
        for (std::size_t i = 0; i < kElements; ++i)
          ASSERT_EQ(value_at(reduction.type, buffer.bytes->data() + i * size_of(reduction.type)),
                    expected(3, i, reduction.op))
              << name_of(reduction.type) << " " << name_of(reduction.op) << " at " << i;
      }
  });
}

/// Several all-reduces under way at once, of random sizes.
void reduce_in_a_row(CollNetGroup& group, std::uint64_t seed) {
  constexpr std::size_t kRow = 12;
  constexpr std::size_t kMost = 50000;
  std::mt19937_64 random(seed);  // the same on all ranks
  std::vector<std::size_t> counts(kRow);
  for (std::size_t& count : counts) count = random() % (kMost / 4);
  const Buffer send(group, kMost);
  fill(send, DataType::kInt32, group.rank());
  std::vector<Buffer> receives;
  std::vector<Request> requests;
  for (const std::size_t count : counts) {
    receives.emplace_back(group, count * 4);
    const Deadline deadline = Deadline::after(kPatience);
    for (;;) {
      auto request = group.all_reduce(send.part(0, count * 4), receives.back().part(0, count * 4),
                                      {DataType::kInt32, ReduceOp::kSum});
      ASSERT_TRUE(request) << request.error().what;
      if (*request) {
        requests.push_back(*std::move(*request));
        break;
      }
      ASSERT_FALSE(deadline.passed());
      for (Request& earlier : requests)
        if (!earlier.is_over()) {
          ASSERT_TRUE(earlier.test());
        }
    }
  }
  for (Request& request : requests)
    if (!request.is_over()) {
      ASSERT_TRUE(finish(request));
    }
  for (std::size_t k = 0; k < kRow; ++k)
    for (std::size_t i = 0; i < counts[k]; ++i)
      ASSERT_EQ(value_at(DataType::kInt32, receives[k].bytes->data() + i * 4),
                expected(group.ranks(), i, ReduceOp::kSum))
          << "call " << k << " element " << i;
}

TEST_P(CollNet, ReducesRightWhateverThePluginRefusesAtFirst) {
  const std::uint64_t seed = std::random_device{}() % 100000 + 1;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (const int ranks : {1, 2, 5}) {
    const FreshPlugin mock(version(), fmt::format("seed={}", seed));
    with_ranks(opened(mock), ranks, [&](CollNetGroup& group) { reduce_in_a_row(group, seed); });
  }
}

/// Windows that cut blocks, the last one shorter.
void gather_and_scatter(CollNetGroup& group, std::size_t block, std::size_t step) {
  const std::size_t size = size_of(DataType::kUint32);
  const std::size_t all = group.ranks() * block;
  const Buffer own(group, block), whole(group, all), sums(group, block);
  fill(own, DataType::kUint32, group.rank(), group.rank() * block / size);
  for (std::size_t at = 0; at < all; at += step) {
    const Window window{block, at, std::min(step, all - at)};
    const std::size_t first = std::max(at, group.rank() * block) - group.rank() * block;
    const Part mine = own.part(std::min(first, block), group.own_bytes(window));
    const Status gathered =
        run([&] { return group.all_gather(mine, whole.part(at, window.bytes), window); });
    ASSERT_TRUE(gathered) << gathered.error().what;
  }
  // The elements of rank r's block are r's.
  for (std::size_t i = 0; i < all / size; ++i)
    ASSERT_EQ(value_at(DataType::kUint32, whole.bytes->data() + i * size),
              element(i / (block / size), i));

  fill(whole, DataType::kUint32, group.rank());
  for (std::size_t at = 0; at < all; at += step) {
    const Window window{block, at, std::min(step, all - at)};
    const std::size_t first = std::max(at, group.rank() * block) - group.rank() * block;
    const Part mine = sums.part(std::min(first, block), group.own_bytes(window));
    const Status scattered = run([&] {
      return group.reduce_scatter(whole.part(at, window.bytes), mine, window,
                                  {DataType::kUint32, ReduceOp::kSum});
    });
    ASSERT_TRUE(scattered) << scattered.error().what;
  }
  for (std::size_t i = 0; i < block / size; ++i)
    ASSERT_EQ(value_at(DataType::kUint32, sums.bytes->data() + i * size),
              expected(group.ranks(), group.rank() * block / size + i, ReduceOp::kSum));
}

TEST_P(CollNet, GathersAndScattersWindowsFromVersion8On) {
  for (const char* options : {"", "seed=11"}) {
    const FreshPlugin mock(version(), options);
    with_ranks(opened(mock), 3, [](CollNetGroup& group) {
      ASSERT_EQ(group.gathers(), version() >= 8);
      ASSERT_EQ(group.scatters(), version() >= 8);
      if (version() >= 8) return gather_and_scatter(group, 4000, 2800);
      const Buffer buffer(group, 12);
      const auto gathered = group.all_gather(buffer.part(0, 4), buffer.part(0, 12), {4, 0, 12});
      ASSERT_FALSE(gathered);
      EXPECT_EQ(gathered.error().code, Code::kUnsupported);
      EXPECT_THAT(gathered.error().what, HasSubstr("has no iallgather"));
    });
  }
}

TEST_P(CollNet, FlushesOrHasNothingToWaitFor) {
  const FreshPlugin mock(version(), "seed=5");
  with_ranks(opened(mock), 1, [](CollNetGroup& group) {
    const Buffer buffer(group, 100);
    for (int i = 0; i < 20; ++i) {
      auto flushed = group.flush(buffer.part(0, 100));
      ASSERT_TRUE(flushed) << flushed.error().what;
      if (*flushed) {
        ASSERT_TRUE(finish(**flushed));
      }
    }
  });
}

TEST_P(CollNet, RefusesWhatItsVersionCannotSay) {
  const FreshPlugin mock(version());
  with_ranks(opened(mock), 1, [](CollNetGroup& group) {
    const std::size_t huge = (std::size_t{1} << 31) + 8;
    void* const memory = ::mmap(nullptr, huge, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const std::span<std::byte> bytes(static_cast<std::byte*>(memory), huge);
    const auto registered = group.register_memory({bytes});
    ASSERT_EQ(registered.ok(), version() >= 8);
    if (!registered) {
      EXPECT_EQ(registered.error().code, Code::kInvalidArgument);
      EXPECT_THAT(registered.error().what, HasSubstr("at most 2147483647 bytes at once"));
    } else if (version() == 8) {
      const Part all{bytes, *registered};
      const auto reduced = group.all_reduce(all, all, {DataType::kInt8, ReduceOp::kSum});
      ASSERT_FALSE(reduced);
      EXPECT_EQ(reduced.error().code, Code::kInvalidArgument);
    }
    ::munmap(memory, huge);
  });
}

TEST_P(CollNet, RefusesMemoryThatIsNotRegistered) {
  const FreshPlugin mock(version());
  with_ranks(opened(mock), 1, [](CollNetGroup& group) {
    const Buffer buffer(group, 64);
    Bytes elsewhere(64);
    const Part good = buffer.part(0, 64);
    const Reduction sum{DataType::kInt32, ReduceOp::kSum};
    for (const Part& bad : {Part{elsewhere, buffer.memory}, Part{good.bytes, nullptr},
                            Part{{good.bytes.data() + 4, 64}, buffer.memory}}) {
      const auto refused = group.all_reduce(bad, good, sum);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    }
    EXPECT_FALSE(group.all_reduce(buffer.part(0, 60), good, sum));
    EXPECT_FALSE(group.all_reduce(buffer.part(0, 6), buffer.part(0, 6), sum));
  });
}

TEST_P(CollNet, IssuesNoMoreThanThePluginTakes) {
  const FreshPlugin mock(version());
  with_ranks(opened(mock), 2, [](CollNetGroup& group) {
    const Buffer buffer(group, 4);
    const Part part = buffer.part(0, 4);
    std::vector<Request> requests;
    for (;;) {
      auto request = group.all_reduce(part, part, {DataType::kInt32, ReduceOp::kSum});
      ASSERT_TRUE(request);
      if (!*request) break;
      requests.push_back(*std::move(*request));
    }
    EXPECT_EQ(requests.size(), version() == 6 ? 8u : 32u);
    EXPECT_FALSE(group.has_room());
    for (Request& request : requests) ASSERT_TRUE(finish(request));
    EXPECT_EQ(group.under_way(), 0);
  });
}

TEST_P(CollNet, AnErrorSaysWhatFailedAndWhere) {
  const FreshPlugin mock(version(), "fail=coll.iallreduce:3:2");
  with_ranks(opened(mock), 1, [](CollNetGroup& group) {
    const Buffer buffer(group, 4);
    const Part part = buffer.part(0, 4);
    const Issue issue = [&] {
      return group.all_reduce(part, part, {DataType::kInt32, ReduceOp::kSum});
    };
    ASSERT_TRUE(run(issue));
    ASSERT_TRUE(run(issue));
    const Status failed = run(issue);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kUnavailable);
    EXPECT_THAT(failed.error().what, AllOf(HasSubstr("MockColl"),
                                           HasSubstr("failed in iallreduce: a system error (2)")));
  });
}

TEST_P(CollNet, AllRanksLearnOfAFailureInTheMiddle) {
  for (const char* options : {"cut=3", "fail=coll.test:20", "seed=3,cut=2"}) {
    SCOPED_TRACE(options);
    const FreshPlugin mock(version(), options);
    with_ranks(opened(mock), 3, [](CollNetGroup& group) {
      const Buffer buffer(group, 400000);
      const Part part = buffer.part(0, 400000);
      Status last = ok_status();
      for (int i = 0; i < 100 && last; ++i)
        last =
            run([&] { return group.all_reduce(part, part, {DataType::kInt32, ReduceOp::kMax}); });
      ASSERT_FALSE(last);
      EXPECT_EQ(last.error().code, Code::kPeerFailed);
      EXPECT_EQ(group.under_way(), 0);
    });
  }
}

TEST_P(CollNet, ErrorsAtRandomHitSomeRanksAndHarmNone) {
  const FreshPlugin mock(version(), "errors=30,seed=8");
  with_ranks(opened(mock), 1, [](CollNetGroup& group) {
    const Buffer buffer(group, 400);
    const Part part = buffer.part(0, 400);
    int failures = 0;
    for (int i = 0; i < 50; ++i) {
      const Status done =
          run([&] { return group.all_reduce(part, part, {DataType::kInt32, ReduceOp::kMin}); });
      if (done) continue;
      EXPECT_THAT(done.error().what, HasSubstr("failed in iallreduce: an internal error (3)"));
      ++failures;
    }
    EXPECT_GT(failures, 0);
    EXPECT_LT(failures, 50);
    EXPECT_EQ(group.under_way(), 0);
  });
}

TEST_P(CollNet, ADroppedRequestKeepsItsMemory) {
  const FreshPlugin mock(version());
  std::weak_ptr<Bytes> memory;
  {
    const auto plugin = opened(mock);
    auto listeners = std::vector<std::unique_ptr<CollNetListener>>();
    for (int i = 0; i < 2; ++i) listeners.push_back(*plugin->listen(0));
    const std::vector<Handle> addresses{listeners[0]->address(), listeners[1]->address()};
    std::shared_ptr<CollNetGroup> other;
    std::thread second([&] { other = *plugin->connect(*listeners[1], addresses, 1); });
    const auto group = *plugin->connect(*listeners[0], addresses, 0);
    second.join();
    const Buffer buffer(*group, 64);
    memory = buffer.bytes;
    const Part part = buffer.part(0, 64);
    auto request = group->all_reduce(part, part, {DataType::kInt32, ReduceOp::kSum});
    ASSERT_TRUE(request && *request);
  }
  EXPECT_FALSE(memory.expired());
}

TEST_P(CollNet, MaySayThatItLacksReductions) {
  const FreshPlugin mock(version(), "unsupported=50,seed=4");
  int supported = 0;
  with_ranks(opened(mock), 1, [&](CollNetGroup& group) {
    for (int type = 0; type < 10; ++type)
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax})
        supported += *group.supports({static_cast<DataType>(type), op}) ? 1 : 0;
  });
  EXPECT_GT(supported, 0);
  EXPECT_LT(supported, 30);
}

TEST_P(CollNet, IsRefusedWithoutAFunctionThatIsNeeded) {
  for (const char* function :
       {"init", "devices", "getProperties", "listen", "connect", "reduceSupport", "regMr",
        "deregMr", "iallreduce", "test", "closeColl", "closeListen"}) {
    const FreshPlugin mock(version(), fmt::format("null=coll.{}", function));
    const auto plugin = CollNetPlugin::open(mock.file(), kNoTrial);
    ASSERT_FALSE(plugin) << function;
    EXPECT_EQ(plugin.error().code, Code::kUnsupported);
    EXPECT_THAT(plugin.error().what, HasSubstr(fmt::format("has no function {}", function)));
  }
}

TEST_P(CollNet, MayBeOpenedTwice) {
  const FreshPlugin mock(version());
  const auto first = opened(mock);
  const auto second = opened(mock);
  EXPECT_EQ(first->version(), second->version());
}

INSTANTIATE_TEST_SUITE_P(Versions, CollNet, ::testing::ValuesIn(testing::all_versions()),
                         [](const auto& info) { return "V" + std::to_string(info.param); });

TEST(CollNetOfSharp, MayTakeCollectivesAway) {
  const FreshPlugin mock(9, "null=coll.iallgather");
  with_ranks(opened(mock), 1, [](CollNetGroup& group) {
    EXPECT_FALSE(group.gathers());
    EXPECT_TRUE(group.scatters());
  });
}

}  // namespace
}  // namespace tutti::plugin
