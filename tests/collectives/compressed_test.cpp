// Compressed collectives against sums in double: every collective and format, all placements, some
// ranks in place. Errors stay within what the format and the number of roundings allow, all ranks
// get the same bits, and the bits do not depend on sizes of staging memory.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "src/base/sanitized.hpp"
#include "src/codec/make_format.hpp"
#include "src/comm/compressor.hpp"
#include "tests/collectives/ranks.hpp"
#include "tests/collectives/switch_thread.hpp"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;
using testing::Runtimes;
using testing::SettingValues;

codec::Compression compression_of(const std::string& text) {
  auto compression = codec::parse_compression(text);
  EXPECT_TRUE(compression) << text;
  return *std::move(compression);
}

/// A call as all ranks know it.
struct Job {
  Collective collective = Collective::kAllReduce;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  float factor = 1;
  std::uint32_t in_place_ranks = 0;  ///< bit r: rank r
  bool some_scale = false;           ///< only ranks 0, 2, ... multiply by the factor
  [[nodiscard]] float factor_at(Rank rank) const {
    return some_scale && rank % 2 != 0 ? 1 : factor;
  }
};

/// Blocks of the buffers.
struct Shape {
  std::size_t input = 1, output = 1;
};
Shape shape_of(const Job& job, Rank rank, std::int32_t ranks) {
  const ir::BlockCounts blocks = ir::block_counts({job.collective, ranks, 0}, rank);
  return {static_cast<std::size_t>(blocks.input), static_cast<std::size_t>(blocks.output)};
}

/// What `rank` contributes: magnitudes of many powers of two, and blocks of zeros.
std::vector<float> contribution(const Job& job, Rank rank, std::int32_t ranks) {
  std::mt19937 random(static_cast<unsigned>(rank) * 7919 + static_cast<unsigned>(job.count));
  std::normal_distribution<float> normal;
  std::vector<float> values(shape_of(job, rank, ranks).input * job.count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int exponent = static_cast<int>(i / 512 % 5) * 3 - 6;
    values[i] = i / 128 % 7 == 6 ? 0 : std::ldexp(normal(random), exponent);
    if (job.type == DataType::kBfloat16) values[i] = widen<Bfloat16>(narrow<Bfloat16>(values[i]));
    if (job.type == DataType::kFloat16) values[i] = widen<Float16>(narrow<Float16>(values[i]));
  }
  return values;
}

std::vector<std::byte> stored(DataType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half =
        type == DataType::kFloat16 ? narrow<Float16>(values[i]) : narrow<Bfloat16>(values[i]);
    if (type == DataType::kFloat32)
      std::memcpy(&bytes[i * 4], &values[i], 4);
    else
      std::memcpy(&bytes[i * 2], &half, 2);
  }
  return bytes;
}
std::vector<float> loaded(DataType type, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == DataType::kFloat32) {
      std::memcpy(&values[i], &bytes[i * 4], 4);
      continue;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, &bytes[i * 2], 2);
    values[i] = type == DataType::kFloat16 ? widen<Float16>(half) : widen<Bfloat16>(half);
  }
  return values;
}

using Results = std::vector<std::vector<float>>;  // of each rank

/// Runs the call on one rank; `output` gets what it received.
void run(Communicator& communicator, const Job& job, Compressor* compressor,
         std::vector<float>& output) {
  const Rank rank = communicator.rank();
  const Shape shape = shape_of(job, rank, communicator.size());
  const std::size_t element = size_of(job.type);
  const auto input = stored(job.type, contribution(job, rank, communicator.size()));
  const std::size_t block = job.count * element, own = static_cast<std::size_t>(rank) * block;
  std::vector<std::byte> memory(std::max(shape.input, shape.output) * block + 1);
  std::vector<std::byte> separate = input;
  separate.resize(input.size() + 1);
  Call call;
  call.collective = job.collective;
  call.count = job.count;
  call.type = job.type;
  call.op = job.op;
  call.factor = job.factor_at(rank);
  call.compressor = compressor;
  call.send = separate.data();
  call.recv = memory.data();
  const bool in_place =
      (job.in_place_ranks >> rank & 1) != 0 && job.collective != Collective::kAllToAll;
  if (in_place) {
    const bool gathers = job.collective == Collective::kAllGather;
    const bool scatters = job.collective == Collective::kReduceScatter;
    std::byte* const begin = memory.data() + (gathers ? own : 0);
    std::ranges::copy(input, begin);
    call.send = begin;
    call.recv = memory.data() + (scatters ? own : 0);
  }
  const Status status = communicator.run(call);
  ASSERT_TRUE(status) << status.error().what;
  const auto* const result = static_cast<const std::byte*>(call.recv);
  output = loaded(job.type, {result, result + shape.output * block});
}

