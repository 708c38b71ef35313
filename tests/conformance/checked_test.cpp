// Damaged messages become errors that name both ranks, and only with checksums are they found.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/clock.hpp"
#include "src/transport/checked_connection.hpp"
#include "tests/conformance/connected_pair.hpp"

namespace tutti::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StreamId kStream{.communicator = 1, .source = 0, .destination = 1, .lane = 2};

/// Sends something else than it was asked to: what a bad cable or a bad DIMM does.
class DamagingConnection final : public Connection {
 public:
  using Damage = std::function<void(std::vector<std::byte>&)>;
  DamagingConnection(std::shared_ptr<Connection> below, Damage damage)
      : below_(std::move(below)), damage_(std::move(damage)) {}

  void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer) override {
    if (stream.lane != kStream.lane) return below_->send(stream, tag, data, transfer);
    sent_.assign(data.begin(), data.end());
    damage_(sent_);
    below_->send(stream, tag, sent_, transfer);
  }
  void send_with_next(const StreamId& stream, const MessageTag& tag,
                      std::span<const std::byte> data, Transfer& transfer) override {
    send(stream, tag, data, transfer);
  }
  void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
            Transfer& transfer) override {
    below_->recv(stream, tag, data, transfer);
  }
  void cancel(const StreamId& stream, Transfer& transfer) override {
    below_->cancel(stream, transfer);
  }
  bool progress() override { return below_->progress(); }
  [[nodiscard]] int poll_fd() const override { return below_->poll_fd(); }
  [[nodiscard]] bool wants_write() const override { return below_->wants_write(); }
  [[nodiscard]] Status health() const override { return below_->health(); }
  [[nodiscard]] std::span<std::byte> mapped() const override { return below_->mapped(); }
  [[nodiscard]] pid_t local_pid() const override { return below_->local_pid(); }

 private:
  const std::shared_ptr<Connection> below_;
  const Damage damage_;
  std::vector<std::byte> sent_;
};

/// One message of `bytes` from rank 0 to rank 1; how its receive ends.
Status pass(CheckedConnection& from, CheckedConnection& to, std::size_t bytes) {
  const MessageTag tag{7, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, bytes}};
  std::vector<std::byte> data(bytes);
  std::mt19937 random(3);
  for (std::byte& byte : data) byte = std::byte(random());
  std::vector<std::byte> got(bytes);
  Transfer out, in;
  to.recv(kStream, tag, got, in);
  from.send(kStream, tag, data, out);
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  const auto is_pending = [](const Transfer& one) {
    return one.state == Transfer::State::kPending;
  };
  while ((is_pending(in) || is_pending(out)) && !deadline.passed()) {
    from.progress();
    to.progress();
  }
  from.cancel(kStream, out);  // does something only if it never ended
  to.cancel(kStream, in);
  if (in.state == Transfer::State::kFailed) return Error(in.error);
  EXPECT_EQ(in.state, Transfer::State::kDone);
  EXPECT_TRUE(got == data) << "wrong bytes, and no error";
  return ok_status();
}

Status pass(std::size_t bytes, const DamagingConnection::Damage& damage) {
  ConnectedPair pair = loopback_medium().connect();
  CheckedConnection from(std::make_shared<DamagingConnection>(pair.a, damage));
  CheckedConnection to(pair.b);
  return pass(from, to, bytes);
}

TEST(Checksums, AreRightWhereNothingIsDamaged) {
  for (const std::size_t bytes : {0, 1, 5, 131072, 131073, 400000})
    EXPECT_TRUE(pass(bytes, [](auto&) {})) << bytes;
}

TEST(Checksums, FindASingleWrongBitAnywhere) {
  for (const std::size_t bytes : {1, 70000, 300000})
    for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1}) {
      const Status passed = pass(bytes, [&](auto& data) { data[at] ^= std::byte{4}; });
      ASSERT_FALSE(passed) << bytes << " " << at;
      EXPECT_EQ(passed.error().code, Code::kPeerFailed);
      EXPECT_EQ(passed.error().peer, 0);
    }
}

TEST(Checksums, FindPiecesThatChangedPlaces) {
  constexpr std::size_t kPiece = 128 << 10;
  const Status passed = pass(
      2 * kPiece, [](auto& data) { std::rotate(data.begin(), data.begin() + kPiece, data.end()); });
  ASSERT_FALSE(passed);
  EXPECT_THAT(passed.error().what, HasSubstr("bytes 0 to 131071"));
}

TEST(Checksums, NameBothRanksTheCallAndThePlace) {
  const Status passed = pass(300000, [](auto& data) { data[140000] ^= std::byte{1}; });
  ASSERT_FALSE(passed);
  EXPECT_THAT(passed.error().what,
              AllOf(HasSubstr("rank 0 to rank 1"), HasSubstr("all_reduce(count=300000"),
                    HasSubstr("operation 7"), HasSubstr("bytes 131072 to 262143"),
                    HasSubstr("CRC32C"), HasSubstr("network")));
}

#if TUTTI_HAVE_IBVERBS
TEST(Checksums, LetNothingPassThatAnRdmaDeviceSpoilt) {
  if (std::getenv("TUTTI_TEST_RDMA") != nullptr)  // NOLINT(concurrency-mt-unsafe)
    GTEST_SKIP() << "real devices spoil nothing when they are asked to";
  int found = 0;
  for (int round = 0; round < 200 && found < 5; ++round) {
    ConnectedPair pair = damaging_verbs_medium().connect();
    CheckedConnection from(pair.a);
    CheckedConnection to(pair.b);
    for (int message = 0; message < 10; ++message) {
      const Status passed = pass(from, to, 300000);
      if (passed) continue;
      // A frame of the stream may be hit, too, which the message engine finds.
      if (passed.error().what.find("damaged on its way") != std::string::npos) ++found;
      EXPECT_EQ(passed.error().code, Code::kPeerFailed) << passed.error().what;
      break;
    }
  }
  EXPECT_GT(found, 0);
}
#endif

}  // namespace
}  // namespace tutti::testing
