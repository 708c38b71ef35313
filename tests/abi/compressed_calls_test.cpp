// The C API's compressed collectives: ranks of one process, driven by one thread through groups.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tutti/compression.hpp"

namespace {

using ::testing::HasSubstr;

constexpr std::size_t kCount = 1000;

/// n ranks of this process, each with a compression of its own.
class Job {
 public:
  Job(int ranks, const char* how) {
    auto comms = tutti::Comm::all(ranks);
    EXPECT_TRUE(comms) << comms.error().what;
    comms_ = *std::move(comms);
    for (int rank = 0; rank < ranks; ++rank) {
      auto compression = tutti::Compression::create(how);
      EXPECT_TRUE(compression) << compression.error().what;
      compressions_.push_back(*std::move(compression));
    }
  }
  [[nodiscard]] std::size_t ranks() const { return comms_.size(); }
  tutti::Comm& comm(std::size_t rank) { return comms_[rank]; }
  tutti::Compression& compression(std::size_t rank) { return compressions_[rank]; }

  /// Calls each(rank) in a group.
  template <class Each>
  tutti::Status run(Each&& each) {
    tutti::Group group;
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      if (auto made = each(rank); !made) return made;
    return group.end();
  }

 private:
  std::vector<tutti::Comm> comms_;
  std::vector<tutti::Compression> compressions_;
};

float value_of(std::size_t rank, std::size_t i) {
  return std::sin(static_cast<float>(i) + 10 * static_cast<float>(rank));
}
std::vector<float> values_of(std::size_t rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

TEST(CompressedCalls, AddUpWithBothFactors) {
  Job job(3, "int8:block=32");
  std::vector<std::vector<float>> in, out(3, std::vector<float>(kCount));
  for (std::size_t rank = 0; rank < 3; ++rank) in.push_back(values_of(rank, kCount));
  const auto status = job.run([&](std::size_t rank) {
    return job.compression(rank).all_reduce<float>(
        job.comm(rank), in[rank], out[rank], tutti::ReduceOp::kSum, {.before = 0.5F, .after = 4});
  });
  ASSERT_TRUE(status) << status.error().what;
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(out[0][i], 2 * (in[0][i] + in[1][i] + in[2][i]), 0.1);
  EXPECT_EQ(out[1], out[0]);
  EXPECT_EQ(out[2], out[0]);
}

TEST(CompressedCalls, OfAllKindsDeliver) {
  Job job(2, "mxfp8");
  std::vector<std::vector<float>> in, out(2, std::vector<float>(kCount * 2));
  for (std::size_t rank = 0; rank < 2; ++rank) in.push_back(values_of(rank, kCount * 2));
  const auto handle = [&](std::size_t rank) { return job.compression(rank).native(); };
  const auto comm = [&](std::size_t rank) { return job.comm(rank).native(); };
  const auto check = [](ncclResult_t result) { return tutti::to_status(result); };

  ASSERT_TRUE(job.run([&](std::size_t rank) {
    return check(tuttiAllGatherCompressed(in[rank].data(), out[rank].data(), kCount, ncclFloat,
                                          handle(rank), comm(rank), nullptr));
  }));
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(out[0][i], in[0][i], 0.14);
    EXPECT_NEAR(out[0][kCount + i], in[1][i], 0.14);
  }
  EXPECT_EQ(out[1], out[0]);
  ASSERT_TRUE(job.run([&](std::size_t rank) {
    return check(tuttiReduceScatterCompressed(in[rank].data(), out[rank].data(), kCount, ncclFloat,
                                              ncclAvg, 1, 1, handle(rank), comm(rank), nullptr));
  }));
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(out[1][i], (in[0][kCount + i] + in[1][kCount + i]) / 2, 0.14);
  ASSERT_TRUE(job.run([&](std::size_t rank) {
    return job.compression(rank).all_to_all<float>(job.comm(rank), in[rank], out[rank]);
  }));
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(out[1][i], in[0][kCount + i], 0.14);
  ASSERT_TRUE(job.run([&](std::size_t rank) {
    return check(tuttiBroadcastCompressed(in[rank].data(), out[rank].data(), kCount, ncclFloat, 1,
                                          handle(rank), comm(rank), nullptr));
  }));
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(out[0][i], in[1][i], 0.14);
  ASSERT_TRUE(job.run([&](std::size_t rank) {
    return job.compression(rank).reduce<float>(job.comm(rank), in[rank], out[rank], 0);
  }));
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(out[0][i], in[0][i] + in[1][i], 0.5);
}

TEST(CompressedCalls, RunOnStreams) {
  Job job(2, "bf16");
  std::vector<tutti::Stream> streams;
  std::vector<std::vector<float>> in, out(2, std::vector<float>(kCount));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    streams.push_back(*tutti::Stream::create());
    in.push_back(values_of(rank, kCount));
  }
  for (std::size_t rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(job.compression(rank).all_reduce<float>(job.comm(rank), in[rank], out[rank],
                                                        tutti::ReduceOp::kSum,
                                                        {.before = 1, .after = 1}, &streams[rank]));
  for (tutti::Stream& stream : streams) ASSERT_TRUE(stream.synchronize());
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(out[1][i], in[0][i] + in[1][i], 0.03);
}

/// Moving to another number of ranks keeps the sum of what is owed, element by element.
TEST(CompressionErrors, AreSavedAndMovedToOtherNumbersOfRanks) {
  Job job(3, "sign:errors=feedback");
  std::vector<std::vector<float>> data;
  for (std::size_t rank = 0; rank < 3; ++rank) data.push_back(values_of(rank, kCount));
  for (int step = 0; step < 3; ++step) {
    std::vector<std::vector<float>> out = data;
    ASSERT_TRUE(job.run([&](std::size_t rank) {
      return job.compression(rank).all_reduce<float>(job.comm(rank), data[rank], out[rank]);
    }));
  }
  std::vector<std::vector<float>> owed;
  std::vector<const float*> pointers;
  std::vector<std::size_t> counts;
  std::vector<double> sums(kCount);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    owed.push_back(*job.compression(rank).errors());
    ASSERT_EQ(owed.back().size() % kCount, 0U);
    ASSERT_FALSE(owed.back().empty());
    pointers.push_back(owed.back().data());
    counts.push_back(owed.back().size());
    for (std::size_t i = 0; i < owed.back().size(); ++i) sums[i % kCount] += owed.back()[i];
  }
  for (const int ranks : {1, 2, 5}) {
    Job next(ranks, "sign:errors=feedback");
    std::vector<double> moved_sums(kCount);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<float> moved(kCount);
      ASSERT_EQ(tuttiCompressionMoveErrors(pointers.data(), counts.data(), 3, kCount, rank, ranks,
                                           moved.data()),
                ncclSuccess);
      for (std::size_t i = 0; i < kCount; ++i) moved_sums[i] += moved[i];
      ASSERT_TRUE(next.compression(static_cast<std::size_t>(rank)).owe(moved));
    }
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(moved_sums[i], sums[i], 1e-5);
    // With nothing to add, what the ranks get and what they still owe is what was owed.
    const std::vector<float> nothing(kCount);
    std::vector<std::vector<float>> out(static_cast<std::size_t>(ranks),
                                        std::vector<float>(kCount));
    const auto status = next.run([&](std::size_t rank) {
      return next.compression(rank).all_reduce<float>(next.comm(rank), nothing, out[rank]);
    });
    ASSERT_TRUE(status) << status.error().what;
    std::vector<double> paid(out[0].begin(), out[0].end());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto left = *next.compression(static_cast<std::size_t>(rank)).errors();
      for (std::size_t i = 0; i < left.size(); ++i) paid[i % kCount] += left[i];
    }
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(paid[i], sums[i], 1e-4) << ranks;
  }
}