Results run_all(const Runtimes& runtimes, const Job& job, const std::string& compression) {
  Results outputs(runtimes.size());
  run_ranks(runtimes, [&](Communicator& communicator) {
    std::optional<Compressor> compressor;
    if (!compression.empty()) compressor.emplace(compression_of(compression));
    run(communicator, job, compressor ? &*compressor : nullptr, outputs[communicator.rank()]);
  });
  return outputs;
}

/// What rank `rank` should get, and the sum of the magnitudes that are rounded on the way to any
/// element of it.
struct Wanted {
  std::vector<double> values;
  double magnitude = 0;
};
Wanted wanted_at(const Job& job, Rank rank, const std::vector<std::vector<float>>& inputs) {
  const auto ranks = static_cast<std::int32_t>(inputs.size());
  Wanted wanted;
  const auto scale = [&](std::size_t from) {
    return job.factor_at(static_cast<Rank>(from)) / (job.op == ReduceOp::kAvg ? ranks : 1.0);
  };
  const std::size_t own = static_cast<std::size_t>(rank) * job.count;
  const auto largest = [](const std::vector<float>& values) {
    double most = 0;
    for (const float value : values) most = std::max(most, std::abs(double{value}));
    return most;
  };
  for (std::size_t from = 0; from < inputs.size(); ++from) {
    if (reduces(job.collective))
      wanted.magnitude += largest(inputs[from]) * std::abs(scale(from));
    else
      wanted.magnitude = std::max(wanted.magnitude, largest(inputs[from]));
  }
  const std::size_t elements = shape_of(job, rank, ranks).output * job.count;
  for (std::size_t i = 0; i < elements; ++i) {
    double value = 0;
    if (reduces(job.collective)) {
      const std::size_t at = job.collective == Collective::kReduceScatter ? own + i : i;
      for (std::size_t from = 0; from < inputs.size(); ++from)
        value += scale(from) * inputs[from][at];
    } else if (job.collective == Collective::kBroadcast) {
      value = inputs[0][i];
    } else if (job.collective == Collective::kScatter) {
      value = inputs[0][own + i];
    } else if (job.collective == Collective::kAllToAll) {
      value = inputs[i / job.count][own + i % job.count];
    } else {
      value = inputs[i / job.count][i % job.count];
    }
    wanted.values.push_back(value);
  }
  return wanted;
}

std::vector<std::vector<float>> inputs_of(const Job& job, std::int32_t ranks) {
  std::vector<std::vector<float>> inputs;
  for (Rank from = 0; from < ranks; ++from) inputs.push_back(contribution(job, from, ranks));
  return inputs;
}

/// `most_lossy`: roundings on the way of a contribution. `wider`: how many times what the format
/// states each may be off.
void expect_near(const Job& job, const Results& outputs, const std::string& compression,
                 int most_lossy, double wider = 1) {
  const auto ranks = static_cast<std::int32_t>(outputs.size());
  const codec::Compression what = compression_of(compression);
  const codec::FormatTraits& traits = what.format->traits();
  const double once = traits.error * (what.random ? 2 : 1) * wider;
  double of_type = 0x1p-20;  // the additions in float32
  if (job.type == DataType::kBfloat16) of_type = 0x1p-6;
  if (job.type == DataType::kFloat16) of_type = 0x1p-9;
  const auto inputs = inputs_of(job, ranks);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Wanted wanted = wanted_at(job, rank, inputs);
    const double bound = wanted.magnitude * (std::pow(1 + once, most_lossy) - 1 + of_type) +
                         traits.least * ranks * most_lossy;
    double most = 0;
    for (std::size_t i = 0; i < wanted.values.size(); ++i)
      most = std::max(most, std::abs(outputs[rank][i] - wanted.values[i]));
    ASSERT_LE(most, bound) << compression << " " << name_of(job.collective) << " of " << job.count
                           << " x " << name_of(job.type) << " at rank " << rank;
  }
}

/// Sums in formats that the network adds while they are encoded.
class CompressedInNetwork
    : public ::testing::TestWithParam<std::tuple<Placement, int, const char*>> {};

