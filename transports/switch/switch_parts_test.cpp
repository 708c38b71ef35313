// The parts of a switch's sockets that need no socket.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transports/switch/control.hpp"
#include "transports/switch/switch_address.hpp"
#include "transports/switch/tree_operations.hpp"

namespace tutti::in_network {
namespace {

using ::testing::HasSubstr;

Blob without_length(const Blob& message) {
  const auto found = first_message(message);
  EXPECT_TRUE(found && *found);
  return found && *found ? Blob((*found)->begin(), (*found)->end()) : Blob();
}

TEST(SwitchControl, CarriesAJoinAndAWelcome) {
  Join join{.workers = 8, .worker = 3, .slots = 64, .leaves = 5, .leaf = 4};
  join.job.fill(std::byte{9});
  const auto joined = decode_join(without_length(encode(join)));
  ASSERT_TRUE(joined) << joined.error().what;
  EXPECT_EQ(joined->job, join.job);
  EXPECT_EQ(joined->worker, 3U);
  EXPECT_EQ(joined->leaves, 5U);
  EXPECT_EQ(joined->leaf, 4U);

  Key key{};
  key.fill(std::byte{5});
  Welcome welcome{.session = 77, .slots = 16, .port = 4000};
  welcome.key.fill(std::byte{0x42});
  const Blob message = without_length(encode(welcome, key));
  const auto read = decode_welcome(message, key);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->key, welcome.key);
  EXPECT_EQ(read->session, 77U);
  const std::string seen(reinterpret_cast<const char*>(message.data()), message.size());
  EXPECT_EQ(seen.find(std::string(8, '\x42')), std::string::npos) << "the key travels in clear";
}

TEST(SwitchControl, RefusesWhatIsMalformed) {
  const Blob good = without_length(encode(Join{.workers = 2, .worker = 1, .slots = 4}));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_join(std::span(good).first(size)));
  EXPECT_FALSE(decode_join(without_length(encode(Join{.workers = 2, .worker = 2, .slots = 4}))));
  EXPECT_FALSE(decode_join(without_length(encode(Join{.workers = 2, .worker = 1, .slots = 0}))));
  for (const std::uint32_t leaves : {0U, 2U}) {
    const Join join{.workers = 2, .worker = 1, .slots = 4, .leaves = leaves, .leaf = 2};
    EXPECT_FALSE(decode_join(without_length(encode(join)))) << leaves;
  }
  const Blob huge = {std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}};
  EXPECT_FALSE(first_message(huge));
}

TEST(SwitchControl, ShortensALongRefusal) {
  const auto read =
      decode_welcome(without_length(encode(Welcome{.refusal = std::string(5000, 'x')}, Key{})), {});
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_THAT(read->refusal, HasSubstr("xxx"));
}

TEST(SwitchAddresses, AreAListOfHostsAndPorts) {
  const auto found = parse_switches("10.0.0.9:7000,[fe80::1]:7001,node9:7002");
  ASSERT_TRUE(found) << found.error().what;
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[1].host, "fe80::1");
  EXPECT_EQ((*found)[2].port, 7002);
  for (const char* bad : {"10.0.0.9", ":7000", "a:0", "a:x", "a:70000", "a:1,,b:2"})
    EXPECT_FALSE(parse_switches(bad)) << bad;
  EXPECT_TRUE(parse_switches("")->empty());
  const auto above = parse_switch("10.0.0.9", "--above");
  ASSERT_FALSE(above);
  EXPECT_THAT(above.error().what, HasSubstr("--above: HOST:PORT was expected"));
}

// --- parts of tree operations

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i);
  return data;
}

TEST(TreeOperations, AreOneCollectiveWhereBlocksHaveOneSizeAndLieTogether) {
  const auto input = numbered(48);
  std::vector<std::byte> output(16);
  const std::span<const std::byte> all(input);
  const std::span<const std::byte> sources[] = {all.subspan(0, 16), all.subspan(16, 16),
                                                all.subspan(32, 16)};
  const std::span<std::byte> destinations[] = {output};
  TreeOperations operations({.form = TreeForm::kSumInParts,
                             .bytes = 48,
                             .first_received = 16,
                             .sources = sources,
                             .destinations = destinations},
                            1, 3);
  ASSERT_NE(operations.next(), nullptr);
  EXPECT_EQ(operations.next()->collective, Collective::kReduceScatter);
  EXPECT_EQ(operations.next()->count, 4U);
  EXPECT_EQ(operations.next()->input, input.data());
  EXPECT_EQ(operations.next()->output, output.data());
  operations.pop();
  EXPECT_EQ(operations.next(), nullptr);
}

