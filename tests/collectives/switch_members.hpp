// Members of a group at switches that add, without communicators: each a thread, which joins by
// itself and posts what it likes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "src/bootstrap/in_process.hpp"
#include "transports/switch/switch_aggregation.hpp"

namespace tutti::testing {

using JoinedTrees = Result<std::vector<std::unique_ptr<AggregationTree>>>;

/// Joins as each member of a group, whose switches are at these ports of loopback. `body` gets what
/// came of it. Members leave when all are done, since the first to leave ends their session.
inline void run_members(const std::vector<std::uint16_t>& ports,
                        const std::function<void(Rank, const JoinedTrees&)>& body) {
  const auto members = static_cast<std::int32_t>(ports.size());
  auto group = in_process_group(members);
  std::vector<Rank> everyone(ports.size());
  std::iota(everyone.begin(), everyone.end(), Rank{0});
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < members; ++rank)
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      const Deadline deadline = Deadline::after(std::chrono::seconds(60));
      const auto gather = [&](std::span<const std::byte> mine) {
        return group[index]->all_gather(Blob(mine.begin(), mine.end()), deadline);
      };
      // However slow the machine is, the switches are not given up.
      SwitchOptions options{.switches = {{"127.0.0.1", ports[index]}},
                            .silence = std::chrono::seconds(30)};
      options.key.fill(std::byte{7});
      const auto aggregation = make_switch_aggregation(std::move(options));
      const JoinedTrees trees = aggregation->join({.groups = {everyone},
                                                   .rank = rank,
                                                   .ranks = members,
                                                   .communicator = 1,
                                                   .key = group[index]->key(),
                                                   .all_gather = gather,
                                                   .deadline = deadline});
      body(rank, trees);
      EXPECT_TRUE(gather({}));
    });
  for (std::thread& thread : threads) thread.join();
}

/// What each member is told where there are no trees.
inline std::vector<Error> errors_of_members(const std::vector<std::uint16_t>& ports) {
  std::vector<Error> errors(ports.size());
  run_members(ports, [&](Rank rank, const JoinedTrees& trees) {
    ASSERT_FALSE(trees) << "rank " << rank << " has joined";
    errors[static_cast<std::size_t>(rank)] = trees.error();
  });
  return errors;
}

/// Adds up `data` of all members, in place.
template <class T>
void sum_to_all(AggregationTree& tree, DataType type, std::vector<T>& data) {
  const std::span<std::byte> out = std::as_writable_bytes(std::span(data));
  const std::span<const std::byte> in = out;
  Transfer transfer;
  tree.post({.form = TreeForm::kSumToAll,
             .type = type,
             .bytes = in.size(),
             .sources = {&in, 1},
             .destinations = {&out, 1}},
            transfer);
  while (transfer.state.load() != Transfer::State::kDone) {
    pollfd ready{.fd = tree.poll_fd(), .events = POLLIN, .revents = 0};
    (void)::poll(&ready, 1, 20);
    tree.progress();
  }
  const Status health = tree.health();
  ASSERT_TRUE(health) << health.error().what;
}

}  // namespace tutti::testing