TEST(CompressionHandles, MayBeDestroyedBeforeAGroupEnds) {
  Job job(1, "int8");
  std::vector<float> in = values_of(0, kCount), out(kCount);
  tutti::Group group;
  {
    auto gone = tutti::Compression::create("bf16");
    ASSERT_TRUE(gone->all_reduce<float>(job.comm(0), in, out));
  }
  ASSERT_TRUE(group.end());
  EXPECT_EQ(out, in);
}

/// A factor of one rank alone is a factor of its contribution alone, in averages as well.
TEST(CompressedCalls, ScaleEachRankByItsOwnFactor) {
  for (const tutti::ReduceOp op : {tutti::ReduceOp::kSum, tutti::ReduceOp::kAvg}) {
    Job job(2, "int8:block=32");
    std::vector<std::vector<float>> in, out(2, std::vector<float>(kCount));
    for (std::size_t rank = 0; rank < 2; ++rank) in.push_back(values_of(rank, kCount));
    ASSERT_TRUE(job.run([&](std::size_t rank) {
      return job.compression(rank).all_reduce<float>(
          job.comm(rank), in[rank], out[rank], op, {.before = rank == 0 ? 1.0F : 0.5F, .after = 1});
    }));
    const float parts = op == tutti::ReduceOp::kAvg ? 2 : 1;
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(out[0][i], (in[0][i] + 0.5F * in[1][i]) / parts, 0.03) << i;
    EXPECT_EQ(out[1], out[0]);
  }
}

