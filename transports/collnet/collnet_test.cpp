// What of trees over plugins needs no plugin: steps, watches, messages; and one that fails.
#include <array>
#include <cstring>
#include <future>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transports/collnet/collnet_steps.hpp"
#include "transports/collnet/join_message.hpp"
#include "transports/collnet/member_watch.hpp"

namespace tutti::collnet {
namespace {

using Bytes = std::vector<std::byte>;

// --- steps ---

/// Cuts [0, bytes) at random into `count` pieces, some of which may be empty.
std::vector<std::size_t> cuts(std::size_t bytes, std::size_t count, std::mt19937& random) {
  std::vector<std::size_t> ends{0, bytes};
  for (std::size_t i = 1; i < count; ++i) ends.push_back(random() % (bytes + 1));
  std::ranges::sort(ends);
  return ends;
}

/// Memory in pieces that do not follow each other.
struct Scattered {
  std::vector<Bytes> memory;
  std::vector<std::span<std::byte>> spans;
  std::vector<std::span<const std::byte>> const_spans;

  Scattered() = default;
  Scattered(const Bytes& data, const std::vector<std::size_t>& ends) {
    for (std::size_t i = 0; i + 1 < ends.size(); ++i)
      memory.emplace_back(data.begin() + static_cast<std::ptrdiff_t>(ends[i]),
                          data.begin() + static_cast<std::ptrdiff_t>(ends[i + 1]));
    for (Bytes& piece : memory) {
      spans.emplace_back(piece);
      const_spans.emplace_back(piece);
    }
  }
  [[nodiscard]] Bytes joined() const {
    Bytes all;
    for (const Bytes& piece : memory) all.insert(all.end(), piece.begin(), piece.end());
    return all;
  }
};

Bytes random_data(std::size_t bytes, std::mt19937& random) {
  Bytes data(bytes);
  for (std::byte& each : data) each = static_cast<std::byte>(random() % 16);
  return data;
}

/// Members of a group whose plugin is the test: it sums uint8.
class Members {
 public:
  Members(TreeForm form, std::size_t root, std::vector<std::size_t> blocks, std::size_t most_bytes,
          bool scatters, std::mt19937& random)
      : form_(form), root_(root), blocks_(std::move(blocks)), members_(blocks_.size()) {
    for (const std::size_t bytes : blocks_) begins_.push_back(begins_.back() + bytes);
    for (std::size_t place = 0; place < members_; ++place) {
      const bool from_all = form == TreeForm::kFromAll;
      inputs_.push_back(random_data(from_all ? blocks_[place] : total(), random));
      sources_.emplace_back(inputs_.back(),
                            piece_ends(from_all ? 1 : members_, from_all, place, random));
      const bool gets_all =
          form == TreeForm::kSumToAll || from_all || (form == TreeForm::kSumToOne && place == root);
      const bool gets_part = form == TreeForm::kSumInParts;
      destinations_.emplace_back();
      if (gets_all)
        destinations_.back() =
            Scattered(Bytes(total()), piece_ends(members_, false, place, random));
      if (gets_part) destinations_.back() = Scattered(Bytes(blocks_[place]), {0, blocks_[place]});
    }
    for (std::size_t place = 0; place < members_; ++place)
      steps_.emplace_back(part(place), StepLimits{members_, place, most_bytes, scatters});
  }

  void run() {
    while (steps_.front().has_next()) {
      std::vector<Step> steps;
      for (Steps& each : steps_) {
        ASSERT_TRUE(each.has_next());
        steps.push_back(each.take());
      }
      run(steps);
    }
    for (const Steps& each : steps_) EXPECT_FALSE(each.has_next());
  }
  void check() const {
    Bytes expected(total());
    for (std::size_t place = 0; place < members_; ++place)
      for (std::size_t i = 0; i < inputs_[place].size(); ++i) {
        std::byte& to = expected[i + (form_ == TreeForm::kFromAll ? begins_[place] : 0)];
        to = static_cast<std::byte>(std::to_integer<int>(to) +
                                    std::to_integer<int>(inputs_[place][i]));
      }
    for (std::size_t place = 0; place < members_; ++place) {
      if (destinations_[place].memory.empty()) continue;
      Bytes own = expected;
      if (form_ == TreeForm::kSumInParts)
        own.assign(expected.begin() + static_cast<std::ptrdiff_t>(begins_[place]),
                   expected.begin() + static_cast<std::ptrdiff_t>(begins_[place + 1]));
      EXPECT_EQ(destinations_[place].joined(), own) << "member " << place;
    }
  }
  [[nodiscard]] bool scattered() const { return scattered_; }