TEST_P(CompressedInNetwork, ErrWithinTheirBoundAndAgreeToTheBit) {
  const auto [placement, ranks, format] = GetParam();
  constexpr std::size_t kCount = 40009;
  std::vector<std::pair<Job, Results>> all;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg})
        all.push_back(
            {{collective, kCount, type, op, 0.5F, 0b10, all.size() % 2 == 0}, Results(ranks)});
  testing::SwitchThread adder;
  SettingValues settings = adder.settings();
  settings.emplace_back("INNETWORK", "sum");
  run_ranks(make_test_runtimes(placement, ranks, settings), [&](Communicator& communicator) {
    Compressor compressor(compression_of(format));
    for (auto& [job, outputs] : all)
      run(communicator, job, &compressor, outputs[communicator.rank()]);
  });
  // Of each contribution a step of the sum is lost: fan(n) times what the format alone loses
  // (src/switch/exponents.hpp), of the greatest value of all ranks, which are alike but for twice.
  const double wider = 2.0 * std::bit_ceil(static_cast<unsigned>(ranks));
  for (const auto& [job, outputs] : all) {
    expect_near(job, outputs, format, 1, wider);
    if (job.collective != Collective::kAllReduce) continue;
    for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]);
  }
  adder.stop();
  // Each of two hosts or more sends exponents and then values of each chunk, in each call; but a
  // reduce-scatter stays on the hosts where the blocks of a host's ranks do not lie together.
  const std::size_t chunks = kCount / (format == std::string("bfp8") ? 1408 : 704);
  const std::size_t calls = placement == Placement::kMixed ? all.size() * 2 / 3 : all.size();
  EXPECT_GE(adder.counts().packets.taken, calls * 4 * chunks) << "some ran elsewhere";
}

INSTANTIATE_TEST_SUITE_P(Ranks, CompressedInNetwork,
                         ::testing::Values(std::tuple(Placement::kHosts, 3, "bfp16"),
                                           std::tuple(Placement::kHosts, 2, "bfp8"),
                                           std::tuple(Placement::kMixed, 4, "bfp8")),
                         [](const auto& info) {
                           return std::string(std::get<2>(info.param)) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

constexpr Collective kCollectivesTested[] = {Collective::kAllReduce,     Collective::kAllGather,
                                             Collective::kReduceScatter, Collective::kAllToAll,
                                             Collective::kBroadcast,     Collective::kReduce,
                                             Collective::kGather,        Collective::kScatter};
const char* const kFormats[] = {"bf16",
                                "fp16",
                                "int8:block=128",
                                "int8a:block=8192:scale=fp32",
                                "int4:block=32",
                                "int4a",
                                "bfp16",
                                "bfp8",
                                "e4m3",
                                "e5m2",
                                "mxfp8",
                                "mxfp4",
                                "mxint8",
                                "nvfp4",
                                "sign",
                                "topk:k=1%",
                                "int8:rounding=random:seed=3"};

class CompressedCalls : public ::testing::TestWithParam<std::tuple<Placement, int>> {
 protected:
  [[nodiscard]] Runtimes runtimes(SettingValues values = {}) const {
    return make_test_runtimes(std::get<0>(GetParam()), ranks_, std::move(values));
  }
  const int ranks_ = std::get<1>(GetParam());
};

/// One communicator for all; every other call with some ranks in place.
TEST_P(CompressedCalls, ErrWithinTheirBoundAndAgreeToTheBit) {
  struct One {
    Job job;
    std::string compression;
    Results outputs;
  };
  std::vector<One> all;
  for (const Collective collective : kCollectivesTested)
    for (const char* format : kFormats)
      all.push_back({{collective, all.size() % 3 == 0 ? 1001U : 5003U}, format, Results(ranks_)});
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16})
    for (const Collective collective : kCollectivesTested)
      all.push_back({{collective, 777, type}, "int8", Results(ranks_)});
  for (const std::size_t count : {0U, 1U, 31U})
    for (const Collective collective : kCollectivesTested)
      all.push_back({{collective, count}, "int4", Results(ranks_)});
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    all.push_back({{Collective::kAllReduce, 3001, type, ReduceOp::kAvg}, "int8", Results(ranks_)});
    all.push_back(
        {{Collective::kAllReduce, 3001, type, ReduceOp::kAvg, 0.25F}, "int8", Results(ranks_)});
    all.push_back(
        {{Collective::kReduceScatter, 999, type, ReduceOp::kSum, 3}, "mxfp8", Results(ranks_)});
  }
  for (std::size_t i = 1; i < all.size(); i += 2) all[i].job.in_place_ranks = 0b0110;
  run_ranks(runtimes(), [&](Communicator& communicator) {
    for (One& one : all) {
      Compressor compressor(compression_of(one.compression));
      run(communicator, one.job, &compressor, one.outputs[communicator.rank()]);
      if (::testing::Test::HasFatalFailure()) return communicator.abort({});
    }
  });
  if (HasFatalFailure()) return;
  for (const One& one : all) {
    expect_near(one.job, one.outputs, one.compression, 3);
    if (HasFatalFailure()) return;
    if (one.job.collective == Collective::kAllReduce ||
        one.job.collective == Collective::kAllGather ||
        one.job.collective == Collective::kBroadcast) {
      for (const auto& output : one.outputs) ASSERT_EQ(output, one.outputs[0]) << one.compression;
    }
  }
}