TEST(CompressionHandles, OfOneGroupKeepErrorsOfOneCall) {
  Job job(1, "int8:errors=feedback");
  std::vector<float> data(kCount);
  tutti::Group group;
  const auto of = [&](std::size_t count) {
    return job.compression(0).all_reduce<float>(
        job.comm(0), std::span<const float>(data).first(count), std::span(data).first(count));
  };
  ASSERT_TRUE(of(10));
  ASSERT_TRUE(of(20));
  const auto ended = group.end();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().what, HasSubstr("each needs one of its own"));
  EXPECT_TRUE(job.comm(0).health()) << "a mistake that harms nobody";
}

/// How many elements each rank of three has for each: none, less than a block, several blocks.
constexpr std::size_t kCounts[3][3] = {{0, 5, 200}, {33, 64, 1}, {128, 0, 7}};

/// An all-to-all of these; what each rank gets.
template <class T>
std::vector<std::vector<T>> exchanged(Job& job, const std::vector<std::vector<T>>& in) {
  std::vector<std::vector<std::size_t>> sent(3), received(3);
  std::vector<std::vector<T>> out(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    std::size_t all = 0;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      sent[rank].push_back(kCounts[rank][peer]);
      received[rank].push_back(kCounts[peer][rank]);
      all += kCounts[peer][rank];
    }
    out[rank].resize(all);
  }
  const auto status = job.run([&](std::size_t rank) {
    return job.compression(rank).template all_to_all_v<T>(job.comm(rank), in[rank], sent[rank],
                                                          out[rank], received[rank]);
  });
  EXPECT_TRUE(status) << status.error().what;
  return out;
}

std::vector<std::vector<float>> blocks_to_exchange() {
  std::vector<std::vector<float>> in;
  for (std::size_t rank = 0; rank < 3; ++rank)
    in.push_back(values_of(rank, kCounts[rank][0] + kCounts[rank][1] + kCounts[rank][2]));
  return in;
}

TEST(CompressedCalls, ExchangeBlocksOfDifferentSizes) {
  Job job(3, "int8:block=32");
  const auto in = blocks_to_exchange();
  const auto out = exchanged(job, in);
  constexpr float kOff = 0.0041F;
  std::size_t changed = 0;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    std::size_t place = 0;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      std::size_t start = 0;
      for (std::size_t before = 0; before < rank; ++before) start += kCounts[peer][before];
      for (std::size_t i = 0; i < kCounts[peer][rank]; ++i, ++place) {
        EXPECT_NEAR(out[rank][place], in[peer][start + i], kOff) << peer << " to " << rank;
        changed += out[rank][place] != in[peer][start + i] ? 1 : 0;
      }
    }
  }
  EXPECT_GT(changed, 400U) << "nothing was compressed";
}