 private:
  [[nodiscard]] std::size_t total() const { return begins_.back(); }
  /// Ends of pieces that are equally many for each block.
  std::vector<std::size_t> piece_ends(std::size_t blocks, bool own, std::size_t place,
                                      std::mt19937& random) const {
    std::vector<std::size_t> ends{0};
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t bytes = blocks_[own ? place : block];
      const std::size_t begin = ends.back();
      const auto within = cuts(bytes, 3, random);
      for (std::size_t i = 1; i < within.size(); ++i) ends.push_back(begin + within[i]);
    }
    return ends;
  }
  TreePart part(std::size_t place) const {
    TreePart part{.form = form_,
                  .root = root_,
                  .type = DataType::kUint8,
                  .bytes = total(),
                  .sources = sources_[place].const_spans,
                  .destinations = destinations_[place].spans};
    if (form_ == TreeForm::kFromAll) part.first_sent = begins_[place];
    if (form_ == TreeForm::kSumInParts) part.first_received = begins_[place];
    return part;
  }

  void run(const std::vector<Step>& steps) {
    const plugin::Window& window = steps.front().window;
    Bytes result(window.bytes);
    for (std::size_t place = 0; place < members_; ++place) {
      EXPECT_EQ(steps[place].kind, steps.front().kind);
      EXPECT_EQ(steps[place].window.offset, window.offset);
      EXPECT_EQ(steps[place].window.bytes, window.bytes);
      EXPECT_EQ(steps[place].window.bytes_per_rank, window.bytes_per_rank);
      Bytes sent(steps_[place].sent_bytes(steps[place]), std::byte{0xee});
      steps_[place].fill(steps[place], sent);
      const std::size_t at =
          steps.front().kind == Step::Kind::kAllGather ? own_begin(window, place) : 0;
      for (std::size_t i = 0; i < sent.size(); ++i)
        result[at + i] = static_cast<std::byte>(std::to_integer<int>(result[at + i]) +
                                                std::to_integer<int>(sent[i]));
    }
    scattered_ |= steps.front().kind == Step::Kind::kReduceScatter;
    for (std::size_t place = 0; place < members_; ++place) {
      const bool in_parts = steps.front().kind == Step::Kind::kReduceScatter;
      const std::size_t at = in_parts ? own_begin(window, place) : 0;
      steps_[place].deliver(
          steps[place], std::span(result).subspan(at, steps_[place].received_bytes(steps[place])));
    }
  }
  static std::size_t own_begin(const plugin::Window& window, std::size_t place) {
    const std::size_t begin = std::max(window.offset, place * window.bytes_per_rank);
    return std::min(begin - window.offset, window.bytes);
  }

  const TreeForm form_;
  const std::size_t root_;
  const std::vector<std::size_t> blocks_;
  const std::size_t members_;
  std::vector<std::size_t> begins_{0};
  std::vector<Bytes> inputs_;
  std::vector<Scattered> sources_, destinations_;
  std::vector<Steps> steps_;
  bool scattered_ = false;
};

TEST(CollnetSteps, DoEveryFormInPiecesAndUnequalBlocks) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round)
    for (const TreeForm form :
         {TreeForm::kSumToAll, TreeForm::kSumToOne, TreeForm::kSumInParts, TreeForm::kFromAll}) {
      std::vector<std::size_t> blocks(2 + random() % 4, 1 + random() % 300);
      const bool equal = random() % 2 == 0;
      if (!equal)
        for (std::size_t& bytes : blocks) bytes = 1 + random() % 300;
      const std::size_t root = random() % blocks.size();
      const bool scatters = random() % 2 == 0;
      Members members(form, root, blocks, kLeastStepBytes + random() % 500, scatters, random);
      members.run();
      members.check();
      if (form == TreeForm::kSumInParts && equal) {
        EXPECT_EQ(members.scattered(), scatters);
      }
      if (::testing::Test::HasFailure()) return;
    }
}

TEST(CollnetSteps, CutNoElement) {
  const Bytes source(1000 * sizeof(double));
  Bytes destination(source.size());
  const std::array sources{std::span<const std::byte>(source)};
  const std::array destinations{std::span<std::byte>(destination)};
  Steps steps({.form = TreeForm::kSumToAll,
               .type = DataType::kFloat64,
               .bytes = source.size(),
               .sources = sources,
               .destinations = destinations},
              {.members = 2, .most_bytes = 101});
  std::size_t bytes = 0;
  while (steps.has_next()) {
    const Step step = steps.take();
    EXPECT_EQ(step.window.offset, bytes);
    EXPECT_EQ(step.window.bytes % sizeof(double), 0U);
    EXPECT_LE(step.window.bytes, 101U);
    bytes += step.window.bytes;
  }
  EXPECT_EQ(bytes, source.size());
}

// --- watches ---