TEST_P(CompressedCalls, DependNeitherOnStagingNorOnTheRun) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter})
    for (const char* format :
         {"int8:block=128", "topk:k=1%:block=2048", "int4:block=2048:rounding=random:seed=5"}) {
      const Job job{collective, kSanitized ? 30'011U : 200'003U};
      const Results first = run_all(runtimes(), job, format);
      EXPECT_EQ(run_all(runtimes(), job, format), first) << format;
      EXPECT_EQ(run_all(runtimes({{"STAGING_BYTES", "8M"}}), job, format), first) << format;
      EXPECT_EQ(run_all(runtimes({{"STAGING_BYTES", "256K"}}), job, format), first) << format;
    }
}

/// What a call rounds off, the next ones add: so the mean of many calls has no error.
TEST_P(CompressedCalls, LoseNothingInTheLongRunWhereErrorsAreFedBack) {
  constexpr int kCalls = kSanitized ? 30 : 60;
  for (const char* format :
       {"sign:errors=feedback", "topk:k=10%:errors=feedback", "int4:errors=feedback"}) {
    const Job job{Collective::kAllReduce, 4096};
    std::vector<std::vector<double>> sums(ranks_, std::vector<double>(job.count));
    run_ranks(runtimes(), [&](Communicator& communicator) {
      Compressor compressor(compression_of(format));
      std::vector<double>& sum = sums[communicator.rank()];
      for (int call = 0; call < kCalls; ++call) {
        std::vector<float> output;
        run(communicator, job, &compressor, output);
        if (::testing::Test::HasFatalFailure()) return communicator.abort({});
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += output[i];
      }
    });
    if (HasFatalFailure()) return;
    const Wanted wanted = wanted_at(job, 0, inputs_of(job, ranks_));
    double squares = 0, off = 0;
    for (std::size_t i = 0; i < wanted.values.size(); ++i) {
      squares += wanted.values[i] * wanted.values[i];
      off += std::pow(sums[0][i] / kCalls - wanted.values[i], 2);
    }
    EXPECT_LE(std::sqrt(off), 0.6 * std::sqrt(squares)) << format << " over " << ranks_ << " ranks";
    for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]);
  }
}

/// A program that saves the errors and goes on elsewhere gets the same bits.
TEST_P(CompressedCalls, GoOnFromErrorsThatWereSaved) {
  const Job job{Collective::kAllReduce, 5000};
  Results whole(ranks_), resumed(ranks_);
  std::vector<std::vector<float>> saved(ranks_);
  run_ranks(runtimes(), [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    Compressor compressor(compression_of("int4:errors=feedback"));
    std::vector<float> output;
    for (int call = 0; call < 5; ++call) {
      if (call == 3) saved[rank] = compressor.errors();
      run(communicator, job, &compressor, call == 4 ? whole[rank] : output);
    }
  });
  run_ranks(runtimes(), [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    Compressor compressor(compression_of("int4:errors=feedback"));
    ASSERT_TRUE(compressor.set_errors(saved[rank]));
    std::vector<float> output;
    run(communicator, job, &compressor, output);
    run(communicator, job, &compressor, resumed[rank]);
  });
  EXPECT_EQ(resumed, whole);
}

TEST_P(CompressedCalls, AreMadeOfPlainOnesBySetting) {
  const Job job{Collective::kAllReduce, 4000};
  const auto setting = runtimes({{"COMPRESS", "all_reduce:int8:block=64,reduce_scatter:int4"}});
  EXPECT_EQ(run_all(setting, job, ""), run_all(runtimes(), job, "int8:block=64"));
  const Job gather{Collective::kAllGather, 400};
  EXPECT_EQ(run_all(setting, gather, ""), run_all(runtimes(), gather, ""));
}

