// Every schedule that an algorithm generates and a foreign format has words for, written in that
// format and read back, is proved again and sends the same messages.
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

constexpr std::int32_t kFewest = 2, kMost = 9;

/// Chunks of each message, by source, destination and lane.
using Messages = std::map<std::tuple<Rank, Rank, Lane>, std::vector<std::uint32_t>>;

Messages messages_of(const ir::Schedule& schedule) {
  Messages messages;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    for (const ir::Step& step : schedule.programs[static_cast<std::size_t>(rank)].steps)
      if (step.verb == ir::Verb::kSend)
        messages[{rank, step.peer, step.lane}].push_back(step.src.count);
  return messages;
}

void expect_same(const ir::Schedule& schedule, const ir::Schedule& again) {
  EXPECT_EQ(again.request, schedule.request);
  EXPECT_EQ(again.algorithm, schedule.algorithm);
  EXPECT_EQ(again.chunks_per_block, schedule.chunks_per_block);
  EXPECT_EQ(messages_of(again), messages_of(schedule));
  const auto before = ir::verify(schedule);
  const auto after = ir::verify(again);
  ASSERT_TRUE(before) << before.error().what;
  ASSERT_TRUE(after) << after.error().what;
  EXPECT_EQ(after->rounds, before->rounds);
  EXPECT_EQ(after->max_chunks_sent, before->max_chunks_sent);
}

/// Every request that the algorithm supports for these ranks.
std::vector<ir::Request> requests_of(const ir::Algorithm& algorithm, std::int32_t ranks) {
  std::vector<ir::Request> requests;
  for (int c = 0; c < kCollectives; ++c)
    for (const bool in_place : {false, true}) {
      const ir::Request request{static_cast<Collective>(c), ranks, 0, in_place};
      if (algorithm.supports(request)) requests.push_back(request);
    }
  return requests;
}

TEST(MscclRoundTrip, KeepsEveryScheduleThatXmlHasWordsFor) {
  int kept = 0, refused = 0;
  for (const ir::Algorithm& algorithm : algorithms::all())
    for (std::int32_t ranks = kFewest; ranks <= kMost; ++ranks)
      for (const ir::Request& request : requests_of(algorithm, ranks)) {
        SCOPED_TRACE(fmt::format("{} {} over {} ranks{}", algorithm.name,
                                 name_of(request.collective), ranks,
                                 request.in_place ? " in place" : ""));
        const auto schedule = algorithm.generate(request);
        ASSERT_TRUE(schedule) << schedule.error().what;
        const auto text = write_msccl_xml(*schedule);
        if (!text) {
          ++refused;
          continue;
        }
        const auto again = read_msccl_xml(*text);
        ASSERT_TRUE(again) << again.error().what;
        ASSERT_EQ(again->size(), 1U);
        expect_same(*schedule, again->front());
        ++kept;
      }
  EXPECT_GT(kept, 4 * refused) << kept << " kept, " << refused << " refused";
  RecordProperty("kept", kept);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace tutti::exchange