TEST(TreeOperations, GatherWhatIsScatteredAndDeliverItAgain) {
  auto data = numbered(64);
  const std::span<std::byte> all(data);
  const std::span<const std::byte> sources[] = {all.subspan(0, 8), all.subspan(32, 8)};
  const std::span<std::byte> destinations[] = {all.subspan(0, 8), all.subspan(32, 8)};
  TreeOperations operations(
      {.form = TreeForm::kSumToAll, .bytes = 16, .sources = sources, .destinations = destinations},
      0, 2);
  const Operation operation = *operations.next();
  EXPECT_EQ(operation.collective, Collective::kAllReduce);
  EXPECT_EQ(std::memcmp(operation.input + 8, data.data() + 32, 8), 0);
  std::memset(operation.output, 0x7f, 16);
  operations.pop();
  operations.deliver();
  EXPECT_EQ(data[39], std::byte{0x7f});
  EXPECT_EQ(data[8], std::byte{8});
}

TEST(TreeOperations, CutPartsOfSeveralSizesOutOfASumForAll) {
  const auto input = numbered(20);
  std::vector<std::byte> output(8);
  const std::span<const std::byte> all(input);
  const std::span<const std::byte> sources[] = {all.subspan(0, 12), all.subspan(12, 8)};
  const std::span<std::byte> destinations[] = {output};
  TreeOperations operations({.form = TreeForm::kSumInParts,
                             .bytes = 20,
                             .first_received = 12,
                             .sources = sources,
                             .destinations = destinations},
                            1, 2);
  const Operation operation = *operations.next();
  EXPECT_EQ(operation.collective, Collective::kAllReduce);
  EXPECT_EQ(operation.count, 5U);
  std::memcpy(operation.output, input.data(), 20);
  operations.pop();
  operations.deliver();
  EXPECT_EQ(output[0], std::byte{12});
}

TEST(TreeOperations, SendBlocksOfSeveralSizesOneAfterTheOther) {
  const auto input = numbered(4);
  std::vector<std::byte> output(12);
  const std::span<std::byte> to(output);
  const std::span<const std::byte> sources[] = {input};
  const std::span<std::byte> destinations[] = {to.first(4), to.last(8), to.first(0)};
  TreeOperations operations(
      {.form = TreeForm::kFromAll, .bytes = 12, .sources = sources, .destinations = destinations},
      0, 3);
  EXPECT_EQ(operations.next()->collective, Collective::kBroadcast);
  EXPECT_EQ(operations.next()->input, input.data());
  operations.pop();
  ASSERT_NE(operations.next(), nullptr);
  EXPECT_EQ(operations.next()->root, 1);
  EXPECT_EQ(operations.next()->count, 8U);
  std::memset(operations.next()->output, 0x55, 8);
  operations.pop();
  EXPECT_EQ(operations.next(), nullptr) << "the third block is empty";
  operations.deliver();
  EXPECT_EQ(output[3], std::byte{3});
  EXPECT_EQ(output[11], std::byte{0x55});
}

TEST(TreeOperations, MulticastFromOneMember) {
  const auto input = numbered(16);
  std::vector<std::byte> output(16);
  const std::span<const std::byte> sources[] = {input};
  const std::span<std::byte> destinations[] = {output};
  TreeOperations root({.form = TreeForm::kFromOne,
                       .root = 1,
                       .bytes = 16,
                       .sources = sources,
                       .destinations = destinations},
                      1, 2);
  EXPECT_EQ(output, input) << "its own copy does not come back";
  EXPECT_EQ(root.next()->output, nullptr);
  TreeOperations other(
      {.form = TreeForm::kFromOne, .root = 1, .bytes = 16, .destinations = destinations}, 0, 2);
  EXPECT_EQ(other.next()->input, nullptr);
  EXPECT_EQ(other.next()->output, output.data());
  EXPECT_EQ(other.next()->root, 1);
}

}  // namespace
}  // namespace tutti::in_network
