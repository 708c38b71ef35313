// Reduction kernels against what this machine's memory can do.
//
// Every figure is memory traffic, k bytes read and one written for each byte of the result, so that
// a reduction can be set beside the copies of the same run (one read, one written). Non-temporal
// stores save the read that an ordinary store to uncached memory costs; it is not counted.
// TUTTI_SIMD chooses the instruction set; the context lines of the output name it.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "src/reduce/reduce.hpp"
#include "tutti/types.hpp"

namespace tutti {
namespace {

constexpr std::size_t kPage = 4096;

/// `count` page-aligned buffers, a few lines apart modulo a page, so that equal offsets in them do
/// not compete for the same sets of the cache.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t bytes)
      : stride_((bytes + 2 * kPage) / kPage * kPage + 256),
        memory_(count * stride_ + kPage, std::byte{0}) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    first_ = memory_.data() + (kPage - address % kPage);
  }
  [[nodiscard]] std::byte* at(std::size_t index) const { return first_ + index * stride_; }

 private:
  std::size_t stride_;
  std::vector<std::byte> memory_;
  std::byte* first_;
};

void report_traffic(benchmark::State& state, std::size_t bytes_each) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes_each) * state.iterations());
}

void sum(benchmark::State& state, DataType type, std::size_t sources, Stores stores) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(sources + 1, bytes);
  std::vector<const std::byte*> from;
  for (std::size_t s = 0; s < sources; ++s) from.push_back(buffers.at(s));
  const Destination to{buffers.at(sources), stores};
  const Reduction reduction{.type = type};
  for ([[maybe_unused]] auto _ : state) {
    reduce(reduction, from, 0, {&to, 1}, bytes / size_of(type));
    benchmark::ClobberMemory();
  }
  report_traffic(state, (sources + 1) * bytes);
}

void copy(benchmark::State& state, Stores stores) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(2, bytes);
  const Destination to{buffers.at(1), stores};
  for ([[maybe_unused]] auto _ : state) {
    copy_bytes(buffers.at(0), {&to, 1}, bytes);
    benchmark::ClobberMemory();
  }
  report_traffic(state, 2 * bytes);
}

void copy_libc(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(2, bytes);
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(buffers.at(1), buffers.at(0), bytes);
    benchmark::ClobberMemory();
  }
  report_traffic(state, 2 * bytes);
}

/// The destination's bytes: in the first cache, the second, and in memory or a large third.
void over_sizes(benchmark::internal::Benchmark* run) {
  for (const int kib : {4, 64, 1024, 65536}) run->Arg(std::int64_t{1024} * kib);
}

void register_sums(DataType type) {
  for (const std::size_t sources : {2, 4, 8}) {
    for (const Stores stores : {Stores::kCached, Stores::kNonTemporal}) {
      const std::string name = "sum/" + std::string(name_of(type)) +
                               "/sources:" + std::to_string(sources) +
                               (stores == Stores::kCached ? "/cached" : "/streamed");
      auto* run = benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { sum(state, type, sources, stores); });
      over_sizes(run);
    }
  }
  // What one call costs when there is next to nothing to do.
  const std::string name = "sum/" + std::string(name_of(type)) + "/sources:2/cached";
  benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { sum(state, type, 2, Stores::kCached); })
      ->Arg(8)
      ->Arg(64)
      ->Arg(120);
}

void register_copies() {
  over_sizes(benchmark::RegisterBenchmark(
      "copy/cached", [](benchmark::State& state) { copy(state, Stores::kCached); }));
  over_sizes(benchmark::RegisterBenchmark(
      "copy/streamed", [](benchmark::State& state) { copy(state, Stores::kNonTemporal); }));
  over_sizes(benchmark::RegisterBenchmark("copy/memcpy", copy_libc));
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using tutti::DataType;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("simd", std::string(tutti::simd_target()));
  tutti::register_copies();
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16}) {
    tutti::register_sums(type);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