const auto kPlacements = ::testing::Combine(
    ::testing::Values(Placement::kThreads, Placement::kProcesses, Placement::kHosts,
                      Placement::kMixed),
    ::testing::ValuesIn(kSanitized ? std::vector{1, 2, 3} : std::vector{1, 2, 3, 4, 7, 8}));
std::string name_when_compressed(const ::testing::TestParamInfo<CompressedCalls::ParamType>& info) {
  const auto [placement, ranks] = info.param;
  return testing::name_of(placement) + "_" + std::to_string(ranks);
}
INSTANTIATE_TEST_SUITE_P(Ranks, CompressedCalls, kPlacements, name_when_compressed);

std::string error_of(const std::function<void(Call&)>& change, const std::string& compression) {
  std::string error = "none";
  run_ranks(make_test_runtimes(Placement::kThreads, 1), [&](Communicator& communicator) {
    std::vector<double> data(16);
    Compressor compressor(compression_of(compression));
    Call call;
    call.send = call.recv = data.data();
    call.count = 4;
    call.compressor = &compressor;
    change(call);
    const Status status = communicator.run(call);
    if (!status) error = status.error().what;
  });
  return error;
}

TEST(CompressedCallsThatCannotBe, AreErrorsThatSayWhatCan) {
  EXPECT_THAT(error_of([](Call& call) { call.type = DataType::kFloat64; }, "int8"),
              HasSubstr("double data cannot be compressed: float, half and bfloat16 can"));
  EXPECT_THAT(error_of([](Call& call) { call.type = DataType::kInt32; }, "int8"),
              HasSubstr("int32 data cannot be compressed"));
  EXPECT_THAT(error_of([](Call& call) { call.op = ReduceOp::kProd; }, "int8"),
              HasSubstr("a compressed all_reduce cannot be a prod: sums and averages can"));
  EXPECT_THAT(error_of([](Call& call) { call.factor = INFINITY; }, "int8"),
              HasSubstr("scales its input by inf"));
}

TEST(CompressedCallsThatCannotBe, NameBothSeriesOfErrors) {
  run_ranks(make_test_runtimes(Placement::kThreads, 2), [&](Communicator& communicator) {
    std::vector<float> data(64);
    Compressor compressor(compression_of("int8:errors=feedback"));
    Call call = testing::call_of(Collective::kAllReduce, data);
    call.compressor = &compressor;
    ASSERT_TRUE(communicator.run(call));
    call.count = 32;
    const Status status = communicator.run(call);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().what,
                ::testing::AllOf(HasSubstr("keeps the errors of all_reduce(count=64"),
                                 HasSubstr("all_reduce(count=32"), HasSubstr("or a reset")));
  });
}

TEST(CompressedCallsThatCannotBe, AreThoseThatNotAllRanksCompress) {
  for (const Placement placement : {Placement::kThreads, Placement::kHosts})
    run_ranks(make_test_runtimes(placement, 2), [&](Communicator& communicator) {
      std::vector<float> data(64);
      Compressor compressor(compression_of("int8"));
      Call call = testing::call_of(Collective::kAllReduce, data);
      if (communicator.rank() == 1) call.compressor = &compressor;
      const Status status = communicator.run(call);
      ASSERT_FALSE(status);
      EXPECT_THAT(status.error().what,
                  ::testing::AllOf(HasSubstr("all_reduce(count=64, float, sum)"),
                                   HasSubstr("compressed as int8:block=128:scale=fp16")));
    });
}

TEST(CompressSetting, SaysWhatIsWrong) {
  const auto error = [](const char* text) {
    const auto asked = parse_compress_setting(text);
    return asked ? std::string("none") : asked.error().what;
  };
  EXPECT_EQ(error(""), "none");
  EXPECT_EQ(error("allreduce:int8,all_gather:bf16"), "none");
  EXPECT_THAT(error("int8"), HasSubstr("a collective and a format were expected"));
  EXPECT_THAT(error("send:int8"), HasSubstr("a collective and a format"));
  EXPECT_THAT(error("all_reduce:int9"), HasSubstr("did you mean int8"));
  EXPECT_THAT(error("all_reduce:sign:errors=feedback"), HasSubstr("keeps the errors"));
  EXPECT_THAT(error("all_reduce:int8,all_reduce:int4"), HasSubstr("names all_reduce twice"));
}

}  // namespace
}  // namespace tutti