constexpr auto kPatience = std::chrono::seconds(20);

SocketAddress loopback() { return {.family = 4, .port = 0, .address = {127, 0, 0, 1}}; }

struct Door {
  Fd listener = *listen_on(loopback());
  SocketAddress address = *local_address(listener.get());
};

WatchSecret secret_of(int number) {
  Key key{};
  key.fill(static_cast<std::byte>(number));
  return watch_secret(key, 1, 2);
}

bool breaks_soon(const MemberWatch& watch) {
  const Deadline deadline = Deadline::after(kPatience);
  while (!watch.is_broken() && !deadline.passed()) std::this_thread::yield();
  return watch.is_broken();
}

/// The ends of all members, in order.
std::vector<MemberWatch> meet(const Door& door, std::size_t members) {
  const Deadline deadline = Deadline::after(kPatience);
  std::vector<std::future<Result<MemberWatch>>> others;
  for (std::size_t place = members - 1; place > 0; --place)
    others.push_back(std::async(std::launch::async, [&door, place, deadline] {
      return meet_first(door.address, secret_of(1), place, deadline);
    }));
  auto first = meet_others(door.listener.get(), secret_of(1), members, deadline);
  EXPECT_TRUE(first) << first.error().what;
  std::vector<MemberWatch> all;
  all.push_back(*std::move(first));
  for (auto& other : others) {
    auto watch = other.get();
    EXPECT_TRUE(watch) << watch.error().what;
    all.insert(all.begin() + 1, *std::move(watch));
  }
  return all;
}

TEST(CollnetWatch, TellsAllMembersThroughTheFirst) {
  const Door door;
  auto watches = meet(door, 4);
  for (const MemberWatch& watch : watches) EXPECT_FALSE(watch.is_broken());
  watches[2].close();
  EXPECT_TRUE(breaks_soon(watches[0]));
  EXPECT_FALSE(watches[1].is_broken());
  watches[0].close();
  EXPECT_TRUE(breaks_soon(watches[1]));
  EXPECT_TRUE(breaks_soon(watches[3]));
}

TEST(CollnetWatch, LetsNoStrangerInAndNobodyWaitForOne) {
  Door door;
  std::vector<Fd> silent;
  for (int i = 0; i < 3; ++i)
    silent.push_back(*connect_once(door.address, Deadline::after(kPatience)));
  auto stranger = std::async(std::launch::async, [&] {
    return meet_first(door.address, secret_of(9), 1, Deadline::after(kPatience)).ok();
  });
  auto watches = meet(door, 2);
  EXPECT_FALSE(watches[0].is_broken());
  silent.clear();
  EXPECT_FALSE(watches[0].is_broken());
  door.listener.reset();
  EXPECT_FALSE(stranger.get());
}

TEST(CollnetWatch, MissesWhoDoesNotCome) {
  const Door door;
  const auto watch = meet_others(door.listener.get(), secret_of(1), 3,
                                 Deadline::after(std::chrono::milliseconds(30)));
  ASSERT_FALSE(watch);
  EXPECT_THAT(watch.error().what, ::testing::HasSubstr("2 of 2 members"));
}

// --- messages ---

TEST(CollnetJoin, MessagesSurviveTheJourney) {
  Seat seat{.watch = loopback().with_port(77)};
  seat.handle.fill(std::byte{5});
  const Arrival arrival{.refusal = "no", .plugin = "SHARP", .seats = {seat, Seat{}}};
  const auto arrived = decode_arrival(encode(arrival));
  ASSERT_TRUE(arrived) << arrived.error().what;
  EXPECT_EQ(*arrived, arrival);
  Terms terms{.refusal = "", .most_bytes = 1 << 20, .scatters = true};
  terms.abilities.add(DataType::kInt32, ReduceOp::kMax);
  const auto told = decode_terms(encode(terms));
  ASSERT_TRUE(told) << told.error().what;
  EXPECT_EQ(*told, terms);
}

/// No part of a message is one, and nothing may follow it.
template <class Decode>
void refuse_parts(Blob whole, const Decode& decode) {
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode(std::span<const std::byte>(whole).first(bytes))) << bytes;
  whole.push_back(std::byte{0});
  EXPECT_FALSE(decode(whole));
}

TEST(CollnetJoin, WhatMakesNoSenseIsRefused) {
  refuse_parts(encode(Arrival{.plugin = "SHARP", .seats = {Seat{}}}), decode_arrival);
  refuse_parts(encode(Terms{}), decode_terms);
  const Arrival crowd{.seats = std::vector<Seat>(kMostSeats + 1)};
  EXPECT_FALSE(decode_arrival(encode(crowd)));
}

}  // namespace
}  // namespace tutti::collnet