TEST(CompressedCalls, ExchangeBlocksThatRoundAtRandomAlikeInEachRun) {
  std::vector<std::vector<std::vector<float>>> runs;
  for (const char* const how : {"int4:rounding=random:seed=3", "int4:rounding=random:seed=3",
                                "int4:rounding=random:seed=4"}) {
    Job job(3, how);
    runs.push_back(exchanged(job, blocks_to_exchange()));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

// bf16 takes no fewer bytes than bfloat16: then blocks are sent as they are.
TEST(CompressedCalls, ExchangeBlocksOfBfloat16InBf16AsTheyAre) {
  Job job(2, "bf16");
  const std::size_t counts[] = {3, 5};
  std::vector<std::vector<std::uint16_t>> in(2), out(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 2 * counts[rank]; ++i)
      in[rank].push_back(static_cast<std::uint16_t>(0x3f80 + 16 * rank + i));
    out[rank].resize(counts[0] + counts[1]);
  }
  const auto status = job.run([&](std::size_t rank) {
    const std::size_t sent[] = {counts[rank], counts[rank]};
    return tutti::to_status(tuttiAllToAllvCompressed(
        in[rank].data(), sent, nullptr, out[rank].data(), counts, nullptr, ncclBfloat16,
        job.compression(rank).native(), job.comm(rank).native(), nullptr));
  });
  ASSERT_TRUE(status) << status.error().what;
  EXPECT_EQ(out[1][0], in[0][3]);
  EXPECT_EQ(out[0][7], in[1][4]);
}

TEST(CompressedCalls, OfBlocksKeepNoErrorsAndNeedEveryRank) {
  Job keeps(1, "int8:errors=feedback");
  std::vector<float> data(8), got(8);
  const std::vector<std::size_t> counts{8};
  const auto refused =
      keeps.compression(0).all_to_all_v<float>(keeps.comm(0), data, counts, got, counts);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("without errors=feedback"));

  Job job(2, "int8");
  const std::vector<std::size_t> halves{4, 4};
  std::vector<std::vector<float>> in(2, std::vector<float>(8)), out(2, std::vector<float>(8));
  const auto mixed = job.run([&](std::size_t rank) {
    return rank == 0
               ? job.compression(0).all_to_all_v<float>(job.comm(0), in[0], halves, out[0], halves)
               : job.comm(1).all_to_all_v<float>(in[1], halves, out[1], halves);
  });
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().what, HasSubstr("int8"));
}

TEST(CompressedCalls, OfBlocksGatherAndAddUp) {
  Job job(3, "mxint8");
  const std::vector<std::size_t> counts{40, 0, 100};
  std::vector<std::vector<float>> in, own, all(3, std::vector<float>(140)), sums(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    in.push_back(values_of(rank, 140));
    own.push_back(values_of(rank, counts[rank]));
    sums[rank].resize(counts[rank]);
  }
  auto status = job.run([&](std::size_t rank) {
    return job.compression(rank).all_gather_v<float>(job.comm(rank), own[rank], all[rank], counts);
  });
  ASSERT_TRUE(status) << status.error().what;
  for (std::size_t i = 0; i < 140; ++i)
    EXPECT_NEAR(all[1][i], i < 40 ? own[0][i] : own[2][i - 40], 0.02);
  EXPECT_EQ(all[0], all[1]);
  status = job.run([&](std::size_t rank) {
    return job.compression(rank).reduce_scatter_v<float>(job.comm(rank), in[rank], sums[rank],
                                                         counts);
  });
  ASSERT_TRUE(status) << status.error().what;
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_NEAR(sums[2][i], in[0][40 + i] + in[1][40 + i] + in[2][40 + i], 0.06);
}

TEST(CompressionHandles, SayWhatValuesBecome) {
  const auto size = [](const char* how, std::size_t count) {
    const auto found = tutti::Compression::create(how)->size_of(count);
    EXPECT_TRUE(found) << how;
    return std::vector<std::size_t>{found->bytes, found->shared, found->block};
  };
  EXPECT_EQ(size("int8:block=128", 1000), (std::vector<std::size_t>{1016, 16, 128}));
  EXPECT_EQ(size("int4:block=32:scale=fp32", 64), (std::vector<std::size_t>{40, 8, 32}));
  EXPECT_EQ(size("bf16", 7)[0], 14U);
  EXPECT_EQ(size("topk:k=41:block=4096", 4096), (std::vector<std::size_t>{246, 82, 4096}));
  EXPECT_EQ(size("sign", 8192), (std::vector<std::size_t>{1032, 8, 4096}));
  EXPECT_EQ(size("int8", 0)[0], 0U);
}

TEST(CompressionHandles, RepeatCallsByTheirNumber) {
  const std::vector<float> in = values_of(0, kCount);
  std::vector<std::vector<float>> results;
  Job job(2, "int4:rounding=random");
  for (const std::uint64_t number : {5U, 6U, 5U}) {
    std::vector<std::vector<float>> out(2, std::vector<float>(kCount));
    ASSERT_TRUE(job.run([&](std::size_t rank) {
      if (auto set = job.compression(rank).set_call_number(number); !set) return set;
      return job.compression(rank).all_reduce<float>(job.comm(rank), in, out[rank]);
    }));
    results.push_back(out[0]);
  }
  EXPECT_EQ(results[2], results[0]);
  EXPECT_NE(results[1], results[0]);
  EXPECT_GT(job.compression(0).busy_seconds(), 0);
}

TEST(CompressionHandles, RefuseWhatTheyCannotBe) {
  const auto text = [](ncclResult_t result) {
    return result == ncclSuccess ? std::string("none") : std::string(ncclGetLastError(nullptr));
  };
  tuttiCompression_t made = nullptr;
  EXPECT_THAT(text(tuttiCompressionCreate(&made, "int9")), HasSubstr("did you mean int8"));
  EXPECT_THAT(text(tuttiCompressionCreate(&made, nullptr)), HasSubstr("how is NULL"));
  EXPECT_THAT(text(tuttiCompressionCreate(nullptr, "int8")), HasSubstr("compression"));
  int nothing = 0;
  const auto foreign = reinterpret_cast<tuttiCompression_t>(&nothing);
  EXPECT_THAT(text(tuttiCompressionDestroy(foreign)),
              HasSubstr("none that tuttiCompressionCreate"));
  Job job(1, "topk:k=1%");
  EXPECT_EQ(job.compression(0).text(), "topk:k=41:block=4096");
  std::vector<float> data(8);
  EXPECT_THAT(text(tuttiAllReduceCompressed(data.data(), data.data(), 8, ncclFloat, ncclSum, 1, 1,
                                            foreign, job.comm(0).native(), nullptr)),
              HasSubstr("none that tuttiCompressionCreate"));
  EXPECT_THAT(
      text(tuttiAllReduceCompressed(data.data(), data.data(), 4, ncclDouble, ncclSum, 1, 1,
                                    job.compression(0).native(), job.comm(0).native(), nullptr)),
      HasSubstr("double data cannot be compressed"));
  EXPECT_THAT(
      text(tuttiAllReduceCompressed(data.data(), data.data(), 8, ncclFloat, ncclMax, 1, 1,
                                    job.compression(0).native(), job.comm(0).native(), nullptr)),
      HasSubstr("sums and averages can"));
  EXPECT_THAT(job.compression(0).set_errors(data).error().what, HasSubstr("errors=feedback"));
  EXPECT_THAT(text(tuttiCompressionSize(job.compression(0).native(), 1, nullptr)),
              HasSubstr("size"));
  EXPECT_THAT(text(tuttiCompressionSetCallNumber(foreign, 1)),
              HasSubstr("none that tuttiCompressionCreate"));
}

}  // namespace
